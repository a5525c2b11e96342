import Merge

/// The steps of an asynchronous fetch: it begins on the context's queue, reads beside it, and delivers on
/// the queue.
struct AsynchronousReading: ContextPart, Sendable {
    let context: ManagedObjectContext
    let request: FetchRequest
    let handle: AsynchronousFetch
    let progress: (@Sendable (Int) -> Void)?
    let completion: @Sendable (Result<[ManagedObject], any Error>) -> Void

    /// How often it reads beside the queue, where the context changes meanwhile.
    private static let attempts = 3
    private static let progressStep = 1_000

    /// What the context was when a read began.
    private struct Premise {
        let pin: GenerationPin?
        let saves: UInt64
    }

    /// Usable from any thread.
    func start() {
        context.perform {
            graph.counting.countFetch()
            begin(attempt: 1)
        }
    }

    /// To be used on the context's queue.
    private func begin(attempt: Int) {
        do {
            try handle.checkCancellation()
            try objectRegistry.throwFaultingError()
            if context.parent != nil { return fetchHere() }
            let asked = try context.pendingFetch.plan(request)
            let premise = Premise(pin: try objectRegistry.readingPin(), saves: saves)
            let counting = graph.counting
            guard attempt <= Self.attempts else {
                return deliver(
                    Result { try read(asked, premise.pin, counting) }, asked, premise, attempt)
            }
            let turns = persistentStoreCoordinator.asynchronousFetches
            let isTaken = turns.run(for: handle) {
                let result = Result { try read(asked, premise.pin, counting) }
                context.perform { deliver(result, asked, premise, attempt) }
            }
            guard isTaken else {
                throw CoordinatorError(
                    .limitExceeded,
                    "\(ReadingTurns.mostWaiting) asynchronous fetches wait for their turn already.")
            }
            handle.whenCancelled {
                turns.forget(handle)
                // What was read so far is freed on the reading thread, and nobody waits for that.
                context.perform { end(.failure(CancellationError())) }
            }
        } catch { end(.failure(error)) }
    }

    /// A parent shows its unsaved changes on its queue alone, so nothing can be read beside it.
    private func fetchHere() {
        let result = Result { try context.pendingFetch.objects(request) }
        if let count = try? result.get().count {
            handle.note(found: count)
            progress?(count)
        }
        end(result)
    }

    /// To be used on the context's queue.
    private func end(_ result: Result<[ManagedObject], any Error>) {
        if handle.end() { completion(result) }
    }

    private var saves: UInt64 { graph.counting.counters.saves }

    private func read(
        _ asked: StoredFetch, _ pin: GenerationPin?, _ counting: ContextCounting
    ) throws -> [StoredRow] {
        try handle.checkCancellation()
        var rows: [CachedRow] = []
        var count = 0
        handle.note(found: 0)
        let found = try persistentStoreCoordinator.read(
            pin, milliseconds: nil, while: { !handle.isCancelled }
        ) { reader in
            var reader = reader
            reader.counting = counting
            return try asked.read(reader, keeping: &rows) { _ in
                false
            } _: { objectID, source, values in
                try handle.checkCancellation()
                count += 1
                handle.note(found: count)
                if count % Self.progressStep == 0 { progress?(count) }
                return StoredRow(objectID, source, values)
            }
        }
        if count == 0 || count % Self.progressStep != 0 { progress?(count) }
        if !rows.isEmpty { persistentStoreCoordinator.rowCache.add(rows) }
        counting.countRows(found.count)
        return found
    }

    /// To be used on the context's queue.
    private func deliver(
        _ result: Result<[StoredRow], any Error>, _ asked: StoredFetch, _ premise: Premise,
        _ attempt: Int
    ) {
        do {
            try handle.checkCancellation()
            try objectRegistry.throwFaultingError()
            let rows = try result.get()
            guard isCurrent(premise),
                let found = try context.pendingFetch.found(request, asked, rows)
            else { return begin(attempt: attempt + 1) }
            end(.success(try context.pendingFetch.objects(try renewed(found), request)))
        } catch { end(.failure(error)) }
    }

