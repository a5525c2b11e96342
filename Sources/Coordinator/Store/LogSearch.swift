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

    /// How far apart two places of the log may be for all between them to be looked at.
    private static let scanned: UInt64 = 1_000

    /// What the log has up to a position.
    ///
    /// - Parameters:
    ///   - known: what it has up to an earlier one, and perhaps more.
    ///   - start: that position.
    ///   - own: what the store has applied.
    func vector(
        upTo position: UInt64, from known: VersionVector, at start: UInt64, own: VersionVector
    ) throws -> VersionVector {
        var vector = known
        guard position - start > Self.scanned else {
            let statement = try database.prepared(
                "SELECT max(dot) FROM _transaction WHERE position > ?1 AND position <= ?2 "
                    + "GROUP BY dot >> \(ActorTable.sequenceBits)")
            statement.bind(1, Int64(bitPattern: start))
            statement.bind(2, Int64(bitPattern: position))
            defer { statement.reset() }
            while try statement.step() {
                vector.advance(to: try actors.dot(statement.integer(0)))
            }
            return vector
        }
        for entry in own.entries {
            // An actor's transactions are in the log in their order. What is not there was purged.
            var (low, high) = (vector[entry.actor], entry.sequence)
            while low < high {
                let middle = high - (high - low) / 2
                let found = try self.position(of: Dot(actor: entry.actor, sequence: middle)) ?? 0
                if found <= position { low = middle } else { high = middle - 1 }
            }
            vector.advance(entry.actor, to: low)
        }
        return vector
    }

    private func position(of dot: Dot) throws -> UInt64? {
        let statement = try database.prepared("SELECT position FROM _transaction WHERE dot = ?1")
        statement.bind(1, actors.integer(dot))
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return UInt64(bitPattern: statement.integer(0))
    }
}
