import Merge

/// The long transactions that are being sent in pieces, kept so that the log is read once.
///
/// Invariants: each is there once, by when it was used last; more than ``Limits/outgoingBytes`` only
/// where there is a single one.
struct Outgoing: Sendable {
    /// A long transaction.
    struct Long: Hashable, Sendable {
        var dot: Dot
        /// All that is before it in this node's log is within.
        var predecessors: VersionVector
        var bytes: [UInt8]
    }

    private var longs: [(long: Long, usedAt: UInt64)] = []

    /// How many bytes are kept.
    var bytes: Int { longs.reduce(0) { $0 + $1.long.bytes.count } }

    /// Keeps a transaction as the one used last; what was used longest ago makes room.
    mutating func keep(_ long: Long, now: UInt64, limits: Limits) {
        longs.removeAll { $0.long.dot == long.dot }
        longs.append((long, now))
        var bytes = bytes
        while longs.count > 1, bytes > limits.outgoingBytes {
            bytes -= longs.removeFirst().long.bytes.count
        }
    }

    /// Forgets what was not used lately.
    mutating func expire(now: UInt64, limits: Limits) {
        longs.removeAll { now >= $0.usedAt + limits.outgoingMilliseconds }
    }

    /// The kept answer to a pull: the long transaction that it goes on with, or the one that comes
    /// first of what it lacks, as the log would say.
    func next(for pull: Pull) -> (long: Long, offset: Int)? {
        let missing = longs.map(\.long).filter { !pull.vector.contains($0.dot) }
        if let resume = pull.resume, let begun = missing.first(where: { $0.dot == resume.dot }),
            resume.offset < UInt64(begun.bytes.count)
        {
            return (begun, Int(resume.offset))
        }
        return missing.first { pull.vector.covers($0.predecessors) }.map { ($0, 0) }
    }
}

extension Pull {
    /// The credit within what we grant: never so little that pieces would never end.
    func granted(_ limits: Limits) -> Int {
        let least = UInt64(min(65_536, limits.pageBytes))
        return Int(min(max(credit, least), UInt64(limits.pageBytes)))
    }

    /// The piece of a long transaction that answers this pull.
    func piece(
        of long: Outgoing.Long, offset: Int, recovery: Recovery, limits: Limits
    ) -> Piece {
        let end = min(offset + granted(limits), long.bytes.count)
        return Piece(
            id: id, dot: long.dot, offset: UInt64(offset), total: UInt64(long.bytes.count),
            bytes: Array(long.bytes[offset..<end]), recovery: recovery)
    }

    /// How many of the transactions, from the first on, fit the answer to this pull.
    func fitting(_ transactions: [[UInt8]], _ limits: Limits) -> Int {
        let granted = granted(limits)
        var bytes = 0
        for (count, transaction) in transactions.prefix(limits.transactionsInFrame).enumerated() {
            bytes += transaction.count
            if bytes > granted { return count }
        }
        return min(transactions.count, limits.transactionsInFrame)
    }
}
