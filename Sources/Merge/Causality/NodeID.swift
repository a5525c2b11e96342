/// The name of a node: a process with a store, unique in its cluster and never reused.
///
/// Bounds: 1...32767, so that it fits the 15 bits a ``RowID`` keeps for it.
public struct NodeID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The number itself, 1...32767.
    public let rawValue: UInt16

    /// The greatest number a node may have.
    public static let maximum: UInt16 = 0x7FFF

    /// Node 1, which a store has that is no node's.
    package static let first = NodeID(first: 1)

    private init(first: UInt16) { rawValue = first }

    /// Names a node, or gives nil where the number is 0 or above ``maximum``.
    public init?(_ rawValue: some BinaryInteger) {
        guard rawValue >= 1, rawValue <= Int(Self.maximum) else { return nil }
        self.rawValue = UInt16(rawValue)
    }

    /// Orders nodes by number.
    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// The number in decimal.
    public var description: String { String(rawValue) }
}
