import Merge

/// The rows and links that stability may take a part from, in `_uncollected`.
struct CollectionList: StorePart {
    let session: StoreSession

    /// Lists a row that stability may take a part from.
    func noteUncollected(_ row: LoadedRow) throws {
        if row.isAlive, !row.state.hasSiblings { return }
        guard let newest = row.state.uncollected(row.table.policies(for: row.state)).last else {
            return
        }
        try noteUncollected(row.row, RowID(0), row.table.entity.name, newest)
    }

    /// Lists a link likewise.
    func noteUncollected(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, _ register: Register<Bool>
    ) throws {
        let policy = history.settling(link, register).policy
        guard let newest = LinkCoding.uncollected(register, policy: policy).last else {
            return
        }
        try noteUncollected(source, target, link.name, newest)
    }

    /// Lists rows that follow each other, and wait for one dot.
    func noteUncollected(_ rows: ClosedRange<RowID>, _ name: String, _ dot: Dot) throws {
        let last = rows.lowerBound == rows.upperBound ? 0 : -rows.upperBound.rawValue
        try noteUncollected(rows.lowerBound, RowID(last), name, dot)
    }

    /// A row that is listed already keeps waiting for the same dot: a row that is written again and
    /// again must not wait for ever.
    func noteUncollected(
        _ row: RowID, _ target: RowID, _ name: String, _ dot: Dot
    ) throws {
        let statement = try database.prepared(
            "INSERT OR IGNORE INTO _uncollected (row, target, name, waitsFor) "
                + "VALUES (?1, ?2, ?3, ?4)")
        statement.bind(1, row.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, name)
        statement.bind(4, state.actors.integer(dot))
        try statement.run()
    }
}

extension RowState {
    /// The dots that must be stable before the row is rid of what it keeps for others' sake,
    /// earliest first; none where it keeps nothing, or nothing but what waits for a decision.
    func uncollected(_ policies: EntityPolicies) -> [Dot] {
        guard isAlive(policies) else { return collapsedDots + existence.siblings.map(\.dot) }
        // Dead against alive, or whole rows that differ.
        if policies.entity.leavesUnresolved, existence.isInConflict { return [] }
        if policies.isRowGrained {
            return existence.siblings.count > 1 ? existence.siblings.map(\.dot) : []
        }
        var stamps: [Stamp] = []
        for (position, register) in properties.enumerated() where register.siblings.count > 1 {
            if policies.properties[position].leavesUnresolved, register.isInConflict { continue }
            stamps += register.siblings.map(\.stamp)
        }
        return stamps.sorted().map(\.dot)
    }
}

extension LinkCoding {
    /// The same of a link: equal siblings, or siblings that a policy has chosen from; and a link
    /// that is taken away.
    static func uncollected(_ register: Register<Bool>, policy: MergePolicy) -> [Dot] {
        let isClean = register.siblings.count == 1 && isAlive(register, policy: policy)
        if isClean || (policy.leavesUnresolved && register.isInConflict) { return [] }
        return register.siblings.map(\.dot)
    }
}
