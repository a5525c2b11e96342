/// A write to one row, with property positions in the entity's canonical order.
package struct RowWrite: Hashable, Sendable {
    /// The kinds of write. A revival makes a dead row live again and carries the whole row.
    package enum Kind: Hashable, Sendable {
        case insert, update, delete, revival
    }

    /// Which kind.
    package let kind: Kind
    /// The values written, by property position. Under a row-grained policy: of every property.
    package let values: [(position: Int, value: PropertyValue)]
    /// Of an insert or a revival of an entity with uniqueness constraints: positions whose values
    /// nobody assigned though they are not null, or somebody did though they are; rising.
    package let exceptions: [Int]

    /// Describes a write.
    package init(
        kind: Kind, values: [(position: Int, value: PropertyValue)], exceptions: [Int] = []
    ) {
        self.kind = kind
        self.values = values
        self.exceptions = exceptions
    }

    /// Whether both write the same.
    package static func == (left: Self, right: Self) -> Bool {
        left.kind == right.kind && left.exceptions == right.exceptions
            && left.values.elementsEqual(right.values) {
                $0.position == $1.position && $0.value == $1.value
            }
    }

    /// Hashes kind and values.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        hasher.combine(exceptions)
        for entry in values {
            hasher.combine(entry.position)
            hasher.combine(entry.value)
        }
    }
}

/// Why a write cannot be applied to a row: never merged, always held and reported.
package enum RowAlarm: Error, Hashable, Sendable {
    /// An insert for an identity that exists with another insert dot.
    case identityExists
    /// An update or delete of a row that is not there, and is no revival.
    case rowMissing
    /// A write that names another entity than the row's own, whose properties are others.
    case entityDiffers
}

extension RowState {
    /// Applies one write.
    ///
    /// Every write to a row touches its existence register (DESIGN section 5.3). Property writes
    /// go to each property's register, or whole into existence where the policy is row-grained.
    ///
    /// - Parameters:
    ///   - stamp: the writing transaction's.
    ///   - seen: the writing transaction's causal context.
    /// - Throws: ``RowAlarm``; the state is then unchanged.
    package mutating func apply(
        _ write: RowWrite, stamp: Stamp, seen: VersionVector, policies: EntityPolicies
    ) throws(RowAlarm) {
        switch write.kind {
        case .insert: guard isEmpty else { throw .identityExists }
        // Of a row that was collected a late delete leaves a trace, which is no row to be updated: none
        // that has seen the row dead updates it, and it is collected once all have.
        case .update: guard !insertion.siblings.isEmpty else { throw .rowMissing }
        case .delete: guard !isEmpty else { throw .rowMissing }
        case .revival: break
        }

        let says: Existence =
            switch write.kind {
            case .delete: .dead
            case .insert, .update, .revival:
                policies.isRowGrained ? .whole(wholeRow(write, policies)) : .alive
            }
        existence.apply(Sibling(stamp: stamp, value: says), seen: seen)
        if !collapsedDots.isEmpty { collapsedDots.removeAll { seen.contains($0) } }
        if write.kind == .insert || write.kind == .revival {
            insertion.apply(Sibling(stamp: stamp, value: true), seen: seen)
        }
        guard !policies.isRowGrained, write.kind != .delete else { return }
        for (position, value) in write.values {
            properties[position].apply(Sibling(stamp: stamp, value: value), seen: seen)
        }
        if !exceptions.isEmpty { pruneExceptions() }
        if !write.exceptions.isEmpty {
            exceptions.append(InsertionException(dot: stamp.dot, positions: write.exceptions))
            exceptions.sort { $0.dot < $1.dot }
        }
    }

    private func wholeRow(_ write: RowWrite, _ policies: EntityPolicies) -> [PropertyValue] {
        var row = [PropertyValue](repeating: .null, count: policies.properties.count)
        for (position, value) in write.values { row[position] = value }
        return row
    }
}
