public import Merge

extension ManagedObjectContext {
    /// The object of that ID, as a fault where the context does not have it yet. Nothing is
    /// read, so there may be no such row: see ``existingObject(with:)``. To be used on its queue.
    ///
    /// - Precondition: The ID's entity is in the model. A temporary ID is one of this context, or of an
    ///   object that its parent has inserted.
    public func object(
        with objectID: ManagedObjectID, file: StaticString = #fileID, line: UInt = #line
    ) -> ManagedObject {
        let place = SourcePlace(file, line)
        confine("object(with:)", at: place)
        if let object = graph.registry[objectID]?.object { return object }
        if let named = permanentID(for: objectID) { return self.object(with: named) }
        require(
            !objectID.isTemporaryID,
            "\(objectID) is temporary, and this context does not have it.", at: place)
        return objectRegistry.makeFault(objectID, entityNamed(objectID.entityName, at: place))
    }

    /// The object of that ID if the context has it; never reads. To be used on its queue.
    public func registeredObject(for objectID: ManagedObjectID) -> ManagedObject? {
        confine()
        if let object = graph.registry[objectID]?.object { return object }
        return graph.formerRows[objectID.row].flatMap {
            graph.registry[ManagedObjectID(entityName: objectID.entityName, row: $0)]?.object
        }
    }

    /// The object of that ID, realised. To be used on its queue.
    ///
    /// - Throws: ``CoordinatorError`` `objectNotFound` where there is no such row, or the
    ///   object is deleted here; whatever reading throws.
    public func existingObject(with objectID: ManagedObjectID) throws -> ManagedObject {
        confine()
        if graph.registry[objectID]?.object == nil, let named = permanentID(for: objectID) {
            return try existingObject(with: named)
        }
        guard let entity = managedObjectModel.entity(named: objectID.entityName) else {
            throw CoordinatorError(.objectNotFound, "There is no entity \(objectID.entityName).")
        }
        if let object = graph.registry[objectID]?.object, !object.isInaccessible {
            if object.isFault, object.change == .none { try objectRegistry.fulfill(object) }
            if object.isDeleted { throw objectRegistry.missing(objectID) }
            return object
        }
        guard !objectID.isTemporaryID,
            let row = try objectRegistry.row(objectID.row, of: entity)
        else {
            if let object = graph.registry[objectID]?.object {
                objectRegistry.markInaccessible(object)
            }
            throw objectRegistry.missing(objectID)
        }
        let object = objectRegistry.object(for: row)
        if object.isDeleted { throw objectRegistry.missing(objectID) }
        return object
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
        try objectRegistry.fulfill(object)
    }

    /// Fetches objects: those of the store at the context's generation, with the context's
    /// unsaved inserts, changes and deletes laid over. To be used on its queue.
    ///
    /// Objects come as faults. The values that were read along, unless
    /// ``FetchRequest/includesPropertyValues`` is false, serve them when they are touched, as long as no commit
    /// has changed them since. With a ``FetchRequest/fetchBatchSize`` the first touch of an object reads
    /// so many at once; see ``fetch(_:batchSize:as:)`` for lists that are not to be held whole.
    ///
    /// An object that the context has already is the same instance with the values it had,
    /// unless the request refreshes it. The store tests and orders what has no unsaved changes: those of
    /// *other* objects that its conditions and sort keys lead to are regarded only where an object
    /// has changes itself, as in Core Data.
    ///
    /// - Parameter request: Its result type is not regarded; see ``fetchObjectIDs(_:)`` and
    ///   ``fetchDictionaries(_:)``.
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed` where the request does
    ///   not fit the model, `queryGenerationExpired`, or what the store reports.
    public func fetch(_ request: FetchRequest) throws -> [ManagedObject] {
        confine()
        try objectRegistry.throwFaultingError()
        return try pendingFetch.objects(request)
    }

    /// Fetches objects of a class. To be used on its queue.
    ///
    /// - Precondition: The class is the one registered for the entity, or above it.
    /// - Throws: As ``fetch(_:)``.
    public func fetch<Object: ManagedObject>(
        _ request: FetchRequest, as type: Object.Type, file: StaticString = #fileID,
        line: UInt = #line
    ) throws -> [Object] {
        Self.cast(try fetch(request), to: type, at: SourcePlace(file, line))
    }

    static func cast<Object: ManagedObject>(
        _ objects: [ManagedObject], to type: Object.Type, at place: SourcePlace
    ) -> [Object] {
        objects.map { object in
            guard let result = object as? Object else {
                misuse(
                    "\(object.objectID) is a \(Swift.type(of: object)), not a \(Object.self); "
                        + "register the class with the context.", at: place)
            }
            return result
        }
    }

    /// The IDs of the objects that ``fetch(_:)`` would give, without making objects: what a request says
    /// of these (faults, batches, prefetching) does not matter here. To be used on its queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func fetchObjectIDs(_ request: FetchRequest) throws -> [ManagedObjectID] {
        confine()
        try objectRegistry.throwFaultingError()
        return try pendingFetch.found(request, .identities).map(\.objectID)
    }

    /// How many objects ``fetch(_:)`` would give, without making them: what a request says of objects
    /// (faults, batches, prefetching) does not matter here. To be used on its queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func count(for request: FetchRequest) throws -> Int {
        confine()
        try objectRegistry.throwFaultingError()
        return try pendingFetch.count(request)
    }

    /// Fetches chosen values and aggregates; pending changes are not in them. No objects are made: what
    /// a request says of these (faults, batches, prefetching) does not matter here. To be used on its queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func fetchDictionaries(
        _ request: FetchRequest
    ) throws -> [[(String, PropertyValue)]] {
        confine()
        try objectRegistry.throwFaultingError()
        graph.counting.countFetch()
        let rows = try objectRegistry.read { reader in
            try reader.dictionaries(request).map { row in row.map { ($0.name, $0.value) } }
        }
        graph.counting.countRows(rows.count)
        return rows
    }
}
