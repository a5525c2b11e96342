/// A hybrid logical clock's reading: 48 bits of milliseconds since 1970, 16 bits of counter.
///
/// It orders concurrent writes and informs people. It never decides what is concurrent.
/// Source: Kulkarni, Demirbas et al., "Logical Physical Clocks", 2014.
public struct HybridTimestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// Milliseconds in the upper 48 bits, counter in the lower 16. Its top bit is never set, so
    /// that it is a signed 64-bit integer in SQLite with the same order.
    public let rawValue: UInt64

    /// The greatest count of milliseconds: 47 bits, in the year 6429.
    public static let maximumMilliseconds: UInt64 = (1 << 47) - 1

    /// Reads a timestamp from its 64 bits; nil where the top bit is set.
    public init?(rawValue: UInt64) {
        guard rawValue >> 63 == 0 else { return nil }
        self.rawValue = rawValue
    }

    /// Makes a timestamp; nil above ``maximumMilliseconds``.
    public init?(milliseconds: UInt64, counter: UInt16) {
        guard milliseconds <= Self.maximumMilliseconds else { return nil }
        rawValue = (milliseconds << 16) | UInt64(counter)
    }

    private init(unchecked rawValue: UInt64) { self.rawValue = rawValue }

    /// The beginning of time.
    public static let zero = HybridTimestamp(unchecked: 0)

    /// Milliseconds since 1970.
    public var milliseconds: UInt64 { rawValue >> 16 }
    /// The order of readings within one millisecond.
    public var counter: UInt16 { UInt16(truncatingIfNeeded: rawValue) }

    /// Orders by milliseconds, then counter.
    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// `MILLISECONDS.COUNTER`.
    public var description: String { "\(milliseconds).\(counter)" }

    /// The next reading; at the end of time it stays where it is.
    func successor() -> HybridTimestamp {
        HybridTimestamp(rawValue: rawValue + 1) ?? self
    }
}
