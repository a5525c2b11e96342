import Merge

/// Operations on objects that have moved on, settled by the merge policy of the context.
extension SavePlanner {
    /// - Returns: whether the operation stands.
    func planExisting(
        _ operation: SaveOperation, _ request: SaveRequest, _ loaded: LoadedRow?, _ row: RowID,
        _ plan: inout SavePlan
    ) throws -> Bool {
        let entity = loaded?.table.entity ?? operation.entity
        let operation = try premisePlanner.settled(
            try translated(operation, to: entity, loaded), row, loaded, nil, &plan)
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
                    .objectNotFound, "\(entity.name)/\(row) does not exist.")
            }
            try refuseRevival(by: operation, row, isAlive: isAlive)
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
        let asked = request.forVersion(of: operation.row, row, loaded)
        switch try settle(written, asked, loaded, table, row, &plan) {
        case .write(let values):
            // The values of the object that the policy brings back come last.
            let assignedCount = min(values.count, written.values.count)
            plan.add(row, planned(.update, values, assignedCount: assignedCount))
        case .delete:
            plan.add(
                row,
                planned(.delete, operation.values, assignedCount: operation.values.count))
        case .revive(let whole):
            try refuseRevival(by: operation, row, isAlive: false)
            let values = try withGoneTargets(whole, written, loaded, &plan)
            plan.add(row, planned(.revival, values.enumerated().map { ($0, $1) }))
        case .drop where operation.kind == .delete && isAlive:
            plan.spared.insert(row)
            return false
        case .conflict, .drop: return false
        }
        return true
    }

    /// Refuses to bring back an object that a condition or an increment needs as the store has it.
    private func refuseRevival(
        by operation: SaveOperation, _ row: RowID, isAlive: Bool
    ) throws {
        guard !isAlive, operation.hasPremises else { return }
        throw CoordinatorError(
            .objectNotFound,
            "\(operation.entity.name)/\(row) does not exist: no condition holds of it, and it has "
                + "nothing to add to.")
    }

    /// What a deleted object comes back with: a reference that its caller read as nil, because what
    /// it refers to is gone, is what it was, and not what it read as (MODEL P13). An object that
    /// merges as a whole has nothing but its delete to tell it.
    private func withGoneTargets(
        _ values: [PropertyValue], _ operation: SaveOperation, _ loaded: LoadedRow?,
        _ plan: inout SavePlan
    ) throws -> [PropertyValue] {
        guard let loaded else { return values }
        let known = try knownTo(operation.version, &plan)
        let assigned = Set(operation.values.map(\.position))
        var values = values
        for (position, _) in loaded.table.references
        where !assigned.contains(position) && values[position].isNull {
            // What was written later its caller did not read; where the log does not tell, it may have.
            guard case .reference(let target) = loaded.columns[position],
                known.entries.isEmpty
                    || loaded.shown(position).map({ known.contains($0.dot) }) ?? false,
                case .toOne(let destination) = loaded.table.entity.properties[position].content,
                try !view.isFound(target, as: destination)
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

    /// Applies the context's policy to an operation whose object has moved on; the plan notes what
    /// is discarded.
    func settle(
        _ operation: SaveOperation, _ request: SaveRequest, _ loaded: LoadedRow?,
        _ table: EntityTable, _ row: RowID, _ plan: inout SavePlan
    ) throws -> Settlement {
        // If nothing of a row is kept, the version must say that it was here. It may not have come
        // yet: then nothing must be given up for it. And a new store in the place of another may
        // not bring back what only that one knew.
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
            saveDiscards.noteDiscarded(
                operation, settlement, loaded, table, row, changed, request, &plan)
        }
        return settlement
    }

    /// The object as the client that names a version has seen it; nil if the log does not say any
    /// more.
    ///
    /// - Parameters:
    ///   - loaded: the object as the store has it; nil where nothing is kept of it.
    ///   - version: that version.
    ///   - changed: the properties that have been written since, by whom that version's writer did not
    ///     know; of an object that is gone the log has to tell all.
    func snapshot(
        of row: RowID, _ table: EntityTable, _ loaded: LoadedRow?, as version: RowVersion?,
        before changed: Set<Int>, within known: VersionVector, _ plan: inout SavePlan
    ) throws -> [PropertyValue]? {
        // The values that it showed of a group may have been another member's.
        guard loaded?.eclipsed.isEmpty ?? true, version?.eclipsed.isEmpty ?? true else {
            return nil
        }
        let properties = table.entity.properties
        let isAlive = loaded?.isAlive ?? false
        var columns =
            loaded?.columns ?? [PropertyValue](repeating: .null, count: properties.count)
        for position in isAlive ? changed.sorted() : Array(properties.indices) {
            let name = properties[position].name
            guard let value = try plan.tail.value(of: name, of: row, within: known, view)
            else { return nil }
            columns[position] = value
        }
        return columns
    }

    /// The knowledge of a version's writer: its transaction's causal context and the transaction.
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
        if let transaction = try view.transaction(dot)?.transaction {
            known = transaction.seen
            known.advance(to: dot)
        }
        if plan.known.count >= SavePlan.Limits.writers { plan.known = [:] }
        plan.known[dot] = known
        return known
    }

    func mergeConflict(
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
            loaded?.version.allDots.contains { $0.actor.node != view.actor.node } ?? false
        let assigned =
            operation.values.map(\.position) + operation.increments.map(\.position)
        let disputed = assigned.filter { changed.contains($0) }
        return MergeConflict(
            object: ManagedObjectID(entityName: table.entity.name, row: row),
            properties: (disputed.isEmpty ? assigned : disputed).sorted().map { names[$0].name },
            oldVersion: operation.version, newVersion: isAlive ? loaded?.version : nil,
            objectSnapshot: operation.snapshot.map(snapshot), cachedSnapshot: cached,
            persistedSnapshot: isForeign ? cached : nil)
    }
}
