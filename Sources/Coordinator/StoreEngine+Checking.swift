import Merge

extension StoreEngine {
    /// Saving over what waits for a decision takes an explicit word (DESIGN section 6).
    func checkUnresolved(_ plan: SavePlan) throws {
        var found: [MergeConflict] = []
        for row in plan.order {
            guard let planned = plan.rows[row], !planned.resolves, let loaded = planned.loaded,
                loaded.state.hasSiblings
            else { continue }
            let conflicts = loaded.state.conflicts(loaded.table.entity.policies)
                .filter { $0.state == .unresolved }
            let touched = conflicts.contains { conflict in
                switch conflict.subject {
                // What the policy left unchanged is not written, and so decides nothing (MODEL P19).
                case .object: planned.kind != .update || !planned.changedValues.isEmpty
                case .property(let position):
                    planned.kind != .delete && planned.value(at: position) != nil
                }
            }
            if touched {
                found.append(
                    MergeConflict(
                        object: loaded.objectID,
                        properties: conflicts.compactMap {
                            guard case .property(let position) = $0.subject else { return nil }
                            return loaded.table.entity.properties[position].name
                        }, oldVersion: nil, newVersion: loaded.state.version,
                        objectSnapshot: nil, cachedSnapshot: nil, persistedSnapshot: nil))
            }
        }
        if !found.isEmpty {
            throw CoordinatorError(
                .unresolvedConflict,
                "\(found[0].object) has an unresolved conflict between nodes; resolve it, or say "
                    + "that this save resolves it.", conflicts: found)
        }
    }

    /// Keys of this node's visible rows stay unique at every save made here.
    func checkConstraints(_ plan: SavePlan) throws {
        var holders: [UniqueKey: RowID] = [:]
        for row in plan.order {
            guard let planned = plan.rows[row], planned.kind != .delete else { continue }
            let entity = planned.table.entity
            for constraint in entity.uniquenessConstraints {
                let names = constraint.map { entity.properties[$0].name }
                let values = constraint.map { position in
                    planned.value(at: position) ?? planned.loaded?.columns[position] ?? .null
                }
                if values.contains(where: \.isNull) { continue }
                let scope = scope(of: names, entity)
                let key = UniqueKey(scope: scope.name, names: names, values: values)
                let isTouched = planned.touches(names)
                if let other = holders[key] {
                    if isTouched || plan.rows[other]?.touches(names) ?? false {
                        throw taken(key, by: other, entity)
                    }
                    continue
                }
                holders[key] = row
                if isTouched, let other = try holder(of: key, scope, besides: row, plan) {
                    throw taken(key, by: other, entity)
                }
            }
        }
    }

    /// The entity that a constraint was declared on: its rows, and those of entities that inherit
    /// from it, compete.
    private func scope(
        of names: [String], _ entity: ManagedObjectModel.Entity
    ) -> ManagedObjectModel.Entity {
        var scope = entity
        while let parent = scope.parent.flatMap({ model.entity(named: $0) }),
            parent.uniquenessConstraints.contains(where: {
                $0.map { parent.properties[$0].name } == names
            })
        {
            scope = parent
        }
        return scope
    }

    private func taken(
        _ key: UniqueKey, by other: RowID, _ entity: ManagedObjectModel.Entity
    ) -> CoordinatorError {
        CoordinatorError(
            .constraintConflict,
            "\(entity.name) has another object with the same "
                + key.names.joined(separator: " and ") + ".",
            conflicts: [
                MergeConflict(
                    object: ManagedObjectID(entityName: entity.name, row: other),
                    properties: key.names, oldVersion: nil, newVersion: nil,
                    objectSnapshot: nil,
                    cachedSnapshot: Dictionary(
                        zip(key.names, key.values), uniquingKeysWith: { first, _ in first }),
                    persistedSnapshot: nil)
            ])
    }

    /// The row of the store that has a key and keeps it.
    private func holder(
        of key: UniqueKey, _ scope: ManagedObjectModel.Entity, besides row: RowID,
        _ plan: SavePlan
    ) throws -> RowID? {
        var terms = key.names.enumerated().map { "\(EntityTable.quote($1)) = ?\($0 + 1)" }
        if scope.parent != nil {
            let codes = scope.familyNames.map { String(table($0).code) }
            terms.append("_entity IN (\(codes.joined(separator: ", ")))")
        }
        let statement = try database.prepared(
            "SELECT _id FROM \(EntityTable.quote(scope.root)) WHERE "
                + terms.joined(separator: " AND ") + " ORDER BY _id")
        for (index, value) in key.values.enumerated() {
            statement.bind(Int32(index + 1), value)
        }
        var found: RowID?
        while try statement.step() {
            let candidate = RowID(statement.integer(0))
            // Rows of this save are compared as the save leaves them.
            if found != nil || candidate == row { continue }
            if let planned = plan.rows[candidate],
                planned.kind == .delete || planned.touches(key.names)
            {
                continue
            }
            found = candidate
        }
        return found
    }
}

/// What may be held once: the values of a constraint's properties, among the rows of an entity.
private struct UniqueKey: Hashable {
    let scope: String
    let names: [String]
    let values: [PropertyValue]
}

extension SavePlan.Row {
    /// Whether the save may change a key of these properties.
    fileprivate func touches(_ names: [String]) -> Bool {
        kind != .update || names.contains { value(of: $0) != nil }
    }
}
