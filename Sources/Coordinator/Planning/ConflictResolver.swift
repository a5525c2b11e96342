import Merge

/// The save that resolves a conflict, or undoes a resolution.
struct ConflictResolver: PlanningPart {
    let view: StoreView

    /// The save that resolves a conflict.
    func resolution(
        of id: ConflictID, _ resolution: ConflictResolution, sides: [Dot]?, by who: SaveDescription
    ) throws -> SaveRequest {
        try checkUndecided(id)
        let conflict = try journalled(id)
        try check(sides, are: conflict.sides.compactMap(\.dot), of: id)
        guard conflict.isOpen else {
            throw CoordinatorError(
                .conflictNotFound, "\(id) is closed already; undo it, or save as usual.")
        }
        if conflict.kind == .uniqueness {
            // Each row that refers to a loser is an operation. Nobody can divide them.
            return SaveRequest(
                operations: try resolving(conflict, resolution), by: who, isBulk: true)
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
        return SaveRequest(operations: [try exact(operation, of: conflict)], by: who)
    }

    /// The save that undoes a conflict's outcome.
    ///
    /// - Parameter id: the conflict. The name of an open one also stands for the newest closed one if
    ///   a policy settled that, because stability closes such a conflict at any time.
    func undoing(
        _ id: ConflictID, sides: [Dot]?, by who: SaveDescription
    ) throws -> SaveRequest {
        let conflict = try settledSince(id) ?? journalled(id)
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
            let loaded = try view.load(table(try entity(conflict.object).name), conflict.id.row)
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
            operations: [try exact(try choosing(wanted, of: conflict), of: conflict)], by: who)
    }

    /// The sides that a conflict's own policy let stand, by their places. Readers may see none of them,
    /// where the object is united with others and another's value is shown.
    func outcome(of conflict: Conflict) -> Set<Int> {
        let visible = Set(conflict.sides.indices.filter { conflict.sides[$0].isVisible })
        guard visible.isEmpty, [.update, .row].contains(conflict.kind) else { return visible }
        let sides = conflict.sides.indices
        if case .named(let policy) = conflict.policy {
            return Set(chosen(by: policy, of: conflict, among: Array(sides)).map { [$0] } ?? [])
        }
        let chosen = conflict.policy.choice == .earliest ? sides.first : sides.last
        return Set([chosen].compactMap { $0 })
    }

    /// The place of the side that an application's policy chooses from some; nil where they are no
    /// writes of values.
    func chosen(
        by policy: NamedMergePolicy, of conflict: Conflict, among places: [Int]
    ) -> Int? {
        let writes = places.compactMap { place -> (place: Int, write: NamedMergePolicy.Write)? in
            let side = conflict.sides[place]
            guard let value = side.value, let timestamp = side.timestamp, let dot = side.dot else {
                return nil
            }
            return (place, .init(value: value, timestamp: timestamp, dot: dot))
        }
        guard conflict.kind == .update, !writes.isEmpty else { return nil }
        return writes[policy.chosen(among: writes.map(\.write))].place
    }

    /// The operation for the row that the conflict is about alone, where another one is shown in its place,
    /// or where it decides over one property or link: the sides are those of that register, and say nothing
    /// of what others of its group have (MODEL P18).
    func exact(
        _ operation: SaveOperation, of conflict: Conflict
    ) throws -> SaveOperation {
        var operation = operation
        operation.isExact =
            try view.survivor(of: conflict.id.row) != nil
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
            let loaded = try view.load(table(try entity(conflict.object).name), conflict.id.row),
            let position = loaded.table.entity.position(of: name)
        else { return false }
        if loaded.undecided.contains(where: { $0.position == position }) { return false }
        let policy = loaded.table.policies(for: loaded.state).properties[position]
        if case .named = policy { return false }
        return policy.leavesUnresolved || policy.choice == .latest
    }

    /// The newest closed conflict of an open one's name, if none is open and a policy settled it.
    private func settledSince(_ id: ConflictID) throws -> Conflict? {
        guard id.closedAt == nil, try view.openEntry(id) == nil,
            let closed = try view.closedEntry(id), closed.state == .settled
        else { return nil }
        return closed
    }

    func journalled(_ id: ConflictID) throws -> Conflict {
        guard let entry = try view.entry(id) else {
            throw CoordinatorError.noConflict(id, closed: try view.closedEntry(id)?.id)
        }
        return entry
    }

    /// Refuses to resolve what somebody has resolved.
    ///
    /// - Throws: ``CoordinatorError`` (`alreadyResolved`).
    private func checkUndecided(_ id: ConflictID) throws {
        if id.closedAt == nil, try view.openEntry(id) != nil { return }
        guard let entry = try view.closedEntry(id), entry.state == .resolved,
            let dot = entry.closedBy
        else { return }
        let transaction = try view.transaction(dot)?.transaction
        var error = CoordinatorError(
            .alreadyResolved,
            "\(entry.id) was resolved by \(dot)"
                + (transaction?.author.map { " of \($0)" } ?? "")
                + "; undo that, or save as usual.")
        error.decision = ConflictDecision(
            dot: dot, timestamp: transaction?.timestamp, author: transaction?.author,
            contextName: transaction?.contextName, note: transaction?.note)
        throw error
    }

    /// Refuses values that would leave open what they are to resolve.
    ///
    /// Any value of a row decides over the row as a whole, and over a delete; over one property only
    /// its own does. A to-many is no value.
    func check(_ operation: SaveOperation, settles conflict: Conflict) throws {
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

    /// Nobody decides over what they have not seen (MODEL P18).
    func check(_ seen: [Dot]?, are sides: [Dot], of id: ConflictID) throws {
        guard let seen, Set(seen) != Set(sides) else { return }
        throw CoordinatorError(
            .sidesChanged,
            "\(id) has other sides by now: " + sides.map(\.description).joined(separator: ", ")
                + ".")
    }

    /// Refuses references to what is not there, as a save does.
    func checkReferences(
        _ values: [String: PropertyValue], of object: ManagedObjectID
    ) throws {
        let named = try entity(object)
        let entity = try view.load(table(named.name), object.row)?.table.entity ?? named
        let failures = try values.sorted { $0.key < $1.key }.compactMap { name, value in
            guard case .reference(let target) = value, let position = entity.position(of: name),
                case .toOne(let destination) = entity.properties[position].content,
                try !view.isFound(target, as: destination)
            else { return ValidationFailure?.none }
            return ValidationFailure(
                object: told(object.row, entity.name), property: name, code: .danglingReference,
                message: "\(name) refers to an object that is not there.")
        }
        guard let first = failures.first else { return }
        throw CoordinatorError(.validationFailed, first.message, failures: failures)
    }
}
