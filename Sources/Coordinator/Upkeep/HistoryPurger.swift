import Merge

/// Purging: the oldest part of the log goes, and with it what belongs to it.
///
/// Invariants
/// 1. The log stays a suffix in its own order, so that it has no holes for any actor: what is
///    left of an actor's transactions is contiguous and ends with its latest.
/// 2. The newest transaction always stays, for positions count on from it.
/// 3. No transaction goes unless another member is known to have it for certain, or there is no
///    other member.
/// 4. Answers to saves, values without a place, and closed conflicts go with their transactions;
///    open conflicts never.
///
/// A step is bounded, since saves wait for it: it deletes a few hundred small rows, or one large
/// one.
struct HistoryPurger: StorePart {
    let session: StoreSession

    /// The bounds of one step.
    enum PurgeStep {
        /// Transactions that go in one step, and rows of each kind that go with them.
        static let rows = 500
        /// Their bytes, after which no further one goes: SQLite frees a page at a time.
        static let bytes: UInt64 = 1 << 20
    }

    /// A transaction at the log's beginning, without its contents.
    private struct Candidate {
        let position: UInt64
        let dot: Dot
        let bytes: UInt64
        /// nil where the log is damaged there.
        let timestamp: HybridTimestamp?
    }

    /// Takes one step towards the limits.
    ///
    /// - Parameter mayJudgeAge: whether the clock is good enough for that.
    func tendHistory(
        _ limits: HistoryLimits, _ knowledge: HistoryKnowledge, mayJudgeAge: Bool
    ) throws -> HistoryTending {
        var result = HistoryTending()
        let places = try consumerStore.consumerPlaces()
        let wall = environment.wallMilliseconds()
        let horizon = wall > limits.keepMilliseconds ? wall - limits.keepMilliseconds : 0
        let read = places.filter { consumerStore.isKept(after: $0.position) }
        let isDone = try purge { candidate in
            let isStable = knowledge.stable.contains(candidate.dot)
            let isOld =
                mayJudgeAge && candidate.timestamp.map { $0.milliseconds <= horizon } ?? false
            let waiting = places.first { consumerStore.awaits(candidate.position, $0) }
            let isOver = state.log.bytes > limits.maximumBytes
            guard isOld || isOver else { return false }
            if isStable {
                if isOld, waiting == nil {
                    result.purgedByAge += 1
                } else if isOver {
                    result.purgedBySize += 1
                } else {
                    result.hold = waiting.map { .consumer($0.name) }
                    return false
                }
            } else if isOver, knowledge.elsewhere.contains(candidate.dot) {
                result.purgedUnstable += 1
                result.lastUnstable = candidate.dot
            } else {
                result.hold = isOver ? .onlyHere(candidate.dot) : .notStable(candidate.dot)
                return false
            }
            return true
        }
        result.lost = try consumerStore.takeLostConsumers()
        result.expired = read.filter { !consumerStore.isKept(after: $0.position) }.map(\.name)
        result.isDone = isDone
        let excess = state.log.closedRecords - limits.maximumRecords
        if excess > 0 {
            let wanted = min(excess, PurgeStep.rows)
            result.recordsDropped = try dropRecords(closedBefore: .max, limit: wanted)
            if excess > wanted { result.isDone = false }
        }
        return result
    }

    /// Takes one step of forgetting what is stable and not after a position.
    ///
    /// - Returns: how many transactions went, and whether that was all.
    func purgeHistory(
        through position: UInt64, stable: VersionVector
    ) throws -> (count: Int, isDone: Bool) {
        var count = 0
        let places = try consumerStore.consumerPlaces()
        let isDone = try purge { candidate in
            let isWanted = places.contains { consumerStore.awaits(candidate.position, $0) }
            guard candidate.position <= position, stable.contains(candidate.dot), !isWanted else {
                return false
            }
            count += 1
            return true
        }
        return (count, isDone)
    }

    /// Deletes transactions from the beginning as long as a closure lets them go.
    ///
    /// - Parameter mayGo: decides; it must not use the database.
    /// - Returns: whether the closure had the last word.
    private func purge(while mayGo: (Candidate) -> Bool) throws -> Bool {
        var isDone = true
        var count = 0
        var freed: UInt64 = 0
        let statement = try database.prepared(
            "SELECT position, dot, length(bytes), substr(bytes, 1, \(Transaction.headBytes)) "
                + "FROM _transaction ORDER BY position")
        while try statement.step() {
            let candidate = try candidate(statement)
            guard candidate.position < state.position, mayGo(candidate) else { break }
            count += 1
            freed += candidate.bytes
            // A count that is too high would never be under a limit again.
            state.log.bytes -= min(candidate.bytes, state.log.bytes)
            state.log.first = candidate.position + 1
            if freed >= PurgeStep.bytes || count == PurgeStep.rows {
                isDone = false
                break
            }
        }
        statement.reset()
        if count > 0 {
            let statement = try database.prepared("DELETE FROM _transaction WHERE position < ?1")
            statement.bind(1, Int64(bitPattern: state.log.first))
            try statement.run()
            group.wroteApart = true
        }
        return try dropWhatWent() && isDone
    }

    private func candidate(_ statement: SQLStatement) throws -> Candidate {
        do {
            return Candidate(
                position: UInt64(bitPattern: statement.integer(0)),
                dot: try state.actors.dot(statement.integer(1)),
                bytes: UInt64(clamping: statement.integer(2)),
                timestamp: try? Transaction.head(statement.bytes(3)).timestamp)
        } catch {
            statement.reset()
            throw error
        }
    }

    /// Deletes what belongs to transactions that are gone.
    ///
    /// - Returns: whether that was all of it.
    private func dropWhatWent() throws -> Bool {
        guard state.log.first > 1 else { return true }
        let first = Int64(bitPattern: state.log.first)
        let answers = try delete(
            "_save WHERE saveID IN (SELECT saveID FROM _save WHERE position < ?1 LIMIT ?2)", first)
        let values = try delete(
            "_parked WHERE position IN (SELECT position FROM _parked WHERE position < ?1 LIMIT ?2)",
            first)
        let derived = try delete(
            "_derived WHERE id IN (SELECT id FROM _derived WHERE position < ?1 LIMIT ?2)", first)
        let look = try database.prepared("SELECT generation FROM _transaction WHERE position = ?1")
        look.bind(1, first)
        let generation = try look.step() ? look.integer(0) : 0
        look.reset()
        let records = try dropRecords(closedBefore: generation, limit: PurgeStep.rows)
        if answers + values + derived > 0 { group.wroteApart = true }
        let isIndexDone = try HistoryIndex(session: session).purge(
            before: first, limit: PurgeStep.rows)
        return isIndexDone && [answers, records, derived].allSatisfy { $0 < PurgeStep.rows }
    }

    /// Deletes closed conflicts, those first that closed first.
    private func dropRecords(closedBefore generation: Int64, limit: Int) throws -> Int {
        let statement = try database.prepared(
            """
            DELETE FROM _conflict WHERE position IN (
                SELECT position FROM _conflict WHERE closed > 0 AND closed < ?1
                ORDER BY closed, position LIMIT ?2)
            """)
        statement.bind(1, generation)
        statement.bind(2, limit)
        try statement.run()
        let count = changesCount
        state.log.closedRecords -= min(count, state.log.closedRecords)
        if count > 0 { group.wroteApart = true }
        return count
    }

    func delete(_ what: String, _ first: Int64) throws -> Int {
        let statement = try database.prepared("DELETE FROM \(what)")
        statement.bind(1, first)
        statement.bind(2, PurgeStep.rows)
        try statement.run()
        return changesCount
    }
}
