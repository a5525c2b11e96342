// The two clocks of the process. The only place of the node's loop that reads time.

internal import Glibc

/// Reads the machine's clocks.
enum MonotonicClock {
    /// Milliseconds from an unknown beginning, never falling.
    static var milliseconds: UInt64 { microseconds / 1000 }

    /// Microseconds from the same beginning.
    static var microseconds: UInt64 { read(CLOCK_MONOTONIC) }

    /// Wall time in milliseconds since 1970; it may jump.
    static var wallMilliseconds: UInt64 { read(CLOCK_REALTIME) / 1000 }

    private static func read(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(max(0, time.tv_sec)) * 1_000_000 + UInt64(max(0, time.tv_nsec)) / 1000
    }
}
