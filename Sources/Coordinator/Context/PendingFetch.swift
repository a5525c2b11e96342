import Merge

/// Lays a context's pending changes over what the store has.
///
/// The store gives its objects in order, without those that have changes here. The pending ones that fit
/// are put in between. So a page costs what is on it and what is pending, however large the table is.
struct PendingFetch: ContextPart {
    let context: ManagedObjectContext

    /// An object that a fetch found.
    enum Found {
        /// One of the store, with what was read of it.
        case stored(ManagedObjectID, FaultSource)
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
    struct Placed {
        let values: [PropertyValue]
        let row: RowID
        let found: Found
    }

    /// A request with what its objects are tested by and ordered by in memory.
    struct Question {
        let request: FetchRequest
        let entity: ManagedObjectModel.Entity
        /// What `now()` is, here and in the store.
        let moment: Int64
        let evaluator: PredicateEvaluator
        let order: SortEvaluator
        /// Whether the store's order is not that of what the context shows.
        let isSortedHere: Bool

        /// How many of the store's objects the page may need, from the first on.
        var wanted: Int {
            if isSortedHere || request.fetchLimit <= 0 { return .max }
            let sum = max(request.fetchOffset, 0).addingReportingOverflow(request.fetchLimit)
            return sum.overflow ? .max : sum.partialValue
        }

        func precedes(_ left: Placed, _ right: Placed) -> Bool {
            order.precedes((left.values, left.row), (right.values, right.row))
        }
    }

    func hasPending(_ request: FetchRequest) -> Bool {
        request.includesPendingChanges && context.hasChanges
    }

