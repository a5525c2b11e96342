import Merge

/// The hash of one living row's projection, from its registers and its columns.
enum RowDigest {
    static func hash(
        _ table: EntityTable, row: RowID, state: RowState, columns: [PropertyValue]
    ) -> (UInt64, UInt64) {
        let policies = table.entity.policies
        let names = table.entity.digestNames
        guard let insertion = state.insertionStamp else {
            preconditionFailure("Row \(row) of \(table.entity.name) was never inserted.")
        }
        var hasher = RowHasher(entity: names.entity, row: row, insertion: insertion.dot)
        let whole = policies.isRowGrained ? state.visibleWhole(policies)?.dot : nil
        for (position, value) in columns.enumerated() {
            let dot =
                whole ?? state.properties[position].visible(policies.properties[position].choice)?
                .dot ?? insertion.dot
            hasher.combine(property: names.properties[position], value: value, dot: dot)
        }
        if state.hasSiblings {
            for conflict in state.conflicts(policies) where conflict.state == .unresolved {
                let name: UInt64 =
                    switch conflict.subject {
                    case .property(let position): names.properties[position]
                    case .object: names.entity
                    }
                hasher.combine(unresolved: name, dots: conflict.stamps.map(\.dot))
            }
        }
        return hasher.finalize()
    }

    /// The same of a row that one transaction alone has written.
    static func hashPristine(
        _ table: EntityTable, row: RowID, dot: Dot, values: [PropertyValue]
    ) -> (UInt64, UInt64) {
        let names = table.entity.digestNames
        var hasher = RowHasher(entity: names.entity, row: row, insertion: dot)
        for (position, value) in values.enumerated() {
            hasher.combine(property: names.properties[position], value: value, dot: dot)
        }
        return hasher.finalize()
    }
}
