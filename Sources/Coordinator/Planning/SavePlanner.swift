import Merge

/// Works out what a save comes to. All checks see the store with every earlier save of the group
/// (MODEL A6), and come before the first write.
struct SavePlanner: PlanningPart {
    let view: StoreView

    /// Plans a save.
    ///
    /// - Throws: ``CoordinatorError`` that says why it cannot be made.
    func plan(_ request: SaveRequest) throws -> SavePlan {
        var plan = SavePlan(state.allocator, capacity: request.operations.count)
        let inserts = request.operations.filter { $0.kind == .insert }
        guard Set(inserts.map(\.row)).count == inserts.count else {
            throw CoordinatorError(.malformed, "Two inserts have one temporary identity.")
        }
        plan.name(
            try inserts.map { operation in
                guard operation.row.rawValue < 0 else {
                    throw CoordinatorError(
                        .malformed, "An insert must not name an existing object.")
                }
                return SaveResult.InsertedRow(
                    temporary: operation.row,
                    row: try reservedRow(of: operation) ?? plan.allocator.next(),
                    entityName: operation.entity.name, name: operation.name)
            })

        let stands = try request.operations.map { try planOperation($0, request, &plan) }
        // An object that moved on is to be fetched again whatever its condition says.
        if plan.stale.isEmpty {
            try premisePlanner.refuseUnmet(of: plan) { unmet in
                mergeConflict(
                    unmet.operation, unmet.loaded.table, unmet.row, unmet.loaded, changed: [])
            }
        }
        for (operation, stands) in zip(request.operations, stands)
        where stands && !operation.relationships.isEmpty {
            try relationshipPlanner.planRelationships(operation, &plan)
        }
        try deleteRules.propagateDeletes(&plan)
        if !plan.stale.isEmpty {
            throw CoordinatorError.movedOn(plan.stale[0], of: plan.stale)
        }
        let isValidated = request.batch == nil
        try validator.validate(&plan, onlyTypes: !isValidated)
        // An insert that becomes one with the row that has its key has that one's members as well.
        // If none does, or the save fails, all mistakes are reported at once.
        let isAsPlanned =
            request.mergePolicy.leavesUnresolved && request.settled.keys.isEmpty
            || !plan.failures.isEmpty
        if isValidated, isAsPlanned { try validator.validateCounts(&plan) }
        try refuseFailures(of: plan)
        // Such an insert writes over that row.
        try uniquenessPlanner.settleConstraints(&plan, request)
        try relationshipPlanner.releaseOtherClaims(&plan)
        if isValidated, !isAsPlanned { try validator.validateCounts(&plan) }
        try refuseFailures(of: plan)
        try validator.checkUnresolved(plan)
        return plan
    }

    /// The identity that an insert has already; nil where it has none.
    private func reservedRow(of operation: SaveOperation) throws -> RowID? {
        guard let row = operation.reservedRow else { return nil }
        let table = table(operation.entity.name)
        guard try view.load(table, row) == nil else {
            throw CoordinatorError(
                .malformed, "\(table.entity.name)/\(row) was inserted by an earlier save.")
        }
        return row
    }

    private func refuseFailures(of plan: SavePlan) throws {
        guard let first = plan.failures.first else { return }
        let count = plan.failures.count
        let what = plan.denied.isEmpty ? "values" : "deletes and values"
        throw CoordinatorError(
            plan.denied.isEmpty ? .validationFailed : .deleteDenied,
            count == 1 ? first.message : "\(count) \(what) are not valid.",
            conflicts: plan.denied, failures: plan.failures)
    }

    /// - Returns: whether the operation's changes of to-manys are to be made; not where the policy
    ///   dropped it.
    private func planOperation(
        _ operation: SaveOperation, _ request: SaveRequest, _ plan: inout SavePlan
    ) throws -> Bool {
        let table = table(operation.entity.name)
        try premisePlanner.check(operation)
        if operation.kind == .insert {
            guard let row = plan.resolve(operation.row) else { return false }
            guard !operation.entity.isAbstract else {
                throw CoordinatorError(
                    .malformed, "\(operation.entity.name) is abstract: insert a sub-entity.")
            }
            try planInsert(operation, table, row, &plan)
            return true
        }
        guard let row = try relationshipPlanner.addressed(operation, plan) else {
            throw CoordinatorError(
                .malformed, "An operation names an object that the save does not insert.")
        }
        if row != operation.row, operation.row.rawValue > 0 {
            // A client that holds the eclipsed object learns that it is not shown any more.
            plan.drop(
                ManagedObjectID(entityName: operation.entity.name, row: operation.row), nil)
        }
        let given = operation.values
        var operation = operation
        operation.values = try resolved(
            given, table, operation.row, &plan, isLiteral: operation.resolves)
        // A client that holds the object learns where the reference points.
        defer { if isLed(given, to: operation.values) { plan.rows[row]?.isSettled = true } }
        if let planned = plan.rows[row] {
            let named = try translated(operation, to: planned.table.entity, planned.loaded)
            let settled = try premisePlanner.settled(named, row, planned.loaded, planned, &plan)
            try planAgain(settled, request, planned, row, &plan)
            // It loses its values alone.
            return true
        }
        let loaded = try view.load(table, row).flatMap { $0.isTrace ? nil : $0 }
        return try planExisting(operation, request, loaded, row, &plan)
    }

