import Merge

/// Lays a context's pending changes over what the store has.
struct PendingFetch: ContextPart {
    let context: ManagedObjectContext

    // MARK: Laying pending changes over

    /// An object that a fetch found.
    enum Found {
        case stored(RowSnapshot)
        case pending(ManagedObject)

        var objectID: ManagedObjectID {
            switch self {
            case .stored(let row): row.objectID
            case .pending(let object): object.objectID
            }
        }
    }

    func entity(of request: FetchRequest) throws -> ManagedObjectModel.Entity {
        guard let entity = managedObjectModel.entity(named: request.entityName) else {
            throw CoordinatorError(.malformed, "There is no entity \(request.entityName).")
        }
        return entity
    }

    /// The objects with pending changes that a fetch of an entity concerns, sorted by ID.
    func pendingObjects(
        of entity: ManagedObjectModel.Entity, _ request: FetchRequest
    ) -> [ManagedObject] {
        guard request.includesPendingChanges, context.hasChanges else { return [] }
        return
            (context.sorted(graph.inserted) + context.sorted(graph.updated)
            + context.sorted(graph.deleted)).filter {
                request.includesSubentities ? $0.entity.isKind(of: entity) : $0.entity === entity
            }
    }

    func merged(
        _ request: FetchRequest, _ entity: ManagedObjectModel.Entity, _ pending: [ManagedObject]
    ) throws -> [Found] {
        var unlimited = request
        unlimited.fetchLimit = 0
        unlimited.fetchOffset = 0
        let dirty = Set(pending.map(\.objectID))
        // The store comes first, so that what is wrong with the request is said in its words.
        let rows = try objectRegistry.read { try $0.fetch(unlimited) }.filter {
            !dirty.contains($0.objectID)
        }
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
                    ? object(for: row, request) : objectRegistry.object(for: row)
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
        try objectRegistry.throwFaultingError()
        found.sort { order.precedes(($0.values, $0.row), ($1.values, $1.row)) }
        let page = found.dropFirst(max(request.fetchOffset, 0))
        return (request.fetchLimit > 0 ? page.prefix(request.fetchLimit) : page).map(\.found)
    }

    func object(for row: RowSnapshot, _ request: FetchRequest) -> ManagedObject {
        guard request.includesPropertyValues || request.shouldRefreshRefetchedObjects else {
            return context.object(with: row.objectID)
        }
        let object = objectRegistry.object(for: row)
        if request.shouldRefreshRefetchedObjects, object.change == .none {
            merger.rebase(object, on: row)
        }
        return object
    }
}

/// An object as a predicate sees it: with its pending changes.
struct GraphSubject: PredicateSubject {
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
        return context.relationshipTracker.members(of: object, relationship).sorted().map {
            GraphSubject(object: context.object(with: $0))
        }
    }
}
