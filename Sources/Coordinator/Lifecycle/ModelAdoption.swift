import Merge

/// Which constraints a store holds its rows to.
///
/// Every row of an entity's table is visible, so a constraint is a unique index over the table;
/// one that an entity within a hierarchy declares is partial, over that entity and its heirs.
struct ModelAdoption: StorePart {
    let session: StoreSession

    /// Makes the store hold its rows to the model's constraints, and to no others.
    ///
    /// Rows that share a key of a constraint that is new form groups first: there are conflicts
    /// to resolve, and never a store that does not open. To be called while opening.
    ///
    /// - Parameters:
    ///   - remainder: of a migration whose tables are done. Then groups are formed again whatever
    ///     indexes there are: it has dropped some, entities may have another policy by which groups
    ///     are combined, and rows are gone from their groups.
    func adoptConstraints(
        after remainder: StoreMigration.Remainder?
    ) throws {
        var wanted: [String: String] = [:]
        for entity in model.entities {
            let table = table(entity.name)
            for constraint in table.constraints where constraint.scope == entity.name {
                wanted[indexName(constraint, table)] = indexSQL(constraint, table)
            }
        }
        let found = try indexes()
        let gone = remainder?.goneEclipsed ?? []
        let hasGroups = state.eclipsed > 0 || !gone.isEmpty
        if found == Set(wanted.keys), remainder == nil || !hasGroups { return }
        for name in found.sorted() {
            try execute(sql: "DROP INDEX \(EntityTable.quote(name))")
        }
        scratch.mode = .adopting
        defer { scratch.mode = .none }
        try regroupEverything(gone)
        for name in wanted.keys.sorted() {
            if let sql = wanted[name] { try execute(sql: sql) }
        }
    }

