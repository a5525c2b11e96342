/// A row's identity: 63 bits, allotted without asking anybody, and the SQLite rowid.
///
/// Layout, from the top: NodeID (15 bits) | block (25) | counter (23). A block starts at the
/// minute, counted from 2024-01-01, in which the store was opened, never below the last one + 1.
public struct RowID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The 63 bits; above 0 for rows of the store.
    public let rawValue: Int64

    /// Takes an integer as an identity.
    public init(_ rawValue: Int64) { self.rawValue = rawValue }

    /// Composes an identity from its parts.
    public init(node: NodeID, block: UInt32, counter: UInt32) {
        rawValue =
            (Int64(node.rawValue) << 48) | (Int64(block & 0x1FF_FFFF) << 23)
            | Int64(counter & 0x7F_FFFF)
    }

    /// The node that allotted it; nil for a number that none has.
    public var node: NodeID? { NodeID(rawValue >> 48) }

    /// The block it is of.
    var block: UInt32 { UInt32(rawValue >> 23 & 0x1FF_FFFF) }

    // swift-format-ignore: NoLeadingUnderscores
    /// Hashes in a few instructions: rows are looked up more often than anything else. The seed is a
    /// table's own, which no client knows.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        var bits = UInt64(bitPattern: rawValue) ^ UInt64(bitPattern: Int64(seed))
        bits ^= bits >> 32
        bits &*= 0x9E37_79B9_7F4A_7C15
        bits ^= bits >> 29
        bits &*= 0xBF58_476D_1CE4_E5B9
        bits ^= bits >> 32
        return Int(truncatingIfNeeded: bits)
    }

    /// Orders by number: the tie-break within one save.
    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// `pDECIMAL`, as in an object's URI.
    public var description: String { "p\(rawValue)" }

    /// Reads what ``description`` prints; nil where it is anything else or not above 0.
    public init?(_ text: some StringProtocol) {
        guard text.first == "p", let number = Int64(text.dropFirst()), number > 0 else {
            return nil
        }
        rawValue = number
        // Integer parsing also takes signs and leading zeros.
        guard description.utf8.elementsEqual(text.utf8) else { return nil }
    }
}

/// Allots row identities; a value, so the caller keeps and persists ``block``.
public struct RowIDAllocator: Hashable, Sendable {
    /// 2024-01-01T00:00:00Z in milliseconds since 1970.
    public static let epochMilliseconds: UInt64 = 1_704_067_200_000

    /// For which node.
    public let node: NodeID
    /// The block in use. It must be durable before an identity of it is given out.
    public private(set) var block: UInt32
    private var counter: UInt32
    /// How many identities of every block are left out.
    private let skipping: UInt32

    /// Begins a new block: the current minute, but never below the last one + 1.
    ///
    /// - Parameters:
    ///   - lastBlock: the last block of the store; 0 for a new one.
    ///   - wallMilliseconds: the wall time, milliseconds since 1970.
    ///   - skipping: how many identities of every block are left out, at most 0x3F_FFFF. Each
    ///     store has a number of its own, drawn by chance: where a node's store was lost and its
    ///     number is used again within the minute, against the rules, its first identities
    ///     would otherwise be those that others know already. And so would those of its next
    ///     block, where the former life had opened twice in that minute, too.
    public init(
        node: NodeID, lastBlock: UInt32, wallMilliseconds: UInt64, skipping: UInt32 = 0
    ) {
        self.skipping = skipping & 0x3F_FFFF
        counter = self.skipping
        let elapsed =
            wallMilliseconds > Self.epochMilliseconds
            ? wallMilliseconds - Self.epochMilliseconds : 0
        self.node = node
        block = max(UInt32(min(elapsed / 60_000, 0x1FF_FFFF)), lastBlock + 1)
    }

    /// Leaves out an identity's block, and all before it: a former life of the node has used it.
    public mutating func avoid(_ row: RowID) {
        guard row.node == node, row.block >= block else { return }
        block = row.block + 1
        counter = skipping
    }

    /// The next identity. A full counter moves on to the next block.
    public mutating func next() -> RowID {
        counter += 1
        if counter > 0x7F_FFFF {
            block += 1
            counter = skipping + 1
        }
        return RowID(node: node, block: block, counter: counter)
    }
}
