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
        guard let first = request.operations.first, first.kind == .insert else { return nil }
        var table = self.table(first.entity.name)
        guard isPlain(table) else { return nil }
        var allocator = state.allocator
        var shapes = ShapeTable()
        var inserted: [SaveResult.InsertedRow] = []
        var changes: [Change] = []
        inserted.reserveCapacity(request.operations.count)
        changes.reserveCapacity(request.operations.count)
        for operation in request.operations {
            guard operation.kind == .insert, operation.relationships.isEmpty,
                operation.row.rawValue < 0
            else { return nil }
            if operation.entity !== table.entity {
                table = self.table(operation.entity.name)
                guard isPlain(table) else { return nil }
            }
            let row = allocator.next()
            inserted.append(
                .init(
                    temporary: operation.row, row: row, entityName: table.entity.name,
                    name: operation.name))
            guard let carried = carried(operation.values, table) else { return nil }
            let shape = shapes.position(of: table, assigned: operation.values, carried: carried)
            var values: [PropertyValue] = []
            values.reserveCapacity(operation.values.count + carried.count)
            for entry in operation.values { values.append(entry.value) }
            for entry in carried { values.append(entry.value) }
            changes.append(Change(kind: .insert, shape: shape, row: row, values: values))
        }
        state.allocator = allocator
        return try write(request, shapes.shapes, changes, inserted)
    }

    private func isPlain(_ table: EntityTable) -> Bool {
        let entity = table.entity
        return !entity.isAbstract && table.references.isEmpty && !table.hasCounts
            && entity.uniquenessConstraints.isEmpty && !entity.policies.isRowGrained
    }

    /// The defaults that go with the values an insert assigns; nil where something is not valid.
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
        if table.defaults.isEmpty { return [] }
        return table.defaults.filter { entry in
            !values.contains { $0.position == entry.position }
        }
    }

    private func write(
        _ request: SaveRequest, _ shapes: [ChangeShape], _ changes: [Change],
        _ inserted: [SaveResult.InsertedRow]
    ) throws -> SaveResult {
        let seen = state.versionVector
        let dot = Dot(actor: actor, sequence: seen[actor] + 1)
        let timestamp = state.clock.now(wallMilliseconds: environment.wallMilliseconds())
        let transaction = Transaction(
            dot: dot, timestamp: timestamp, seen: seen, author: request.author,
            contextName: request.contextName, saveID: request.saveID,
            modelHash: model.versionHash, shapes: shapes, changes: changes)
        try apply(try encode(transaction), isLocal: true)
        let version = RowVersion(dots: [dot])
        let result = SaveResult(
            transaction: dot, timestamp: timestamp, seen: seen, token: token,
            insertedRows: inserted, conflicts: [],
            rows: changes.map { change in
                SaveResult.SavedRow(
                    objectID: ManagedObjectID(
                        entityName: shapes[change.shape].entity, row: change.row),
                    version: version, values: nil)
            })
        if let saveID = request.saveID { try remember(result, under: saveID) }
        return result
    }

    /// Writes the rows of a transaction that does nothing but insert rows without references.
    ///
    /// What every row has in common is looked up once, and what they add up to is kept in local
    /// variables until the end: a catch-up and an import are little else than this loop.
    func insertPlain(
        _ transaction: Transaction, _ shapes: [ResolvedShape], isLocal: Bool
    ) throws {
        let dot = transaction.dot
        let version = state.actors.integer(dot)
        let timestamp = Int64(bitPattern: transaction.timestamp.rawValue)
        let mayBeDead = !isLocal && state.tombstones > 0
        var digest = state.digest
        var inserted: [ManagedObjectID] = []
        inserted.reserveCapacity(transaction.changes.count)
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
                guard place >= 0 else {
                    statement.bindNull(Int32(truncatingIfNeeded: position) + 5)
                    continue
                }
                let value = change.values[place]
                statement.bind(Int32(truncatingIfNeeded: position) + 5, value)
                hasher.combine(property: names.properties[position], value: value, dot: dot)
            }
            if table.entity.sharesTable { statement.bind(Int32(places.count) + 5, table.code) }
            do {
                try statement.run()
            } catch let failure as SQLFailure where failure.isIdentityTaken {
                throw RowAlarm.identityExists
            }
            digest.add(hasher.finalize())
            inserted.append(ManagedObjectID(entityName: table.entity.name, row: change.row))
        }
        state.digest = digest
        group.inserted.append(contentsOf: inserted)
    }

    /// For each property of a table the place of its value in a change, or -1.
    private static func places(_ positions: [Int], of table: EntityTable) -> [Int] {
        var places = [Int](repeating: -1, count: table.entity.properties.count)
        for (place, position) in positions.enumerated() { places[position] = place }
        return places
    }
}
