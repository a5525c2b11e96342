import Merge

extension StoreEngine {
    /// Saves within the open group.
    ///
    /// All checks see the store with every earlier save of the group (MODEL A6), and come before
    /// the first write.
    ///
    /// - Throws: ``CoordinatorError``; nothing is then written and no sequence used.
    func save(_ request: SaveRequest) throws -> SaveResult {
        if let saveID = request.saveID {
            guard SaveAnswer.isSaveID(saveID) else {
                throw CoordinatorError(.malformed, "A save ID has 1 to 200 bytes.")
            }
            if let answer = try repeatedAnswer(to: request, saveID) { return answer }
        }
        if request.exceedsLimit { throw CoordinatorError.notBulk(request.operations.count) }
        // Checked here, for what follows a departure in its own group would reach nobody.
        if state.membership[actor.node]?.departure != nil {
            throw CoordinatorError.departed(actor.node)
        }
        // It was let through before, and waited: a row that it writes may be one of the others'.
        if owedRecovery.record?.recovery == .restored { throw CoordinatorError.recovering }
        if !request.membership.isEmpty { return try saveMembership(request) }
        if let result = try saveInserts(request) { return result }
        var plan = SavePlan()
        try work(out: request, into: &plan)
        return try execute(plan, request)
    }

    // MARK: Planning

