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
}
