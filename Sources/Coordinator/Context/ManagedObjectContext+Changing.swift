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
    /// What delete rules did at the end of an earlier event stays done. An object that was deleted
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
        lastTemporaryRow -= 1
        object.objectID = ManagedObjectID(
            entityName: object.entity.name, row: RowID(lastTemporaryRow))
        object.managedObjectContext = self
        // It may have been of a context before, and of a row.
        turnIntoFault(object)
        object.values = object.entity.properties.map(\.defaultValue)
        object.isFault = false
        object.change = .inserted
        inserted[object.objectID] = object
        register(object)
        event.inserted.insert(object)
        changeCount += 1
        object.awakeFromInsert()
    }

    /// Takes an unsaved delete back.
    private func takeBack(_ object: ManagedObject) {
        guard object.change == .deleted else { return }
        deleted[object.objectID] = nil
        rebalance(object) { object.change = wasNeverSaved(object) ? .inserted : .none }
        if object.change == .inserted {
            inserted[object.objectID] = object
        } else if object.hasPersistentChangedValues {
            object.change = .updated
            updated[object.objectID] = object
        }
        // What its rules broke stays broken, and the save no more does so by itself.
        for relationship in object.entity.relationships {
            let key = MemberKey(row: object.objectID.row, relationship: relationship.name)
            for member in linkDeltas[key]?.nullified ?? [] {
                linkDeltas[key]?.nullified.remove(member)
                guard let inverse = relationship.description.inverse else { continue }
                linkDeltas[MemberKey(row: member.row, relationship: inverse)]?.nullified
                    .remove(object.objectID)
            }
        }
        if event.deleted.remove(object) == nil {
            event.inserted.insert(object)
        } else if object.hasChanges {
            event.updated.insert(object)
        }
        changeCount += 1
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
        fire(object)
        guard object.managedObjectContext === self, !object.isFault, object.change != .deleted
        else { return }
        object.prepareForDeletion()
        rebalance(object) { object.change = .deleted }
        inserted[object.objectID] = nil
        updated[object.objectID] = nil
        // An insert stays among the deleted until its relationships are cleared.
        deleted[object.objectID] = object
        if event.inserted.remove(object) == nil { event.deleted.insert(object) }
        event.updated.remove(object)
        undelivered.append(object)
        changeCount += 1
    }

    /// Carries out delete rules in memory and tells observers what changed.
    ///
    /// Called at the end of every block and before a save; call it to have both earlier. To be
    /// used on its queue.
    public func processPendingChanges() {
        confine()
        if propagatesDeletesAtEndOfEvent { propagateDeletes() }
        // A handler may change more; its changes are told in a round of their own. The bound
        // ends a loop of handlers that answer each other for ever.
        for _ in 0..<100 where !event.isEmpty {
            let changes = event.told
            event = ContextChanges()
            for (_, handler) in observers.withLock({ $0.didChange }) { handler(changes) }
            if propagatesDeletesAtEndOfEvent { propagateDeletes() }
        }
    }

    /// Notes that an object's values or relationships changed.
    func noteChange(of object: ManagedObject) {
        guard !isAwakening, object.managedObjectContext === self else { return }
        switch object.change {
        case .deleted: return
        case .inserted, .updated: event.updated.insert(object)
        case .none:
            fire(object)
            guard !object.isFault else { return }
            object.change = .updated
            updated[object.objectID] = object
            event.updated.insert(object)
        }
        changeCount += 1
    }

    // MARK: Delete rules

    /// Carries out delete rules among the objects at hand. Objects deleted on the way join the
    /// list, so cycles end. What cannot be read is left to the coordinator, which carries the
    /// rules out on the store whatever happens here; the failure is noted.
    func propagateDeletes() {
        var dropped = Set<ManagedObjectID>()
        var index = 0
        while index < undelivered.count {
            let object = undelivered[index]
            index += 1
            // One that was deleted elsewhere meanwhile is none of this context's deletes.
            guard object.change == .deleted else { continue }
            for relationship in object.entity.relationships {
                propagate(relationship, of: object)
                noteOwner(relationship, of: object)
            }
            if wasNeverSaved(object) {
                dropped.insert(object.objectID)
                deleted[object.objectID] = nil
                detach(object)
            }
        }
        undelivered = []
        if !dropped.isEmpty { forget(dropped) }
    }

    /// An object that a deleted one led to has a member less.
    private func noteOwner(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject
    ) {
        guard case .column(let position) = relationship.storage,
            relationship.description.inverse != nil,
            case .reference(let row) = object.values[position],
            let owner = registered(row, entityNamed(relationship.destination)), !owner.isFault
        else { return }
        noteChange(of: owner)
    }

    /// Takes objects that are gone out of unsaved changes: inserts that were dropped out of what has no
    /// inverse by which their delete rules would have come there, and what was deleted elsewhere.
    func forget(_ gone: Set<ManagedObjectID>) {
        for (key, delta) in linkDeltas
        where !gone.isDisjoint(with: delta.added) || !gone.isDisjoint(with: delta.removed) {
            var delta = delta
            delta.added.subtract(gone)
            delta.removed.subtract(gone)
            delta.nullified.subtract(gone)
            linkDeltas[key] = delta.isEmpty ? nil : delta
        }
        let rows = Set(gone.map(\.row))
        for object in sorted(inserted) + sorted(updated) {
            for relationship in object.entity.relationships {
                guard case .column(let position) = relationship.storage,
                    case .reference(let row) = object.values[position], rows.contains(row)
                else { continue }
                if object.base(position) == object.values[position] {
                    // It reads as null in the store by now: nobody changed it.
                    rebalance(object) {
                        object.values[position] = .null
                        object.snapshot[position] = .null
                    }
                    event.refreshed.insert(object)
                } else {
                    object.write(.null, position)
                }
            }
        }
    }

    private func propagate(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject
    ) {
        var rule = relationship.description.deleteRule
        // Of what was never saved nothing stays that others could lead to.
        if wasNeverSaved(object), rule != .cascade { rule = .nullify }
        switch rule {
        case .noAction, .deny: return
        case .cascade, .nullify: break
        }
        for member in relatedForDeletion(relationship, of: object) {
            if rule == .cascade {
                delete(member)
            } else {
                nullify(relationship, of: object, at: member)
            }
        }
    }

    private func wasNeverSaved(_ object: ManagedObject) -> Bool {
        object.snapshot.isEmpty && object.version == nil
    }

    private func relatedForDeletion(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject
    ) -> [ManagedObject] {
        if case .column(let position) = relationship.storage {
            guard relationship.description.deleteRule == .cascade,
                case .reference(let row) = object.values[position],
                let target = resolve(row, destination: relationship.destination)
            else { return [] }
            return [target]
        }
        return members(of: object, relationship).sorted().map { self.object(with: $0) }
    }

    /// Takes a deleted object out of another's relationship.
    private func nullify(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject,
        at member: ManagedObject
    ) {
        switch relationship.storage {
        case .column: break
        case .inverseColumn(_, let property):
            let value: PropertyValue = member[property]
            guard value == .reference(object.objectID.row) else { return }
            member[property] = .null
            if let position = member.entity.position(of: property) {
                member.nullified.insert(position)
            }
        case .link:
            setLink(of: object, relationship, to: member, isMember: false, isNullified: true)
        }
    }
}
