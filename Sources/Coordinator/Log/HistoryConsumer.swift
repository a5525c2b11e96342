package import Merge

/// Somebody who reads a store's history, by name, and for whom it is kept.
package struct HistoryConsumer: Hashable, Sendable {
    /// Bounds on consumers, so that they and what status lists stay few.
    package enum Bounds {
        /// The most consumers of a store.
        package static let count = 64
        /// The longest name, in characters.
        package static let nameLength = 64
    }

    /// Its name.
    package var name: String
    /// How far it has read, as it said last.
    package var token: QueryGenerationToken
    /// The same as a position of this store's log; 0 where it is in no log any more.
    package var position: UInt64
    /// When it said so, in milliseconds since 1970.
    package var toldAtMilliseconds: UInt64
    /// How many transactions are after that.
    package var behind: UInt64
    /// When the first of those that are still there was saved; nil where it has read all.
    package var oldestUnread: HybridTimestamp?
    /// Whether some of what it has not read was purged, or went with a store in whose place another's
    /// copy was put. Nothing is kept for it until it says
    /// from where it goes on.
    package var isExpired: Bool

    /// Whether text can be a consumer's name: 1...64 of a-z, A-Z, 0-9, `-`, `_`, `.` and `:`.
    package static func isName(_ text: String) -> Bool {
        (1...Bounds.nameLength).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x3A, 0x5F: true
                default: false
                }
            }
    }
}

/// The past that a store holds, for status and metrics.
package struct HistoryStatus: Hashable, Sendable {
    /// Transactions in the log.
    package var transactions: UInt64
    /// Their bytes.
    package var bytes: UInt64
    /// When the oldest was saved; nil where there is none.
    package var oldest: HybridTimestamp?
    /// Closed entries of the conflict journal.
    package var closedRecords: Int
    /// The readers of history, by name.
    package var consumers: [HistoryConsumer]
}
