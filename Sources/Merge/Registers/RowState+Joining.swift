/// Joining: the state of all writes that either of two stores has applied, from the two states alone.
///
/// A store that has forgotten its log can no longer tell another what it did, but its registers and
/// its vector still say all that a merge needs: what a vector covers and a register lacks, somebody
/// has overwritten or stability has removed (the join of optimized sets by version vectors,
/// Bieniusa et al., *An Optimized Conflict-free Replicated Set*, 2012; Almeida et al., *Scalable and
/// Accurate Causality Tracking for Eventually Consistent Stores*, 2014).
///
/// Law, watched by MergeTests: the join of the states of two causally closed sets of writes is the
/// state of both sets together, whatever either store has collapsed or collected.
extension Register {
    /// Takes in another store's siblings of the same cell, and drops those that it has seen
    /// overwritten.
    ///
    /// - Parameters:
    ///   - other: the cell as the other store has it.
    ///   - seen: all that this store has applied.
    ///   - otherSeen: all that the other has.
    package mutating func join(
        _ other: Register, seen: VersionVector, otherSeen: VersionVector
    ) {
        if self == other { return }
        let kept = siblings.filter { own in
            !otherSeen.contains(own.dot) || other.siblings.contains { $0.dot == own.dot }
        }
        let taken = other.siblings.filter { !seen.contains($0.dot) }
        self = Register(siblings: kept + taken)
    }
}

extension RowState {
    /// Takes in the row as another store has it.
    ///
    /// - Parameters:
    ///   - other: the row there; a row about which nothing is known if it was collected, or never
    ///     came.
    ///   - seen: all that this store has applied.
    ///   - otherSeen: all that the other has.
    /// - Precondition: both have the same number of properties.
    package mutating func join(
        _ other: RowState, seen: VersionVector, otherSeen: VersionVector
    ) {
        if self == other { return }
        guard properties.count == other.properties.count else {
            fatalError("Rows of two entities cannot be joined.")
        }
        let dots = Set(existence.siblings.map(\.dot) + collapsedDots)
        let otherDots = Set(other.existence.siblings.map(\.dot) + other.collapsedDots)
        let version = dots.filter { !otherSeen.contains($0) || otherDots.contains($0) }
            .union(otherDots.filter { !seen.contains($0) })

        existence.join(other.existence, seen: seen, otherSeen: otherSeen)
        insertion.join(other.insertion, seen: seen, otherSeen: otherSeen)
        for position in properties.indices {
            properties[position].join(
                other.properties[position], seen: seen, otherSeen: otherSeen)
        }
        collapsedDots = version.subtracting(existence.siblings.map(\.dot)).sorted()
        let known = Set(exceptions.map(\.dot))
        exceptions += other.exceptions.filter { !known.contains($0.dot) }
        exceptions.sort { $0.dot < $1.dot }
        if !exceptions.isEmpty { pruneExceptions() }
    }
}
