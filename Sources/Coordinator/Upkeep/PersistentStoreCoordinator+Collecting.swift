public import Merge

extension PersistentStoreCoordinator {
    /// Collects what stability permits: values that lost, tombstones, links taken away.
    ///
    /// Nothing that readers see changes, nor a version, the digest or an unresolved conflict.
    /// The removed values are in the conflict journal, where the conflicts close as settled for
    /// good.
    /// Only what can have become collectable since the last call is looked at.
    ///
    /// - Parameters:
    ///   - stable: the dots that are stable (DESIGN section 8): nothing concurrent with them can
    ///     still arrive here.
    ///   - limit: how many rows and links to look at, 1...10 000; what is outside counts as the
    ///     nearest.
    /// - Returns: what went, and whether another call would find more. Blocks until it is done.
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    public func collect(stable: VersionVector, limit: Int = 1000) throws -> CollectionResult {
        try maintainBlocking { try $0.collector.collect(stable: stable, limit: limit) }
    }

    /// The same without blocking; the completion is called on the writer's queue.
    package func collect(
        stable: VersionVector, limit: Int = 1000,
        completion: @escaping @Sendable (Result<CollectionResult, any Error>) -> Void
    ) {
        maintain({ try $0.collector.collect(stable: stable, limit: limit) }, completion: completion)
    }
}
