import Merge

/// Eclipsed rows: alive, but with a unique key that an earlier row shows.
///
/// Like dead rows they leave their entity's table, so that reading costs what plain SQLite costs
/// and every row of a table is visible: a unique index then holds them to the constraint. What is
/// kept of them is their registers, in `_eclipsed`, and their keys, in `_eclipsedKey`.
extension RowStore {
    /// The row that readers see in a row's place: itself if it is visible, its survivor if it is
    /// eclipsed; nil if it is not alive.
    func shownRow(_ row: RowID, root: String) throws -> RowID? {
        guard groupedRoots.contains(root) || scratch.isAdopting else {
            return try isVisible(row, root: root) ? row : nil
        }
        if let survivor = scratch.knownEclipsed[row] { return survivor }
        if try isVisible(row, root: root) { return row }
        return try survivor(of: row)
    }

    /// The row in a row's place for readers that look for an object of an entity, or of one that
    /// inherits from it; nil also if the row shown in its place is none: two heirs may have one
    /// key.
    func shownRow(_ row: RowID, as destination: EntityTable) throws -> RowID? {
        guard let shown = try shownRow(row, root: destination.entity.root),
            try isOf(shown, destination)
        else { return nil }
        return shown
    }

    /// Where a reference of a row leads readers; nil where they find nothing.
    func ledTo(_ target: RowID, from table: EntityTable, _ position: Int) throws -> RowID? {
        guard case .toOne(let destination) = table.entity.properties[position].content else {
            return nil
        }
        return try shownRow(target, as: self.table(destination))
    }

    /// Whether a row that is shown is of an entity, or of one that inherits from it.
    ///
    /// A row that refers to another has made sure of that, so it is asked only of rows that may be
    /// shown in the place of others.
    func isOf(_ row: RowID, _ table: EntityTable) throws -> Bool {
        let entity = table.entity
        guard entity.parent != nil, groupedRoots.contains(entity.root) || scratch.isAdopting else {
            return true
        }
        if let known = scratch.knownTables[row] {
            return entity.familyNames.contains(known.entity.name)
        }
        let statement = try database.prepared(
            "SELECT _entity FROM \(EntityTable.quote(entity.root)) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return false }
        defer { statement.reset() }
        return entity.familyNames.contains(
            try concrete(statement.integer(0), under: table).entity.name)
    }

    /// Notes of what entity a row is that is about to be written.
    func noteTable(_ table: EntityTable, of row: RowID) {
        guard table.isGrouped || scratch.isAdopting, table.entity.sharesTable else { return }
        scratch.knownTables[row] = table
    }

    /// The survivor of a row that the store has as eclipsed; nil of any other.
    func survivor(of row: RowID) throws -> RowID? {
        guard state.eclipsed > 0 else { return nil }
        let statement = try database.prepared("SELECT survivor FROM _eclipsed WHERE row = ?1")
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return RowID(statement.integer(0))
    }

    /// Loads an eclipsed row; nil where there is none of that identity.
    func loadEclipsed(_ table: EntityTable, _ row: RowID) throws -> LoadedRow? {
        guard table.isGrouped || scratch.isAdopting, state.eclipsed > 0 else { return nil }
        let statement = try database.prepared(
            "SELECT row, entity, survivor, registers FROM _eclipsed WHERE row = ?1")
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        let loaded = try decodeEclipsed(statement, table)
        return loaded.table.entity.root == table.entity.root ? loaded : nil
    }

    /// Loads the rows that a survivor eclipses, in order of insertion.
    func loadEclipsed(by survivor: RowID, _ table: EntityTable) throws -> [LoadedRow] {
        let statement = try database.prepared(
            "SELECT row, entity, survivor, registers FROM _eclipsed WHERE survivor = ?1")
        statement.bind(1, survivor.rawValue)
        var found: [LoadedRow] = []
        while try statement.step() { found.append(try decodeEclipsed(statement, table)) }
        return found.sorted(by: LoadedRow.isEarlier)
    }

    private func decodeEclipsed(
        _ statement: SQLStatement, _ table: EntityTable
    ) throws -> LoadedRow {
        let concrete = try concrete(statement.integer(1), under: table)
        let state = try session.coding(concrete).decode(
            version: 0, timestamp: 0, registers: statement.bytes(3), columns: nil)
        return LoadedRow(
            table: concrete, row: RowID(statement.integer(0)), state: state, isAlive: true,
            columns: concrete.entity.properties.indices.map {
                state.visible($0, concrete.policies(for: state))?.value ?? .null
            }, survivor: RowID(statement.integer(2)))
    }

    /// Writes an eclipsed row with its keys.
    func writeEclipsed(_ new: LoadedRow, survivor: RowID, isNew: Bool) throws {
        if isNew {
            state.eclipsed += 1
        } else {
            try removeEclipsedKeys(new.row)
        }
        let statement = try database.prepared(
            """
            INSERT INTO _eclipsed (row, entity, survivor, registers) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (row) DO UPDATE SET survivor = excluded.survivor,
                registers = excluded.registers
            """)
        statement.bind(1, new.row.rawValue)
        statement.bind(2, new.table.code)
        statement.bind(3, survivor.rawValue)
        statement.bind(4, session.coding(new.table).encode(new.state, columns: nil) ?? [])
        try statement.run()
        let keys = try database.prepared("INSERT INTO _eclipsedKey (key, row) VALUES (?1, ?2)")
        for key in new.keys {
            keys.bind(1, key.bytes)
            keys.bind(2, new.row.rawValue)
            try keys.run()
        }
        scratch.knownAlive[new.row] = nil
        scratch.knownEclipsed[new.row] = survivor
    }

    /// Takes a row off the eclipsed ones.
    func removeEclipsed(_ row: RowID) throws {
        try removeEclipsedKeys(row)
        let statement = try database.prepared("DELETE FROM _eclipsed WHERE row = ?1")
        statement.bind(1, row.rawValue)
        try statement.run()
        state.eclipsed -= 1
        scratch.knownEclipsed[row] = nil
    }

    private func removeEclipsedKeys(_ row: RowID) throws {
        let statement = try database.prepared("DELETE FROM _eclipsedKey WHERE row = ?1")
        statement.bind(1, row.rawValue)
        try statement.run()
    }
}

extension UniqueKey {
    /// The key as bytes, for looking it up among eclipsed rows.
    var bytes: [UInt8] {
        var writer = CBORWriter(capacity: 64)
        writer.beginArray(1 + values.count)
        writer.write(constraint)
        for value in values { writer.write(value) }
        return writer.bytes
    }
}

extension EntityTable {
    /// The keys that a living row of these registers has.
    func keys(of state: RowState) -> [UniqueKey] {
        if constraints.isEmpty { return [] }
        return constraints.compactMap { constraint in
            constraint.key { state.visible($0, policies(for: state))?.value ?? .null }
        }
    }
}