    private func work(out request: SaveRequest, into plan: inout SavePlan) throws {
        var allocator = state.allocator
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
                    temporary: operation.row, row: allocator.next(),
                    entityName: operation.entity.name, name: operation.name)
            })
        state.allocator = allocator

        let stands = try request.operations.map { try planOperation($0, request, &plan) }
        for (operation, stands) in zip(request.operations, stands)
        where stands && !operation.relationships.isEmpty {
            try planRelationships(operation, &plan)
        }
        try propagateDeletes(&plan)
        if !plan.stale.isEmpty {
            throw CoordinatorError(
                .mergeConflict,
                plan.stale.count == 1
                    ? "\(plan.stale[0].object) has been changed since it was fetched."
                    : "\(plan.stale.count) objects have been changed since they were fetched.",
                conflicts: plan.stale)
        }
        try validate(&plan)
        // An insert that becomes one with the row that has its key has that one's members as well; where
        // none does, or the save fails, all that is wrong is told at once.
        let isAsPlanned = request.mergePolicy.leavesUnresolved || !plan.failures.isEmpty
        if isAsPlanned { try validateCounts(&plan) }
        try refuseFailures(of: plan)
        // Such an insert writes over that row.
        try settleConstraints(&plan, request)
        try releaseOtherClaims(&plan)
        if !isAsPlanned { try validateCounts(&plan) }
        try refuseFailures(of: plan)
        try checkUnresolved(plan)
    }

    /// How a failure names an object: by its URI, or, where it is yet to be inserted, as its request does.
    func told(_ row: RowID, _ entity: String) -> String {
        guard row.rawValue > 0 else { return "\(row)" }
        return ManagedObjectID(entityName: entity, row: row).uriRepresentation(cluster: cluster)
    }

    func told(_ planned: SavePlan.Row) -> String { told(planned.name, planned.table.entity.name) }

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
        if operation.kind == .insert {
            guard let row = plan.resolve(operation.row) else { return false }
            guard !operation.entity.isAbstract else {
                throw CoordinatorError(
                    .malformed, "\(operation.entity.name) is abstract: insert a sub-entity.")
            }
            try planInsert(operation, table, row, &plan)
            return true
        }
        guard let row = try addressed(operation, plan) else {
            throw CoordinatorError(
                .malformed, "An operation names an object that the save does not insert.")
        }
        if row != operation.row, operation.row.rawValue > 0 {
            // Whoever has the eclipsed object learns that it is shown no more.
            plan.drop(
                ManagedObjectID(entityName: operation.entity.name, row: operation.row), nil)
        }
        let given = operation.values
        var operation = operation
        operation.values = try resolved(
            given, table, operation.row, &plan, isLiteral: operation.resolves)
        // Whoever holds the object learns where the reference leads.
        defer { if isLed(given, to: operation.values) { plan.rows[row]?.isSettled = true } }
        if let planned = plan.rows[row] {
            try planAgain(
                try translated(operation, to: planned.table.entity, planned.loaded), request,
                planned, row, &plan)
            // It loses its values alone.
            return true
        }
        let loaded = try load(table, row).flatMap { $0.isTrace ? nil : $0 }
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
            switch try settle(operation, request, loaded, planned.table, row, &plan) {
            case .write(let values):
                operation.values = values
                planned.isSettled = true
            case .delete: break
            case .conflict, .drop, .revive: return
            }
        }
        switch operation.kind {
        case .delete where isOther && planned.kind != .delete:
            return noteDeleteGivenUp(planned, row, request, &plan)
        case .delete: planned.kind = .delete
        case .update:
            if planned.kind == .delete {
                guard isOther else {
                    throw CoordinatorError(.malformed, "The save deletes what it updates.")
                }
                noteDeleteGivenUp(planned, row, request, &plan)
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
    private func translated(
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
    private func isLed(
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
    private func resolved(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable, _ name: RowID,
        _ plan: inout SavePlan, isLiteral: Bool = false
    ) throws -> [(position: Int, value: PropertyValue)] {
        if table.references.isEmpty { return values }
        var values = values
        for index in values.indices {
            guard case .reference(let target) = values[index].value else { continue }
            if target.rawValue > 0 {
                // What readers would be led to is what is meant, but by those who decide.
                guard state.eclipsed > 0, !isLiteral, let survivor = try survivor(of: target),
                    try ledTo(target, from: table, values[index].position) == survivor
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

    /// - Returns: whether the operation stands.
    private func planExisting(
        _ operation: SaveOperation, _ request: SaveRequest, _ loaded: LoadedRow?, _ row: RowID,
        _ plan: inout SavePlan
    ) throws -> Bool {
        let entity = loaded?.table.entity ?? operation.entity
        let operation = try translated(operation, to: entity, loaded)
        let table = loaded?.table ?? table(entity.name)
        // Deciding over a link is no word on the row itself, and must not bring a dead one back.
        let isOfLinks =
            operation.kind != .delete && operation.values.isEmpty
            && !operation.relationships.isEmpty
        let resolves = operation.resolves && !isOfLinks
        let isAlive = loaded?.isAlive ?? false
        let isStale = operation.version.map { !isAlive || $0 != loaded?.version } ?? false
        if !isStale {
            let isKnown = loaded != nil || operation.isWholeRow
            guard isAlive || operation.kind == .check || (resolves && isKnown) else {
                throw CoordinatorError(
                    .objectNotFound, "There is no \(entity.name)/\(row), or no more.")
            }
            if operation.kind == .check { return true }
            var kind: SavePlan.Row.Kind = operation.kind == .delete ? .delete : .update
            var values = operation.values
            if !isAlive, kind == .update {
                kind = .revival
                let assigned = Set(values.map(\.position))
                values += (loaded?.columns ?? []).enumerated()
                    .filter { !assigned.contains($0.offset) }.map { ($0.offset, $0.element) }
            }
            plan.add(
                row,
                SavePlan.Row(
                    table: table, loaded: loaded, kind: kind, values: values,
                    assignedCount: kind == .revival && operation.isWholeRow
                        ? 0 : operation.values.count,
                    resolves: resolves,
                    name: operation.row, isSettled: false, isExact: operation.isExact))
            return true
        }
        func planned(
            _ kind: SavePlan.Row.Kind, _ values: [(position: Int, value: PropertyValue)],
            assignedCount: Int = 0
        ) -> SavePlan.Row {
            SavePlan.Row(
                table: table, loaded: loaded, kind: kind, values: values,
                assignedCount: assignedCount, resolves: resolves,
                name: operation.row, isSettled: true, isExact: operation.isExact)
        }
        let written = operation.written
        switch try settle(written, request, loaded, table, row, &plan) {
        case .write(let values):
            // What the policy brings back of the object comes last.
            let assignedCount = min(values.count, written.values.count)
            plan.add(row, planned(.update, values, assignedCount: assignedCount))
        case .delete:
            plan.add(
                row,
                planned(.delete, operation.values, assignedCount: operation.values.count))
        case .revive(let whole):
            let values = try withGoneTargets(whole, written, loaded)
            plan.add(row, planned(.revival, values.enumerated().map { ($0, $1) }))
        case .drop where operation.kind == .delete && isAlive:
            plan.spared.insert(row)
            return false
        case .conflict, .drop: return false
        }
        return true
    }

    /// What a deleted object comes back with: a reference that its caller read as nil, for what it refers to
    /// is gone, is what it was, and not what it read as (MODEL P13). An object that merges as a whole
    /// has nothing but its delete to tell it.
    private func withGoneTargets(
        _ values: [PropertyValue], _ operation: SaveOperation, _ loaded: LoadedRow?
    ) throws -> [PropertyValue] {
        guard let loaded else { return values }
        let assigned = Set(operation.values.map(\.position))
        var values = values
        for (position, _) in loaded.table.references
        where !assigned.contains(position) && values[position].isNull {
            guard case .reference(let target) = loaded.columns[position],
                case .toOne(let destination) = loaded.table.entity.properties[position].content,
                try !isFound(target, as: destination)
            else { continue }
            values[position] = .reference(target)
        }
        return values
    }

    /// Whether the store has applied all writes that a version names.
    private func hasHad(_ version: RowVersion?) -> Bool {
        guard let version, !version.dots.isEmpty else { return false }
        return version.dots.allSatisfy { state.versionVector.contains($0) }
    }

    /// What the context's policy makes of an operation whose object has moved on; the plan notes
    /// what is discarded.
    private func settle(
        _ operation: SaveOperation, _ request: SaveRequest, _ loaded: LoadedRow?,
        _ table: EntityTable, _ row: RowID, _ plan: inout SavePlan
    ) throws -> Settlement {
        // Of a row of which nothing is kept the version must tell that it was here. It may not have come
        // yet, then nothing is to be given up for it; and a store that is made anew in the place of
        // another may not bring back what only that one knew.
        if loaded == nil, !request.mergePolicy.leavesUnresolved, !hasHad(operation.version) {
            throw CoordinatorError(
                .objectNotFound, "There has never been a \(table.entity.name)/\(row) here.")
        }
        let known =
            try operation.snapshot == nil
            ? knownTo(operation.version, &plan) : VersionVector()
        func changedInStore(_ operation: SaveOperation) -> Set<Int> {
            loaded.map {
                OptimisticLocking.changedInStore(
                    operation, store: $0, knownToCaller: known.contains)
            } ?? []
        }
        var changed = changedInStore(operation)
        var operation = operation
        // A write of a row that is one register names all its properties, whatever it changes.
        let isRowGrained = table.entity.policies.isRowGrained
        if operation.snapshot == nil,
            isRowGrained || request.mergePolicy == .overwrite
                || request.mergePolicy.leavesUnresolved
        {
            operation.snapshot = try snapshot(
                of: row, table, loaded, as: operation.version, before: changed, within: known,
                &plan)
            if isRowGrained, operation.snapshot != nil { changed = changedInStore(operation) }
        }
        let settlement = OptimisticLocking.settle(
            operation, store: loaded, changedInStore: changed, policy: request.mergePolicy)
        switch settlement {
        case .conflict:
            // Each object is listed once, however many operations name it.
            if plan.staleRows.insert(row).inserted {
                plan.stale.append(
                    mergeConflict(operation, table, row, loaded, changed: changed))
            }
            return settlement
        case .drop where plan.rows[row] == nil:
            plan.drop(ManagedObjectID(entityName: table.entity.name, row: row), loaded)
        case .write, .delete, .revive, .drop: break
        }
        if operation.kind != .check {
            noteDiscarded(operation, settlement, loaded, table, row, changed, request, &plan)
        }
        return settlement
    }

    /// The object as whoever names a version has seen it, where the log still tells; nil where it
    /// does not.
    ///
    /// - Parameters:
    ///   - loaded: the object as the store has it; nil where nothing is kept of it.
    ///   - version: that version.
    ///   - changed: the properties that have been written since, by whom that version's writer did not
    ///     know; of an object that is gone the log has to tell all.
    private func snapshot(
        of row: RowID, _ table: EntityTable, _ loaded: LoadedRow?, as version: RowVersion?,
        before changed: Set<Int>, within known: VersionVector, _ plan: inout SavePlan
    ) throws -> [PropertyValue]? {
        // What it showed of a group may have been another member's.
        guard loaded?.eclipsed.isEmpty ?? true, version?.eclipsed.isEmpty ?? true else {
            return nil
        }
        let properties = table.entity.properties
        let isAlive = loaded?.isAlive ?? false
        var columns =
            loaded?.columns ?? [PropertyValue](repeating: .null, count: properties.count)
        for position in isAlive ? changed.sorted() : Array(properties.indices) {
            let name = properties[position].name
            guard let value = try plan.tail.value(of: name, of: row, within: known, self)
            else { return nil }
            columns[position] = value
        }
        return columns
    }

    /// What a version's writer knew: its transaction's causal context and the transaction.
    private func knownTo(
        _ version: RowVersion?, _ plan: inout SavePlan
    ) throws -> VersionVector {
        var known = VersionVector()
        for dot in version?.allDots ?? [] { known.join(try causalContext(of: dot, &plan)) }
        return known
    }

    /// A transaction and its causal context; nothing where the log does not have it.
    private func causalContext(
        of dot: Dot, _ plan: inout SavePlan
    ) throws -> VersionVector {
        // To read a transaction for its context alone may take as long as to write it.
        if let known = plan.known[dot] { return known }
        var known = VersionVector()
        if let transaction = try transaction(dot)?.transaction {
            known = transaction.seen
            known.advance(to: dot)
        }
        if plan.known.count >= SavePlan.Limits.writers { plan.known = [:] }
        plan.known[dot] = known
        return known
    }

    /// A transaction of the log; nil where it is not there.
    func transaction(_ dot: Dot) throws -> EncodedTransaction? {
        guard let integer = state.actors.knownInteger(dot) else { return nil }
        let statement = try database.prepared("SELECT bytes FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try? EncodedTransaction(decoding: statement.bytes(0)).completed(by: state.beginnings)
    }

    private func mergeConflict(
        _ operation: SaveOperation, _ table: EntityTable, _ row: RowID, _ loaded: LoadedRow?,
        changed: Set<Int>
    ) -> MergeConflict {
        let names = table.entity.properties
        func snapshot(_ values: [PropertyValue]) -> [String: PropertyValue] {
            Dictionary(zip(names.map(\.name), values), uniquingKeysWith: { first, _ in first })
        }
        let isAlive = loaded?.isAlive ?? false
        let cached = isAlive ? loaded.map { snapshot($0.columns) } : nil
        // The newer version is of another node: then the store knew it before this coordinator's
        // contexts did (CD-7).
        let isForeign =
            loaded?.version.allDots.contains { $0.actor.node != actor.node } ?? false
        let assigned = operation.values.map(\.position)
        let disputed = assigned.filter { changed.contains($0) }
        return MergeConflict(
            object: ManagedObjectID(entityName: table.entity.name, row: row),
            properties: (disputed.isEmpty ? assigned : disputed).sorted().map { names[$0].name },
            oldVersion: operation.version, newVersion: isAlive ? loaded?.version : nil,
            objectSnapshot: operation.snapshot.map(snapshot), cachedSnapshot: cached,
            persistedSnapshot: isForeign ? cached : nil)
    }
}
