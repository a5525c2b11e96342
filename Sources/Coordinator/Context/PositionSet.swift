/// Positions of an entity's properties. The first 64 take no room of their own: nearly all entities
/// have no more.
struct PositionSet: ExpressibleByArrayLiteral {
    private var first: UInt64 = 0
    private var others: Set<Int> = []

    init(arrayLiteral positions: Int...) { for position in positions { insert(position) } }

    var isEmpty: Bool { first == 0 && others.isEmpty }

    func contains(_ position: Int) -> Bool {
        position < 64 ? first & (1 << UInt64(position)) != 0 : others.contains(position)
    }

    mutating func insert(_ position: Int) {
        if position < 64 { first |= 1 << UInt64(position) } else { others.insert(position) }
    }

    mutating func remove(_ position: Int) {
        if position < 64 { first &= ~(1 << UInt64(position)) } else { others.remove(position) }
    }

    /// The positions, rising.
    func sorted() -> [Int] {
        var positions: [Int] = []
        positions.reserveCapacity(first.nonzeroBitCount + others.count)
        var rest = first
        while rest != 0 {
            positions.append(rest.trailingZeroBitCount)
            rest &= rest - 1
        }
        return positions + others.sorted()
    }
}