    /// Whether the context still reads the generation that was read, and has saved nothing since.
    private func isCurrent(_ premise: Premise) -> Bool {
        guard saves == premise.saves else { return false }
        return switch graph.generation {
        case .newest: premise.pin == nil
        case .pinned(let pin): pin === premise.pin
        case .pinnedAtNextRead: false
        }
    }

    /// Reads rows again that a commit has touched since, if objects are to take their values now. The
    /// context may have merged that commit, and would take a step back.
    private func renewed(_ found: [PendingFetch.Found]) throws -> [PendingFetch.Found] {
        guard request.shouldRefreshRefetchedObjects || !request.returnsObjectsAsFaults else {
            return found
        }
        let stale = found.compactMap { one -> ManagedObjectID? in
            guard case .stored(let objectID, .row(let row)) = one, !objectRegistry.isUsable(row)
            else { return nil }
            return objectID
        }
        if stale.isEmpty { return found }
        let rows = Dictionary(
            try objectRegistry.rows(stale).map { ($0.snapshot.objectID, $0) },
            uniquingKeysWith: { first, _ in first })
        return found.compactMap { one in
            guard case .stored(let objectID, .row(let row)) = one, !objectRegistry.isUsable(row)
            else { return one }
            return rows[objectID].map { .stored(objectID, .row($0)) }
        }
    }
}

/// An object that was read beside the queue, with what it is sorted by.
struct StoredRow: Sendable {
    let objectID: ManagedObjectID
    let sortValues: [PropertyValue]
    private var row: CachedRow?
    private var partial: PartialRow?

    init(_ objectID: ManagedObjectID, _ source: FaultSource, _ sortValues: [PropertyValue]) {
        self.objectID = objectID
        self.sortValues = sortValues
        switch source {
        case .row(let row): self.row = row
        case .partial(let partial): self.partial = partial
        case .none, .batch: break
        }
    }

    var found: PendingFetch.Found {
        .stored(objectID, row.map { .row($0) } ?? partial.map { .partial($0) } ?? .none)
    }
}

extension PendingFetch {
    /// What is to be read for a request beside the queue, with the unsaved changes of now.
    ///
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`.
    func plan(_ request: FetchRequest) throws -> StoredFetch {
        let question = try question(request)
        var asked = request
        var shown = 0
        if hasPending(request) {
            let unsaved = graph.inserted.count + graph.updated.count
            shown = question.isSortedHere ? 0 : request.fetchOffset - unsaved
            if request.fetchOffset > 0 { asked.fetchOffset = 0 }
            if request.fetchLimit > 0 {
                let most = question.wanted.addingReportingOverflow(
                    graph.updated.count + graph.deleted.count)
                // A limit of 0 is none.
                asked.fetchLimit = most.overflow ? 0 : most.partialValue
            }
        }
        return StoredFetch(
            request: asked, content: try content(of: request), shown: shown,
            selectsSortKeys: request.includesPendingChanges, moment: question.moment,
            milliseconds: persistentStoreCoordinator.options.monotonicMilliseconds())
    }

    /// The objects that a request asks for, of what was read beside the queue and the unsaved changes
    /// of now; nil where what was read is not enough for them.
    func found(
        _ request: FetchRequest, _ asked: StoredFetch, _ rows: [StoredRow]
    ) throws -> [Found]? {
        let isSkipped = asked.request.fetchOffset > 0
        guard hasPending(request) else {
            let page = isSkipped ? rows[...] : rows.dropFirst(max(request.fetchOffset, 0))
            return (request.fetchLimit > 0 ? page.prefix(request.fetchLimit) : page).map(\.found)
        }
        if isSkipped { return nil }
        let question = try question(request, at: asked.moment)
        let stored = rows.lazy.filter {
            graph.updated[$0.objectID] == nil && graph.deleted[$0.objectID] == nil
        }.prefix(question.wanted).map {
            Placed(values: $0.sortValues, row: $0.objectID.row, found: $0.found)
        }
        let isAll = asked.request.fetchLimit == 0 || rows.count < asked.request.fetchLimit
        let result = Array(stored)
        guard isAll || !question.isSortedHere && result.count >= question.wanted else {
            return nil
        }
        return try page(result, with: try matching(question), question).map(\.found)
    }
}
