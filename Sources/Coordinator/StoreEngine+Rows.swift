import Merge

/// A row as the engine holds it in hand: its registers and what its columns show.
struct LoadedRow {
    let table: EntityTable
    let row: RowID
    var state: RowState
    let isAlive: Bool
    /// The projected values; of a dead row its last visible values, unprojected.
    let columns: [PropertyValue]

    /// Whether it is a tombstone without values: a delete of a row that was collected already.
    var isTrace: Bool { state.insertion.siblings.isEmpty }

    /// The row as readers see it.
    var objectID: ManagedObjectID {
        ManagedObjectID(entityName: table.entity.name, row: row)
    }
}

extension StoreEngine {
    /// The table of an entity of the model.
    func table(_ entity: String) -> EntityTable {
        guard let table = tables[entity] else {
            preconditionFailure("Entity \(entity) is not in the model of this store.")
        }
        return table
    }

    func coding(_ table: EntityTable) -> RowCoding {
        RowCoding(table: table, actors: state.actors)
    }

    /// Loads a row, alive or dead; nil where nothing is known of it.
    ///
    /// - Parameter table: of the row's entity or of one it inherits from.
    func load(_ table: EntityTable, _ row: RowID) throws -> LoadedRow? {
        var table = table
        if table.entity.sharesTable {
            let statement = try database.prepared(
                "SELECT _entity FROM \(EntityTable.quote(table.entity.root)) WHERE _id = ?1")
            statement.bind(1, row.rawValue)
            if try statement.step() {
                let code = statement.integer(0)
                statement.reset()
                table = try concrete(code, under: table)
            }
        }
        let statement = try database.prepared(table.selectSQL)
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return try loadTombstone(table, row) }
        defer { statement.reset() }
        var columns: [PropertyValue] = []
        columns.reserveCapacity(table.entity.properties.count)
        for (position, property) in table.entity.properties.enumerated() {
            columns.append(try statement.value(Int32(position + 4), property.content))
        }
        let registers = statement.isNull(3) ? nil : statement.bytes(3)
        let state = try coding(table).decode(
            version: statement.integer(1), timestamp: statement.integer(2),
            registers: registers, columns: columns)
        return LoadedRow(table: table, row: row, state: state, isAlive: true, columns: columns)
    }

    private func concrete(_ code: Int64, under table: EntityTable) throws -> EntityTable {
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
        let state = try coding(concrete).decode(
            version: 0, timestamp: 0, registers: statement.bytes(1), columns: nil)
        let values = concrete.entity.properties.indices.map {
            state.visible($0, concrete.entity.policies)?.value ?? .null
        }
        return LoadedRow(
            table: concrete, row: row, state: state, isAlive: false, columns: values)
    }

    /// Whether readers see a row.
    func isAlive(_ row: RowID, root: String) throws -> Bool {
        if let known = knownAlive[row] { return known == root }
        let statement = try database.prepared(
            "SELECT 1 FROM \(EntityTable.quote(root)) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        let found = try statement.step()
        statement.reset()
        if found { knownAlive[row] = root }
        return found
    }

    /// Writes a row that is new, alive and was written by one transaction alone.
    ///
    /// - Parameter values: in canonical order, references projected.
    func insertPristine(
        _ table: EntityTable, row: RowID, stamp: Stamp, values: [PropertyValue]
    ) throws {
        let statement = try insertStatement(table)
        statement.bind(1, row.rawValue)
        statement.bind(2, versionInteger(stamp.dot))
        statement.bind(3, Int64(bitPattern: stamp.timestamp.rawValue))
        statement.bindNull(4)
        var index: Int32 = 5
        for value in values {
            statement.bind(index, value)
            index += 1
        }
        if table.entity.sharesTable { statement.bind(index, table.code) }
        try statement.run()

        state.digest.add(
            RowDigest.hashPristine(table, row: row, dot: stamp.dot, values: values))
        group.inserted.append(
            ManagedObjectID(entityName: table.entity.name, row: row))
    }

    /// The statement that inserts into a table; runs of one table look it up once.
    private func insertStatement(_ table: EntityTable) throws -> SQLStatement {
        if let last = lastInsert, last.table === table { return last.statement }
        let statement = try database.prepared(table.insertSQL)
        lastInsert = (table, statement)
        return statement
    }

    /// The integer of a dot; a transaction's rows all ask for the same one.
    private func versionInteger(_ dot: Dot) -> Int64 {
        if let last = lastVersion, last.dot == dot { return last.integer }
        let integer = state.actors.integer(dot)
        lastVersion = (dot, integer)
        return integer
    }

    /// What the columns show of registers: visible values, with references to living rows only.
    func project(
        _ table: EntityTable, _ row: RowID, _ state: RowState
    ) throws -> [PropertyValue] {
        let policies = table.entity.policies
        var columns = table.entity.properties.indices.map {
            state.visible($0, policies)?.value ?? .null
        }
        for (position, root) in table.references {
            guard case .reference(let target) = columns[position] else { continue }
            if try !isAlive(target, root: root) { columns[position] = .null }
        }
        if !table.exclusive.isEmpty {
            for claim in claims(table, state) where try !stands(claim, of: row, table, state) {
                if let position = table.entity.position(of: claim.property) {
                    columns[position] = .null
                }
            }
        }
        return columns
    }

    /// The rows that a row's registers refer to without their being alive.
    func dangling(_ loaded: LoadedRow) -> [(position: Int, target: RowID)] {
        guard loaded.isAlive, !loaded.table.references.isEmpty else { return [] }
        return dangling(loaded.table, loaded.state, columns: loaded.columns)
    }

    func dangling(
        _ table: EntityTable, _ state: RowState, columns: [PropertyValue]
    ) -> [(position: Int, target: RowID)] {
        table.references.compactMap { position, _ in
            guard columns[position].isNull,
                case .reference(let target)? = state.visible(position, table.entity.policies)?
                    .value
            else { return nil }
            return (position, target)
        }
    }

    /// Writes a row's new state over its old one: table or tombstone, digest, dangling
    /// references, journal.
    ///
    /// - Returns: the row as it is now.
    @discardableResult
    func write(
        _ table: EntityTable, row: RowID, old: LoadedRow?, state newState: RowState, by stamp: Stamp
    ) throws -> LoadedRow {
        let isAlive = newState.isAlive(table.entity.policies)
        let columns =
            isAlive
            ? try project(table, row, newState)
            : table.entity.properties.indices.map {
                newState.visible($0, table.entity.policies)?.value ?? .null
            }
        let new = LoadedRow(
            table: table, row: row, state: newState, isAlive: isAlive, columns: columns)
        if let old, old.isAlive {
            state.digest.subtract(
                RowDigest.hash(
                    table, row: row, state: old.state, columns: old.columns))
        }
        if isAlive {
            state.digest.add(
                RowDigest.hash(table, row: row, state: newState, columns: columns))
        }

        switch (old?.isAlive ?? false, isAlive) {
        case (true, true):
            try writeColumns(table.updateSQL, new)
            group.updated.append(new.objectID)
        case (false, true):
            if old != nil { try removeTombstone(row) }
            try writeColumns(table.insertSQL, new)
            group.inserted.append(new.objectID)
            knownAlive[row] = table.entity.root
        case (true, false):
            let statement = try database.prepared(table.deleteSQL)
            statement.bind(1, row.rawValue)
            try statement.run()
            try writeTombstone(new)
            state.tombstones += 1
            group.deleted.append(new.objectID)
            knownAlive[row] = nil
        case (false, false):
            try writeTombstone(new)
            if old == nil { state.tombstones += 1 }
        }
        try noteDangling(old: old, new: new)
        try noteUncollected(new)
        try journal(old: old, new: new, by: stamp)
        return new
    }

    func writeColumns(_ sql: String, _ new: LoadedRow) throws {
        let statement = try database.prepared(sql)
        guard let latest = new.state.existence.siblings.last else {
            preconditionFailure("Row \(new.row) has no existence.")
        }
        statement.bind(1, new.row.rawValue)
        statement.bind(2, state.actors.integer(latest.dot))
        statement.bind(3, Int64(bitPattern: latest.stamp.timestamp.rawValue))
        if let registers = coding(new.table).encode(new.state, columns: new.columns) {
            statement.bind(4, registers)
        } else {
            statement.bindNull(4)
        }
        var index: Int32 = 5
        for value in new.columns {
            statement.bind(index, value)
            index += 1
        }
        if sql == new.table.insertSQL, new.table.entity.sharesTable {
            statement.bind(index, new.table.code)
        }
        try statement.run()
    }

    private func writeTombstone(_ dead: LoadedRow) throws {
        let statement = try database.prepared(
            """
            INSERT INTO _tombstone (row, entity, registers) VALUES (?1, ?2, ?3)
            ON CONFLICT (row) DO UPDATE SET registers = excluded.registers
            """)
        statement.bind(1, dead.row.rawValue)
        statement.bind(2, dead.table.code)
        statement.bind(3, coding(dead.table).encode(dead.state, columns: nil) ?? [])
        try statement.run()
    }

    func removeTombstone(_ row: RowID) throws {
        let statement = try database.prepared("DELETE FROM _tombstone WHERE row = ?1")
        statement.bind(1, row.rawValue)
        try statement.run()
        state.tombstones -= 1
    }

    private func noteDangling(old: LoadedRow?, new: LoadedRow) throws {
        if new.table.references.isEmpty { return }
        let before = Set((old.map(dangling) ?? []).map(\.target))
        let after = Set(dangling(new).map(\.target))
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
}

extension RowState {
    /// Whether any register has more than one sibling: only then can there be conflicts.
    var hasSiblings: Bool {
        existence.siblings.count > 1 || properties.contains { $0.siblings.count > 1 }
    }
}
