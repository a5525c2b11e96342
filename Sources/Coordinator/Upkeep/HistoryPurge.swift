public import Merge

extension PersistentStoreCoordinator {
    /// Purges history up to a token, as far as it is stable and all consumers have read it. It goes
    /// in small steps, between which saves have their turn.
    ///
    /// - Parameters:
    ///   - token: how far: up to the first transaction of the log that its vector lacks.
    ///   - stable: what every member has on disk, so that nobody will ask for it.
    /// - Returns: how many transactions were purged.
    /// - Throws: ``CoordinatorError`` where the store cannot be read or written.
    public func purgeHistory(
        before token: QueryGenerationToken, stable: VersionVector
    ) async throws -> Int {
        // By what it has seen, not by its position: a store that lost its tail with the power comes to the
        // same one by another way. Of a token that is not known as a whole less is purged.
        let position = try read {
            try $0.position(seen: token.completed(by: $0.beginnings()).versionVector)
        }
        // Where that is gone already, so is all that comes before it.
        guard let position else { return 0 }
        var count = 0
        while true {
            let step = try await purgeStep(through: position, stable: stable)
            count += step.count
            if step.isDone { return count }
        }
    }

    private func purgeStep(
        through position: UInt64, stable: VersionVector
    ) async throws -> (count: Int, isDone: Bool) {
        try await withCheckedThrowingContinuation { continuation in
            maintain({ try $0.purger.purgeHistory(through: position, stable: stable) }) {
                continuation.resume(with: $0)
            }
        }
    }
}
