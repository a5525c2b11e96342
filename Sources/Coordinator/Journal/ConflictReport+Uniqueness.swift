import Merge

extension ConflictReport {
    /// The conflicts of a survivor with the rows it eclipses: one for each constraint in which it
    /// shares a key with at least one of them.
    static func uniqueness(of row: LoadedRow, generation: UInt64) -> [Conflict] {
        if row.eclipsed.isEmpty { return [] }
        let entity = row.table.entity
        let policy = entity.policies.entity
        return row.table.constraints.compactMap { constraint in
            guard let key = row.key(of: constraint) else { return nil }
            let members = row.eclipsed.filter { $0.key(ofIdentity: constraint.identity) == key }
            if members.isEmpty { return nil }
            let sides = [row] + members
            // The values shown may be of several members; then no side is what readers see.
            let visible = sides.first { isShown($0, by: row) }?.row
            return Conflict(
                id: ConflictID(
                    entity: entity.name, row: row.row, subject: "unique.\(constraint.name)"),
                kind: .uniqueness, state: policy.leavesUnresolved ? .unresolved : .settled,
                property: nil, policy: policy,
                sides: sides.map {
                    $0.uniquenessSide(of: constraint, isVisible: $0.row == visible)
                },
                explanation: .eclipsing(policy), closedBy: nil, openedAt: generation)
        }
    }
}

extension ConflictReport {
    /// Whether all that a member has by itself is what readers see of the group.
    private static func isShown(_ member: LoadedRow, by survivor: LoadedRow) -> Bool {
        if survivor.table.entity.policies.entity.leavesUnresolved {
            return member.row == survivor.row
        }
        let policies = member.table.policies(for: member.state)
        return member.table.entity.properties.enumerated().allSatisfy { position, property in
            guard let place = survivor.table.entity.position(of: property.name) else {
                return false
            }
            let own = member.state.visible(position, policies)?.value ?? .null
            return own == survivor.shown(place)?.value ?? .null
        }
    }
}

extension Explanation {
    /// Explains which of several rows with one unique key is shown.
    fileprivate static func eclipsing(_ policy: MergePolicy) -> Explanation {
        Explanation(
            rule: .earliest,
            text: policy.leavesUnresolved
                ? "Several objects have this unique key. Policy \(policy.rawValue) decides "
                    + "nothing: the one inserted first is shown, and the others are kept out of "
                    + "sight until somebody resolves the conflict."
                : "Several objects have this unique key: they are shown as the one inserted "
                    + "first, with the values that policy \(policy.rawValue) chooses among them.")
    }
}

extension LoadedRow {
    fileprivate func key(of constraint: UniqueConstraint) -> UniqueKey? {
        constraint.key { state.visible($0, table.policies(for: state))?.value ?? .null }
    }

    fileprivate func key(ofIdentity identity: String) -> UniqueKey? {
        table.constraints.first { $0.identity == identity }.flatMap { key(of: $0) }
    }

    /// A row's side: all its own visible values, under the write that gave it its key.
    ///
    /// That write stays visible whatever stability removes, so all nodes name it alike.
    fileprivate func uniquenessSide(
        of constraint: UniqueConstraint, isVisible: Bool
    ) -> ConflictSide {
        let entity = table.entity
        let own = table.constraints.first { $0.identity == constraint.identity } ?? constraint
        let policies = table.policies(for: state)
        let stamp = own.positions.compactMap { state.visible($0, policies)?.stamp }.max()
        return ConflictSide(
            dot: stamp?.dot, timestamp: stamp?.timestamp, isVisible: isVisible,
            isDeleted: false, value: nil,
            row: entity.properties.enumerated().map { position, property in
                let visible = state.visible(position, policies)
                return .init(
                    name: property.name, value: visible?.value ?? .null,
                    stamp: visible?.stamp == stamp ? nil : visible?.stamp)
            }, object: objectID)
    }
}