    /// The indexes that hold rows to constraints.
    func indexes() throws -> Set<String> {
        let statement = try database.prepared(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND substr(name, 1, 5) = '_key.'")
        var names = Set<String>()
        while try statement.step() { names.insert(statement.text(0)) }
        return names
    }

    private func indexName(_ constraint: UniqueConstraint, _ table: EntityTable) -> String {
        var name = "_key.\(constraint.scope).\(constraint.name)"
        // What a partial index covers is part of its name, so that a new heir makes a new one.
        if table.entity.parent != nil { name += "(\(familyCodes(table)))" }
        return name
    }

    private func familyCodes(_ table: EntityTable) -> String {
        table.entity.familyNames.map { String(self.table($0).code) }.joined(separator: ", ")
    }

    private func indexSQL(_ constraint: UniqueConstraint, _ table: EntityTable) -> String {
        let names = constraint.names.map(EntityTable.quote).joined(separator: ", ")
        var sql =
            "CREATE UNIQUE INDEX \(EntityTable.quote(indexName(constraint, table))) "
            + "ON \(EntityTable.quote(table.entity.root)) (\(names))"
        if table.entity.parent != nil { sql += " WHERE _entity IN (\(familyCodes(table)))" }
        return sql
    }

    /// Groups all rows that share a key, and those that are eclipsed now.
    ///
    /// - Parameter gone: eclipsed rows that do not exist any more.
    private func regroupEverything(_ gone: [StoreMigration.GoneEclipsed]) throws {
        let rows = try rowsToRegroup(gone)
        if rows.isEmpty { return }
        let hadGroups = state.eclipsed > 0 || !gone.isEmpty
        state.generation += 1
        group = StoreSession.GroupChanges()
        var touched = RowTable<TouchedRow>()
        var contested = Set<Claim>()
        for row in rows.keys.sorted() {
            guard let table = rows[row], let loaded = try rowStore.load(table, row) else {
                continue
            }
            if loaded.isVisible { contested.formUnion(shownClaims(loaded)) }
            touched[row] = TouchedRow(
                old: hadGroups ? unprojected(loaded) : loaded, table: loaded.table,
                state: loaded.state)
        }
        if hadGroups { try forgetDangling(of: touched) }
        // Nobody's write closes what this may close; the newest of the log stands for it.
        let stamp =
            touched.compactMap { $0.value.state.existence.siblings.last?.stamp }.max()
            ?? Stamp(
                timestamp: state.clock.highWaterMark, dot: Dot(actor: actor, sequence: 1))
        var regrouping = try groupStore.regroup(touched)
        for (old, new) in try rowWriter.write(
            touched, regrouping, by: stamp)
        {
            // Of rows too that only share a key with one that was eclipsed, and are eclipsed now.
            if let old, old.isVisible { contested.formUnion(shownClaims(old)) }
            contested.formUnion(try claimStore.claims(new))
        }
        for row in gone {
            regrouping.moved.append((row.row, table(row.root), from: row.survivor, to: nil))
        }
        try rowWriter.moveReferences(regrouping, &contested, by: stamp)
        if !contested.isEmpty { try rowWriter.settleClaims(contested, by: stamp) }
        try linkWriter.moveLinks(regrouping)
        if hadGroups {
            try closeLapsedConflicts()
            // Groups were hashed as other constraints had them.
            state.digest = try session.reader().recomputeDigest().0
        }
        try session.writeState()
        group = StoreSession.GroupChanges()
    }

    /// The rows that share a key with others, those that are eclipsed, and who eclipses them.
    private func rowsToRegroup(
        _ gone: [StoreMigration.GoneEclipsed]
    ) throws -> [RowID: EntityTable] {
        var rows: [RowID: EntityTable] = [:]
        for row in gone { rows[row.survivor] = table(row.root) }
        // Of abstract ones too: their heirs' rows are held to what they declare.
        for entity in model.entities {
            let table = table(entity.name)
            for constraint in table.constraints where constraint.scope == entity.name {
                let names = constraint.names.map(EntityTable.quote).joined(separator: ", ")
                let own =
                    entity.parent == nil ? "" : " WHERE _entity IN (\(familyCodes(table)))"
                let root = EntityTable.quote(entity.root)
                let statement = try database.prepared(
                    "SELECT _id FROM \(root) WHERE (\(names)) IN (SELECT \(names) FROM \(root)"
                        + "\(own) GROUP BY \(names) HAVING count(*) > 1)")
                while try statement.step() { rows[RowID(statement.integer(0))] = table }
            }
        }
        let eclipsed = try database.prepared("SELECT row, entity, survivor FROM _eclipsed")
        while try eclipsed.step() {
            let code = eclipsed.integer(1)
            guard let table = tables.values.first(where: { $0.code == code }) else { continue }
            rows[RowID(eclipsed.integer(0))] = table
            rows[RowID(eclipsed.integer(2))] = self.table(table.entity.root)
        }
        return rows
    }

    /// The claims of a row's columns alone, whatever its group would have it claim now.
    private func shownClaims(_ loaded: LoadedRow) -> [Claim] {
        loaded.table.exclusive.compactMap { exclusive in
            guard case .reference(let target) = loaded.columns[exclusive.position] else {
                return nil
            }
            return Claim(owner: exclusive.owner, property: exclusive.property, target: target)
        }
    }

    /// A row as if all that it shows were in its columns, so that every reference in it that finds
    /// no target is listed again.
    ///
    /// A survivor's columns are what the model before chose among its group, and it is loaded with
    /// what the present one chooses. So comparing the two does not show which of its references
    /// read as null.
    private func unprojected(_ loaded: LoadedRow) -> LoadedRow {
        guard loaded.isVisible else { return loaded }
        return loaded.showing(
            loaded.table.entity.properties.indices.map { loaded.shown($0)?.value ?? .null })
    }

    /// Takes rows off the list of those that refer to something in vain.
    private func forgetDangling(of rows: RowTable<TouchedRow>) throws {
        var listed: [(target: Int64, row: Int64)] = []
        let statement = try database.prepared("SELECT target, row FROM _dangling")
        while try statement.step() {
            let row = statement.integer(1)
            if rows[RowID(row)] != nil { listed.append((statement.integer(0), row)) }
        }
        let removal = try database.prepared("DELETE FROM _dangling WHERE target = ?1 AND row = ?2")
        for (target, row) in listed {
            removal.bind(1, target)
            removal.bind(2, row)
            try removal.run()
        }
    }

    /// Closes conflicts over keys that no constraint makes unique any more, and over references
    /// that no group shows any more.
    private func closeLapsedConflicts() throws {
        let statement = try database.prepared(
            "SELECT id FROM _conflict WHERE kind IN (?1, ?2) AND closed = 0 ORDER BY id")
        statement.bind(1, ConflictKind.uniqueness.rawValue)
        statement.bind(2, ConflictKind.dangling.rawValue)
        var open: [ConflictID] = []
        while try statement.step() { if let id = ConflictID(statement.text(0)) { open.append(id) } }
        for id in open {
            guard let entry = try journal.openEntry(id) else { continue }
            let row = try tables[id.entity].flatMap { try rowStore.load($0, id.row) }
            let current = try row.map { try journal.conflicts(of: $0, dangling: $0.dangling) } ?? []
            _ = try journal.settle(from: [entry], to: current)
        }
    }

    // MARK: Another model

    /// Brings what the journal tells of the model's validation up to date, where the model is another
    /// than before. To be called while opening, last of all.
    func adoptValidation() throws {
        group = StoreSession.GroupChanges()
        state.generation += 1
        scratch.recounted.removeAll()
        for table in tables.values where table.hasCounts && !table.entity.isAbstract {
            let root = EntityTable.quote(table.entity.root)
            let own = table.entity.sharesTable ? "r._entity = \(table.code) AND " : ""
            let isWrong = table.counted.map { counted in
                let limit = max(counted.least, counted.most + 1)
                let count = countTracker.countSQL(counted, owner: "r._id", limit: "\(limit)")
                let most = counted.most == 0 ? "" : " OR \(count) > \(counted.most)"
                return "\(count) < \(counted.least)\(most)"
            }
            let statement = try database.prepared(
                "SELECT r._id FROM \(root) r WHERE \(own)(\(isWrong.joined(separator: " OR ")))")
            while try statement.step() { scratch.recounted[RowID(statement.integer(0))] = table }
        }
        for entry in try journal.openEntries(.count) where scratch.recounted[entry.id.row] == nil {
            _ = try journal.settle(from: [entry], to: [])
        }
        try countTracker.settleCounts(by: nil)
        try derivedAttributes.settle()
        for entry in try journal.openEntries(.dangling) {
            guard
                let loaded = try tables[entry.id.entity].flatMap({
                    try rowStore.load($0, entry.id.row)
                })
            else { continue }
            let current = try journal.conflicts(of: loaded, dangling: loaded.dangling)
            for conflict in current where conflict.id == entry.id {
                try journal.writeOpen(conflict)
            }
            _ = try journal.settle(from: [entry], to: current)
        }
        try session.writeState()
        group = StoreSession.GroupChanges()
    }
}
