/// A write as the reference sees it: plain numbers, and the whole of its causal past.
///
/// Writes are named by their position in the history. A history lists causes before effects.
struct ReferenceWrite {
    enum Kind { case insert, update, delete, revival }

    /// The number of the node that wrote.
    let node: Int
    /// Its running number among that node's writes, from 1.
    let sequence: Int
    /// The clock's reading; concurrent writes may have the same.
    let time: Int
    /// The positions of all writes that the writer had seen, its own earlier ones included.
    let past: PositionSet
    /// What was done.
    let kind: Kind
    /// The value written to each property; nil where the write did not touch it.
    let values: [Int?]
}

/// A set of positions in a history of at most 32 writes.
struct PositionSet: Hashable {
    var bits: UInt32 = 0

    func contains(_ position: Int) -> Bool { bits >> UInt32(position) & 1 == 1 }
    func with(_ position: Int) -> PositionSet { PositionSet(bits: bits | 1 << UInt32(position)) }
    func without(_ position: Int) -> PositionSet {
        PositionSet(bits: bits & ~(1 << UInt32(position)))
    }
    func contains(_ other: PositionSet) -> Bool { other.bits & ~bits == 0 }

    /// The set of the first so many positions.
    static func first(_ count: Int) -> PositionSet {
        PositionSet(bits: count == 32 ? .max : (1 << UInt32(count)) - 1)
    }
}
