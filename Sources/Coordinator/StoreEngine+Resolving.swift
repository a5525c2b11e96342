import Merge

extension StoreEngine {
    /// The save that resolves a conflict.
    func resolution(
        of id: ConflictID, _ resolution: ConflictResolution, sides: [Dot]?, author: String?,
        contextName: String?
    ) throws -> SaveRequest {
        let conflict = try journalled(id, sides: sides)
        guard conflict.isOpen else {
            throw CoordinatorError(
                .conflictNotFound, "\(id) is closed already; undo it, or save as usual.")
        }
        if conflict.kind == .uniqueness {
            return SaveRequest(
                operations: try resolving(conflict, resolution), author: author,
                contextName: contextName)
        }
        let operation: SaveOperation
        switch resolution {
        case .side(let dot):
            guard let side = conflict.sides.first(where: { $0.dot == dot }) else {
                throw CoordinatorError(.sidesChanged, "\(id) has no side \(dot).")
            }
            operation = try choosing(side, of: conflict)
        case .policy(let policy):
            operation = try choosing(try side(by: policy, of: conflict), of: conflict)
        case .values(let values):
            operation = try update(conflict, values.sorted { $0.key < $1.key })
        case .delete: operation = try delete(conflict)
        case .change(let changes):
            return SaveRequest(
                operations: try changes.sorted { $0.key < $1.key }.map { object, values in
                    try update(object, values.sorted { $0.key < $1.key })
                }, author: author, contextName: contextName)
        }
        return SaveRequest(operations: [operation], author: author, contextName: contextName)
    }

    /// The save that undoes a conflict's outcome.
    func undoing(
        _ id: ConflictID, sides: [Dot]?, author: String?, contextName: String?
    ) throws -> SaveRequest {
        let conflict = try journalled(id, sides: sides)
        // A policy's outcome replaced the sides that are not visible, whether it is open or
        // stability has closed it; a resolution replaced what was visible until then.
        let isPolicys = conflict.state == .settled
        let wanted = conflict.sides.last { $0.isVisible != isPolicys } ?? conflict.sides.last
        guard conflict.kind != .uniqueness else {
            throw CoordinatorError(
                .conflictNotFound,
                "\(id) cannot be undone; change a key of one of its objects, and each is shown.")
        }
        guard conflict.kind != .count else {
            throw CoordinatorError(
                .conflictNotFound,
                "\(id) cannot be undone; add objects or take some away, or delete the object.")
        }
        guard conflict.state != .unresolved, let wanted else {
            throw CoordinatorError(
                .conflictNotFound, "\(id) has no outcome to undo: it is unresolved.")
        }
        return SaveRequest(
            operations: [try choosing(wanted, of: conflict)], author: author,
            contextName: contextName)
    }

    private func journalled(_ id: ConflictID, sides: [Dot]?) throws -> Conflict {
        let statement = try database.prepared(
            "SELECT record, opened FROM _conflict WHERE id = ?1 AND closed = ?2")
        statement.bind(
            1, ConflictID(entity: id.entity, row: id.row, subject: id.subject).description)
        statement.bind(2, Int64(bitPattern: id.closedAt ?? 0))
        guard try statement.step() else {
            throw CoordinatorError(.conflictNotFound, "There is no conflict \(id).")
        }
        defer { statement.reset() }
        let conflict = try ConflictCoding.decode(
            statement.bytes(0), id: id, openedAt: UInt64(bitPattern: statement.integer(1)))
        if let sides, Set(sides) != Set(conflict.sides.compactMap(\.dot)) {
            throw CoordinatorError(
                .sidesChanged,
                "\(id) has other sides by now: "
                    + conflict.sides.compactMap { $0.dot?.description }.joined(separator: ", ")
                    + ".")
        }
        return conflict
    }

    private func side(by policy: MergePolicy, of conflict: Conflict) throws -> ConflictSide {
        let writes = conflict.sides.filter { !$0.isDeleted }
        let chosen: ConflictSide?
        switch policy {
        case .error, .errorByRow:
            throw CoordinatorError(.malformed, "Policy \(policy.rawValue) decides nothing.")
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            let deletion = conflict.sides.first(where: \.isDeleted)
            chosen =
                conflict.kind == .link
                ? (policy.choice == .earliest ? conflict.sides.first : conflict.sides.last)
                : deletion ?? (policy.choice == .earliest ? writes.first : writes.last)
        case .rollback: chosen = conflict.sides.first
        case .overwrite: chosen = conflict.sides.last
        }
        guard let chosen else {
            throw CoordinatorError(.conflictNotFound, "\(conflict.id) has no sides.")
        }
        return chosen
    }

