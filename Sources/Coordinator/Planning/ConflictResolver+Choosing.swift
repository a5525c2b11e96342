import Merge

/// The writes that choose a side.
extension ConflictResolver {
    /// The side with a number, from 1, in the order in which they are listed.
    func side(numbered number: Int, in conflict: Conflict) throws -> ConflictSide {
        guard conflict.sides.indices.contains(number - 1) else {
            throw CoordinatorError(
                .sidesChanged,
                "\(conflict.id) has \(conflict.sides.count) sides, and no side \(number).")
        }
        return conflict.sides[number - 1]
    }

    /// The side that a transaction wrote; of several objects that it gave one key, that object's.
    func side(
        _ dot: Dot, of object: ManagedObjectID?, in conflict: Conflict
    ) throws -> ConflictSide {
        var sides = conflict.sides.filter { $0.dot == dot }
        guard let object else {
            guard sides.count < 2 else {
                let objects = sides.compactMap(\.object).map(\.description)
                throw CoordinatorError(
                    .sideAmbiguous,
                    "\(dot) wrote several sides of \(conflict.id), of \(objects.joined(separator: ", ")); "
                        + "name the object beside the side, or decide by changes of their keys, or "
                        + "by deleting objects.")
            }
            guard let side = sides.first else {
                throw CoordinatorError(.sidesChanged, "\(conflict.id) has no side \(dot).")
            }
            return side
        }
        let root = try entity(object).root
        sides = try sides.filter { side in
            let other = side.object ?? conflict.object
            return try other.row == object.row && entity(other).root == root
        }
        guard let side = sides.first else {
            throw CoordinatorError(
                .sidesChanged, "\(conflict.id) has no side \(dot) of \(object).")
        }
        return side
    }

    func side(by policy: MergePolicy, of conflict: Conflict) throws -> ConflictSide {
        let chosen: ConflictSide?
        switch policy {
        case .error, .errorByRow:
            throw CoordinatorError(.malformed, "Policy \(policy.rawValue) decides nothing.")
        case .named(let named):
            guard policy == conflict.policy else {
                throw CoordinatorError(
                    .malformed, "Policy \(policy.rawValue) is not that of \(conflict.id).")
            }
            guard
                let place = self.chosen(
                    by: named, of: conflict, among: Array(conflict.sides.indices))
            else {
                throw CoordinatorError(
                    .malformed, "Policy \(policy.rawValue) is for values of attributes.")
            }
            chosen = conflict.sides[place]
        default: chosen = conflict.side(shownBy: policy)
        }
        guard let chosen else {
            throw CoordinatorError(.conflictNotFound, "\(conflict.id) has no sides.")
        }
        return chosen
    }

    func choosing(_ side: ConflictSide, of conflict: Conflict) throws -> SaveOperation {
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
    func leads(_ conflict: Conflict, _ side: ConflictSide) throws -> Bool {
        let entity = try entity(conflict.object)
        guard case .reference(let target)? = side.value, let property = conflict.property,
            let position = entity.position(of: property),
            case .toOne(let destination) = entity.properties[position].content
        else { return false }
        return try view.isFound(target, as: destination)
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
        change.members = try change.members.filter { try view.isFound($0, as: destination) }
        return change
    }

    /// The operation that brings back a row whose tombstone is gone; nil where the row is known.
    ///
    /// - Throws: ``CoordinatorError`` (`objectNotFound`) where the journal does not have the
    ///   whole row, and nothing else has: part of it would show differently on nodes that still have the
    ///   tombstone, and of one that has no values the rest would come back as null.
    func revival(
        of conflict: Conflict, from side: ConflictSide
    ) throws -> SaveOperation? {
        let named = try entity(conflict.object)
        let loaded = try view.load(table(named.name), conflict.id.row)
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

    func delete(_ conflict: Conflict) throws -> SaveOperation {
        SaveOperation(
            kind: .delete, entity: try entity(conflict.object), row: conflict.id.row,
            resolves: true)
    }

    func update(
        _ conflict: Conflict, _ values: [(String, PropertyValue)]
    ) throws -> SaveOperation {
        try update(conflict.object, values)
    }

    func update(
        _ object: ManagedObjectID, _ values: [(String, PropertyValue)]
    ) throws -> SaveOperation {
        let named = try entity(object)
        let loaded = try view.load(table(named.name), object.row)
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
                try !view.isFound(target, as: destination)
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
