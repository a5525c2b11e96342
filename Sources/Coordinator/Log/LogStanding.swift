/// How much past a store holds, counted as it goes so that nobody has to scan for it.
///
/// It is part of what a group changes: a rollback brings the old counts back. An opening counts
/// again.
struct LogStanding: Hashable, Sendable {
    /// The position of the oldest transaction; 0 where there is none.
    var first: UInt64 = 0
    /// The bytes of all transactions.
    var bytes: UInt64 = 0
    /// Closed entries of the conflict journal.
    var closedRecords = 0

    /// Notes a transaction that was appended.
    mutating func append(position: UInt64, bytes count: Int) {
        if first == 0 { first = position }
        bytes += UInt64(count)
    }

    /// How many transactions there are.
    ///
    /// - Parameter last: the position of the newest.
    func transactions(upTo last: UInt64) -> UInt64 {
        first == 0 || last < first ? 0 : last - first + 1
    }
}
