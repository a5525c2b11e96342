import Foundation

/// The clocks of a measurement.
enum Clocks {
    /// Seconds on the monotonic clock, which all processes of the machine share.
    static func seconds() -> Double { read(CLOCK_MONOTONIC) }

    /// Seconds of processor time that this process has used.
    static func processorSeconds() -> Double { read(CLOCK_PROCESS_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// How long a closure takes.
    static func measure(_ body: () throws -> Void) rethrows -> Duration {
        let processor = processorSeconds()
        let start = seconds()
        try body()
        return Duration(wall: seconds() - start, processor: processorSeconds() - processor)
    }

    /// How long asynchronous work takes.
    static func measure(_ body: () async throws -> Void) async rethrows -> Duration {
        let processor = processorSeconds()
        let start = seconds()
        try await body()
        return Duration(wall: seconds() - start, processor: processorSeconds() - processor)
    }

    /// Time passed and time worked, in seconds.
    struct Duration {
        var wall: Double
        var processor: Double

        static let zero = Duration(wall: 0, processor: 0)

        static func + (left: Duration, right: Duration) -> Duration {
            Duration(wall: left.wall + right.wall, processor: left.processor + right.processor)
        }
    }
}
