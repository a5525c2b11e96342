/// A node's repeated duties, and when each was last begun. A duty that is under way is not begun a
/// second time.
struct DutyTable: Hashable, Sendable {
    /// A repeated duty.
    enum Duty: Hashable, Sendable {
        /// Trying peers again that could not be reached.
        case reaching
        /// Making durable what was applied.
        case durability
        /// Recording beside the store how far it has come.
        case recording
        /// Letting go of what is stable.
        case collection
        /// Keeping history within its limits.
        case history
        /// Having the store keep orphans.
        case orphans
        /// Giving up pins and looking for the store's files.
        case upkeep
        /// Removing copies that nobody reads any more.
        case transfers
    }

    private struct Entry: Hashable {
        var begunAt: UInt64
        var notBefore: UInt64 = 0
        var isUnderWay = false
    }

    private var entries: [Duty: Entry] = [:]

    /// Whether a duty may be begun; see ``begin(_:every:now:)``.
    func isDue(_ duty: Duty, every interval: UInt64, now: UInt64) -> Bool {
        guard let entry = entries[duty] else { return true }
        return !entry.isUnderWay && now >= entry.notBefore
            && now >= entry.begunAt + interval
    }

    /// Begins a duty where it is due.
    ///
    /// - Parameters:
    ///   - interval: how long after its last beginning it is due again, in milliseconds.
    ///   - now: monotonic milliseconds.
    /// - Returns: whether it was begun. It is under way until ``end(_:notBefore:)``.
    mutating func begin(_ duty: Duty, every interval: UInt64, now: UInt64) -> Bool {
        guard isDue(duty, every: interval, now: now) else { return false }
        entries[duty] = Entry(begunAt: now, isUnderWay: true)
        return true
    }

    /// Ends a duty.
    ///
    /// - Parameter time: when it may be begun again at the earliest.
    mutating func end(_ duty: Duty, notBefore time: UInt64 = 0) {
        entries[duty]?.isUnderWay = false
        entries[duty]?.notBefore = time
    }
}
