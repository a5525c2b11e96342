public import Merge

extension PersistentStoreCoordinator {
    /// Purges history up to a token of this store, as far as it is stable and all consumers have
    /// read it. It goes in small steps, between which saves have their turn.
    ///
    /// - Parameters:
    ///   - token: how far; of this store.
    ///   - stable: what every member has on disk, so that nobody will ask for it.
    /// - Returns: how many transactions were purged.
    /// - Throws: ``CoordinatorError``: `malformed` for a token of another store.
    public func purgeHistory(
        before token: QueryGenerationToken, stable: VersionVector
    ) async throws -> Int {
        guard token.store == (try currentToken).store else {
            throw CoordinatorError(.malformed, "The token is of another node's store.")
        }
        var count = 0
        while true {
            let step = try await purgeStep(through: token.position, stable: stable)
            count += step.count
            if step.isDone { return count }
        }
    }

    private func purgeStep(
        through position: UInt64, stable: VersionVector
    ) async throws -> (count: Int, isDone: Bool) {
        try await withCheckedThrowingContinuation { continuation in
            maintain({ try $0.purgeHistory(through: position, stable: stable) }) {
                continuation.resume(with: $0)
            }
        }
    }
}
