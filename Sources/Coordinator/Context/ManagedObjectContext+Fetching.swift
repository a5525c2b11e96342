public import Merge

/// Names the newest state of a store, at the time of the next read.
public enum CurrentQueryGeneration: Sendable {
    /// The state at the next read.
    case current
}

/// Which state of the store a context reads.
enum GenerationState {
    /// The newest, at each read.
    case newest
    /// The newest at the next read, and from then on that one.
    case pinnedAtNextRead
    /// This one.
    case pinned(GenerationPin)
}

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
        if let object = graph.registry[objectID]?.object { return object }
        require(
            !objectID.isTemporaryID,
            "\(objectID) is temporary, and this context does not have it.", at: place)
        return objectRegistry.makeFault(objectID, entityNamed(objectID.entityName, at: place))
    }

    /// The object of that ID if the context has it; never reads. To be used on its queue.
    public func registeredObject(for objectID: ManagedObjectID) -> ManagedObject? {
        confine()
        return graph.registry[objectID]?.object
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
        if let object = graph.registry[objectID]?.object, !object.isFault || object.change != .none
        {
            if object.isDeleted { throw objectRegistry.missing(objectID) }
            return object
        }
        guard !objectID.isTemporaryID,
            let row = try objectRegistry.read({ try $0.row(entity, objectID.row) })
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
        guard !object.isInaccessible,
            let row = try objectRegistry.read({ try $0.row(object.entity, object.objectID.row) }),
            row.objectID == object.objectID
        else {
            objectRegistry.markInaccessible(object)
            throw objectRegistry.missing(object.objectID)
        }
        objectRegistry.fill(object, with: row)
    }

    /// Fetches objects: those of the store at the context's generation, with the context's
    /// unsaved inserts, changes and deletes laid over. To be used on its queue.
    ///
    /// An object that the context has already is the same instance with the values it had,
    /// unless the request refreshes it. Conditions on *other* objects' unsaved changes are
    /// evaluated only where an object of the fetched entity has changes itself, as in Core Data.
    ///
    /// - Parameter request: Its result type is not regarded; see ``fetchObjectIDs(_:)`` and
    ///   ``fetchDictionaries(_:)``. With pending changes of its entity, limit and offset are
    ///   applied in memory.
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed` where the request does
    ///   not fit the model, `queryGenerationExpired`, or what the store reports.
    public func fetch(_ request: FetchRequest) throws -> [ManagedObject] {
        confine()
        try objectRegistry.throwFaultingError()
        let entity = try pendingFetch.entity(of: request)
        let pending = pendingFetch.pendingObjects(of: entity, request)
        if pending.isEmpty, !pendingFetch.sortsByUnsaved(request, entity) {
            return try objectRegistry.read { try $0.fetch(request) }.map {
                pendingFetch.object(for: $0, request)
            }
        }
        return try pendingFetch.merged(request, entity, pending).map {
            switch $0 {
            case .stored(let row): pendingFetch.object(for: row, request)
            case .pending(let object): object
            }
        }
    }

    /// Fetches objects of a class. To be used on its queue.
    ///
    /// - Precondition: The class is the one registered for the entity, or above it.
    /// - Throws: As ``fetch(_:)``.
    public func fetch<Object: ManagedObject>(
        _ request: FetchRequest, as type: Object.Type, file: StaticString = #fileID,
        line: UInt = #line
    ) throws -> [Object] {
        try fetch(request).map { object in
            guard let result = object as? Object else {
                misuse(
                    "\(object.objectID) is a \(Swift.type(of: object)), not a \(Object.self); "
                        + "register the class with the context.", at: SourcePlace(file, line))
            }
            return result
        }
    }

    /// The IDs of the objects that ``fetch(_:)`` would give, without making objects. To be used
    /// on its queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func fetchObjectIDs(_ request: FetchRequest) throws -> [ManagedObjectID] {
        confine()
        try objectRegistry.throwFaultingError()
        let entity = try pendingFetch.entity(of: request)
        let pending = pendingFetch.pendingObjects(of: entity, request)
        if pending.isEmpty, !pendingFetch.sortsByUnsaved(request, entity) {
            return try objectRegistry.read { try $0.objectIDs(request) }
        }
        return try pendingFetch.merged(request, entity, pending).map(\.objectID)
    }

    /// How many objects ``fetch(_:)`` would give. To be used on its queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func count(for request: FetchRequest) throws -> Int {
        confine()
        try objectRegistry.throwFaultingError()
        let entity = try pendingFetch.entity(of: request)
        let pending = pendingFetch.pendingObjects(of: entity, request)
        if pending.isEmpty { return try objectRegistry.read { try $0.count(request) } }
        return try pendingFetch.merged(request, entity, pending).count
    }

    /// Fetches chosen values and aggregates; pending changes are not in them. To be used on its
    /// queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func fetchDictionaries(
        _ request: FetchRequest
    ) throws -> [[(String, PropertyValue)]] {
        confine()
        try objectRegistry.throwFaultingError()
        return try objectRegistry.read { reader in
            try reader.dictionaries(request).map { row in row.map { ($0.name, $0.value) } }
        }
    }

    /// The generation it is pinned to; nil where it reads the newest, or pins at its next read.
    /// To be used on its queue.
    public var queryGenerationToken: QueryGenerationToken? {
        confine()
        guard case .pinned(let pin) = graph.generation else { return nil }
        return pin.token
    }

    /// Pins the context to the newest generation, taken at its next read; from then on it
    /// fetches and faults from that state, until it saves, merges or is reset. To be used on
    /// its queue.
    ///
    /// Objects it has keep their values until they are refreshed.
    public func setQueryGeneration(from current: CurrentQueryGeneration) {
        confine()
        graph.generation = .pinnedAtNextRead
    }

    /// Pins the context to the generation of a token, such as another context's; nil unpins.
    /// To be used on its queue.
    ///
    /// - Throws: ``CoordinatorError`` `queryGenerationExpired` where nobody holds that
    ///   generation any more.
    public func setQueryGeneration(from token: QueryGenerationToken?) throws {
        confine()
        guard let token else {
            graph.generation = .newest
            return
        }
        graph.generation = .pinned(try persistentStoreCoordinator.share(token))
    }
}
