/// This node's wall clock, as inputs told it, going on by the monotonic clock in between.
struct WallClock: Sendable {
    private var told: UInt64 = 0
    private var toldAt: UInt64 = 0

    /// Takes over what the clock shows at a monotonic time.
    mutating func set(_ milliseconds: UInt64, at now: UInt64) {
        told = milliseconds
        toldAt = now
    }

    /// Wall time at a monotonic time, in milliseconds since 1970.
    func milliseconds(at now: UInt64) -> UInt64 {
        let (wall, overflow) = told.addingReportingOverflow(now - toldAt)
        return overflow ? .max : wall
    }
}
