import GRDB
import Merge

/// Looks for places in a log by what a reader has seen.
struct LogSearch {
    let database: Database
    let actors: ActorTable

    /// The position up to which a reader with a vector has read: everything at or before it is in
    /// the vector; nil if some of the rest was purged.
    ///
    /// The vector alone tells. A position, which a token names as well, would not: a store that lost
    /// its tail with the power, or was put back from a backup, comes to it by another way.
    ///
    /// - Parameters:
    ///   - vector: what was seen, here or anywhere else.
    ///   - own: what the store has applied.
    ///   - last: the position of its newest transaction.
    func position(seen vector: VersionVector, own: VersionVector, last: UInt64) throws -> UInt64? {
        var first = last + 1
        for entry in own.entries where vector[entry.actor] < entry.sequence {
            let next = Dot(actor: entry.actor, sequence: vector[entry.actor] + 1)
            guard let position = try position(of: next) else { return nil }
            first = min(first, position)
        }
        return first - 1
    }

    private func position(of dot: Dot) throws -> UInt64? {
        let statement = try database.prepared("SELECT position FROM _transaction WHERE dot = ?1")
        statement.bind(1, actors.integer(dot))
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return UInt64(bitPattern: statement.integer(0))
    }
}