    private func choosing(_ side: ConflictSide, of conflict: Conflict) throws -> SaveOperation {
        switch conflict.kind {
        case .update:
            guard let property = conflict.property, let value = side.value else { break }
            return try update(conflict, [(property, value)])
        case .delete, .row, .save:
            if side.isDeleted { return try delete(conflict) }
            if let revival = try revival(of: conflict, from: side) { return revival }
            return try update(conflict, side.row.map { ($0.name, $0.value) })
        case .dangling:
            guard let property = conflict.property else { break }
            return try update(conflict, [(property, .null)])
        case .link:
            guard case .reference(let target)? = side.value, let property = conflict.property
            else { break }
            let entity = try entity(conflict.object)
            return SaveOperation(
                kind: .update, entity: entity, row: conflict.id.row,
                relationships: [
                    RelationshipOperation(
                        name: property, kind: side.isDeleted ? .remove : .add, members: [target])
                ], resolves: true)
        case .uniqueness, .count: break
        }
        throw CoordinatorError(
            .conflictNotFound, "\(conflict.id) cannot be resolved by choosing a side.")
    }

    /// The operation that brings back a row whose tombstone is gone; nil where the row is known.
    ///
    /// - Throws: ``CoordinatorError`` (`objectNotFound`) where the journal does not have the
    ///   whole row: part of it would show differently on nodes that still have the tombstone.
    private func revival(
        of conflict: Conflict, from side: ConflictSide
    ) throws -> SaveOperation? {
        let named = try entity(conflict.object)
        let trace = try load(table(named.name), conflict.id.row)
        guard trace?.isTrace ?? true else { return nil }
        let entity = trace?.table.entity ?? named
        let values = entity.properties.enumerated().compactMap { position, property in
            side.row.first { $0.name == property.name }.map {
                (position: position, value: $0.value)
            }
        }
        guard values.count == entity.properties.count else {
            throw CoordinatorError(
                .objectNotFound,
                "\(conflict.object) is deleted for good, and the journal has no more than a part "
                    + "of it.")
        }
        var operation = SaveOperation(
            kind: .update, entity: entity, row: conflict.id.row, values: values, resolves: true)
        operation.isWholeRow = true
        return operation
    }

    func entity(_ object: ManagedObjectID) throws -> ManagedObjectModel.Entity {
        guard let entity = model.entity(named: object.entityName) else {
            throw CoordinatorError(
                .malformed, "There is no entity \(object.entityName) in the model.")
        }
        return entity
    }

    private func delete(_ conflict: Conflict) throws -> SaveOperation {
        SaveOperation(
            kind: .delete, entity: try entity(conflict.object), row: conflict.id.row,
            resolves: true)
    }

    private func update(
        _ conflict: Conflict, _ values: [(String, PropertyValue)]
    ) throws -> SaveOperation {
        try update(conflict.object, values)
    }

    func update(
        _ object: ManagedObjectID, _ values: [(String, PropertyValue)]
    ) throws -> SaveOperation {
        let named = try entity(object)
        let loaded = try load(table(named.name), object.row)
        // A caller may name an entity that the object's own inherits from.
        let entity = loaded?.table.entity ?? named
        var assigned: [(position: Int, value: PropertyValue)] = []
        for (name, value) in values {
            guard let position = entity.position(of: name) else {
                throw CoordinatorError(
                    .malformed, "\(entity.name) has no stored property \(name).")
            }
            // A side's reference may lead to a row that is gone since; then it stays as it is.
            if case .reference(let target) = value,
                case .toOne(let destination) = entity.properties[position].content,
                try !isAlive(target, root: table(destination).entity.root)
            {
                if loaded?.shown(position)?.value == value { continue }
                assigned.append((position, .null))
                continue
            }
            assigned.append((position, value))
        }
        return SaveOperation(
            kind: .update, entity: entity, row: object.row, values: assigned, resolves: true)
    }
}
