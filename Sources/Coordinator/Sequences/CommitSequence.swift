extension PersistentStoreCoordinator {
    /// The commits from the beginning of an iteration on, in order: saves made here, and merges of what
    /// other nodes saved.
    ///
    ///     for try await commit in coordinator.commits {
    ///         if commit.missed > 0 || commit.hasMoreConflicts { try list.reload() }
    ///         list.remove(commit.closedConflicts.compactMap(\.openID))
    ///         list.add(commit.openedConflicts)
    ///     }
    ///
    /// A slow reader holds nobody back. At most ``ObservationBounds/values`` commits wait for it; beyond
    /// that the earliest are dropped, and the next element says how many were
    /// (``Observed/missed``).
    ///
    /// A commit is observed from the call of `makeAsyncIterator()` on, which `for` makes. To miss none,
    /// make the iterator before you read what it is to keep up to date.
    ///
    /// An iteration ends when its task is cancelled, and, behind the commits that wait, when the
    /// coordinator is closed or nobody keeps it alive; the sequence does not. It throws the
    /// ``CoordinatorError`` that stopped the coordinator, such as `inputOutput`. A coordinator that is
    /// open for reading only has no commits.
    ///
    /// Usable from any task; each iteration has its own state.
    public var commits: CommitSequence { CommitSequence(observers: observers) }
}

/// The commits of a coordinator; see ``PersistentStoreCoordinator/commits``.
public struct CommitSequence: AsyncSequence, Sendable {
    /// A commit, with how many were missed before it.
    public typealias Element = Observed<CommitNotice>

    weak let observers: CommitObservers?
    var limit = ObservationBounds.values

    /// Begins to observe.
    public func makeAsyncIterator() -> AsyncIterator {
        let buffer = ObservationBuffer<CommitNotice>(limit: limit) { notice in
            notice.inserted.count + notice.updated.count + notice.deleted.count
                + notice.openedConflicts.count + notice.closedConflicts.count
        }
        let observation = observers?.add(
            { notice in
                // Nobody reads them here, and they may be large.
                var notice = notice
                notice.transactions = []
                buffer.add(notice)
            }, onEnd: { buffer.end($0) })
        if observation == nil { buffer.end() }
        return AsyncIterator(buffer: buffer, observation: observation)
    }

    /// Reads the commits.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let buffer: ObservationBuffer<CommitNotice>
        var observation: CommitObservation?

        /// The next commit, as soon as there is one; nil at the end.
        ///
        /// - Throws: the ``CoordinatorError`` that stopped the coordinator.
        public mutating func next() async throws -> Observed<CommitNotice>? {
            let outcome = await buffer.next()
            if case .success(let commit?) = outcome { return commit }
            observation = nil
            return try outcome.get()
        }
    }
}
