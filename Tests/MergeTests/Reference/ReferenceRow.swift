import Merge

/// What a reader must see of a row, computed from the set of writes alone.
///
/// Naive on purpose: no state is kept from one write to the next, and nothing of the product is
/// used but the policies' names. It says again, in another way, what DESIGN 5.1 to 5.3 say.
struct ReferenceRow {
    /// The writes of the whole history; `applied` says which of them count.
    let history: [ReferenceWrite]
    /// Which writes a node has applied.
    let applied: PositionSet
    /// The entity's policy.
    let entity: MergePolicy
    /// Each property's policy.
    let properties: [MergePolicy]

    /// A conflict: which property, or nil for the object; its kind; its sides by stamp.
    struct Conflict: Equatable {
        let property: Int?
        let kind: ConflictKind
        let isUnresolved: Bool
        let sides: [Int]
    }

    /// A visible value and the write it comes from.
    struct Shown: Equatable {
        let value: Int?
        let write: Int
    }

    var isRowGrained: Bool {
        switch entity {
        case .errorByRow, .rollback, .overwrite: true
        case .error, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .named: false
        }
    }

    private func isEarlier(_ left: Int, _ right: Int) -> Bool {
        let (a, b) = (history[left], history[right])
        if a.time != b.time { return a.time < b.time }
        if a.node != b.node { return a.node < b.node }
        return a.sequence < b.sequence
    }

    /// The applied writes that touch something and are in no other such write's past, by stamp.
    func siblings(_ touches: (ReferenceWrite) -> Bool) -> [Int] {
        var touching: [Int] = []
        var seen: UInt32 = 0
        for position in history.indices
        where applied.contains(position) && touches(history[position]) {
            touching.append(position)
            seen |= history[position].past.bits
        }
        let maximal = touching.filter { seen >> UInt32($0) & 1 == 0 }
        return maximal.count < 2 ? maximal : maximal.sorted(by: isEarlier)
    }

    /// The row's version: every write touches the row's existence.
    var version: [Int] { siblings { _ in true } }

    /// Of the property's own register; of no use under a row-grained policy.
    func siblings(ofProperty property: Int) -> [Int] {
        siblings { $0.kind != .delete && $0.values[property] != nil }
    }

    private func saysAlive(_ position: Int) -> Bool { history[position].kind != .delete }

    var isAlive: Bool {
        let sides = version
        switch entity {
        case .error, .errorByRow: return sides.contains(where: saysAlive)
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            return !sides.isEmpty && !sides.contains { !saysAlive($0) }
        case .rollback: return sides.first.map(saysAlive) ?? false
        case .overwrite, .named: return sides.last.map(saysAlive) ?? false
        }
    }

    /// What a live row shows of a property; nil where nobody ever wrote it.
    func shown(_ property: Int) -> Shown? {
        let write: Int?
        if isRowGrained {
            switch entity {
            case .overwrite: write = version.last
            case .errorByRow: write = version.first(where: saysAlive)
            default: write = version.first
            }
        } else {
            let sides = siblings(ofProperty: property)
            switch properties[property] {
            case .mergeByPropertyObjectTrump: write = sides.last
            case .named: write = least(sides, property)
            default: write = sides.first
            }
        }
        return write.map { Shown(value: history[$0].values[property], write: $0) }
    }

    /// What the tests' own policy chooses: the least value, of equal ones the last.
    private func least(_ sides: [Int], _ property: Int) -> Int? {
        var best = sides.first
        for side in sides.dropFirst() {
            guard let value = history[side].values[property], let known = best,
                let least = history[known].values[property]
            else { continue }
            if value <= least { best = side }
        }
        return best
    }

    /// The earliest of the inserts and revivals that none has seen: the row's rank.
    var insertion: Int? { siblings { $0.kind == .insert || $0.kind == .revival }.first }

    /// Open conflicts: the object first, then the properties of a live row.
    var conflicts: [Conflict] {
        var result: [Conflict] = []
        let sides = version
        if sides.count > 1 {
            let somebodyDeleted = sides.contains { !saysAlive($0) }
            let somebodyDidNot = sides.contains(where: saysAlive)
            let differ = sides.contains { history[$0].values != history[sides[0]].values }
            if somebodyDeleted && somebodyDidNot || isRowGrained && !somebodyDeleted && differ {
                result.append(
                    Conflict(
                        property: nil, kind: somebodyDeleted ? .delete : .row,
                        isUnresolved: entity == .error || entity == .errorByRow, sides: sides))
            }
        }
        guard !isRowGrained, isAlive else { return result }
        for property in properties.indices {
            let sides = siblings(ofProperty: property)
            if sides.count > 1,
                sides.contains(where: {
                    history[$0].values[property] != history[sides[0]].values[property]
                })
            {
                result.append(
                    Conflict(
                        property: property, kind: .update,
                        isUnresolved: properties[property] == .error, sides: sides))
            }
        }
        return result
    }
}
