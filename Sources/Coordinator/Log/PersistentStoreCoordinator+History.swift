import Merge
import Synchronization

extension PersistentStoreCoordinator {
    // MARK: Consumers

    /// Registers somebody who reads this store's history, or notes how far it has read.
    ///
    /// History is kept for it from there on, within ``HistoryLimits/maximumBytes``. Blocks until
    /// that is on disk where it is new or goes back; a step forward that is lost with the power
    /// keeps more than needed, and no less.
    ///
    /// - Parameters:
    ///   - name: see ``HistoryConsumer/isName(_:)``.
    ///   - token: how far it has read, of any store of the cluster; nil for the present state.
    /// - Throws: ``CoordinatorError``: `malformed` for something else than a name,
    ///   `historyTokenExpired` where some of what comes after the token was purged here,
    ///   `limitExceeded` for one more than ``HistoryConsumer/Bounds/count``.
    package func setConsumer(_ name: String, to token: QueryGenerationToken? = nil) throws {
        guard HistoryConsumer.isName(name) else {
            throw CoordinatorError(
                .malformed,
                "A consumer's name is 1 to \(HistoryConsumer.Bounds.nameLength) of a-z, A-Z, 0-9, "
                    + "-, _, . and :.")
        }
        let holdsMore = try maintainBlocking { engine in
            try Self.kept { try engine.consumerStore.setConsumer(name, to: token) }
        }.get()
        if holdsMore { try makeDurable() }
    }

    /// Forgets a consumer: nothing is kept for it any more.
    ///
    /// - Throws: ``CoordinatorError``: `consumerUnknown`.
    package func removeConsumer(_ name: String) throws {
        try maintainBlocking { engine in
            try Self.kept { try engine.consumerStore.removeConsumer(name) }
        }.get()
    }

    /// Keeps a refusal apart from a failure: upkeep that throws takes its whole group along, and
    /// other nodes' transactions may be in it.
    static func kept<Value: Sendable>(
        _ work: () throws -> Value
    ) throws -> Result<Value, CoordinatorError> {
        do {
            return .success(try work())
        } catch let error as CoordinatorError where error.code != .storeDamaged {
            return .failure(error)
        }
    }

    /// The past that the store holds, and its readers.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func historyStatus() throws -> HistoryStatus {
        let standing = writer?.current.log
        return try read { reader in
            let counted = try standing ?? StoreLayout.readLogStanding(in: reader.database)
            let last = try reader.token.position
            return HistoryStatus(
                transactions: counted.transactions(upTo: last), bytes: counted.bytes,
                oldest: try reader.timestamp(at: counted.first),
                closedRecords: counted.closedRecords, consumers: try reader.consumers())
        }
    }

    /// How many deleted rows are kept until all members have seen the delete; 0 where the store
    /// is open for reading only.
    package var tombstoneCount: Int { writer?.current.tombstones ?? 0 }

    // MARK: Limits

    /// Takes one step towards the limits: purges some of what may go.
    ///
    /// A step is bounded so that saves wait a few milliseconds for it at the most. To be called
    /// again soon where the result is not done, and about every second else.
    ///
    /// Transactions older than ``HistoryLimits/keepMilliseconds``, stable, and read by all
    /// consumers go. Over ``HistoryLimits/maximumBytes`` the oldest goes even if a consumer needs
    /// it, stable or not, but only if another member is known to have it. Of closed conflicts those
    /// go first that closed first.
    ///
    /// - Parameter knowledge: what other members have; ``HistoryKnowledge/stable`` must be within
    ///   what this store has on disk.
    /// - Returns: what went, and what keeps the rest.
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    public func tendHistory(
        _ limits: HistoryLimits, _ knowledge: HistoryKnowledge
    ) throws -> HistoryTending {
        let mayJudgeAge = !standing.withLock(\.isClockOff)
        return try maintainBlocking {
            try $0.purger.tendHistory(limits, knowledge, mayJudgeAge: mayJudgeAge)
        }
    }

    /// The same without blocking; the completion is called on the writer's queue.
    package func tendHistory(
        _ limits: HistoryLimits, _ knowledge: HistoryKnowledge,
        completion: @escaping @Sendable (Result<HistoryTending, any Error>) -> Void
    ) {
        let mayJudgeAge = !standing.withLock(\.isClockOff)
        maintain(
            { try $0.purger.tendHistory(limits, knowledge, mayJudgeAge: mayJudgeAge) },
            completion: completion)
    }
}

extension StoreReader {
    /// The readers of this store's history, by name.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func consumers() throws -> [HistoryConsumer] {
        // Each by itself is found by the index; together they would have SQLite read all of it.
        let bounds = try database.prepared(
            "SELECT (SELECT min(position) FROM _transaction), "
                + "\(StoreLayout.lastPosition)")
        _ = try bounds.step()
        let first = UInt64(bitPattern: bounds.integer(0))
        let last = UInt64(bitPattern: bounds.integer(1))
        bounds.reset()
        let statement = try database.prepared(
            "SELECT name, position, token, told FROM _consumer ORDER BY name")
        let beginnings = try beginnings()
        var result: [HistoryConsumer] = []
        while try statement.step() {
            // It has none where that is in no log any more.
            let place = UInt64(exactly: statement.integer(1))
            let position = place ?? 0
            guard let token = QueryGenerationToken(text: statement.text(2)) else {
                statement.reset()
                throw CoordinatorError(.storeDamaged, "A consumer's place cannot be read.")
            }
            result.append(
                HistoryConsumer(
                    name: statement.text(0), token: token.completed(by: beginnings),
                    position: position,
                    toldAtMilliseconds: UInt64(clamping: statement.integer(3)),
                    behind: last > position ? last - position : 0, oldestUnread: nil,
                    isExpired: place.map { $0 < (first > 0 ? first - 1 : last) } ?? true))
        }
        for index in result.indices where result[index].behind > 0 {
            result[index].oldestUnread = try timestamp(
                at: max(result[index].position + 1, first))
        }
        return result
    }

    /// When the transaction at a position was saved; nil where there is none.
    func timestamp(at position: UInt64) throws -> HybridTimestamp? {
        let statement = try database.prepared(
            "SELECT substr(bytes, 1, \(Transaction.headBytes)) FROM _transaction "
                + "WHERE position = ?1")
        statement.bind(1, Int64(bitPattern: position))
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try? Transaction.head(statement.bytes(0)).timestamp
    }
}
