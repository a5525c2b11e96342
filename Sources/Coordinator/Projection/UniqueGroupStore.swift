import Merge

/// A row that a transaction has touched, with its new registers.
struct TouchedRow {
    /// The row as the store has it; nil where it is new.
    let old: LoadedRow?
    let table: EntityTable
    var state: RowState
}

/// The effect of a transaction on the groups it touches.
struct Regrouping {
    /// The rows to be written, touched ones among them, with their places in their groups.
    var rows: [RowID: TouchedRow] = [:]
    /// The new survivors of eclipsed rows.
    var survivors: [RowID: RowID] = [:]
    /// The new members of groups, by survivor, in order of insertion.
    var members: [RowID: [RowID]] = [:]
    /// Rows that lead elsewhere than before: what readers were led to, and what they are now.
    var moved: [(row: RowID, table: EntityTable, from: RowID?, to: RowID?)] = []

    var isEmpty: Bool { rows.isEmpty }
}

/// Which rows share unique keys, and which of them is shown.
struct UniqueGroupStore: StorePart {
    let session: StoreSession

    /// Decides again which rows are shown, after a transaction has changed some.
    ///
    /// Only rows connected with the changed ones through keys can change: see ``UniqueGroups``.
    /// Nothing is written; what will be shown is noted in `knownAlive` and `knownEclipsed`.
    func regroup(_ touched: RowTable<TouchedRow>) throws -> Regrouping {
        var result = Regrouping()
        if groupedRoots.isEmpty, !scratch.isAdopting { return result }
        var keys: [UniqueKey] = []
        for row in touched.rows.sorted() {
            guard let entry = touched[row], entry.table.isGrouped || scratch.isAdopting else {
                continue
            }
            let before = entry.old?.keys ?? []
            let after = entry.keys
            let isLoner =
                entry.old.map {
                    $0.survivor == nil && $0.eclipsed.isEmpty
                        && $0.state.insertionStamp == entry.state.insertionStamp
                } ?? false
            if (before.isEmpty && after.isEmpty && entry.old?.survivor == nil)
                || (isLoner && before == after && !scratch.isAdopting)
            {
                continue
            }
            result.rows[row] = entry
            keys += before + after
        }
        if result.rows.isEmpty { return result }
        try addComponent(of: keys, touched, &result)
        decide(&result)
        return result
    }

    /// Adds the rows that the touched ones are connected with.
    private func addComponent(
        of keys: [UniqueKey], _ touched: RowTable<TouchedRow>, _ result: inout Regrouping
    ) throws {
        // Rows of the transaction are connected by their new keys too, which no table has yet.
        var fresh: [UniqueKey: [RowID]] = [:]
        for row in result.rows.keys.sorted() {
            for key in result.rows[row]?.keys ?? [] { fresh[key, default: []].append(row) }
        }
        let known = result.rows
        var loaded: [RowID: TouchedRow] = [:]
        let found = try UniqueGroups.component(of: keys) { key in
            let table = try self.table(ofConstraint: key)
            return try (holders(of: key, table) + (fresh[key] ?? [])).compactMap { row in
                if let entry = known[row] {
                    return (row: row, keys: (entry.old?.keys ?? []) + entry.keys)
                }
                guard let old = try rowStore.load(table, row), old.isAlive else { return nil }
                let entry =
                    touched[row] ?? TouchedRow(old: old, table: old.table, state: old.state)
                loaded[row] = entry
                return (row: row, keys: old.keys + entry.keys)
            }
        }
        for row in found where result.rows[row] == nil { result.rows[row] = loaded[row] }
        // A row that eclipsed another may share no key with it any more, and still has to release
        // it.
        for row in result.rows.keys.sorted() {
            guard let entry = result.rows[row] else { continue }
            for other in [entry.old?.survivor].compactMap({ $0 })
                + (entry.old?.eclipsed.map(\.row) ?? [])
            where result.rows[other] == nil {
                guard let old = try rowStore.load(entry.table, other) else { continue }
                result.rows[other] =
                    touched[other] ?? TouchedRow(old: old, table: old.table, state: old.state)
            }
        }
    }

    func table(ofConstraint key: UniqueKey) throws -> EntityTable {
        let scope = key.constraint.prefix { $0 != ":" }
        return table(String(scope))
    }

    /// All living rows that the store has under a key.
    func holders(of key: UniqueKey, _ table: EntityTable) throws -> [RowID] {
        guard let constraint = table.constraints.first(where: { $0.identity == key.constraint })
        else { return [] }
        return try rows(showing: key, of: constraint) + eclipsedRows(with: key)
    }

    /// The rows with a key that others of their keys eclipse.
    func eclipsedRows(with key: UniqueKey) throws -> [RowID] {
        guard state.eclipsed > 0 else { return [] }
        let statement = try database.prepared(
            "SELECT row FROM _eclipsedKey WHERE key = ?1 ORDER BY row")
        statement.bind(1, key.bytes)
        var rows: [RowID] = []
        while try statement.step() { rows.append(RowID(statement.integer(0))) }
        return rows
    }

    /// The rows that readers see under a key.
    func rows(showing key: UniqueKey, of constraint: UniqueConstraint) throws -> [RowID] {
        let statement = try database.prepared(constraint.lookupSQL)
        statement.bind(key)
        var rows: [RowID] = []
        while try statement.step() { rows.append(RowID(statement.integer(0))) }
        return rows
    }

    func decide(_ result: inout Regrouping) {
        let rows = result.rows
        let candidates = rows.keys.sorted().compactMap { row -> GroupCandidate? in
            guard let entry = rows[row], entry.isAlive, let stamp = entry.state.insertionStamp
            else { return nil }
            return GroupCandidate(row: row, insertion: stamp, keys: entry.keys)
        }
        result.survivors = UniqueGroups.eclipses(candidates)
        for candidate in candidates.sorted(by: GroupCandidate.isEarlier) {
            if let survivor = result.survivors[candidate.row] {
                result.members[survivor, default: []].append(candidate.row)
            }
        }
        for row in rows.keys.sorted() {
            guard let entry = rows[row] else { continue }
            let from = entry.old.flatMap { old in old.isAlive ? old.survivor ?? row : nil }
            let to = entry.isAlive ? result.survivors[row] ?? row : nil
            if from != to { result.moved.append((row, entry.table, from, to)) }
            rowStore.noteTable(entry.table, of: row)
            scratch.knownEclipsed[row] = result.survivors[row]
            scratch.knownAlive[row] = to == row ? entry.table.entity.root : nil
        }
    }
}

extension SQLStatement {
    /// Binds a key's values, from the first parameter on.
    func bind(_ key: UniqueKey) {
        for (index, value) in key.values.enumerated() {
            bind(Int32(truncatingIfNeeded: index) + 1, value)
        }
    }
}

extension TouchedRow {
    var isAlive: Bool { state.isAlive(table.policies(for: state)) }

    /// The keys the row has from now on.
    var keys: [UniqueKey] { isAlive ? table.keys(of: state) : [] }

    /// The row as an eclipsed one.
    func asMember(_ row: RowID, of survivor: RowID) -> LoadedRow {
        LoadedRow(
            table: table, row: row, state: state, isAlive: true,
            columns: table.entity.properties.indices.map {
                state.visible($0, table.policies(for: state))?.value ?? .null
            }, survivor: survivor)
    }
}
