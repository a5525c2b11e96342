import Merge

/// A row as the engine holds it in hand: its registers and what its columns show.
struct LoadedRow {
    let table: EntityTable
    let row: RowID
    var state: RowState
    let isAlive: Bool
    /// The projected values; of a dead or eclipsed row its own visible values, unprojected.
    let columns: [PropertyValue]
    /// The row that is shown in this one's place, where that is so.
    var survivor: RowID?
    /// Of a survivor, the rows it eclipses, in order of insertion.
    var eclipsed: [LoadedRow] = []

    /// Whether it is a tombstone without values: a delete of a row that was collected already.
    var isTrace: Bool { state.insertion.siblings.isEmpty }

    /// The row as readers see it.
    var objectID: ManagedObjectID {
        ManagedObjectID(entityName: table.entity.name, row: row)
    }
}

/// A row's place in a group.
struct Grouping {
    /// The row that is shown in its place; nil where it is shown itself.
    let survivor: RowID?
    /// Of a survivor, the rows it eclipses, in order of insertion.
    let eclipsed: [LoadedRow]
}

extension LoadedRow {
    /// The same row with other columns.
    func showing(_ columns: [PropertyValue]) -> LoadedRow {
        LoadedRow(
            table: table, row: row, state: state, isAlive: isAlive, columns: columns,
            survivor: survivor, eclipsed: eclipsed)
    }

    /// Whether readers see the row itself.
    var isVisible: Bool { isAlive && survivor == nil }

    /// Whether a to-one that must lead to something reads as nil: that is a conflict.
    var lacksReference: Bool {
        isVisible && table.mandatoryReferences.contains { columns[$0].isNull }
    }

    /// The version readers get, and save against.
    var version: RowVersion {
        if eclipsed.isEmpty { return state.version }
        return RowVersion(dots: state.version.dots, eclipsed: eclipsedVersions)
    }

    /// The versions of the rows it eclipses.
    var eclipsedVersions: [RowVersion.Eclipsed] {
        eclipsed.map { RowVersion.Eclipsed(row: $0.row, dots: $0.state.version.dots) }
    }

    /// What readers see of a property before references are projected: of the row's own
    /// registers, or of its group's.
    func shown(_ position: Int) -> Sibling<PropertyValue>? {
        if eclipsed.isEmpty { return state.visible(position, table.policies(for: state)) }
        return combination.visible(position)
    }

    /// The properties of a group's survivor that nobody has decided, each with its sides.
    var undecided: [(position: Int, sides: [GroupSide])] {
        if eclipsed.isEmpty { return [] }
        let combination = combination
        return table.entity.properties.indices.compactMap { position in
            let sides = combination.undecided(position)
            return sides.isEmpty ? nil : (position, sides)
        }
    }

    var combination: GroupCombination {
        GroupCombination(
            survivor: GroupMember(
                row: row, state: state, policies: table.policies(for: state)),
            eclipsed: eclipsed.map { member in
                GroupMember(
                    row: member.row, state: member.state,
                    policies: member.table.policies(for: member.state),
                    positions: member.table === table
                        ? nil : table.positions(in: member.table))
            }, constrained: table.constrained, policies: table.entity.policies)
    }
}

extension StoreEngine {
    /// The table of an entity of the model.
    func table(_ entity: String) -> EntityTable {
        guard let table = tables[entity] else {
            fatalError("Entity \(entity) is not in the model of this store.")
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
        let state = try coding(table).decode(
            version: statement.integer(1), timestamp: statement.integer(2),
            registers: registers, columns: columns, eclipsed: &eclipsed)
        var loaded = LoadedRow(
            table: table, row: row, state: state, isAlive: true, columns: columns)
        if !eclipsed.isEmpty { loaded.eclipsed = try loadEclipsed(by: loaded) }
        return loaded
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
        let state = try coding(concrete).decode(
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
        noteCounts(table, row, from: nil, to: values)

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

    /// What the columns of a visible row show: visible values, its own or its group's, with
    /// references to visible rows only.
    func project(_ loaded: LoadedRow) throws -> [PropertyValue] {
        let table = loaded.table
        var columns = table.entity.properties.indices.map { loaded.shown($0)?.value ?? .null }
        for (position, _) in table.references {
            guard case .reference(let target) = columns[position] else { continue }
            columns[position] =
                try ledTo(target, from: table, position).map { .reference($0) } ?? .null
        }
        if !table.exclusive.isEmpty {
            for claim in try claims(loaded) where try !stands(claim, of: loaded) {
                if let position = table.entity.position(of: claim.property) {
                    columns[position] = .null
                }
            }
        }
        return columns
    }

    /// The rows that a row's registers refer to without their being alive.
    func dangling(_ loaded: LoadedRow) -> [(position: Int, target: RowID)] {
        guard loaded.isVisible, !loaded.table.references.isEmpty else { return [] }
        return loaded.table.references.compactMap { position, _ in
            guard loaded.columns[position].isNull,
                case .reference(let target)? = loaded.shown(position)?.value
            else { return nil }
            return (position, target)
        }
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
        let isAlive = newState.isAlive(table.policies(for: newState))
        var new = LoadedRow(
            table: table, row: row, state: newState, isAlive: isAlive, columns: [],
            survivor: isAlive ? grouping.map(\.survivor) ?? old?.survivor : nil,
            eclipsed: isAlive ? grouping?.eclipsed ?? old?.eclipsed ?? [] : [])
        new = new.showing(
            new.isVisible
                ? try project(new)
                : table.entity.properties.indices.map {
                    newState.visible($0, table.policies(for: newState))?.value ?? .null
                })
        if let old, old.isAlive { state.digest.subtract(RowDigest.hash(old)) }
        if isAlive { state.digest.add(RowDigest.hash(new)) }
        try place(new, over: old)
        try noteDangling(old: old, new: new)
        try noteDerived(old: old, new: new)
        noteCounts(
            table, row, from: old.flatMap { $0.isVisible ? $0.columns : nil },
            to: new.isVisible ? new.columns : nil)
        try noteUncollected(new)
        try journal(old: old, new: new, by: stamp)
        return new
    }

    /// Puts a row where it belongs: its entity's table, the eclipsed rows or the tombstones.
    private func place(_ new: LoadedRow, over old: LoadedRow?) throws {
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
            knownAlive[row] = nil
        case (false, _):
            if let old, old.isAlive, !new.isAlive || new.isVisible { try removeEclipsed(row) }
            if let old, !old.isAlive, new.isAlive { try removeTombstone(row) }
        }
        if new.isVisible {
            try writeColumns(new.table.insertSQL, new)
            group.inserted.append(new.objectID)
            knownEclipsed[row] = nil
            knownAlive[row] = new.table.entity.root
        } else if let survivor = new.survivor {
            try writeEclipsed(new, survivor: survivor, isNew: old?.survivor == nil)
        } else {
            try writeTombstone(new)
            knownEclipsed[row] = nil
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
        let registers = coding(new.table).encode(
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
