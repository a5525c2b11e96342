import Merge

/// The rows of a store: their entities' tables, the tombstones, and what refers to something in vain.
struct RowStore: StorePart {
    let session: StoreSession

    /// Loads a row, alive or dead; nil where nothing is known of it.
    ///
    /// - Parameter table: of the row's entity or of one it inherits from.
    func load(_ table: EntityTable, _ row: RowID) throws -> LoadedRow? {
        let table = try shownTable(of: row, under: table) ?? table
        let statement = try database.prepared(table.selectSQL)
        statement.bind(1, row.rawValue)
        guard try statement.step() else {
            return try loadEclipsed(table, row) ?? loadTombstone(table, row)
        }
        defer { statement.reset() }
        var columns: [PropertyValue] = []
        columns.reserveCapacity(table.entity.properties.count)
        for (position, property) in table.entity.properties.enumerated() {
            columns.append(try statement.value(Int32(position + 4), property.content))
        }
        let registers = statement.isNull(3) ? nil : statement.bytes(3)
        var eclipsed: [RowVersion.Eclipsed] = []
        let state = try session.coding(table).decode(
            version: statement.integer(1), timestamp: statement.integer(2),
            registers: registers, columns: columns, eclipsed: &eclipsed)
        return LoadedRow(
            table: table, row: row, state: state, isAlive: true, columns: columns,
            eclipsed: eclipsed.isEmpty ? [] : try loadEclipsed(by: row, table))
    }

