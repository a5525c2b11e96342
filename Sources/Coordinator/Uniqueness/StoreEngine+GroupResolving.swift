import Merge

/// Deciding over objects that have one unique key.
extension StoreEngine {
    /// The operations that resolve a conflict over a unique key.
    ///
    /// Choosing a side keeps its object and deletes the others, whose references and links go
    /// over to it. Values are for the object shown, and changes for the objects they name: a key
    /// that is changed lets each be shown. Each operation is for the row it names alone, but
    /// where the object shown is to go as a whole.
    func resolving(
        _ conflict: Conflict, _ resolution: ConflictResolution
    ) throws -> [SaveOperation] {
        switch resolution {
        case .side(let dot):
            guard let side = conflict.sides.first(where: { $0.dot == dot }),
                let object = side.object
            else { throw CoordinatorError(.sidesChanged, "\(conflict.id) has no side \(dot).") }
            return try keeping(object, of: conflict)
        case .policy(let policy):
            if policy.leavesUnresolved {
                throw CoordinatorError(.malformed, "Policy \(policy.rawValue) decides nothing.")
            }
            let side = policy.choice == .earliest ? conflict.sides.first : conflict.sides.last
            guard let object = side?.object else {
                throw CoordinatorError(.conflictNotFound, "\(conflict.id) has no sides.")
            }
            return try keeping(object, of: conflict)
        case .values(let values): return [try exact(conflict.object, values)]
        case .change(let changes):
            return try changes.sorted { $0.key < $1.key }.map { try exact($0.key, $0.value) }
        case .delete:
            return [
                SaveOperation(
                    kind: .delete, entity: try entity(conflict.object), row: conflict.object.row,
                    resolves: true)
            ]
        }
    }

    private func exact(
        _ object: ManagedObjectID, _ values: [String: PropertyValue]
    ) throws -> SaveOperation {
        var operation = try update(object, values.sorted { $0.key < $1.key })
        operation.isExact = true
        return operation
    }

    private func keeping(
        _ kept: ManagedObjectID, of conflict: Conflict
    ) throws -> [SaveOperation] {
        let gone = conflict.sides.compactMap(\.object).filter { $0 != kept }
        var operations: [SaveOperation] = []
        for object in gone {
            var operation = SaveOperation(
                kind: .delete, entity: try entity(object), row: object.row, resolves: true)
            operation.isExact = true
            operations.append(operation)
        }
        return try leading(from: Set(gone.map(\.row)), to: kept, of: conflict) + operations
    }

    /// The operations that lead references to rows that go to the one that is kept.
    private func leading(
        from gone: Set<RowID>, to kept: ManagedObjectID, of conflict: Conflict
    ) throws -> [SaveOperation] {
        let root = try entity(kept).root
        var operations: [SaveOperation] = []
        for referring in tables.values.sorted(by: { $0.entity.name < $1.entity.name }) {
            for (position, target) in referring.references where target == root {
                let column = EntityTable.quote(referring.entity.properties[position].name)
                let own = referring.entity.sharesTable ? " AND _entity = \(referring.code)" : ""
                let statement = try database.prepared(
                    "SELECT _id FROM \(EntityTable.quote(referring.entity.root)) "
                        + "WHERE \(column) = ?1\(own) ORDER BY _id")
                statement.bind(1, conflict.id.row.rawValue)
                var rows: [RowID] = []
                while try statement.step() { rows.append(RowID(statement.integer(0))) }
                for row in rows where !gone.contains(row) {
                    guard let loaded = try load(referring, row),
                        case .reference(let raw)? = loaded.shown(position)?.value,
                        gone.contains(raw)
                    else { continue }
                    operations.append(
                        SaveOperation(
                            kind: .update, entity: referring.entity, row: row,
                            values: [(position, .reference(kept.row))], resolves: true))
                }
            }
        }
        return operations
    }
}
