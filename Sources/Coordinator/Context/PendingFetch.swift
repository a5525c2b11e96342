import Merge

/// Lays a context's pending changes over what the store has.
///
/// The store gives its objects in order, without those that have changes here. The pending ones that fit
/// are put in between. So a page costs what is on it and what is pending, however large the table is.
struct PendingFetch: ContextPart {
    let context: ManagedObjectContext

    /// An object that a fetch found.
    enum Found {
        /// One of the store, with its values where they were asked for.
        case stored(ManagedObjectID, RowSnapshot?)
        /// One with pending changes.
        case pending(ManagedObject)

        var objectID: ManagedObjectID {
            switch self {
            case .stored(let objectID, _): objectID
            case .pending(let object): object.objectID
            }
        }
    }

    /// An object with what it is sorted by.
    private struct Placed {
        let values: [PropertyValue]
        let row: RowID
        let found: Found
    }

    /// A request with what its objects are tested by and ordered by in memory.
    private struct Question {
        let request: FetchRequest
        let entity: ManagedObjectModel.Entity
        let evaluator: PredicateEvaluator
        let order: SortEvaluator

        func precedes(_ left: Placed, _ right: Placed) -> Bool {
            order.precedes((left.values, left.row), (right.values, right.row))
        }
    }

    private func hasPending(_ request: FetchRequest) -> Bool {
        request.includesPendingChanges && context.hasChanges
    }

