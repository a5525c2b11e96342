import Merge
import Synchronization

extension ManagedObjectContext {
    /// Inserts a new object of an entity, with its default values. To be used on its queue.
    ///
    /// - Precondition: The model has such an entity, and it is not abstract.
    @discardableResult
    public func insert(
        _ entityName: String, file: StaticString = #fileID, line: UInt = #line
    ) -> ManagedObject {
        let place = SourcePlace(file, line)
        confine("insert(_:)", at: place)
        let entity = entityNamed(entityName, at: place)
        return objectClass(of: entity).init(entity: entity, insertInto: self)
    }

    /// Inserts a new object of the entity that a class was registered for, or is named like.
    /// To be used on its queue.
    public func insert<Object: ManagedObject>(
        _ type: Object.Type, file: StaticString = #fileID, line: UInt = #line
    ) -> Object {
        let place = SourcePlace(file, line)
        confine("insert(_:)", at: place)
        return Object(entity: entity(for: type, at: place), insertInto: self)
    }

    /// Inserts an object that was made without a context; or takes the delete of one of this context
    /// back, as long as it is not saved. To be used on its queue.
    ///
    /// The effects of delete rules at the end of an earlier event stay. An object that was deleted
    /// elsewhere is gone, and stays so.
    ///
    /// - Precondition: It belongs to no context, or is deleted in this one; its entity is of this
    ///   model, not abstract.
    public func insert(
        _ object: ManagedObject, file: StaticString = #fileID, line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        confine("insert(_:)", at: place)
        if object.managedObjectContext === self, object.isDeleted { return takeBack(object) }
        require(
            object.managedObjectContext == nil,
            "\(object.objectID) belongs to a context already.", at: place)
        require(
            !object.entity.isAbstract
                && entityNamed(object.entity.name, at: place) === object.entity,
            "\(object.entity.name) is abstract, or of another model.", at: place)
        object.row = TemporaryRows.next()
        graph.mayHaveTemporaries = true
        take(object)
        object.awakeFromInsert()
    }

    /// Takes an object that has an identity among the inserted, with its default values.
    func take(_ object: ManagedObject) {
        object.managedObjectContext = self
        // It may have been of a context before, and of a row.
        objectRegistry.turnIntoFault(object)
        object.values = object.entity.columns.map(\.defaultValue)
        object.isFault = false
        object.change = .inserted
        // It has had no values before this event.
        object.notedEvent = graph.eventNumber
        graph.inserted[object.objectID] = object
        objectRegistry.register(object)
        graph.event.inserted.insert(object)
        graph.changeCount += 1
        if graph.undoManager != nil { graph.undoNotes.inserted.append(object) }
    }

    /// Takes an unsaved delete back.
    private func takeBack(_ object: ManagedObject) {
        guard object.change == .deleted else { return }
        if graph.undoManager != nil {
            if let place = graph.undoNotes.deleted.firstIndex(of: object) {
                graph.undoNotes.deleted.remove(at: place)
            } else {
                graph.undoNotes.inserted.append(object)
            }
        }
        graph.deleted[object.objectID] = nil
        relationshipTracker.rebalance(object) {
            object.change = deletes.wasNeverSaved(object) ? .inserted : .none
        }
        if object.change == .inserted {
            graph.inserted[object.objectID] = object
            graph.mayHaveTemporaries = true
        } else if object.hasPersistentChangedValues {
            object.change = .updated
            graph.updated[object.objectID] = object
        }
        // The harm that its rules did stays done, but does not make the save fail by itself any
        // more.
        for relationship in object.entity.relationships {
            let key = MemberKey(row: object.objectID.row, relationship: relationship.name)
            for member in graph.linkDeltas[key]?.nullified ?? [] {
                graph.linkDeltas[key]?.nullified.remove(member)
                guard let inverse = relationship.description.inverse else { continue }
                graph.linkDeltas[MemberKey(row: member.row, relationship: inverse)]?.nullified
                    .remove(object.objectID)
            }
        }
        if graph.event.deleted.remove(object) == nil {
            graph.event.inserted.insert(object)
        } else if object.hasChanges {
            graph.event.updated.insert(object)
        }
        graph.changeCount += 1
    }

