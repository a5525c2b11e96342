/// One write that no other applied write has causally overwritten.
package struct Sibling<Value: Hashable & Sendable>: Hashable, Sendable {
    /// The writer and the time.
    package let stamp: Stamp
    /// The value written.
    package let value: Value

    /// Pairs a value with the write that made it.
    @inlinable package init(stamp: Stamp, value: Value) {
        self.stamp = stamp
        self.value = value
    }

    /// The writing transaction.
    @inlinable package var dot: Dot { stamp.dot }
}

/// One mergeable cell: the set S of its siblings, and the one rule by which it changes,
///
///     S := { s in S | s.dot not in w.seen } + { w }
///
/// That is all the state there is, and it does not depend on the order of arrival, so long as
/// delivery is causal. A loser stays in S until a write that has seen it, or stability, removes
/// it; dropping it at once diverges (DESIGN section 5.1).
///
/// Laws, watched by MergeTests: any two causally valid orders of the same writes give the same
/// S; applying a write twice changes nothing; S is an antichain.
///
/// Invariant: siblings are sorted by stamp, so that equal sets are equal values.
///
/// What a store asks of every row is `@inlinable`, or the generic code would run where it is not
/// made for the value's type.
package struct Register<Value: Hashable & Sendable>: Hashable, Sendable {
    /// The siblings, earliest first. Empty where nothing was ever written.
    @inlinable package var siblings: [Sibling<Value>] { sorted }
    @usableFromInline var sorted: [Sibling<Value>]

    /// A register nobody has written.
    @inlinable package init() { sorted = [] }

    /// A register with one write.
    @inlinable package init(_ sibling: Sibling<Value>) { sorted = [sibling] }

    /// Restores a register from siblings in any order.
    @inlinable package init(siblings: [Sibling<Value>]) {
        sorted = siblings.count < 2 ? siblings : siblings.sorted { $0.stamp < $1.stamp }
    }

    /// Applies a write: removes what its writer had seen and adds it.
    package mutating func apply(_ write: Sibling<Value>, seen: VersionVector) {
        if sorted.count == 1, seen.contains(sorted[0].dot) {
            sorted = [write]
            return
        }
        sorted.removeAll { seen.contains($0.dot) || $0.dot == write.dot }
        let index = sorted.firstIndex { write.stamp < $0.stamp } ?? sorted.endIndex
        sorted.insert(write, at: index)
    }

    /// The sibling that readers see; nil where nothing was written.
    @inlinable package func visible(_ choice: MergePolicy.Choice) -> Sibling<Value>? {
        switch choice {
        case .earliest: siblings.first
        case .latest: siblings.last
        }
    }

    /// Whether siblings differ in value. Concurrent writes of equal values are no conflict.
    package var isInConflict: Bool {
        guard siblings.count > 1, let first = siblings.first else { return false }
        return siblings.contains { $0.value != first.value }
    }

    /// Removes what stability permits: when all of S is stable, everything but the visible one.
    ///
    /// - Parameter visible: gives the sibling that readers see.
    /// - Returns: what was removed.
    mutating func collapse(
        stable: VersionVector, visible: (Self) -> Sibling<Value>?
    ) -> [Sibling<Value>] {
        guard siblings.count > 1, siblings.allSatisfy({ stable.contains($0.dot) }),
            let kept = visible(self)
        else { return [] }
        let removed = siblings.filter { $0 != kept }
        sorted = [kept]
        return removed
    }
}

extension Register where Value == PropertyValue {
    /// The sibling that readers see under a property's policy; nil where nothing was written.
    package func visible(by policy: MergePolicy) -> Sibling<Value>? {
        if sorted.count < 2 { return sorted.first }
        if case .named(let named) = policy { return sorted[named.chosen(among: sorted)] }
        return visible(policy.choice)
    }
}

extension NamedMergePolicy {
    func chosen(among siblings: [Sibling<PropertyValue>]) -> Int {
        chosen(
            among: siblings.map {
                Write(value: $0.value, timestamp: $0.stamp.timestamp, dot: $0.dot)
            })
    }
}