    /// The objects that a request asks for, in its order.
    ///
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`, and whatever reading throws.
    func found(_ request: FetchRequest, _ content: FetchCursor.Content) throws -> [Found] {
        graph.counting.countFetch()
        if !hasPending(request), context.parent == nil {
            return try stored(request, content, wanted: .max, besides: 0) { objectID, source, _ in
                .stored(objectID, source)
            }
        }
        return try placed(request, content, question(request), selectsSortKeys: false).map(\.found)
    }

    /// The objects that a request asks for, in its order, with what they are sorted by where that is
    /// asked for or needed here.
    func placed(
        _ request: FetchRequest, _ content: FetchCursor.Content, _ question: Question,
        selectsSortKeys: Bool
    ) throws -> [Placed] {
        guard hasPending(request) else {
            return try base(
                request, content, wanted: .max, besides: selectsSortKeys ? 1 : 0, question)
        }
        let pending = try matching(question)
        var asked = request
        if question.isSortedHere {
            if request.fetchLimit > 0 { asked.fetchLimit = 0 }
            if request.fetchOffset > 0 { asked.fetchOffset = 0 }
        }
        let stored = try base(
            asked, content, wanted: question.wanted,
            besides: selectsSortKeys ? max(pending.count, 1) : pending.count, question)
        return try page(stored, with: pending, question)
    }

    /// What the store has, or the parent shows, without what has pending changes here.
    private func base(
        _ request: FetchRequest, _ content: FetchCursor.Content, wanted: Int, besides pending: Int,
        _ question: Question
    ) throws -> [Placed] {
        guard let parent = context.parent else {
            return try stored(
                request, content, wanted: wanted, besides: pending, at: question.moment
            ) { objectID, source, values in
                Placed(values: values, row: objectID.row, found: .stored(objectID, source))
            }
        }
        let asked = unskipped(request, wanted: wanted)
        let shown = try parent.shown { shown in
            let fetch = shown.context.pendingFetch
            return try fetch.placed(
                asked, content, try fetch.question(asked, at: question.moment),
                selectsSortKeys: pending > 0
            ).map { ($0.values, $0.found.objectID) }
        }
        let isChanged = changed(request)
        let found = shown.lazy.filter { !isChanged($0.1) }.prefix(wanted).map {
            Placed(values: $0.0, row: $0.1.row, found: .stored($0.1, .none))
        }
        let result = Array(found)
        graph.counting.countRows(result.count)
        return result
    }

    /// Tells the objects that have pending changes here.
    private func changed(_ request: FetchRequest) -> (ManagedObjectID) -> Bool {
        guard hasPending(request), !graph.updated.isEmpty || !graph.deleted.isEmpty else {
            return { _ in false }
        }
        let graph = graph
        return { graph.updated[$0] != nil || graph.deleted[$0] != nil }
    }

    /// A request for so many from the first on, and for those that are skipped because they have
    /// pending changes here.
    private func unskipped(_ request: FetchRequest, wanted: Int) -> FetchRequest {
        guard hasPending(request) else { return request }
        var result = request
        if request.fetchOffset > 0 { result.fetchOffset = 0 }
        if request.fetchLimit > 0 {
            let most = wanted.addingReportingOverflow(graph.updated.count + graph.deleted.count)
            result.fetchLimit = most.overflow ? .max : most.partialValue
        }
        return result
    }

    /// Puts pending objects between the store's, which come in its order and without those that have
    /// changes, and gives the page that is asked for.
    func page(
        _ stored: [Placed], with pending: [ManagedObject], _ question: Question
    ) throws -> [Placed] {
        let request = question.request
        var stored = stored
        if question.isSortedHere {
            stored = try stored.map { one in
                let subject = GraphSubject(object: object(for: one.found, request))
                return Placed(
                    values: try question.order.values(of: subject), row: one.row,
                    found: one.found)
            }.sorted(by: question.precedes)
        }
        // Of the pending ones those that come after the page's last are not needed.
        let isFull = stored.count >= question.wanted
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
        let page = Self.merged(stored, placed, by: question.precedes)
            .dropFirst(max(request.fetchOffset, 0))
        return Array(request.fetchLimit > 0 ? page.prefix(request.fetchLimit) : page)
    }

    /// How many objects a request asks for.
    ///
    /// - Throws: as ``found(_:_:)``.
    func count(_ request: FetchRequest) throws -> Int {
        graph.counting.countFetch()
        return try count(request, without: [], at: nil)
    }

    /// - Parameters:
    ///   - others: rows that do not count, of any entity.
    ///   - moment: what `now()` is; nil for the present.
    private func count(
        _ request: FetchRequest, without others: Set<RowID>, at moment: Int64?
    ) throws -> Int {
        guard hasPending(request) else {
            return try baseCount(request, without: others, at: moment)
        }
        let question = try question(request, at: moment)
        let pending = try matching(question).count { !others.contains($0.objectID.row) }
        try objectRegistry.throwFaultingError()
        let changed = [graph.updated, graph.deleted].joined().compactMap { objectID, object in
            object.entity.root == question.entity.root && !objectID.isTemporaryID
                ? objectID.row : nil
        }
        var whole = request
        if request.fetchLimit > 0 { whole.fetchLimit = 0 }
        if request.fetchOffset > 0 { whole.fetchOffset = 0 }
        let stored = try baseCount(whole, without: others.union(changed), at: question.moment)
        let rest = max(0, stored + pending - max(0, request.fetchOffset))
        return request.fetchLimit > 0 ? min(rest, request.fetchLimit) : rest
    }

    /// How many the store has, or the parent shows.
    private func baseCount(
        _ request: FetchRequest, without others: Set<RowID>, at moment: Int64?
    ) throws -> Int {
        if let parent = context.parent {
            return try parent.shown { shown in
                try shown.context.pendingFetch.count(request, without: others, at: moment)
            }
        }
        return try objectRegistry.read { reader in
            var reader = reader
            if let moment { reader.now = { moment } }
            return try reader.count(request, without: others.sorted())
        }
    }

    /// - Parameter moment: what `now()` is; nil for the present.
    func question(_ request: FetchRequest, at moment: Int64? = nil) throws -> Question {
        guard let entity = managedObjectModel.entity(named: request.entityName) else {
            throw CoordinatorError(.malformed, "There is no entity \(request.entityName).")
        }
        let moment =
            moment ?? Int64(clamping: persistentStoreCoordinator.options.wallMilliseconds())
        do {
            return Question(
                request: request, entity: entity, moment: moment,
                evaluator: try PredicateEvaluator(
                    request.predicate, entity: entity, model: managedObjectModel,
                    cluster: persistentStoreCoordinator.cluster, now: { moment }),
                order: try SortEvaluator(
                    request.sortDescriptors, entity: entity, model: managedObjectModel),
                isSortedHere: sortsByUnsaved(request, entity))
        } catch {
            throw CoordinatorError(.invalidPredicate, "\(error)")
        }
    }

    /// The objects with pending changes that fit a request, sorted by ID.
    func matching(_ question: Question) throws -> [ManagedObject] {
        let (request, entity) = (question.request, question.entity)
        func isAskedFor(_ object: ManagedObject) -> Bool {
            object.entity === entity
                || request.includesSubentities && object.entity.isKind(of: entity)
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
        var objects = (candidates ?? all()).filter(isAskedFor)
        // Evaluating may fire faults, and so call hooks: in the order of IDs.
        if !question.evaluator.isOwn || !question.order.isOwn {
            objects.sort { $0.objectID.row < $1.objectID.row }
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
    ///   - element: makes a result of an identity, its values and what it is sorted by.
    private func stored<Element>(
        _ request: FetchRequest, _ content: FetchCursor.Content, wanted: Int,
        besides pending: Int, at moment: Int64? = nil,
        _ element: (ManagedObjectID, FaultSource, [PropertyValue]) -> Element
    ) throws -> [Element] {
        let reading = StoredFetch(
            request: unskipped(request, wanted: wanted), content: content, wanted: wanted,
            shown: hasPending(request) ? request.fetchOffset - pending : 0,
            selectsSortKeys: pending > 0, moment: moment,
            milliseconds: persistentStoreCoordinator.options.monotonicMilliseconds())
        var rows: [CachedRow] = []
        let isChanged = changed(request)
        let found: [Element] = try objectRegistry.read { reader in
            try reading.read(reader, keeping: &rows, skipping: isChanged) { element($0, $1, $2) }
        }
        if !rows.isEmpty { persistentStoreCoordinator.rowCache.add(rows) }
        graph.counting.countRows(found.count)
        return found
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

    // MARK: Objects

    /// The context's objects of a request, in its order.
    ///
    /// - Throws: as ``found(_:_:)``.
    func objects(_ request: FetchRequest) throws -> [ManagedObject] {
        try objects(try found(request, try content(of: request)), request)
    }

    /// The context's objects of what a request found, with what it has read along.
    func objects(_ found: [Found], _ request: FetchRequest) throws -> [ManagedObject] {
        objectRegistry.makeRoom(for: found.count)
        let objects = found.map { object(for: $0, request) }
        if let debug = persistentStoreCoordinator.options.sqlDebug,
            objects.count > debug.resultLimit, request.fetchLimit == 0,
            request.fetchBatchSize == 0
        {
            debug.warn(
                """
                result: \(objects.count) objects of \(request.entityName) were fetched without a \
                limit; a fetchBatchSize would read them as they are touched
                """)
        }
        // A parent is asked for each fault as it fires.
        if request.fetchBatchSize > 0, context.parent == nil {
            batch(objects, request.fetchBatchSize)
        }
        try Prefetcher(context: context).keep(
            request.relationshipKeyPathsForPrefetching, along: objects,
            of: context.entityNamed(request.entityName))
        return objects
    }

    func content(of request: FetchRequest) throws -> FetchCursor.Content {
        // What is to be realised, or refreshed, is read whole.
        if request.shouldRefreshRefetchedObjects || !request.returnsObjectsAsFaults {
            return .rows
        }
        if !request.propertiesToFetch.isEmpty {
            return .properties(
                try request.propertiesToFetch.map { property in
                    guard case .keyPath(let name) = property else {
                        throw CoordinatorError(
                            .malformed,
                            "Only a dictionary fetch can have aggregates, such as "
                                + "\"\(property.name)\".")
                    }
                    return name
                })
        }
        return request.includesPropertyValues && request.fetchBatchSize == 0 ? .rows : .identities
    }

    /// The context's object of one that was found.
    func object(for found: Found, _ request: FetchRequest) -> ManagedObject {
        switch found {
        case .pending(let object): return object
        case .stored(let objectID, let source):
            let object =
                graph.registry[objectID]?.object
                ?? objectRegistry.makeFault(objectID, context.entityNamed(objectID.entityName))
            guard object.change == .none else { return object }
            if object.isFault { object.isInaccessible = false }
            switch (source, object.isFault) {
            case (.row(let row), true):
                object.source = source
                if !request.returnsObjectsAsFaults {
                    objectRegistry.fill(object, with: row.snapshot)
                }
            case (.row(let row), false) where request.shouldRefreshRefetchedObjects:
                merger.rebase(object, on: row.snapshot)
                object.memberBases = [:]
            case (.partial, true):
                // A whole row that is at hand is worth more.
                if case .row = object.source { break }
                object.source = source
            default: break
            }
            return object
        }
    }

    /// Has faults read so many rows at once, where the first of them is touched.
    private func batch(_ objects: [ManagedObject], _ size: Int) {
        for start in stride(from: 0, to: objects.count, by: size) {
            let faults = objects[start..<min(start + size, objects.count)].filter { object in
                guard object.isFault, object.change == .none else { return false }
                if case .row(let row) = object.source { return !objectRegistry.isUsable(row) }
                if case .partial = object.source { return false }
                return true
            }
            let batch = FaultBatch(faults.map(\.objectID))
            for object in faults { object.source = .batch(batch) }
        }
    }
}

/// An object as a predicate sees it: with its pending changes.
struct GraphSubject: PredicateSubject {
    let object: ManagedObject

    var predicateRow: RowID { object.objectID.row }

    var predicateEntity: String? { object.entity.name }

    func predicateValue(ofAttribute name: String) -> PropertyValue {
        guard !object.isFault, let position = object.entity.columnPosition(of: name) else {
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
