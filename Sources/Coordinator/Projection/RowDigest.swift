import Merge

/// The hash of one living row's projection, from its registers and its columns.
enum RowDigest {
    /// The mark of an eclipsed row's hash.
    private static let eclipsed: UInt64 = 0xEC11

    static func hash(_ loaded: LoadedRow) -> (UInt64, UInt64) {
        let (table, state) = (loaded.table, loaded.state)
        let policies = table.policies(for: state)
        let names = table.entity.digestNames
        guard let insertion = state.insertionStamp?.dot else {
            fatalError(
                "Row \(loaded.row) of \(loaded.table.entity.name) was never inserted.")
        }
        var hasher = RowHasher(entity: names.entity, row: loaded.row, insertion: insertion)
        let isAlone = loaded.eclipsed.isEmpty
        let whole = policies.isRowGrained ? state.visibleWhole(policies)?.dot : nil
        for (position, value) in loaded.columns.enumerated() {
            let dot: Dot?
            if isAlone {
                dot = whole ?? state.visibleDot(position, policies)
            } else {
                dot = loaded.shown(position)?.dot
            }
            hasher.combine(
                property: names.properties[position], value: value, dot: dot ?? insertion)
        }
        if let survivor = loaded.survivor {
            hasher.combine(property: eclipsed, value: .reference(survivor), dot: insertion)
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
