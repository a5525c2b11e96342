// When it is looked after what the library holds for each connection.
//
// To ask every connection takes some tens of system calls. So each is asked when the process holds more
// memory than at the last time, while one of them holds more than an honest peer's usually does and some
// time after, for what was given back is taken again without growing, and else now and then.
//
// How often it is asked what the process holds decides how much may come between: some tens of megabytes
// over the loopback interface. Without keys the library makes some times more of that. So it is asked more
// often while something may be wrong: after a connection came, and after one was found to hold much. Milliseconds are those of ``MonotonicClock``, here as elsewhere.

/// The times at which connections are looked after.
struct WatchPace {
    /// How often it is asked what the process holds, in milliseconds.
    static let pause: UInt64 = 100
    /// The same while something may be wrong, with keys and without.
    static let shortPauses: (keyed: UInt64, unkeyed: UInt64) = (50, 10)
    /// How long something may be wrong after there was a reason to think so, in milliseconds.
    static let alertMilliseconds: UInt64 = 2_000
    /// How often every connection is asked though the process holds no more, in milliseconds.
    static let askingPause: UInt64 = 1_000
    /// The same while something may be wrong.
    static let shortAskingPause: UInt64 = 200
    /// What one connection usually holds at the most: a short frame that is on its way.
    static let usualBytes = 64 << 10
    /// How many pages more are a reason to ask: 1 MiB.
    static let grownPages = 256

    /// When it is next asked what the process holds.
    private(set) var nextAt: UInt64 = 0
    private var nextAskingAt: UInt64 = 0
    /// The least that the process has held since every connection was asked.
    private var leastPages = 0
    /// Until when each look asks every connection.
    private var askingUntil: UInt64 = 0
    /// Until when pauses are short.
    private var hastyUntil: UInt64 = 0
    private let isKeyed: Bool

    /// - Parameter isKeyed: whether peers prove keys.
    init(isKeyed: Bool) { self.isKeyed = isKeyed }

    /// How long it is now until the next look.
    func pause(now: UInt64) -> UInt64 {
        guard now < hastyUntil else { return Self.pause }
        return isKeyed ? Self.shortPauses.keyed : Self.shortPauses.unkeyed
    }

    /// Shortens the pauses for a while: somebody has connected, or something looks wrong.
    mutating func makeHaste(now: UInt64) {
        hastyUntil = now + Self.alertMilliseconds
        nextAt = min(nextAt, now + pause(now: now))
        nextAskingAt = min(nextAskingAt, now + Self.shortAskingPause)
    }

    /// Begins a look.
    ///
    /// - Parameter pages: what the process holds; nil where that is not known.
    /// - Returns: whether every connection must be asked now; then ``noteHeld(_:now:)`` follows.
    mutating func mustAsk(pages: Int?, now: UInt64) -> Bool {
        nextAt = now + pause(now: now)
        if let pages, now < nextAskingAt, pages < leastPages + Self.grownPages {
            leastPages = min(leastPages, pages)
            return false
        }
        if let pages, pages >= leastPages + Self.grownPages { makeHaste(now: now) }
        leastPages = pages ?? 0
        return true
    }

    /// Ends a look at which every connection was asked.
    ///
    /// - Parameter bytes: the most that one held.
    mutating func noteHeld(_ bytes: Int, now: UInt64) {
        if bytes > Self.usualBytes {
            askingUntil = now + Self.alertMilliseconds
            makeHaste(now: now)
        }
        let pause = now < hastyUntil ? Self.shortAskingPause : Self.askingPause
        nextAskingAt = now < askingUntil ? now : now + pause
    }
}
