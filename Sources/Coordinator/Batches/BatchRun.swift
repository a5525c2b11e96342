import Merge

/// A batch under way: decides what its next transaction is, and notes what came of it.
///
/// A value that has no thread of its own. Who drives it saves one part after the other:
///
///     var run = try BatchRun(...)
///     if run.choosesFirst { run.begin(try coordinator.read { try run.batch.chosen($0) }) }
///     while let part = try run.next() { run.note(part, try save(part)) }
struct BatchRun {
    /// One transaction.
    struct Part {
        let size: Int
        let make: @Sendable (StoreEngine) throws -> SaveRequest
        let written: WrittenObjects
    }

    private let coordinator: PersistentStoreCoordinator
    let batch: ResolvedBatch
    private let options: BatchOptions
    private let author: String?
    private let contextName: String?
    private let fingerprint: [UInt8]
    private(set) var result: BatchResult

    private var chosen: [RowID] = []
    /// The place in the log up to which nobody but this run has written since the objects were chosen.
    private var position: UInt64 = 0
    /// The last row that an earlier run was done with.
    private var last: RowID?
    private var place = 0
    private var rows: BatchRowIterator?
    /// The number of the next part.
    private var number = 0
    private var isOver = false

    /// The most bytes of a save ID, so that the names of its parts are short enough.
    static let saveIDBytes = 180

    init(
        _ request: some BatchRequest, _ coordinator: PersistentStoreCoordinator, author: String?,
        contextName: String?
    ) throws {
        self.coordinator = coordinator
        self.author = author
        self.contextName = contextName
        options = request.options
        batch = try ResolvedBatch(request.batch, coordinator)
        result = BatchResult(request.resultType)
        fingerprint = batch.fingerprint(isAtomic: options.isAtomic)
        if let saveID = options.saveID {
            guard (1...Self.saveIDBytes).contains(saveID.utf8.count) else {
                throw CoordinatorError(
                    .malformed, "The save ID of a batch request has 1 to \(Self.saveIDBytes) bytes."
                )
            }
        }
        last = try takeUp()
        if case .insert(let source) = batch.action {
            var rows = BatchRowIterator(source)
            for _ in 0..<number {
                _ = try rows.next(
                    atMost: coordinator.options.objectsInBatchTransaction,
                    bytes: coordinator.options.bytesInBatchTransaction)
            }
            self.rows = rows
        }
    }

    /// Whether objects are to be chosen before the first transaction. Those of an atomic request are chosen
    /// where they are written.
    var choosesFirst: Bool { rows == nil && !options.isAtomic && !isOver }

    /// Takes the objects that were chosen, but for those that an earlier run was done with.
    mutating func begin(_ chosen: ResolvedBatch.Chosen) {
        self.chosen = chosen.rows
        position = chosen.position
        if let last { self.chosen.removeFirst(chosen.rows.prefix { $0 <= last }.count) }
    }

    /// How many objects a request would be done with now.
    static func count(
        _ request: some BatchRequest, _ coordinator: PersistentStoreCoordinator
    ) throws -> Int {
        let batch = try ResolvedBatch(request.batch, coordinator)
        guard case .insert(let source) = batch.action else {
            return try coordinator.read { try batch.count($0) }
        }
        var rows = BatchRowIterator(source)
        var count = 0
        while true {
            let (given, isLast) = try rows.next(
                atMost: coordinator.options.objectsInBatchTransaction,
                bytes: coordinator.options.bytesInBatchTransaction)
            for row in given { _ = try ResolvedBatch.values(row, of: batch.entity) }
            count += given.count
            if isLast { return count }
        }
    }

    /// Finds out how far a request of the same name came.
    ///
    /// - Returns: the last row that was written; nil where that is not known.
    private mutating func takeUp() throws -> RowID? {
        guard let saveID = options.saveID else { return nil }
        var last: RowID?
        while let kept = try keptPart(Self.name(of: number, saveID)) {
            let row = try noteKept(kept)
            last = max(last ?? RowID(0), row ?? RowID(0))
            number += 1
        }
        if let kept = try keptPart(saveID) {
            _ = try noteKept(kept)
            isOver = true
            return last
        }
        // Another part that is known would be taken for one of this run.
        let known: Int = try coordinator.read {
            try $0.keptAnswers(from: saveID + "#", to: saveID + "$")
        }
        guard known == number else {
            throw CoordinatorError(
                .saveIDReused,
                "What this node knows of the request \(saveID) has gaps, so that nobody can say how far it "
                    + "came. Nothing is saved now: make another request for the rest.")
        }
        guard number == 0 || batch.goesOn else {
            throw CoordinatorError(
                .saveIDReused,
                "The request \(saveID) was done with \(result.count) objects before it stopped. With a "
                    + "limit, an offset or a predicate over other objects it does not go on. Nothing is "
                    + "saved now: make another request for the rest.")
        }
        return last
    }