    /// Marks an object to be deleted by the next save; an insert not yet saved is dropped.
    ///
    /// Delete rules are carried out in memory at the end of the event, and by the coordinator
    /// on the store's state at the save. To be used on its queue.
    ///
    /// - Precondition: The object is of this context.
    public func delete(
        _ object: ManagedObject, file: StaticString = #fileID, line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        confine("delete(_:)", at: place)
        require(
            object.managedObjectContext === self || object.managedObjectContext == nil,
            "\(object.objectID) belongs to another context.", at: place)
        objectRegistry.fire(object)
        guard object.managedObjectContext === self, !object.isFault, object.change != .deleted
        else { return }
        object.prepareForDeletion()
        if graph.undoManager != nil { graph.undoNotes.deleted.append(object) }
        relationshipTracker.rebalance(object) { object.change = .deleted }
        graph.inserted[object.objectID] = nil
        graph.updated[object.objectID] = nil
        // An insert stays among the deleted until its relationships are cleared.
        graph.deleted[object.objectID] = object
        object.isDeletedByRule = false
        if graph.event.inserted.remove(object) == nil { graph.event.deleted.insert(object) }
        graph.event.updated.remove(object)
        graph.undelivered.append(object)
        graph.changeCount += 1
    }

    /// Carries out delete rules in memory and tells observers what changed.
    ///
    /// Called at the end of every block and before a save; call it to have both earlier. To be
    /// used on its queue.
    public func processPendingChanges() {
        confine()
        graph.followed.reset()
        if propagatesDeletesAtEndOfEvent { deletes.propagateDeletes() }
        // A handler may change more; those changes make a round of their own. The bound
        // ends a loop of handlers that answer each other for ever.
        for _ in 0..<100 where !graph.event.isEmpty || graph.live.hasNews {
            let event = graph.event
            graph.event = ContextChanges()
            if graph.undoManager != nil { graph.undoNotes.before += graph.before }
            (graph.toldBefore, graph.before) = (graph.before, [])
            graph.eventNumber &+= 1
            graph.toldInserted = event.inserted
            defer { (graph.toldBefore, graph.toldInserted) = ([], []) }
            graph.live.tell(event)
            if !event.isEmpty {
                for (_, handler) in observers.withLock({ $0.didChange }) { handler(event.told) }
            }
            if propagatesDeletesAtEndOfEvent { deletes.propagateDeletes() }
        }
        undoing.registerEvent()
    }

    /// Notes an object's values, if it has not been changed in this event yet.
    func noteValues(of object: ManagedObject) {
        guard object.notedEvent != graph.eventNumber, !graph.isAwakening else { return }
        object.notedEvent = graph.eventNumber
        object.notedPlace = UInt32(graph.before.count)
        graph.before.append((object, object.values))
    }

    /// Notes that an object's values or relationships changed.
    func noteChange(of object: ManagedObject) {
        guard !graph.isAwakening, object.managedObjectContext === self else { return }
        switch object.change {
        case .deleted: return
        case .inserted, .updated: graph.event.updated.insert(object)
        case .none:
            objectRegistry.fire(object)
            guard !object.isFault else { return }
            object.change = .updated
            graph.updated[object.objectID] = object
            graph.event.updated.insert(object)
        }
        graph.changeCount += 1
    }

    /// Objects in the order of their IDs. A row is of one entity, so the row alone decides.
    func sorted(_ objects: [ManagedObjectID: ManagedObject]) -> [ManagedObject] {
        if objects.isEmpty { return [] }
        // Unmanaged, because the dictionary keeps them, and counting references costs more than to sort.
        return objects.map { SortedObject(row: $0.key.row, object: .passUnretained($0.value)) }
            .sorted { $0.row < $1.row }.map { $0.object.takeUnretainedValue() }
    }

    private struct SortedObject {
        let row: RowID
        let object: Unmanaged<ManagedObject>
    }
}