    /// The table of a row's own entity, where the row is shown.
    func shownTable(of row: RowID, under table: EntityTable) throws -> EntityTable? {
        guard table.entity.sharesTable else { return table }
        let statement = try database.prepared(
            "SELECT _entity FROM \(EntityTable.quote(table.entity.root)) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return try concrete(statement.integer(0), under: table)
    }

    func concrete(_ code: Int64, under table: EntityTable) throws -> EntityTable {
        guard let found = tables.values.first(where: { $0.code == code }) else {
            throw CoordinatorError(
                .storeDamaged, "A row of \(table.entity.root) has no known entity.")
        }
        return found
    }

    /// Loads a dead row; nil where there is no tombstone of it.
    func loadTombstone(_ table: EntityTable, _ row: RowID) throws -> LoadedRow? {
        guard state.tombstones > 0 else { return nil }
        let statement = try database.prepared(
            "SELECT entity, registers FROM _tombstone WHERE row = ?1")
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        let concrete = try concrete(statement.integer(0), under: table)
        guard concrete.entity.root == table.entity.root else { return nil }
        let state = try session.coding(concrete).decode(
            version: 0, timestamp: 0, registers: statement.bytes(1), columns: nil)
        let values = concrete.entity.properties.indices.map {
            state.visible($0, concrete.policies(for: state))?.value ?? .null
        }
        return LoadedRow(
            table: concrete, row: row, state: state, isAlive: false, columns: values)
    }

    /// Whether a row is alive, eclipsed or not.
    func isAlive(_ row: RowID, root: String) throws -> Bool {
        try shownRow(row, root: root) != nil
    }

    /// Whether readers who are to find an object of an entity find the row, or another in its place.
    func isFound(_ row: RowID, as destination: String) throws -> Bool {
        try shownRow(row, as: table(destination)) != nil
    }

    /// Whether readers see a row itself.
    func isVisible(_ row: RowID, root: String) throws -> Bool {
        if let known = scratch.knownAlive[row] { return known == root }
        let statement = try database.prepared(
            "SELECT 1 FROM \(EntityTable.quote(root)) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        let found = try statement.step()
        statement.reset()
        if found { scratch.knownAlive[row] = root }
        return found
    }

    /// Puts a row where it belongs: its entity's table, the eclipsed rows or the tombstones.
    func place(_ new: LoadedRow, over old: LoadedRow?) throws {
        let row = new.row
        switch (old?.isVisible ?? false, new.isVisible) {
        case (true, true):
            try writeColumns(new.table.updateSQL, new)
            group.updated.append(new.objectID)
            return
        case (true, false):
            let statement = try database.prepared(new.table.deleteSQL)
            statement.bind(1, row.rawValue)
            try statement.run()
            group.deleted.append(new.objectID)
            scratch.knownAlive[row] = nil
        case (false, _):
            if let old, old.isAlive, !new.isAlive || new.isVisible { try removeEclipsed(row) }
            if let old, !old.isAlive, new.isAlive { try removeTombstone(row) }
        }
        if new.isVisible {
            try writeColumns(new.table.insertSQL, new)
            group.inserted.append(new.objectID)
            scratch.knownEclipsed[row] = nil
            scratch.knownAlive[row] = new.table.entity.root
        } else if let survivor = new.survivor {
            try writeEclipsed(new, survivor: survivor, isNew: old?.survivor == nil)
        } else {
            try writeTombstone(new)
            scratch.knownEclipsed[row] = nil
            if old?.isAlive ?? true { state.tombstones += 1 }
        }
    }

    func writeColumns(_ sql: String, _ new: LoadedRow) throws {
        let statement = try database.prepared(sql)
        guard let latest = new.state.existence.siblings.last else {
            fatalError("Row \(new.row) has no existence.")
        }
        statement.bind(1, new.row.rawValue)
        statement.bind(2, state.actors.integer(latest.dot))
        statement.bind(3, Int64(bitPattern: latest.stamp.timestamp.rawValue))
        let registers = session.coding(new.table).encode(
            new.state, columns: new.columns, eclipsed: new.eclipsedVersions)
        if let registers {
            statement.bind(4, registers)
        } else {
            statement.bindNull(4)
        }
        var index: Int32 = 5
        for value in new.columns {
            statement.bind(index, value)
            index += 1
        }
        for value in new.table.derived.ownValues(new.columns, newest: new.newestShown) {
            statement.bind(index, value)
            index += 1
        }
        if sql == new.table.insertSQL, new.table.entity.sharesTable {
            statement.bind(index, new.table.code)
        }
        try statement.run()
    }

    static let tombstoneSQL = """
        INSERT INTO _tombstone (row, entity, registers) VALUES (?1, ?2, ?3)
        ON CONFLICT (row) DO UPDATE SET registers = excluded.registers
        """

    private func writeTombstone(_ dead: LoadedRow) throws {
        let statement = try database.prepared(Self.tombstoneSQL)
        statement.bind(1, dead.row.rawValue)
        statement.bind(2, dead.table.code)
        statement.bind(3, session.coding(dead.table).encode(dead.state, columns: nil) ?? [])
        try statement.run()
    }

    func removeTombstone(_ row: RowID) throws {
        let statement = try database.prepared("DELETE FROM _tombstone WHERE row = ?1")
        statement.bind(1, row.rawValue)
        try statement.run()
        state.tombstones -= 1
    }

    func noteDangling(old: LoadedRow?, new: LoadedRow) throws {
        if new.table.references.isEmpty { return }
        let before = Set((old.map(\.dangling) ?? []).map(\.target))
        let after = Set(new.dangling.map(\.target))
        if before == after { return }
        for target in before.subtracting(after).sorted() {
            let statement = try database.prepared(
                "DELETE FROM _dangling WHERE target = ?1 AND row = ?2")
            statement.bind(1, target.rawValue)
            statement.bind(2, new.row.rawValue)
            try statement.run()
        }
        for target in after.subtracting(before).sorted() {
            let statement = try database.prepared(
                "INSERT OR IGNORE INTO _dangling (target, row, entity) VALUES (?1, ?2, ?3)")
            statement.bind(1, target.rawValue)
            statement.bind(2, new.row.rawValue)
            statement.bind(3, new.table.code)
            try statement.run()
        }
    }

    /// The rows of an entity that show a row at one of their references; sorted.
    func rowsShowing(
        _ target: RowID, at position: Int, of table: EntityTable
    ) throws -> [RowID] {
        let column = EntityTable.quote(table.entity.properties[position].name)
        let own = table.entity.sharesTable ? " AND _entity = \(table.code)" : ""
        let statement = try database.prepared(
            "SELECT _id FROM \(EntityTable.quote(table.entity.root)) "
                + "WHERE \(column) = ?1\(own) ORDER BY _id")
        statement.bind(1, target.rawValue)
        var rows: [RowID] = []
        while try statement.step() { rows.append(RowID(statement.integer(0))) }
        return rows
    }

    /// Frees the keys that a row shows, before another row takes them.
    func freeKeys(of row: RowID, _ table: EntityTable) throws {
        let statement = try database.prepared(table.freeKeysSQL)
        statement.bind(1, row.rawValue)
        try statement.run()
    }

    /// The rows with a reference to a row that reads as nil.
    func rowsReferringInVain(to row: RowID) throws -> [(row: RowID, table: EntityTable)] {
        let statement = try database.prepared(
            "SELECT row, entity FROM _dangling WHERE target = ?1 ORDER BY row")
        statement.bind(1, row.rawValue)
        var rows: [(RowID, EntityTable)] = []
        while try statement.step() {
            let code = statement.integer(1)
            guard let table = tables.values.first(where: { $0.code == code }) else { continue }
            rows.append((RowID(statement.integer(0)), table))
        }
        return rows
    }
}
