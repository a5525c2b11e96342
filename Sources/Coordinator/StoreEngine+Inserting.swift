import Merge

extension StoreEngine {
    /// Saves a request that does nothing but insert, straight from its operations.
    ///
    /// An import is a million of these: without a plan by row an insert costs half. The checks
    /// are the same, and come before the first write.
    ///
    /// - Returns: nil where the request needs the whole plan: other kinds of operation,
    ///   relationships kept elsewhere, uniqueness constraints, counts, or anything not valid,
    ///   which the plan then reports in full.
    func saveInserts(_ request: SaveRequest) throws -> SaveResult? {
        guard request.operations.first?.kind == .insert else { return nil }
        return try plainInserts(request.operations).map { try write(request, $0) }
    }

    /// Works out the changes of inserts; nil if they need the whole plan.
    private func plainInserts(_ operations: [SaveOperation]) -> PlainInserts? {
        var inserts = PlainInserts(capacity: operations.count)
        var allocator = state.allocator
        var current: EntityTable?
        for operation in operations {
            guard operation.kind == .insert, operation.relationships.isEmpty,
                operation.row.rawValue < 0
            else { return nil }
            if operation.entity !== current?.entity {
                let table = table(operation.entity.name)
                guard !table.entity.isAbstract, !table.isCounted, table.constraints.isEmpty,
                    table.references.isEmpty
                else { return nil }
                current = table
            }
            guard let table = current, let carried = carried(operation.values, table) else {
                return nil
            }
            let row = allocator.next()
            inserts.inserted.append(
                .init(
                    temporary: operation.row, row: row, entityName: table.entity.name,
                    name: operation.name))
            let shape = inserts.shapes.position(
                of: table, assigned: operation.values, carried: carried)
            var values: [PropertyValue] = []
            values.reserveCapacity(operation.values.count + carried.count)
            for entry in operation.values { values.append(entry.value) }
            for entry in carried { values.append(entry.value) }
            inserts.changes.append(Change(kind: .insert, shape: shape, row: row, values: values))
        }
        state.allocator = allocator
        return inserts
    }

    /// What goes with the values that an insert assigns: the defaults, and of a row that is one register
    /// nulls; nil where something is not valid.
    private func carried(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable
    ) -> [(position: Int, value: PropertyValue)]? {
        for (index, entry) in values.enumerated() {
            if entry.value.isNull {
                if table.mandatory.contains(entry.position) { return nil }
            } else {
                guard let type = table.plainTypes[entry.position],
                    Validation.fits(entry.value, type: type)
                else { return nil }
            }
            for earlier in values[..<index] where earlier.position == entry.position { return nil }
        }
        for position in table.mandatory
        where !values.contains(where: { $0.position == position })
            && !table.defaults.contains(where: { $0.position == position })
        {
            return nil
        }
        func isAssigned(_ position: Int) -> Bool { values.contains { $0.position == position } }
        var carried = table.defaults.filter { !isAssigned($0.position) }
        if table.entity.policies.isRowGrained {
            // The whole row is one register.
            carried += table.entity.properties.indices.filter { position in
                !isAssigned(position) && !table.defaults.contains { $0.position == position }
            }.map { ($0, .null) }
        }
        return carried
    }

    /// Saves inserts whose changes are worked out.
    private func write(_ request: SaveRequest, _ inserts: PlainInserts) throws -> SaveResult {
        let seen = state.versionVector
        let shapes = inserts.shapes.shapes
        let transaction = transaction(of: request, shapes, inserts.changes)
        try apply(try encode(transaction), isLocal: true)
        let version = RowVersion(dots: [transaction.dot])
        let result = SaveResult(
            transaction: transaction.dot, timestamp: transaction.timestamp, seen: seen,
            token: token, insertedRows: inserts.inserted, conflicts: [],
            rows: inserts.changes.map { change in
                SaveResult.SavedRow(
                    objectID: ManagedObjectID(
                        entityName: shapes[change.shape].entity, row: change.row),
                    version: version, values: nil)
            })
        if let saveID = request.saveID { try remember(result, to: request, under: saveID) }
        return result
    }

    /// Writes the rows of a transaction that does nothing but insert rows on which no other row hangs.
    ///
    /// What every row has in common is looked up once, and what they add up to is kept in local
    /// variables until the end: a catch-up and an import are little else than this loop.
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
            if mayBeDead, try loadTombstone(table, change.row) != nil {
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
            if table.entity.sharesTable { statement.bind(Int32(places.count) + 5, table.code) }
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
    private static func places(_ positions: [Int], of table: EntityTable) -> [Int] {
        var places = [Int](repeating: -1, count: table.entity.properties.count)
        for (place, position) in positions.enumerated() { places[position] = place }
        return places
    }
}

/// The inserts of a save as changes, in the making.
private struct PlainInserts {
    var shapes = ShapeTable()
    var inserted: [SaveResult.InsertedRow] = []
    var changes: [Change] = []

    init(capacity: Int) {
        inserted.reserveCapacity(capacity)
        changes.reserveCapacity(capacity)
    }
}