    /// The objects that a request asks for, in its order.
    ///
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`, and whatever reading throws.
    func found(_ request: FetchRequest, _ content: FetchCursor.Content) throws -> [Found] {
        guard hasPending(request) else {
            return try objectRegistry.read { reader in
                let cursor = try FetchCursor(reader, request, content)
                defer { cursor.close() }
                var result: [Found] = []
                while try cursor.next() {
                    result.append(
                        .stored(cursor.objectID, content == .rows ? try cursor.snapshot() : nil))
                }
                return result
            }
        }
        let question = try question(request)
        let pending = try matching(question)
        let (offset, limit) = (max(request.fetchOffset, 0), request.fetchLimit)
        let wanted = limit > 0 ? offset.addingReportingOverflow(limit).partialValue : .max
        var stored = try stored(
            request, content, wanted: wanted < 0 ? .max : wanted, besides: pending.count)
        // Of the pending ones those that come after the page's last are not needed.
        let isFull = stored.count >= wanted
        var placed: [Placed] = []
        for object in pending {
            let subject = GraphSubject(object: object)
            let one = Placed(
                values: try question.order.values(of: subject), row: object.objectID.row,
                found: .pending(object))
            if isFull, let last = stored.last, question.precedes(last, one) { continue }
            placed.append(one)
        }
        // Evaluating may have fired faults that could not be read: null is no answer then.
        try objectRegistry.throwFaultingError()
        placed.sort(by: question.precedes)
        stored = Self.merged(stored, placed, by: question.precedes)
        let page = stored.dropFirst(offset)
        return (limit > 0 ? page.prefix(limit) : page).map(\.found)
    }

    /// How many objects a request asks for.
    ///
    /// - Throws: as ``found(_:_:)``.
    func count(_ request: FetchRequest) throws -> Int {
        guard hasPending(request) else {
            return try objectRegistry.read { try $0.count(request) }
        }
        let question = try question(request)
        let pending = try matching(question).count
        try objectRegistry.throwFaultingError()
        let changed = [graph.updated, graph.deleted].joined().compactMap { objectID, object in
            object.entity.root == question.entity.root && !objectID.isTemporaryID
                ? objectID.row : nil
        }
        var whole = request
        if request.fetchLimit > 0 { whole.fetchLimit = 0 }
        if request.fetchOffset > 0 { whole.fetchOffset = 0 }
        let stored = try objectRegistry.read { try $0.count(whole, without: changed) }
        let rest = max(0, stored + pending - request.fetchOffset)
        return request.fetchLimit > 0 ? min(rest, request.fetchLimit) : rest
    }

    private func question(_ request: FetchRequest) throws -> Question {
        guard let entity = managedObjectModel.entity(named: request.entityName) else {
            throw CoordinatorError(.malformed, "There is no entity \(request.entityName).")
        }
        do {
            return Question(
                request: request, entity: entity,
                evaluator: try PredicateEvaluator(
                    request.predicate, entity: entity, model: managedObjectModel,
                    cluster: persistentStoreCoordinator.cluster),
                order: try SortEvaluator(
                    request.sortDescriptors, entity: entity, model: managedObjectModel))
        } catch {
            throw CoordinatorError(.invalidPredicate, "\(error)")
        }
    }

    /// The objects with pending changes that fit a request, sorted by ID.
    private func matching(_ question: Question) throws -> [ManagedObject] {
        let (request, entity) = (question.request, question.entity)
        func isAskedFor(_ object: ManagedObject) -> Bool {
            request.includesSubentities
                ? object.entity.isKind(of: entity) : object.entity === entity
        }
        func all() -> [ManagedObject] {
            Array(graph.inserted.values) + Array(graph.updated.values)
        }
        var candidates: [ManagedObject]?
        if graph.inserted.count + graph.updated.count >= PendingIndex.least {
            candidates = graph.pendingIndex.candidates(
                for: question.evaluator.equalities, of: entity, among: all
            ).map(Array.init)
        }
        // Evaluating may fire faults, and so call hooks: in the order of IDs.
        let objects = (candidates ?? all()).filter(isAskedFor).sorted {
            $0.objectID.row < $1.objectID.row
        }
        return try objects.filter {
            try question.evaluator.matches(GraphSubject(object: $0))
        }
    }

    /// The store's objects without those that have pending changes.
    ///
    /// - Parameters:
    ///   - wanted: at most so many from the first on.
    ///   - pending: how many others may come between: what stays before the page needs no values.
    private func stored(
        _ request: FetchRequest, _ content: FetchCursor.Content, wanted: Int,
        besides pending: Int
    ) throws -> [Placed] {
        var unskipped = request
        if request.fetchOffset > 0 { unskipped.fetchOffset = 0 }
        if request.fetchLimit > 0 {
            let most = wanted.addingReportingOverflow(graph.updated.count + graph.deleted.count)
            unskipped.fetchLimit = most.overflow ? .max : most.partialValue
        }
        return try objectRegistry.read { reader in
            let cursor = try FetchCursor(
                reader, unskipped, content, selectsSortKeys: pending > 0)
            defer { cursor.close() }
            var result: [Placed] = []
            while result.count < wanted, try cursor.next() {
                let objectID = cursor.objectID
                if graph.updated[objectID] != nil || graph.deleted[objectID] != nil { continue }
                let mayBeShown = result.count >= request.fetchOffset - pending
                result.append(
                    Placed(
                        values: pending > 0 ? try cursor.sortValues() : [], row: objectID.row,
                        found: .stored(
                            objectID,
                            content == .rows && mayBeShown ? try cursor.snapshot() : nil)))
            }
            return result
        }
    }

    private static func merged(
        _ left: [Placed], _ right: [Placed], by precedes: (Placed, Placed) -> Bool
    ) -> [Placed] {
        if right.isEmpty { return left }
        var result: [Placed] = []
        result.reserveCapacity(left.count + right.count)
        var place = 0
        for one in right {
            while place < left.count, precedes(left[place], one) {
                result.append(left[place])
                place += 1
            }
            result.append(one)
        }
        return result + left[place...]
    }

    /// The context's object of one that was found.
    func object(for found: Found, _ request: FetchRequest) -> ManagedObject {
        switch found {
        case .pending(let object): return object
        case .stored(let objectID, let row):
            guard let row,
                request.includesPropertyValues || request.shouldRefreshRefetchedObjects
            else { return context.object(with: objectID) }
            let object = objectRegistry.object(for: row)
            if request.shouldRefreshRefetchedObjects, object.change == .none {
                merger.rebase(object, on: row)
            }
            return object
        }
    }
}

/// An object as a predicate sees it: with its pending changes.
private struct GraphSubject: PredicateSubject {
    let object: ManagedObject

    var predicateRow: RowID { object.objectID.row }

    func predicateValue(ofAttribute name: String) -> PropertyValue {
        guard !object.isFault, let position = object.entity.position(of: name) else {
            return object[name]
        }
        return object.values[position]
    }

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
