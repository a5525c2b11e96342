import Merge
import Synchronization

/// What a context shows its children: the store's objects with its own unsaved changes.
struct ShownObjects: ContextPart {
    let context: ManagedObjectContext

    /// An object, realised; nil where there is none, or it is deleted here. It may be another that is
    /// shown in its place.
    func object(_ row: RowID, of entity: ManagedObjectModel.Entity) throws -> ManagedObject? {
        if let object = objectRegistry.registered(row, entity) {
            if object.isDeleted { return nil }
            if !object.isFault { return object }
        }
        guard let found = try objectRegistry.row(row, of: entity) else { return nil }
        let object = objectRegistry.object(for: found)
        try objectRegistry.throwFaultingError()
        return object.isDeleted || object.isFault ? nil : object
    }

    /// The same object's values.
    func row(_ row: RowID, of entity: ManagedObjectModel.Entity) throws -> RowSnapshot? {
        try object(row, of: entity).map(snapshot)
    }

    /// The values of an object that is realised.
    func snapshot(of object: ManagedObject) -> RowSnapshot {
        RowSnapshot(
            objectID: object.objectID, version: object.version ?? RowVersion(dots: []),
            values: object.values, isConflicted: false)
    }

    /// What a to-many, or a derived to-one, leads to.
    func members(
        of relationship: ManagedObjectModel.Relationship, _ objectID: ManagedObjectID
    ) throws -> Set<ManagedObjectID> {
        let object = context.object(with: objectID)
        if object.isDeleted { return [] }
        let members = relationshipTracker.members(of: object, relationship)
        try objectRegistry.throwFaultingError()
        return members
    }
}

extension ManagedObjectContext {
    /// Runs a block of a child on the queue of this context. What was inserted here has permanent IDs
    /// then: a child knows objects by these.
    ///
    /// - Throws: what the block throws; ``CoordinatorError`` where no identities can be had.
    func shown<Result>(_ body: (ShownObjects) throws -> Result) throws -> Result {
        try performAndWait {
            try objectRegistry.throwFaultingError()
            try IdentityGiver(context: self).giveToInserted()
            return try body(ShownObjects(context: self))
        }
    }

    /// The ID by which a child knows an object that was inserted here; nil where there is none, or the
    /// ID is permanent.
    func permanentID(for objectID: ManagedObjectID) -> ManagedObjectID? {
        guard objectID.isTemporaryID else { return nil }
        return performAndWait {
            if let row = graph.formerRows[objectID.row] {
                return ManagedObjectID(entityName: objectID.entityName, row: row)
            }
            guard let object = graph.registry[objectID]?.object else {
                return parent?.permanentID(for: objectID)
            }
            guard object.isInserted else { return nil }
            do { try IdentityGiver(context: self).giveToInserted() } catch {
                objectRegistry.note(error)
                return nil
            }
            return object.objectID
        }
    }

    /// Has a child hear what this context shows otherwise than before: what was saved here or into it,
    /// and what it has merged. The handler gets the objects (nil for all that are at hand), and those
    /// of them that were inserted.
    func observeShown(
        by child: ManagedObjectContext,
        _ handler: @escaping @Sendable (Set<ManagedObjectID>?, Set<ManagedObjectID>) -> Void
    ) -> CommitObservation {
        let child = ObjectIdentifier(child)
        let number = observers.withLock { observers in
            let number = observers.next()
            observers.shown.append((number, child, handler))
            return number
        }
        return CommitObservation { [weak self] in self?.removeObserver(number) }
    }

    /// Tells children what is shown otherwise than before.
    ///
    /// - Parameter child: the one that knows.
    func tellChildren(
        _ affected: Set<ManagedObjectID>?, inserted: Set<ManagedObjectID> = [],
        but child: ManagedObjectContext? = nil
    ) {
        let handlers = observers.withLock(\.shown)
        for (_, identifier, handler) in handlers
        where identifier != child.map({ ObjectIdentifier($0) }) {
            handler(affected, inserted)
        }
    }
}
