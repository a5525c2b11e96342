import Merge

/// The plain rows of one entity without references: loaded, updated and deleted by ranges of rows, and
/// nothing else with them.
struct PlainRowStore: StorePart {
    let session: StoreSession
    let table: EntityTable
    private let select: SQLStatement

    /// The most rows that are in hand at once.
    static let rowsAtOnce = 128

    /// - Returns: nil where rows of the entity may show what others do, or are one register.
    init?(_ session: StoreSession, _ table: EntityTable) throws {
        guard table.references.isEmpty, !table.isGrouped, !table.entity.policies.isRowGrained
        else { return nil }
        self.session = session
        self.table = table
        select = try session.database.prepared(table.selectOwnSQL)
    }

    /// The place behind a run of rows that follow each other without a gap, of ``rowsAtOnce`` at most.
    static func end<Item>(of items: [Item], from start: Int, _ row: (Item) -> RowID) -> Int {
        let first = row(items[start]).rawValue
        var end = start + 1
        while end < items.count, end - start < rowsAtOnce,
            row(items[end]).rawValue == first + Int64(end - start)
        {
            end += 1
        }
        return end
    }

    /// Loads rows that follow each other.
    ///
    /// - Returns: in their order, and nil for each that is none of the entity's own, or not plain.
    func load(_ first: RowID, count: Int) throws -> [PlainRow?] {
        if let known = session.plannedRows.rows(first, count, of: table) { return known }
        let rows = try read(first, count: count)
        session.plannedRows.note(rows, from: first, of: table)
        return rows
    }

    private func read(_ first: RowID, count: Int) throws -> [PlainRow?] {
        var rows: [PlainRow?] = []
        rows.reserveCapacity(count)
        select.bind(1, first.rawValue)
        select.bind(2, first.rawValue + Int64(count) - 1)
        while try select.step() {
            let place = Int(select.integer(0) - first.rawValue)
            while rows.count < place { rows.append(nil) }
            do {
                rows.append(try current())
            } catch {
                select.reset()
                throw error
            }
        }
        while rows.count < count { rows.append(nil) }
        return rows
    }

    private func current() throws -> PlainRow? {
        let row = RowID(select.integer(0))
        let latest = PlainRow.Write(
            dot: select.integer(1), timestamp: UInt64(bitPattern: select.integer(2)))
        var columns: [PropertyValue] = []
        columns.reserveCapacity(table.contents.count)
        var index: Int32 = 4
        for content in table.contents {
            columns.append(try select.value(index, content))
            index += 1
        }
        let plain: PlainRow?
        if select.isNull(3) {
            plain = PlainRow(row, insertion: latest, columns: columns)
        } else {
            // Those who load any row tell what is damaged.
            plain = try? PlainRow(
                row, latest: latest, registers: select.bytes(3), columns: columns, table)
        }
        guard let plain else { return nil }
        if table.history.isPlain { return plain }
        // What its writer's model lacks is another writer's word.
        let writer = try state.actors.dot(plain.insertion.dot).actor
        return table.absent(of: writer).isEmpty ? plain : nil
    }

    /// Whether a write has seen all that a row is.
    func isSeen(_ row: PlainRow, by seen: VersionVector) throws -> Bool {
        seen.contains(try state.actors.dot(row.latest.dot))
    }

    /// Updates rows.
    func update(
        _ changes: [(row: PlainRow, values: [PropertyValue])], at positions: [Int], by stamp: Stamp
    ) throws {
        if changes.isEmpty { return }
        let write = write(of: stamp)
        let sql = table.updateSQL(at: positions)
        let isNarrow = session.keepsStatement(sql)
        let statement = try database.prepared(isNarrow ? sql : table.updateSQL)
        let bound = isNarrow ? positions : Array(table.contents.indices)
        for (old, values) in changes {
            var new = old
            new.assign(values, at: positions, write)
            state.digest.subtract(try old.hash(table, state.actors))
            state.digest.add(try new.hash(table, state.actors))
            statement.bind(1, old.row.rawValue)
            statement.bind(2, write.dot)
            statement.bind(3, Int64(bitPattern: write.timestamp))
            statement.bind(4, new.registers(table))
            var index: Int32 = 5
            for position in bound {
                statement.bind(index, new.columns[position])
                index += 1
            }
            for value in table.derived.ownValues(new.columns, newest: new.newest) {
                statement.bind(index, value)
                index += 1
            }
            try statement.run()
            group.updated.append(ManagedObjectID(entityName: table.entity.name, row: old.row))
            try derivedAttributes.note(table, old.row, from: old.columns, to: new.columns)
        }
    }

    /// Deletes rows that follow each other, of an entity that is ``EntityTable/isApart``.
    func delete(_ rows: [PlainRow], by stamp: Stamp) throws {
        guard let first = rows.first?.row, let last = rows.last?.row else { return }
        let write = write(of: stamp)
        let bury = try database.prepared(RowStore.tombstoneSQL)
        for row in rows {
            state.digest.subtract(try row.hash(table, state.actors))
            bury.bind(1, row.row.rawValue)
            bury.bind(2, table.code)
            bury.bind(3, row.tombstone(table, by: write))
            try bury.run()
            group.deleted.append(ManagedObjectID(entityName: table.entity.name, row: row.row))
        }
        let statement = try database.prepared(table.deleteRangeSQL)
        statement.bind(1, first.rawValue)
        statement.bind(2, last.rawValue)
        try statement.run()
        state.tombstones += rows.count
        if !scratch.knownAlive.isEmpty { for row in rows { scratch.knownAlive[row.row] = nil } }
        try collectionList.noteUncollected(first...last, table.entity.name, stamp.dot)
    }

    private func write(of stamp: Stamp) -> PlainRow.Write {
        PlainRow.Write(
            dot: state.actors.integer(stamp.dot), timestamp: stamp.timestamp.rawValue)
    }
}

/// The plain rows that the save under way was planned with, so that they are not loaded again to be
/// written. Nothing is written between.
struct PlannedRows {
    private var isOn = false
    private var chunks: [RowID: (table: EntityTable, rows: [PlainRow?])] = [:]
    /// Of ``PlainRowStore/rowsAtOnce`` rows each: those of a batch's transaction.
    private static let limit = 100

    /// Begins with a save: nothing is known.
    mutating func begin() {
        chunks.removeAll(keepingCapacity: true)
        isOn = true
    }

    /// Ends with it.
    mutating func end() {
        chunks.removeAll(keepingCapacity: true)
        isOn = false
    }

    func rows(_ first: RowID, _ count: Int, of table: EntityTable) -> [PlainRow?]? {
        guard let known = chunks[first], known.table === table, known.rows.count == count else {
            return nil
        }
        return known.rows
    }

    mutating func note(_ rows: [PlainRow?], from first: RowID, of table: EntityTable) {
        guard isOn, chunks.count < Self.limit else { return }
        chunks[first] = (table, rows)
    }
}
