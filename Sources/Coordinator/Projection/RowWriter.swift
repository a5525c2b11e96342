import Merge

/// The one writer of rows: what a row shows, and all that hangs on it.
struct RowWriter: StorePart {
    let session: StoreSession

    /// The values in the columns of a visible row that has its own visible values: these or its
    /// group's, with references to visible rows only.
    private func project(_ loaded: LoadedRow) throws -> [PropertyValue] {
        let table = loaded.table
        var columns =
            loaded.eclipsed.isEmpty
            ? loaded.columns
            : table.entity.properties.indices.map { loaded.shown($0)?.value ?? .null }
        for (position, _) in table.references {
            guard case .reference(let target) = columns[position] else { continue }
            columns[position] =
                try rowStore.ledTo(target, from: table, position).map { .reference($0) } ?? .null
        }
        if !table.exclusive.isEmpty {
            for claim in try claimStore.claims(loaded)
            where try !claimStore.stands(claim, of: loaded) {
                if let position = table.entity.position(of: claim.property) {
                    columns[position] = .null
                }
            }
        }
        return columns
    }

    /// Writes a row's new state over its old one: table or tombstone, digest, dangling
    /// references, journal.
    ///
    /// - Parameters:
    ///   - old: the row as the store has it.
    ///   - grouping: the row's place in its group, where that may have changed; nil for the old one.
    /// - Returns: the row as it is now.
    @discardableResult
    func write(
        _ table: EntityTable, row: RowID, old: LoadedRow?, state newState: RowState,
        by stamp: Stamp, grouping: Grouping? = nil
    ) throws -> LoadedRow {
        let policies = table.policies(for: newState)
        let isAlive = newState.isAlive(policies)
        var new = LoadedRow(
            table: table, row: row, state: newState, isAlive: isAlive,
            columns: newState.visibleValues(policies),
            survivor: isAlive ? grouping.map(\.survivor) ?? old?.survivor : nil,
            eclipsed: isAlive ? grouping?.eclipsed ?? old?.eclipsed ?? [] : [])
        if new.isVisible, !table.references.isEmpty || !new.eclipsed.isEmpty {
            new = new.showing(try project(new))
        }
        if let old, old.isAlive { state.digest.subtract(RowDigest.hash(old)) }
        if isAlive { state.digest.add(RowDigest.hash(new)) }
        try rowStore.place(new, over: old)
        try rowStore.noteDangling(old: old, new: new)
        try transactionLog.noteDerived(old: old, new: new)
        let shownBefore = old.flatMap { $0.isVisible ? $0.columns : nil }
        let shownNow = new.isVisible ? new.columns : nil
        countTracker.noteCounts(table, row, from: shownBefore, to: shownNow)
        try derivedAttributes.note(table, row, from: shownBefore, to: shownNow)
        if shownBefore == nil, shownNow != nil { derivedAttributes.noteShown(table, row) }
        try collectionList.noteUncollected(new)
        try journal.update(old: old, new: new, by: stamp)
        return new
    }

    // MARK: Writing

