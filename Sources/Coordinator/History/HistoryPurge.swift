import GRDB
public import Merge

extension StoreEngine {
    /// Forgets the part of the log that is stable and not after a position, with the answers and
    /// closed conflicts that go with it. The newest transaction always stays, for positions
    /// count on from it.
    ///
    /// - Returns: how many transactions were purged.
    func purgeHistory(through position: UInt64, stable: VersionVector) throws -> Int {
        let last = min(position, state.position > 0 ? state.position - 1 : 0)
        var end: UInt64 = 0
        var generation: UInt64 = 0
        // What is not stable stays, and everything after it, so that history has no holes.
        let statement = try database.prepared(
            "SELECT position, dot, generation FROM _transaction WHERE position <= ?1 "
                + "ORDER BY position")
        statement.bind(1, Int64(bitPattern: last))
        while try statement.step() {
            guard stable.contains(try state.actors.dot(statement.integer(1))) else {
                statement.reset()
                break
            }
            end = UInt64(bitPattern: statement.integer(0))
            generation = UInt64(bitPattern: statement.integer(2))
        }
        guard end > 0 else { return 0 }
        try run("DELETE FROM _save WHERE position <= ?1", end)
        try run("DELETE FROM _parked WHERE position <= ?1", end)
        try run("DELETE FROM _conflict WHERE closed > 0 AND closed <= ?1", generation)
        let count = try Int.fetchOne(
            database, sql: "SELECT count(*) FROM _transaction WHERE position <= ?",
            arguments: [Int64(bitPattern: end)])
        try run("DELETE FROM _transaction WHERE position <= ?1", end)
        group.wroteApart = true
        return count ?? 0
    }

    private func run(_ sql: String, _ number: UInt64) throws {
        let statement = try database.prepared(sql)
        statement.bind(1, Int64(bitPattern: number))
        try statement.run()
    }
}

extension PersistentStoreCoordinator {
    /// Purges history up to a token of this store, as far as it is stable.
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
        return try await withCheckedThrowingContinuation { continuation in
            maintain({ engine in
                try engine.purgeHistory(through: token.position, stable: stable)
            }) { continuation.resume(with: $0) }
        }
    }
}
