import Merge

/// The hash of one living row's projection, from its registers and its columns.
enum RowDigest {
    /// What an eclipsed row's hash is marked with.
    private static let eclipsed: UInt64 = 0xEC11

    static func hash(_ loaded: LoadedRow) -> (UInt64, UInt64) {
        let (table, state) = (loaded.table, loaded.state)
        let policies = table.policies(for: state)
        let names = table.entity.digestNames
        let insertion = insertion(of: loaded)
        var hasher = RowHasher(entity: names.entity, row: loaded.row, insertion: insertion)
        for part in parts(of: loaded, policies, insertion) {
            hasher.combine(property: part.property, value: part.value, dot: part.dot)
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

    /// What a row's hash takes of one property.
    struct Part {
        let property: UInt64
        let value: PropertyValue
        let dot: Dot
    }

    private static func insertion(of loaded: LoadedRow) -> Dot {
        guard let insertion = loaded.state.insertionStamp else {
            fatalError(
                "Row \(loaded.row) of \(loaded.table.entity.name) was never inserted.")
        }
        return insertion.dot
    }

    private static func parts(
        of loaded: LoadedRow, _ policies: EntityPolicies, _ insertion: Dot
    ) -> some Sequence<Part> {
        let state = loaded.state
        let names = loaded.table.entity.digestNames
        let isAlone = loaded.eclipsed.isEmpty
        let whole = policies.isRowGrained ? state.visibleWhole(policies)?.dot : nil
        return loaded.columns.enumerated().lazy.map { position, value in
            let dot: Dot?
            if isAlone {
                dot =
                    whole
                    ?? state.properties[position].visible(policies.properties[position].choice)?
                    .dot
            } else {
                dot = loaded.shown(position)?.dot
            }
            return Part(
                property: names.properties[position], value: value, dot: dot ?? insertion)
        }
    }

    /// The hash of a row without siblings that a staged transaction has changed, as far as it is known
    /// before that has its dot.
    struct Staged {
        fileprivate var hasher: RowHasher
        /// What comes from the first value on that the transaction has written.
        fileprivate var rest: [Part] = []

        /// The hash.
        func finalize(_ dot: Dot) -> (UInt64, UInt64) {
            var hasher = hasher
            for part in rest {
                let isStaged = part.dot == ActorTable.stagedStamp.dot
                hasher.combine(
                    property: part.property, value: part.value, dot: isStaged ? dot : part.dot)
            }
            return hasher.finalize()
        }
    }

    static func staged(_ loaded: LoadedRow) -> Staged {
        let insertion = insertion(of: loaded)
        let policies = loaded.table.policies(for: loaded.state)
        let names = loaded.table.entity.digestNames
        var staged = Staged(
            hasher: RowHasher(entity: names.entity, row: loaded.row, insertion: insertion))
        for part in parts(of: loaded, policies, insertion) {
            if staged.rest.isEmpty, part.dot != ActorTable.stagedStamp.dot {
                staged.hasher.combine(
                    property: part.property, value: part.value, dot: part.dot)
            } else {
                staged.rest.append(part)
            }
        }
        return staged
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
