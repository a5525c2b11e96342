import Merge

/// Deciding over objects that have one unique key.
extension ConflictResolver {
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
            let side = try side(dot, of: nil, in: conflict)
            return try keeping(side.object ?? conflict.object, of: conflict)
        case .sideOf(let object, let dot):
            let side = try side(dot, of: object, in: conflict)
            return try keeping(side.object ?? conflict.object, of: conflict)
        case .sideNumber(let number):
            let side = try side(numbered: number, in: conflict)
            return try keeping(side.object ?? conflict.object, of: conflict)
        case .policy(let policy):
            if policy.leavesUnresolved {
                throw CoordinatorError(.malformed, "Policy \(policy.rawValue) decides nothing.")
            }
            if case .named = policy {
                throw CoordinatorError(
                    .malformed, "Policy \(policy.rawValue) is for values of attributes.")
            }
            let side = policy.choice == .earliest ? conflict.sides.first : conflict.sides.last
            guard let object = side?.object else {
                throw CoordinatorError(.conflictNotFound, "\(conflict.id) has no sides.")
            }
            return try keeping(object, of: conflict)
        case .values(let values): return try changing([conflict.object: values], of: conflict)
        case .change(let changes): return try changing(changes, of: conflict)
        case .delete:
            return [
                SaveOperation(
                    kind: .delete, entity: try entity(conflict.object), row: conflict.object.row,
                    resolves: true)
            ]
        }
    }

    /// The operations that change objects of the group, a key of one of them at least.
    func changing(
        _ changes: [ManagedObjectID: [String: PropertyValue]], of conflict: Conflict
    ) throws -> [SaveOperation] {
        let root = try entity(conflict.object).root
        let names = try keyNames(of: conflict)
        var isKeyChanged = false
        let operations = try changes.sorted { $0.key < $1.key }.map { object, values in
            guard try entity(object).root == root,
                let side = conflict.sides.first(where: { $0.object?.row == object.row })
            else {
                throw CoordinatorError(.sidesChanged, "\(conflict.id) has no side of \(object).")
            }
            try checkReferences(values, of: object)
            var operation = try update(object, values.sorted { $0.key < $1.key })
            operation.isExact = true
            let entity = operation.entity
            isKeyChanged =
                isKeyChanged
                || operation.values.contains { position, value in
                    let name = entity.properties[position].name
                    return names.contains(name)
                        && side.row.first { $0.name == name }?.value != value
                }
            return operation
        }
        guard isKeyChanged else {
            throw CoordinatorError(
                .malformed,
                "These values would leave \(conflict.id) open: it takes another value for "
                    + "\(names.joined(separator: " or ")).")
        }
        return operations
    }

    /// The properties of the constraint that a conflict is about.
    private func keyNames(of conflict: Conflict) throws -> [String] {
        let constraint = table(conflict.object.entityName).constraints
            .first { "unique.\($0.name)" == conflict.id.subject }
        guard let constraint else {
            throw CoordinatorError(
                .conflictNotFound, "The model has no constraint for \(conflict.id) any more.")
        }
        return constraint.names
    }

    func keeping(
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
        let rows = Set(gone.map(\.row))
        return try leading(from: rows, to: kept, of: conflict) + linking(from: rows, to: kept)
            + operations
    }

    /// The entity of an object, which may inherit from the one that it is named by.
    private func ownEntity(of object: ManagedObjectID) throws -> ManagedObjectModel.Entity {
        try view.load(table(object.entityName), object.row)?.table.entity ?? entity(object)
    }

    /// The operation that gives an object the links that readers see of rows that go; none where
    /// it has them all.
    private func linking(
        from gone: Set<RowID>, to kept: ManagedObjectID
    ) throws -> [SaveOperation] {
        let entity = try ownEntity(of: kept)
        var additions: [RelationshipOperation] = []
        for relationship in entity.relationships {
            guard case .link(let name, let isFirst) = relationship.storage,
                let link = model.link(named: name)
            else { continue }
            let destination = table(relationship.destination)
            let root = destination.entity.root
            func linked(_ row: RowID) throws -> Set<RowID> {
                Set(
                    try view.livingLinks(link, isFirst ? "source" : "target", row).compactMap {
                        try view.shownRow(isFirst ? $0.target : $0.source, as: destination)
                    })
            }
            let isOfGroup = root == entity.root
            var members = Set<RowID>()
            for row in gone { members.formUnion(try linked(row)) }
            members.subtract(try linked(kept.row))
            if isOfGroup { members.subtract(gone.union([kept.row])) }
            if members.isEmpty { continue }
            additions.append(
                RelationshipOperation(
                    name: relationship.name, kind: .add, members: members.sorted()))
        }
        if additions.isEmpty { return [] }
        var operation = SaveOperation(
            kind: .update, entity: entity, row: kept.row, relationships: additions,
            resolves: true)
        operation.isExact = true
        return [operation]
    }

    /// The operations that lead references to rows that go to the one that is kept.
    func leading(
        from gone: Set<RowID>, to kept: ManagedObjectID, of conflict: Conflict
    ) throws -> [SaveOperation] {
        let root = try entity(kept).root
        var operations: [SaveOperation] = []
        for referring in tables.values.sorted(by: { $0.entity.name < $1.entity.name }) {
            for (position, target) in referring.references where target == root {
                // Where it can lead to the one that is kept; else it leads nowhere once they are gone.
                guard case .toOne(let name) = referring.entity.properties[position].content,
                    try table(name).entity.familyNames.contains(ownEntity(of: kept).name)
                else { continue }
                let rows = try view.rowsShowing(conflict.id.row, at: position, of: referring)
                for row in rows where !gone.contains(row) {
                    guard let loaded = try view.load(referring, row),
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
