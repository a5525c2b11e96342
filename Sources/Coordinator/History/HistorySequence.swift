import Dispatch

extension PersistentStoreCoordinator {
    /// The transactions of history after a token, and then each one as it is applied here, for as long as
    /// somebody iterates.
    ///
    ///     for try await transaction in coordinator.history(after: kept, HistoryFilter(entityName: "Note")) {
    ///         if let changes = transaction.objectIDNotification() { index.update(changes) }
    ///         kept = transaction.token  // and store its text, to go on from after a restart
    ///     }
    ///
    /// Nothing is kept in memory but a page of the log: a slow reader holds nobody back, and misses nothing,
    /// as long as history is kept. To have it kept, register a consumer.
    ///
    /// An iteration ends when its task is cancelled or the coordinator is closed. It throws
    /// ``CoordinatorError``: `historyTokenExpired` where what comes next was purged, and as
    /// ``execute(_:)``. Usable from any task; each iteration has its own place. A reading takes a thread for
    /// a moment.
    ///
    /// - Parameters:
    ///   - token: where to begin, of this store or another of the cluster; nil for the beginning.
    ///   - filter: what of history is wanted.
    public func history(
        after token: QueryGenerationToken?, _ filter: HistoryFilter = HistoryFilter()
    ) -> HistorySequence {
        HistorySequence(coordinator: self, token: token, filter: filter)
    }
}

extension PersistentStoreCoordinator {
    /// Reads on a thread that may block.
    func readElsewhere<Result: Sendable>(
        _ body: @escaping @Sendable (PersistentStoreCoordinator, StoreReader) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    with: Swift.Result { try self.read { try body(self, $0) } })
            }
        }
    }
}

/// Transactions of history as they come; see ``PersistentStoreCoordinator/history(after:_:)``.
public struct HistorySequence: AsyncSequence, Sendable {
    /// A transaction with its changes.
    public typealias Element = PersistentHistoryTransaction

    let coordinator: PersistentStoreCoordinator
    let token: QueryGenerationToken?
    let filter: HistoryFilter

    /// Begins to read.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(
            coordinator: coordinator, token: token, filter: filter,
            commits: CommitSequence(observers: coordinator.observers, limit: 1)
                .makeAsyncIterator())
    }

    /// Reads transactions.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let coordinator: PersistentStoreCoordinator
        let token: QueryGenerationToken?
        let filter: HistoryFilter
        var commits: CommitSequence.AsyncIterator
        var reading: HistoryReading?
        var waiting: [PersistentHistoryTransaction] = []
        var given: QueryGenerationToken?

        /// The place up to which all that is wanted was given; nil before there was anything. Where the
        /// filter lets little through it is far beyond the last transaction's token, so keep this one.
        public var lastToken: QueryGenerationToken? { given ?? token }

        /// The next transaction, as soon as there is one; nil at the end.
        ///
        /// - Throws: as ``PersistentStoreCoordinator/history(after:_:)`` says.
        public mutating func next() async throws -> PersistentHistoryTransaction? {
            while waiting.isEmpty {
                if Task.isCancelled { return nil }
                if coordinator.isClosed { return nil }
                let known = reading
                let (token, filter) = (token, filter)
                let (read, page) = try await coordinator.readElsewhere { coordinator, reader in
                    var reading =
                        try known
                        ?? HistoryReading(
                            after: token,
                            ResolvedHistoryFilter(
                                filter, model: coordinator.model, cluster: coordinator.cluster),
                            reader)
                    let page = try reading.next(reader)
                    return (reading, page)
                }
                reading = read
                waiting = page.reversed()
                if waiting.isEmpty { given = read.token }
                guard waiting.isEmpty, read.reachedEnd else { continue }
                guard try await commits.next() != nil else { return nil }
            }
            let next = waiting.popLast()
            given = waiting.isEmpty ? reading?.token : next?.token
            return next
        }
    }
}