    /// A second operation on the same object: it goes on from the first.
    ///
    /// A save that edits one and deletes another of objects that have become one does not delete what
    /// it edits: the delete is given up, in whichever order they come.
    private func planAgain(
        _ operation: SaveOperation, _ request: SaveRequest, _ planned: SavePlan.Row, _ row: RowID,
        _ plan: inout SavePlan
    ) throws {
        var operation = operation
        var planned = planned
        let isOther = planned.name != operation.row
        if let loaded = planned.loaded, loaded.isAlive, let version = operation.version,
            version != loaded.version
        {
            let asked = request.forVersion(of: operation.row, row, loaded)
            switch try settle(operation, asked, loaded, planned.table, row, &plan) {
            case .write(let values):
                operation.values = values
                planned.isSettled = true
            case .delete: break
            case .conflict, .drop, .revive: return
            }
        }
        switch operation.kind {
        case .delete where isOther && planned.kind != .delete:
            return saveDiscards.noteDeleteGivenUp(planned, row, request, &plan)
        case .delete: planned.kind = .delete
        case .update:
            if planned.kind == .delete {
                guard isOther else {
                    throw CoordinatorError(.malformed, "The save deletes what it updates.")
                }
                saveDiscards.noteDeleteGivenUp(planned, row, request, &plan)
                planned.kind = .update
                planned.values = []
                planned.assignedCount = 0
            }
            for (position, value) in operation.values { planned.set(position, value) }
            planned.resolves = planned.resolves || operation.resolves
        case .insert, .check: break
        }
        plan.rows[row] = planned
    }

    /// An operation with its positions in the canonical order of the row's own entity, which may
    /// inherit from the one the operation names.
    func translated(
        _ operation: SaveOperation, to entity: ManagedObjectModel.Entity, _ loaded: LoadedRow?
    ) throws -> SaveOperation {
        if operation.entity === entity { return operation }
        guard entity.isKind(of: operation.entity) else {
            throw CoordinatorError(
                .objectNotFound,
                "\(operation.entity.name)/\(operation.row) is of entity \(entity.name).")
        }
        let positions = operation.entity.properties.map { entity.position(of: $0.name) ?? 0 }
        var result = operation
        result.entity = entity
        result.values = operation.values.map { (positions[$0.position], $0.value) }
        result.increments = operation.increments.map { (positions[$0.position], $0.amount) }
        if let snapshot = operation.snapshot, var columns = loaded?.columns {
            for (position, value) in zip(positions, snapshot) { columns[position] = value }
            result.snapshot = columns
        }
        return result
    }

    private func planInsert(
        _ operation: SaveOperation, _ table: EntityTable, _ row: RowID, _ plan: inout SavePlan
    ) throws {
        var values = try resolved(operation.values, table, operation.row, &plan)
        let assignedCount = values.count
        let properties = table.entity.properties
        for position in properties.indices
        where !properties[position].defaultValue.isNull
            && !values.contains(where: { $0.position == position })
        {
            values.append((position, properties[position].defaultValue))
        }
        plan.add(
            row,
            SavePlan.Row(
                table: table, loaded: nil, kind: .insert, values: values,
                assignedCount: assignedCount, resolves: false, name: operation.row,
                isSettled: isLed(operation.values, to: values)))
    }

    /// Whether a reference was led from an object of the store to the one that is shown in its place.
    func isLed(
        _ given: [(position: Int, value: PropertyValue)],
        to values: [(position: Int, value: PropertyValue)]
    ) -> Bool {
        zip(given, values).contains { given, value in
            guard case .reference(let target) = given.value, target.rawValue > 0 else {
                return false
            }
            return given.value != value.value
        }
    }

    /// Replaces temporary identities in values by permanent ones.
    func resolved(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable, _ name: RowID,
        _ plan: inout SavePlan, isLiteral: Bool = false
    ) throws -> [(position: Int, value: PropertyValue)] {
        if table.references.isEmpty { return values }
        var values = values
        for index in values.indices {
            guard case .reference(let target) = values[index].value else { continue }
            if target.rawValue > 0 {
                // What readers would be led to is what is meant, but by those who decide.
                guard state.eclipsed > 0, !isLiteral, let survivor = try view.survivor(of: target),
                    try view.ledTo(target, from: table, values[index].position) == survivor
                else { continue }
                values[index].value = .reference(survivor)
                continue
            }
            guard let row = plan.resolve(target) else {
                plan.failures.append(
                    ValidationFailure(
                        object: told(name, table.entity.name),
                        property: table.entity.properties[values[index].position].name,
                        code: .danglingReference,
                        message: "It refers to an object that the save does not insert."))
                continue
            }
            values[index].value = .reference(row)
        }
        return values
    }
}