    private func keptPart(_ name: String) throws -> SaveAnswer.Kept? {
        let kept: SaveAnswer.Kept? = try coordinator.read { try $0.keptAnswer(name) }
        if let kept, let earlier = kept.fingerprint, earlier != fingerprint {
            throw CoordinatorError(
                .saveIDReused,
                "Something else was saved under the save ID \(name). Nothing is saved now: give the "
                    + "request another ID.")
        }
        return kept
    }

    private mutating func noteKept(_ kept: SaveAnswer.Kept) throws -> RowID? {
        if let dot = kept.result.transaction {
            result.transactions += 1
            result.token = kept.result.token
            if kept.batch == nil {
                result.count += try coordinator.read { try batch.count($0.transaction(dot)) }
            }
        }
        result.count += kept.batch?.count ?? 0
        return kept.batch?.last
    }

    private static func name(of number: Int, _ saveID: String) -> String { "\(saveID)#\(number)" }

    /// The next transaction; nil at the end.
    ///
    /// - Throws: what gives the rows of an insert; `malformed` or `validationFailed` where they do not fit.
    mutating func next() throws -> Part? {
        if isOver { return nil }
        return rows == nil ? try nextChange() : try nextInsert()
    }

    private mutating func nextInsert() throws -> Part? {
        let limit = options.isAtomic ? Int.max : coordinator.options.objectsInBatchTransaction
        let bytes = options.isAtomic ? Int.max : coordinator.options.bytesInBatchTransaction
        guard let (given, isLast) = try rows?.next(atMost: limit, bytes: bytes) else { return nil }
        isOver = isLast
        // That nothing was to be done is remembered too.
        if given.isEmpty, options.saveID == nil { return nil }
        let written = WrittenObjects(isKept: false)
        var request = frame()
        request.mergePolicy = .mergeByPropertyObjectTrump
        request.operations = try batch.inserts(given, options, written)
        request.batch?.count = given.count
        return Part(size: given.count, make: Self.once { [request] _ in request }, written: written)
    }

    private mutating func nextChange() throws -> Part? {
        let (batch, options) = (batch, options)
        let written = WrittenObjects(isKept: result.resultType == .objectIDs)
        var end = min(chosen.count, place + coordinator.options.objectsInBatchTransaction)
        if !options.isAtomic, end > place {
            let (bytes, next) = (coordinator.options.bytesInBatchTransaction, chosen[place..<end])
            end = place + (try coordinator.read { try batch.count(of: next, within: bytes, $0) })
        }
        if !options.isAtomic, place == end, options.saveID == nil { return nil }
        let rows = chosen[place..<end]
        place = end
        isOver = end == chosen.count
        let request = frame()
        let position = position
        return Part(
            size: options.isAtomic ? coordinator.options.objectsInBatchTransaction : rows.count,
            make: Self.once { engine in
                // An atomic request chooses its objects where it writes them.
                let rows = options.isAtomic ? try batch.choose(engine.session.reader())[...] : rows
                var request = request
                request.operations = try batch.operations(
                    rows, engine.view, options, written,
                    isAsChosen: options.isAtomic || engine.session.state.position == position)
                request.batch?.count = written.count
                request.batch?.last = rows.last
                return request
            }, written: written)
    }

    /// What makes a part's save, and refuses to where another run has saved the part meanwhile: perhaps with
    /// other objects.
    private static func once(
        _ make: @escaping @Sendable (StoreEngine) throws -> SaveRequest
    ) -> @Sendable (StoreEngine) throws -> SaveRequest {
        { engine in
            let request = try make(engine)
            if let saveID = request.saveID, try engine.saveAnswers.savedAnswer(saveID) != nil {
                throw CoordinatorError(
                    .outcomeUnknown,
                    "Somebody else has done a part of this request meanwhile; repeat it to go on.")
            }
            return request
        }
    }

    private mutating func frame() -> SaveRequest {
        var request = SaveRequest(
            operations: [], author: author, contextName: contextName, isBulk: options.isAtomic)
        request.batch = BatchMark(fingerprint: fingerprint)
        if let saveID = options.saveID {
            request.saveID = isOver ? saveID : Self.name(of: number, saveID)
            number += 1
        }
        return request
    }

    /// Tells of what was done; who hears it may end the run by throwing, if there is more to do.
    func tell(_ progress: ((BatchResult) throws -> Void)?) throws {
        do { try progress?(result) } catch  where !isOver { throw error } catch {}
    }

    /// Takes note of a part that was saved.
    mutating func note(_ part: Part, _ saved: SaveResult) {
        if saved.transaction != nil, saved.token.position == position + 1 { position += 1 }
        result.count += part.written.count
        result.objectIDs? +=
            rows == nil
            ? part.written.objects
            : saved.insertedRows.map { ManagedObjectID(entityName: $0.entityName, row: $0.row) }
        if saved.transaction != nil {
            result.transactions += 1
            result.token = saved.token
        }
    }

    /// An error that ends the run: with what was done, where that is something.
    func failure(_ reason: any Error) -> any Error {
        result.transactions == 0 ? reason : BatchError(done: result, reason: reason)
    }
}
