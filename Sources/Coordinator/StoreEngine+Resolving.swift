import Merge

extension StoreEngine {
    /// The save that resolves a conflict.
    func resolution(
        of id: ConflictID, _ resolution: ConflictResolution, sides: [Dot]?, author: String?,
        contextName: String?
    ) throws -> SaveRequest {
        try checkUndecided(id)
        let conflict = try journalled(id)
        try check(sides, are: conflict.sides.compactMap(\.dot), of: id)
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
            operation = try choosing(try side(dot, of: nil, in: conflict), of: conflict)
        case .sideOf(let object, let dot):
            operation = try choosing(try side(dot, of: object, in: conflict), of: conflict)
        case .sideNumber(let number):
            operation = try choosing(try side(numbered: number, in: conflict), of: conflict)
        case .policy(let policy):
            operation = try choosing(try side(by: policy, of: conflict), of: conflict)
        case .values(let values):
            try checkReferences(values, of: conflict.object)
            operation = try update(conflict, values.sorted { $0.key < $1.key })
            try check(operation, settles: conflict)
        case .delete: operation = try delete(conflict)
        case .change:
            throw CoordinatorError(
                .conflictNotFound,
                "\(id) is not about a unique key, so no changes of objects resolve it; choose a side, "
                    + "a policy or values.")
        }
        return SaveRequest(
            operations: [try exact(operation, of: conflict)], author: author,
            contextName: contextName)
    }

    /// The save that undoes a conflict's outcome.
    func undoing(
        _ id: ConflictID, sides: [Dot]?, author: String?, contextName: String?
    ) throws -> SaveRequest {
        let conflict = try journalled(id)
        // A policy's outcome replaced the sides that are not visible, whether it is open or
        // stability has closed it; a resolution replaced what was visible until then.
        let isPolicys = conflict.state == .settled
        let standing = outcome(of: conflict)
        let wanted =
            conflict.sides.indices.last { standing.contains($0) != isPolicys }
            .map { conflict.sides[$0] } ?? conflict.sides.last
        guard conflict.kind != .uniqueness else {
            throw CoordinatorError(
                .cannotBeUndone,
                "\(id) cannot be undone. Change a key of one of its objects, and each is shown; of "
                    + "those that were deleted the journal has the values.")
        }
        guard conflict.kind != .count else {
            throw CoordinatorError(
                .cannotBeUndone,
                "\(id) cannot be undone; add objects or take some away, or delete the object.")
        }
        guard !conflict.hasFormerNames, model.entity(named: conflict.object.entityName) != nil
        else {
            throw CoordinatorError(
                .conflictNotFound,
                "\(id) cannot be undone: a migration has given a name in it to something else, or "
                    + "taken it away, since it was closed. The journal has the values; save them as "
                    + "usual.")
        }
        if conflict.kind == .dangling, let wanted, try !leads(conflict, wanted) {
            throw CoordinatorError(
                .cannotBeUndone,
                wanted.value?.isNull ?? true
                    ? "\(id) cannot be undone: it refers to nothing. Give it another object."
                    : "\(id) cannot be undone while the object it refers to is gone; should that "
                        + "return, so does the reference.")
        }
        // Deciding over one property says nothing of the object's life.
        if conflict.kind == .update || conflict.kind == .dangling {
            let loaded = try load(table(try entity(conflict.object).name), conflict.id.row)
            guard loaded?.isAlive ?? false else {
                throw CoordinatorError(
                    .objectNotFound,
                    "\(id) cannot be undone: its object is deleted. Undo the delete first, if it can be."
                )
            }
        }
        guard conflict.state != .unresolved, let wanted else {
            throw CoordinatorError(
                .conflictNotFound, "\(id) has no outcome to undo: it is unresolved.")
        }
        if sides != nil {
            let newer = try newerWrites(than: conflict, undoneBy: wanted)
            try check(sides, are: conflict.sides.compactMap(\.dot) + newer, of: id)
        }
        return SaveRequest(
            operations: [try exact(try choosing(wanted, of: conflict), of: conflict)],
            author: author, contextName: contextName)
    }

    /// The sides that a conflict's own policy let stand, by their places. Readers may see none of them,
    /// where the object is united with others and another's value is shown.
    private func outcome(of conflict: Conflict) -> Set<Int> {
        let visible = Set(conflict.sides.indices.filter { conflict.sides[$0].isVisible })
        guard visible.isEmpty, [.update, .row].contains(conflict.kind) else { return visible }
        let sides = conflict.sides.indices
        let chosen = conflict.policy.choice == .earliest ? sides.first : sides.last
        return Set([chosen].compactMap { $0 })
    }

    /// The operation for the row that the conflict is about alone, where another one is shown in its place,
    /// or where it decides over one property or link: the sides are those of that register, and say nothing
    /// of what others of its group have (MODEL P18).
    private func exact(
        _ operation: SaveOperation, of conflict: Conflict
    ) throws -> SaveOperation {
        var operation = operation
        operation.isExact =
            try survivor(of: conflict.id.row) != nil
            || operation.kind != .delete && isOfOneRegister(conflict)
        return operation
    }

    /// Whether what is written to one object of a group alone is what is shown of it: of a link it is, and of a
    /// property where the latest of the group's writes stands, or each object keeps its own. Where the
    /// earliest stands another's value would be shown, that nobody chose; then all are written. So they are
    /// where nobody has decided between the group's values, which are the sides then.
    private func isOfOneRegister(_ conflict: Conflict) throws -> Bool {
        guard conflict.kind == .update else { return conflict.kind == .link }
        guard let name = conflict.property,
            let loaded = try load(table(try entity(conflict.object).name), conflict.id.row),
            let position = loaded.table.entity.position(of: name)
        else { return false }
        if loaded.undecided.contains(where: { $0.position == position }) { return false }
        let policy = loaded.table.policies(for: loaded.state).properties[position]
        return policy.leavesUnresolved || policy.choice == .latest
    }

    private func journalled(_ id: ConflictID) throws -> Conflict {
        let statement = try database.prepared(
            "SELECT record, opened FROM _conflict WHERE id = ?1 AND closed = ?2")
        statement.bind(
            1, ConflictID(entity: id.entity, row: id.row, subject: id.subject).description)
        statement.bind(2, Int64(bitPattern: id.closedAt ?? 0))
        guard try statement.step() else {
            throw CoordinatorError(.conflictNotFound, "There is no conflict \(id).")
        }
        defer { statement.reset() }
        return try ConflictCoding.decode(
            statement.bytes(0), id: id, openedAt: UInt64(bitPattern: statement.integer(1)))
    }

    /// Refuses values that would leave open what they are to resolve.
    ///
    /// Any value of a row decides over the row as a whole, and over a delete; over one property only
    /// its own does. A to-many is no value.
    private func check(_ operation: SaveOperation, settles conflict: Conflict) throws {
        switch conflict.kind {
        case .link, .count:
            throw CoordinatorError(
                .conflictNotFound, "\(conflict.id) cannot be resolved by values.")
        case .update, .dangling:
            guard let property = conflict.property,
                let position = operation.entity.position(of: property)
            else { break }
            if operation.values.contains(where: { $0.position == position }) { return }
            throw CoordinatorError(
                .malformed,
                "These values would leave \(conflict.id) open: it takes one for \(property), and of "
                    + "objects one that is there.")
        case .delete, .row, .save, .uniqueness:
            if !operation.values.isEmpty { return }
        }
        throw CoordinatorError(
            .malformed, "These values would leave \(conflict.id) open: there are none.")
    }

    /// Refuses references to what is not there, as a save does.
    func checkReferences(
        _ values: [String: PropertyValue], of object: ManagedObjectID
    ) throws {
        let named = try entity(object)
        let entity = try load(table(named.name), object.row)?.table.entity ?? named
        let failures = try values.sorted { $0.key < $1.key }.compactMap { name, value in
            guard case .reference(let target) = value, let position = entity.position(of: name),
                case .toOne(let destination) = entity.properties[position].content,
                try !isFound(target, as: destination)
            else { return ValidationFailure?.none }
            return ValidationFailure(
                object: told(object.row, entity.name), property: name, code: .danglingReference,
                message: "\(name) refers to an object that is not there.")
        }
        guard let first = failures.first else { return }
        throw CoordinatorError(.validationFailed, first.message, failures: failures)
    }

    /// Nobody decides over what they have not seen (MODEL P18).
    private func check(_ seen: [Dot]?, are sides: [Dot], of id: ConflictID) throws {
        guard let seen, Set(seen) != Set(sides) else { return }
        throw CoordinatorError(
            .sidesChanged,
            "\(id) has other sides by now: " + sides.map(\.description).joined(separator: ", ")
                + ".")
    }

    private func choosing(_ side: ConflictSide, of conflict: Conflict) throws -> SaveOperation {
        switch conflict.kind {
        case .update:
            guard let property = conflict.property, let value = side.value else { break }
            if case .reference = value, try !leads(conflict, side) {
                // What is shown reads as nil, which can be accepted; nothing else would come in its place.
                guard side.isVisible else {
                    throw CoordinatorError(
                        .objectNotFound,
                        "The object that this side of \(conflict.id) refers to is gone; choose another "
                            + "side, or values.")
                }
                return try update(conflict, [(property, .null)])
            }
            return try update(conflict, [(property, value)])
        case .delete, .row, .save:
            if side.isDeleted { return try delete(conflict) }
            var operation =
                try revival(of: conflict, from: side)
                ?? update(conflict, side.row.map { ($0.name, $0.value) })
            operation.relationships = try side.relationships.map {
                try amongTheLiving($0, of: operation.entity)
            }
            return operation
        case .dangling:
            guard let property = conflict.property, let value = side.value else { break }
            // Of what is gone, choosing the reference can only be to accept that it reads as nil.
            return try update(conflict, [(property, try leads(conflict, side) ? value : .null)])
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

    /// Whether a side's reference leads to an object that is there.
    private func leads(_ conflict: Conflict, _ side: ConflictSide) throws -> Bool {
        let entity = try entity(conflict.object)
        guard case .reference(let target)? = side.value, let property = conflict.property,
            let position = entity.position(of: property),
            case .toOne(let destination) = entity.properties[position].content
        else { return false }
        return try isFound(target, as: destination)
    }

    /// A change of a to-many without the objects that are gone since.
    private func amongTheLiving(
        _ change: RelationshipOperation, of entity: ManagedObjectModel.Entity
    ) throws -> RelationshipOperation {
        guard let destination = entity.relationship(named: change.name)?.destination else {
            throw CoordinatorError(
                .malformed, "\(entity.name) has no relationship \(change.name).")
        }
        var change = change
        change.members = try change.members.filter { try isFound($0, as: destination) }
        return change
    }

    /// The operation that brings back a row whose tombstone is gone; nil where the row is known.
    ///
    /// - Throws: ``CoordinatorError`` (`objectNotFound`) where the journal does not have the
    ///   whole row, and nothing else has: part of it would show differently on nodes that still have the
    ///   tombstone, and of one that has no values the rest would come back as null.
    private func revival(
        of conflict: Conflict, from side: ConflictSide
    ) throws -> SaveOperation? {
        let named = try entity(conflict.object)
        let loaded = try load(table(named.name), conflict.id.row)
        let isKnown = !(loaded?.isTrace ?? true)
        // Where the row is one register, its tombstone has nothing but the delete.
        let isEmpty = loaded.map { !$0.isAlive && $0.table.policies(for: $0.state).isRowGrained }
        if isKnown, isEmpty != true { return nil }
        let entity = loaded?.table.entity ?? named
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
        if isKnown { return nil }
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
                try !isFound(target, as: destination)
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
