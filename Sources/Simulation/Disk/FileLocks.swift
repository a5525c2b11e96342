import GRDBSQLite

/// The locks of SQLite's connections on one database file; a connection's number is never 0.
struct FileLocks {
    private var shared = 0
    private var reserved: UInt64 = 0
    private var pending: UInt64 = 0
    private var exclusive: UInt64 = 0

    /// Raises a connection's lock.
    ///
    /// - Returns: false where another connection's lock forbids it; `held` may have been raised in
    ///   part, to pending.
    mutating func raise(_ held: inout Int32, to level: Int32, of number: UInt64) -> Bool {
        if level <= held { return true }
        func isFree(_ owner: UInt64) -> Bool { owner == 0 || owner == number }
        if held == SQLITE_LOCK_NONE {
            guard isFree(pending), isFree(exclusive) else { return false }
            shared += 1
            held = SQLITE_LOCK_SHARED
        }
        if level == SQLITE_LOCK_SHARED { return true }
        guard isFree(reserved), isFree(pending), isFree(exclusive) else { return false }
        if level == SQLITE_LOCK_RESERVED {
            reserved = number
            held = SQLITE_LOCK_RESERVED
            return true
        }
        pending = number
        held = SQLITE_LOCK_PENDING
        if level == SQLITE_LOCK_EXCLUSIVE {
            guard shared == 1 else { return false }
            exclusive = number
            held = SQLITE_LOCK_EXCLUSIVE
        }
        return true
    }

    /// Lowers a connection's lock to shared or none.
    mutating func lower(_ held: inout Int32, to level: Int32, of number: UInt64) {
        guard level < held else { return }
        if reserved == number { reserved = 0 }
        if pending == number { pending = 0 }
        if exclusive == number { exclusive = 0 }
        if level == SQLITE_LOCK_NONE { shared -= 1 }
        held = level
    }

    /// Whether some connection is about to write.
    var isReserved: Bool { reserved != 0 || pending != 0 || exclusive != 0 }
}
