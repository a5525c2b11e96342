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
        graph.lastTemporaryRow -= 1
        object.row = RowID(graph.lastTemporaryRow)
        object.managedObjectContext = self
        // It may have been of a context before, and of a row.
        objectRegistry.turnIntoFault(object)
        object.values = object.entity.columns.map(\.defaultValue)
        object.isFault = false
        object.change = .inserted
        graph.inserted[object.objectID] = object
        objectRegistry.register(object)
        graph.event.inserted.insert(object)
        graph.changeCount += 1
        object.awakeFromInsert()
    }

    /// Takes an unsaved delete back.
    private func takeBack(_ object: ManagedObject) {
        guard object.change == .deleted else { return }
        graph.deleted[object.objectID] = nil
        relationshipTracker.rebalance(object) {
            object.change = deletes.wasNeverSaved(object) ? .inserted : .none
        }
        if object.change == .inserted {
            graph.inserted[object.objectID] = object
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
            graph.live.tell(event)
            if !event.isEmpty {
                for (_, handler) in observers.withLock({ $0.didChange }) { handler(event.told) }
            }
            if propagatesDeletesAtEndOfEvent { deletes.propagateDeletes() }
        }
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

    // MARK: Refreshing

    /// Takes an object's values from the store again. To be used on its queue.
    ///
    /// - Parameters:
    ///   - object: An object of this context. One that is inserted stays as it is, and one that is
    ///     deleted stays deleted.
    ///   - mergeChanges: True keeps unsaved changes, and the delete, over the new values, so that a
    ///     save does not conflict any more; false discards changes and makes the object a fault.
    public func refresh(_ object: ManagedObject, mergeChanges: Bool) {
        confine()
        guard object.managedObjectContext === self, object.change != .inserted,
            object.change != .deleted || mergeChanges
        else { return }
        if mergeChanges, !object.isFault {
            // Never an error: what cannot be read now stays as it was.
            // Where another object is shown in its place, it is gone as one that was deleted.
            if let row = try? objectRegistry.read({ try $0.row(object.entity, object.objectID.row) }
            ),
                row.objectID == object.objectID
            {
                merger.rebase(object, on: row)
            } else if object.change == .none {
                objectRegistry.turnIntoFault(object)
            }
            object.memberBases = [:]
            return
        }
        if object.change == .updated {
            relationshipTracker.rebalance(object) { object.values = object.snapshot }
            relationshipTracker.dropLinks(of: object)
            object.change = .none
            graph.updated[object.objectID] = nil
        }
        graph.event.updated.remove(object)
        graph.event.refreshed.insert(object)
        if !mergeChanges { object.transients = [:] }
        objectRegistry.turnIntoFault(object)
    }

    /// Makes clean objects faults again and takes new values below the changes of others. The
    /// generation stays. To be used on its queue.
    public func refreshAllObjects() {
        confine()
        graph.live.noteEverything()
        graph.faultingError = nil
        for object in objectRegistry.liveObjects() {
            if object.change == .none {
                if object.isFault, !object.isInaccessible {
                    // Members are known of faults too.
                    object.memberBases = [:]
                    continue
                }
                objectRegistry.turnIntoFault(object)
                graph.event.refreshed.insert(object)
            } else {
                refresh(object, mergeChanges: true)
            }
        }
    }

    /// Forgets all objects and changes; a pinned context moves to the newest generation at its
    /// next read. Earlier objects are cut off: they read as null and take no values. To be
    /// used on its queue.
    public func reset() {
        confine()
        graph.live.noteEverything()
        // In no order, because none of it calls anybody.
        for object in graph.registry.values.compactMap(\.object) {
            objectRegistry.turnIntoFault(object)
            object.change = .none
            object.managedObjectContext = nil
        }
        graph.registry = [:]
        graph.registrySweep = 1024
        graph.inserted = [:]
        graph.updated = [:]
        graph.deleted = [:]
        graph.checked = [:]
        graph.pendingIndex = PendingIndex()
        graph.columnDeltas = [:]
        graph.linkDeltas = [:]
        graph.event = ContextChanges()
        graph.undelivered = []
        graph.prefetched = []
        graph.faultingError = nil
        if case .pinned = graph.generation { graph.generation = .pinnedAtNextRead }
    }

    /// Drops inserts and deletes, and restores changed objects to the values last fetched or
    /// saved, without reading the store. To be used on its queue.
    public func rollback() {
        confine()
        // What could not be read may be read from now on.
        if graph.faultingError != nil { graph.live.noteEverything() }
        for object in sorted(graph.inserted) {
            // An observer that heard of it hears that it is gone.
            if graph.event.inserted.remove(object) == nil { graph.event.deleted.insert(object) }
            graph.event.updated.remove(object)
            objectRegistry.detach(object)
        }
        for object in graph.undelivered where object.version == nil {
            objectRegistry.detach(object)
        }
        for object in sorted(graph.updated) + sorted(graph.deleted) where object.version != nil {
            graph.event.updated.remove(object)
            graph.event.deleted.remove(object)
            object.values = object.snapshot
            object.nullified = []
            object.change = .none
            graph.event.refreshed.insert(object)
        }
        graph.inserted = [:]
        graph.updated = [:]
        graph.deleted = [:]
        graph.checked = [:]
        graph.pendingIndex = PendingIndex()
        graph.undelivered = []
        graph.columnDeltas = [:]
        graph.linkDeltas = [:]
        graph.faultingError = nil
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
