import Synchronization

/// What a coordinator may do at the moment.
struct Standing {
    /// Whether somebody must vouch for the store.
    var recovery: StoreRecovery
    /// Whether saves are let through.
    var maySave = true
    /// Whether it was closed.
    var isClosed = false
}

extension PersistentStoreCoordinator {
    /// Whether somebody must vouch for the store; ``StoreRecovery/none`` once they have.
    public var recovery: StoreRecovery { standing.withLock(\.recovery) }

    /// Vouches for the store: it has all that its node ever had, as far as anybody can know.
    /// Blocks until it is recorded.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    public func vouch() throws { try setRecovery(.none) }

    /// Notes that the store takes over from others, so that somebody must vouch for it before it
    /// may save. What is applied afterwards is not on disk without this. Blocks likewise.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    public func outgrow() throws { try setRecovery(.restored) }

    private func setRecovery(_ recovery: StoreRecovery) throws {
        try maintainBlocking { try $0.record(recovery) }
        standing.withLock { $0.recovery = recovery }
    }

    /// Does what ``vouch()`` and ``outgrow()`` do without blocking. It is recorded before whatever
    /// is handed to the coordinator later; the completion is called on the writer's queue.
    public func setRecovery(
        _ recovery: StoreRecovery,
        completion: @escaping @Sendable (Result<Void, any Error>) -> Void
    ) {
        maintain({ try $0.record(recovery) }) { [self] result in
            if case .success = result { standing.withLock { $0.recovery = recovery } }
            completion(result)
        }
    }

    /// Lets saves through, or refuses them with `recovering`; at first they are let through.
    /// Other nodes' transactions are applied in either case. Saves that wait already go on.
    public func setSaving(allowed: Bool) { standing.withLock { $0.maySave = allowed } }
}
