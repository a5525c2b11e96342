import Merge

extension ManagedObjectContext {
    /// The object of that ID, as a fault where the context does not have it yet. Nothing is
    /// read, so there may be no such row: see ``existingObject(with:)``. To be used on its queue.
    ///
    /// - Precondition: The ID's entity is in the model. A temporary ID is one of this context.
    public func object(
        with objectID: ManagedObjectID, file: StaticString = #fileID, line: UInt = #line
    ) -> ManagedObject {
        let place = SourcePlace(file, line)
        confine("object(with:)", at: place)
        if let object = registry[objectID]?.object { return object }
        require(
            !objectID.isTemporaryID,
            "\(objectID) is temporary, and this context does not have it.", at: place)
        return makeFault(objectID, entityNamed(objectID.entityName, at: place))
    }

    /// The object of that ID if the context has it; never reads. To be used on its queue.
    public func registeredObject(for objectID: ManagedObjectID) -> ManagedObject? {
        confine()
        return registry[objectID]?.object
    }

    /// The object of that ID, realised. To be used on its queue.
    ///
    /// - Throws: ``CoordinatorError`` `objectNotFound` where there is no such row, or the
    ///   object is deleted here; whatever reading throws.
    public func existingObject(with objectID: ManagedObjectID) throws -> ManagedObject {
        confine()
        guard let entity = managedObjectModel.entity(named: objectID.entityName) else {
            throw CoordinatorError(.objectNotFound, "There is no entity \(objectID.entityName).")
        }
        if let object = registry[objectID]?.object, !object.isFault || object.change != .none {
            if object.isDeleted { throw missing(objectID) }
            return object
        }
        guard !objectID.isTemporaryID, let row = try read({ try $0.row(entity, objectID.row) })
        else {
            if let object = registry[objectID]?.object { markInaccessible(object) }
            throw missing(objectID)
        }
        let object = self.object(for: row)
        if object.isDeleted { throw missing(objectID) }
        return object
    }

    func missing(_ objectID: ManagedObjectID) -> CoordinatorError {
        CoordinatorError(.objectNotFound, "There is no object \(objectID), or no more.")
    }

    // MARK: Uniquing

    func register(_ object: ManagedObject) {
        if registry.count >= registrySweep {
            registry = registry.filter { $0.value.object != nil }
            registrySweep = max(1024, registry.count * 2)
        }
        registry[object.objectID] = WeakObject(object: object)
    }

    func makeFault(
        _ objectID: ManagedObjectID, _ entity: ManagedObjectModel.Entity
    ) -> ManagedObject {
        let object = objectClass(of: entity).init(entity: entity, insertInto: nil)
        object.objectID = objectID
        object.managedObjectContext = self
        register(object)
        return object
    }

    /// The registered objects that are still in use, sorted by ID.
    func liveObjects() -> [ManagedObject] {
        registry.values.compactMap(\.object).sorted { $0.objectID < $1.objectID }
    }

    /// The object that a reference leads to, whose concrete entity the reference does not tell.
    func resolve(_ row: RowID, destination: String) -> ManagedObject? {
        let entity = entityNamed(destination)
        if let object = registered(row, entity) { return object }
        if row.rawValue < 0 { return nil }
        if entity.familyNames.count == 1 {
            return makeFault(ManagedObjectID(entityName: entity.name, row: row), entity)
        }
        // Class and ID depend on the concrete entity, so the row must be read now.
        do {
            if let found = try read({ try $0.row(entity, row) }) { return object(for: found) }
        } catch { note(error) }
        return makeFault(ManagedObjectID(entityName: entity.name, row: row), entity)
    }

    /// The object of a row that the context has, of an entity or one that inherits from it.
    func registered(_ row: RowID, _ entity: ManagedObjectModel.Entity) -> ManagedObject? {
        for name in entity.familyNames {
            if let object = registry[ManagedObjectID(entityName: name, row: row)]?.object {
                return object
            }
        }
        return nil
    }

    // MARK: Faulting

    /// Reads a fault's values now, so that a failure can be handled here. Does nothing to an
    /// object that is realised. To be used on its queue.
    ///
    /// - Throws: ``CoordinatorError`` `objectNotFound` where the row is gone; whatever reading
    ///   throws.
    public func fulfillFault(_ object: ManagedObject) throws {
        confine()
        guard object.isFault, object.managedObjectContext === self else { return }
        guard !object.isInaccessible,
            let row = try read({ try $0.row(object.entity, object.objectID.row) }),
            row.objectID == object.objectID
        else {
            markInaccessible(object)
            throw missing(object.objectID)
        }
        fill(object, with: row)
    }

    /// Fires a fault for property access, which cannot throw.
    func fire(_ object: ManagedObject) {
        guard object.isFault, !object.isInaccessible, object.change == .none else { return }
        do {
            try fulfillFault(object)
        } catch let error as CoordinatorError where error.code == .objectNotFound {
            if !shouldDeleteInaccessibleFaults { note(error) }
        } catch { note(error) }
    }

    func note(_ error: any Error) {
        guard faultingError == nil else { return }
        faultingError =
            error as? CoordinatorError ?? CoordinatorError(.inputOutput, "\(error)")
    }

    func throwFaultingError() throws {
        if let faultingError { throw faultingError }
    }

    /// The one object of a row that was read, realised by it if it is a fault.
    func object(for row: RowSnapshot) -> ManagedObject {
        let object =
            registry[row.objectID]?.object
            ?? makeFault(row.objectID, entityNamed(row.objectID.entityName))
        if object.isFault, object.change == .none { fill(object, with: row) }
        return object
    }

    func fill(_ object: ManagedObject, with row: RowSnapshot) {
        object.values = row.values
        object.snapshot = row.values
        object.version = row.version
        object.isFault = false
        object.isInaccessible = false
        let wasAwakening = isAwakening
        isAwakening = true
        object.awakeFromFetch()
        isAwakening = wasAwakening
    }

    /// Makes a clean object a fault again; its transient values stay.
    func turnIntoFault(_ object: ManagedObject) {
        object.values = []
        object.snapshot = []
        object.version = nil
        object.assigned = []
        object.nullified = []
        object.memberBases = [:]
        object.isFault = true
        object.isInaccessible = false
    }

    func markInaccessible(_ object: ManagedObject) {
        turnIntoFault(object)
        object.isInaccessible = true
    }

    /// Cuts an object off from the context for good.
    func detach(_ object: ManagedObject) {
        registry[object.objectID] = nil
        object.change = .none
        object.memberBases = [:]
        object.managedObjectContext = nil
    }
}
