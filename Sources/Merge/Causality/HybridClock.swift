/// A hybrid logical clock as a value: the caller brings the wall time, so there is no door here.
///
/// Invariant: every reading is later than all before it, also across restarts, because
/// ``highWaterMark`` is kept in the store. The wall clock may step back or stand still.
package struct HybridClock: Hashable, Sendable {
    /// The latest timestamp given out or observed.
    package private(set) var highWaterMark: HybridTimestamp

    /// Continues a clock from what the store kept of it.
    package init(highWaterMark: HybridTimestamp = .zero) { self.highWaterMark = highWaterMark }

    /// Reads the clock.
    ///
    /// - Parameter wallMilliseconds: the wall time, milliseconds since 1970; what lies above
    ///   ``HybridTimestamp/maximumMilliseconds`` counts as that.
    package mutating func now(wallMilliseconds: UInt64) -> HybridTimestamp {
        let wall = min(wallMilliseconds, HybridTimestamp.maximumMilliseconds)
        let reading = HybridTimestamp(milliseconds: wall, counter: 0) ?? highWaterMark
        highWaterMark = max(reading, highWaterMark.successor())
        return highWaterMark
    }

    /// Learns of a timestamp from elsewhere, so that what is read later is later.
    package mutating func observe(_ timestamp: HybridTimestamp) {
        highWaterMark = max(highWaterMark, timestamp)
    }
}
