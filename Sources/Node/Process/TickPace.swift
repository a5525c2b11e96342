// How often the loop gives the core the time.
//
// What the core does by the time alone it does at a tick. So ticks are close while something happens and
// for some ticks after: what is begun by an event, such as asking for what a gap lacks, is due within them.

/// The times of the loop's ticks, in monotonic milliseconds.
struct TickPace {
    /// How often there is a tick.
    static let pause: UInt64 = 50
    /// The same where nothing has happened for some ticks, and nobody waits.
    static let quietPause: UInt64 = 200
    /// How many ticks after an event are close.
    static let closeTicks = 4

    /// When the next tick is due.
    private(set) var nextAt: UInt64 = 0
    /// Ticks since something happened.
    private var quietTicks = 0

    /// Takes note that something has come in, or was done.
    mutating func noteEvent(now: UInt64) {
        quietTicks = 0
        nextAt = min(nextAt, now + Self.pause)
    }

    /// Takes note of a tick.
    ///
    /// - Parameter isAwaited: whether somebody waits for peers.
    mutating func noteTick(now: UInt64, isAwaited: Bool) {
        quietTicks = isAwaited ? 0 : min(quietTicks + 1, Self.closeTicks + 1)
        nextAt = now + (quietTicks > Self.closeTicks ? Self.quietPause : Self.pause)
    }
}
