/// One incarnation of a node: who wrote a transaction.
///
/// A node is a new actor at every opening of its store for writing, so that a dot is never used
/// twice, whatever backup is restored or file copied in between (DESIGN section 3). The
/// incarnation holds the start time in seconds in its upper 32 bits and chance in its lower 32.
public struct ActorID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The node this is an incarnation of.
    public let node: NodeID
    /// Start time in seconds since 1970 (upper 32 bits) and 32 random bits (lower).
    public let incarnation: UInt64

    /// Names an incarnation of a node.
    public init(node: NodeID, incarnation: UInt64) {
        self.node = node
        self.incarnation = incarnation
    }

    /// Makes a new incarnation from the time and from chance, which both come in from outside.
    public init(node: NodeID, startedAtSeconds: UInt64, random: UInt32) {
        self.init(node: node, incarnation: (startedAtSeconds << 32) | UInt64(random))
    }

    /// Orders by node, then incarnation: the order used in canonical bytes and for ties.
    public static func < (left: Self, right: Self) -> Bool {
        left.node == right.node ? left.incarnation < right.incarnation : left.node < right.node
    }

    /// `NODE.INCARNATION`, the incarnation in hexadecimal.
    public var description: String { "\(node).\(String(incarnation, radix: 16))" }

    /// Reads what ``description`` prints; nil where it is anything else.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let number = UInt16(parts[0]), let node = NodeID(number),
            let incarnation = UInt64(parts[1], radix: 16)
        else { return nil }
        self.init(node: node, incarnation: incarnation)
        // Integer parsing also takes signs, leading zeros and capitals.
        guard description.utf8.elementsEqual(text.utf8) else { return nil }
    }
}