    /// Writes rows that a transaction has touched, and those whose groups it has changed.
    ///
    /// A unique index looks at every statement by itself, so keys that rows give up are freed
    /// before any row takes one.
    ///
    /// - Returns: the rows as they were and are, in order of writing.
    @discardableResult
    func write(
        _ touched: RowTable<TouchedRow>, _ regrouping: Regrouping, by stamp: Stamp
    ) throws -> [(old: LoadedRow?, new: LoadedRow)] {
        var result: [(old: LoadedRow?, new: LoadedRow)] = []
        let order = touched.rows
        result.reserveCapacity(order.count)
        let moved = Set(regrouping.moved.map(\.row))
        var changed = moved.union(order.filter { regrouping.rows[$0] != nil })
        // A survivor shows what any of its members has, and lists their versions.
        for row in changed.sorted() {
            if let survivor = regrouping.survivors[row] { changed.insert(survivor) }
            if let survivor = regrouping.rows[row]?.old?.survivor,
                regrouping.rows[survivor] != nil
            {
                changed.insert(survivor)
            }
        }
        let extra = changed.subtracting(order).sorted()
        for row in (order + extra) where changed.contains(row) {
            guard let entry = regrouping.rows[row], let old = entry.old, old.isVisible,
                !old.keys.isEmpty,
                regrouping.survivors[row] != nil || !entry.isAlive || entry.keys != old.keys
            else { continue }
            try rowStore.freeKeys(of: row, old.table)
        }
        for row in order + extra {
            guard let entry = touched[row] ?? regrouping.rows[row] else { continue }
            var grouping: Grouping?
            if changed.contains(row) {
                grouping = Grouping(
                    survivor: regrouping.survivors[row],
                    eclipsed: (regrouping.members[row] ?? []).compactMap { member in
                        regrouping.rows[member].map { $0.asMember(member, of: row) }
                    })
            }
            let new = try write(
                entry.table, row: row, old: entry.old, state: entry.state, by: stamp,
                grouping: grouping)
            result.append((entry.old, new))
        }
        for (_, new) in result where !new.eclipsed.isEmpty { try journal.markShown(of: new) }
        return result
    }

    /// Brings the journal up to date where one more delete of a row had seen what refers to it in vain: the
    /// row was dead already, or another stands in the way of the reference.
    func judgeReferences(
        _ touched: RowTable<TouchedRow>, by stamp: Stamp
    ) throws {
        for (row, entry) in touched {
            guard !entry.isAlive,
                !session.referrers(to: entry.table.entity.root).isEmpty,
                entry.old?.state.deaths != entry.state.deaths
            else { continue }
            for (referring, table) in try rowStore.rowsReferringInVain(to: row) {
                guard let loaded = try rowStore.load(table, referring) else { continue }
                try journal.update(old: loaded, new: loaded, by: stamp, isJudgedAnew: true)
            }
        }
    }

    /// A row has died: rows that refer to it show nil from now on. Or its readers see another row
    /// in its place: then references to it show that row now.
    func releaseReferences(to row: RowID, _ table: EntityTable, by stamp: Stamp) throws {
        for (referring, position) in session.referrers(to: table.entity.root) {
            for row in try rowStore.rowsShowing(row, at: position, of: referring) {
                try reproject(referring, row, by: stamp)
            }
        }
    }

    /// A row is back: references that were kept show it again.
    func restoreReferences(to row: RowID, by stamp: Stamp) throws {
        for (row, table) in try rowStore.rowsReferringInVain(to: row) {
            try reproject(table, row, by: stamp)
        }
    }

    private func reproject(_ table: EntityTable, _ row: RowID, by stamp: Stamp) throws {
        guard let loaded = try rowStore.load(table, row), loaded.isVisible else { return }
        try write(loaded.table, row: row, old: loaded, state: loaded.state, by: stamp)
    }

    /// Shows each target's one claimant, after a transaction has changed who claims it.
    func settleClaims(_ contested: Set<Claim>, by stamp: Stamp) throws {
        for claim in contested.sorted() {
            let claimants = try claimStore.claimants(claim, besides: RowID(0))
            for claimant in claimants {
                let own = claimant.state.visibleValues(claimant.table.policies(for: claimant.state))
                let columns = try project(claimant.showing(own))
                if columns == claimant.columns { continue }
                try write(
                    claimant.table, row: claimant.row, old: claimant, state: claimant.state,
                    by: stamp)
            }
        }
    }

    /// Shows references where their targets are shown now.
    ///
    /// A row that refers to another shows the row that stands for it, or is listed in `_dangling`.
    /// So these are all that can change.
    func moveReferences(
        _ regrouping: Regrouping, _ contested: inout Set<Claim>, by stamp: Stamp
    ) throws {
        var left = Set<RowID>()
        for (row, table, from, to) in regrouping.moved {
            if let from, left.insert(from).inserted {
                try releaseReferences(to: from, table, by: stamp)
            }
            if to != nil { try restoreReferences(to: row, by: stamp) }
            for target in [from, to].compactMap({ $0 }) {
                contested.formUnion(claimStore.possibleClaims(to: target, root: table.entity.root))
            }
        }
    }
}
