import Merge

extension RowWriter {
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
        for value in table.derived.ownValues(values, newest: stamp.timestamp) {
            statement.bind(index, value)
            index += 1
        }
        if table.entity.sharesTable { statement.bind(index, table.code) }
        try statement.run()
        try derivedAttributes.note(table, row, from: nil, to: values)
        countTracker.noteCounts(table, row, from: nil, to: values)

        state.digest.add(
            RowDigest.hashPristine(table, row: row, dot: stamp.dot, values: values))
        group.inserted.append(
            ManagedObjectID(entityName: table.entity.name, row: row))
    }

    /// The statement that inserts into a table; runs of one table look it up once.
    private func insertStatement(_ table: EntityTable) throws -> SQLStatement {
        if let last = scratch.lastInsert, last.table === table { return last.statement }
        let statement = try database.prepared(table.insertSQL)
        scratch.lastInsert = (table, statement)
        return statement
    }

    /// The integer of a dot; a transaction's rows all ask for the same one.
    private func versionInteger(_ dot: Dot) -> Int64 {
        if let last = scratch.lastVersion, last.dot == dot { return last.integer }
        let integer = state.actors.integer(dot)
        scratch.lastVersion = (dot, integer)
        return integer
    }

    /// Writes the rows of a transaction that does nothing but insert rows on which no other row hangs.
    ///
    /// Everything that rows have in common is looked up once, and sums are kept in local variables
    /// until the end: a catch-up and an import are little else than this loop.
    ///
    /// - Parameter mayBeDead: whether a row may have a tombstone.
    func insertPlain(
        _ transaction: Transaction, _ shapes: [ResolvedShape], mayBeDead: Bool
    ) throws {
        let dot = transaction.dot
        let version = state.actors.integer(dot)
        let timestamp = Int64(bitPattern: transaction.timestamp.rawValue)
        var digest = ProjectionDigest()
        var current: (shape: Int, table: EntityTable, statement: SQLStatement, places: [Int])?
        for change in transaction.changes {
            if current?.shape != change.shape {
                guard case .rows(let table, let positions) = shapes[change.shape] else { continue }
                current = (
                    change.shape, table, try database.prepared(table.insertSQL),
                    Self.places(positions, of: table)
                )
            }
            guard let (_, table, statement, places) = current else { continue }
            if mayBeDead, try rowStore.loadTombstone(table, change.row) != nil {
                throw RowAlarm.identityExists
            }
            statement.bind(1, change.row.rawValue)
            statement.bind(2, version)
            statement.bind(3, timestamp)
            statement.bindNull(4)
            let names = table.entity.digestNames
            var hasher = RowHasher(entity: names.entity, row: change.row, insertion: dot)
            for (position, place) in places.enumerated() {
                let index = Int32(truncatingIfNeeded: position) + 5
                guard place >= 0 else {
                    statement.bindNull(index)
                    continue
                }
                let value = change.values[place]
                statement.bind(index, value)
                hasher.combine(property: names.properties[position], value: value, dot: dot)
            }
            var next = Int32(truncatingIfNeeded: places.count) + 5
            if !table.derived.own.isEmpty {
                let values = places.map { $0 < 0 ? PropertyValue.null : change.values[$0] }
                for value in table.derived.ownValues(values, newest: transaction.timestamp) {
                    statement.bind(next, value)
                    next += 1
                }
            }
            if table.entity.sharesTable { statement.bind(next, table.code) }
            do {
                try statement.run()
            } catch let failure as SQLFailure where failure.isIdentityTaken {
                throw RowAlarm.identityExists
            }
            digest.add(hasher.finalize())
            group.inserted.append(
                ManagedObjectID(entityName: table.entity.name, row: change.row))
        }
        state.digest.add(digest)
    }

    /// For each property of a table the place of its value in a change, or -1.
    static func places(_ positions: [Int], of table: EntityTable) -> [Int] {
        var places = [Int](repeating: -1, count: table.entity.properties.count)
        for (place, position) in positions.enumerated() { places[position] = place }
        return places
    }
}
