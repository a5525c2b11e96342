/// A write's place in the total order: (timestamp, NodeID, incarnation, sequence).
///
/// It orders concurrent writes the same way everywhere (DESIGN section 4).
public struct Stamp: Hashable, Comparable, Sendable {
    /// When, by the writer's hybrid clock.
    public let timestamp: HybridTimestamp
    /// The writing transaction.
    public let dot: Dot

    /// Pairs a timestamp with the dot that breaks its ties.
    public init(timestamp: HybridTimestamp, dot: Dot) {
        self.timestamp = timestamp
        self.dot = dot
    }

    /// The total order.
    public static func < (left: Self, right: Self) -> Bool {
        left.timestamp == right.timestamp
            ? left.dot < right.dot : left.timestamp < right.timestamp
    }
}
