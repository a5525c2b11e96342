public import Merge

extension ManagedObjectContext {
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
        try throwFaultingError()
        let entity = try entity(of: request)
        let pending = pendingObjects(of: entity, request)
        if pending.isEmpty {
            return try read { try $0.fetch(request) }.map { object(for: $0, request) }
        }
        return try merged(request, entity, pending).map {
            switch $0 {
            case .stored(let row): object(for: row, request)
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
        try throwFaultingError()
        let entity = try entity(of: request)
        let pending = pendingObjects(of: entity, request)
        if pending.isEmpty { return try read { try $0.objectIDs(request) } }
        return try merged(request, entity, pending).map(\.objectID)
    }

    /// How many objects ``fetch(_:)`` would give. To be used on its queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func count(for request: FetchRequest) throws -> Int {
        confine()
        try throwFaultingError()
        let entity = try entity(of: request)
        let pending = pendingObjects(of: entity, request)
        if pending.isEmpty { return try read { try $0.count(request) } }
        return try merged(request, entity, pending).count
    }

    /// Fetches chosen values and aggregates; pending changes are not in them. To be used on its
    /// queue.
    ///
    /// - Throws: As ``fetch(_:)``.
    public func fetchDictionaries(
        _ request: FetchRequest
    ) throws -> [[(String, PropertyValue)]] {
        confine()
        try throwFaultingError()
        return try read { reader in
            try reader.dictionaries(request).map { row in row.map { ($0.name, $0.value) } }
        }
    }

    // MARK: Laying pending changes over

    /// An object that a fetch found.
    private enum Found {
        case stored(RowSnapshot)
        case pending(ManagedObject)

        var objectID: ManagedObjectID {
            switch self {
            case .stored(let row): row.objectID
            case .pending(let object): object.objectID
            }
        }
    }

    private func entity(of request: FetchRequest) throws -> ManagedObjectModel.Entity {
        guard let entity = managedObjectModel.entity(named: request.entityName) else {
            throw CoordinatorError(.malformed, "There is no entity \(request.entityName).")
        }
        return entity
    }

    /// The objects with pending changes that a fetch of an entity concerns, sorted by ID.
    private func pendingObjects(
        of entity: ManagedObjectModel.Entity, _ request: FetchRequest
    ) -> [ManagedObject] {
        guard request.includesPendingChanges, hasChanges else { return [] }
        return (sorted(inserted) + sorted(updated) + sorted(deleted)).filter {
            request.includesSubentities ? $0.entity.isKind(of: entity) : $0.entity === entity
        }
    }

    private func merged(
        _ request: FetchRequest, _ entity: ManagedObjectModel.Entity, _ pending: [ManagedObject]
    ) throws -> [Found] {
        var unlimited = request
        unlimited.fetchLimit = 0
        unlimited.fetchOffset = 0
        let dirty = Set(pending.map(\.objectID))
        // The store comes first, so that what is wrong with the request is said in its words.
        let rows = try read { try $0.fetch(unlimited) }.filter { !dirty.contains($0.objectID) }
        let evaluator = try PredicateEvaluator(
            request.predicate, entity: entity, model: managedObjectModel,
            cluster: persistentStoreCoordinator.cluster)
        let order = try SortEvaluator(
            request.sortDescriptors, entity: entity, model: managedObjectModel)

        var found: [(values: [PropertyValue], row: RowID, found: Found)] = []
        found.reserveCapacity(rows.count + pending.count)
        for row in rows {
            // Objects are sorted by what the context shows of them, once they are refreshed.
            var values: [PropertyValue] = []
            if !request.sortDescriptors.isEmpty {
                let object =
                    request.shouldRefreshRefetchedObjects
                    ? object(for: row, request) : object(for: row)
                values = try order.values(of: GraphSubject(object: object))
            }
            found.append((values, row.objectID.row, .stored(row)))
        }
        for object in pending where object.change != .deleted {
            let subject = GraphSubject(object: object)
            guard try evaluator.matches(subject) else { continue }
            found.append(
                (try order.values(of: subject), object.objectID.row, .pending(object)))
        }
        // Evaluating may have fired faults that could not be read: null is no answer then.
        try throwFaultingError()
        found.sort { order.precedes(($0.values, $0.row), ($1.values, $1.row)) }
        let page = found.dropFirst(max(request.fetchOffset, 0))
        return (request.fetchLimit > 0 ? page.prefix(request.fetchLimit) : page).map(\.found)
    }

    private func object(for row: RowSnapshot, _ request: FetchRequest) -> ManagedObject {
        guard request.includesPropertyValues || request.shouldRefreshRefetchedObjects else {
            return object(with: row.objectID)
        }
        let object = object(for: row)
        if request.shouldRefreshRefetchedObjects, object.change == .none {
            rebase(object, on: row)
        }
        return object
    }
}

/// An object as a predicate sees it: with its pending changes.
private struct GraphSubject: PredicateSubject {
    let object: ManagedObject

    var predicateRow: RowID { object.objectID.row }

    func predicateValue(ofAttribute name: String) -> PropertyValue { object[name] }

    func predicateTarget(ofToOne name: String) -> GraphSubject? {
        guard let relationship = object.entity.relationship(named: name) else { return nil }
        return object.relatedObject(relationship).map { GraphSubject(object: $0) }
    }

    func predicateTargets(ofToMany name: String) -> [GraphSubject] {
        guard let relationship = object.entity.relationship(named: name),
            let context = object.usableContext()
        else { return [] }
        return context.members(of: object, relationship).sorted().map {
            GraphSubject(object: context.object(with: $0))
        }
    }
}
