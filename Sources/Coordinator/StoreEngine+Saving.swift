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
            guard (1...200).contains(saveID.utf8.count) else {
                throw CoordinatorError(.malformed, "A save ID has 1 to 200 bytes.")
            }
            if let answer = try savedAnswer(saveID) { return answer }
        }
        if let result = try saveInserts(request) { return result }
        var plan = SavePlan()
        try work(out: request, into: &plan)
        return try execute(plan, request)
    }

    // MARK: Planning

    private func work(out request: SaveRequest, into plan: inout SavePlan) throws {
        var allocator = state.allocator
        plan.inserted.reserveCapacity(request.operations.count)
        for operation in request.operations where operation.kind == .insert {
            guard operation.row.rawValue < 0 else {
                throw CoordinatorError(.malformed, "An insert must not name an existing object.")
            }
            plan.inserted.append(.init(temporary: operation.row, row: allocator.next()))
        }
        state.allocator = allocator

        for operation in request.operations { try planOperation(operation, request, &plan) }
        for operation in request.operations where !operation.relationships.isEmpty {
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
        if !plan.failures.isEmpty {
            throw CoordinatorError(
                .validationFailed,
                plan.failures.count == 1
                    ? plan.failures[0].message : "\(plan.failures.count) values are not valid.",
                failures: plan.failures)
        }
        try checkUnresolved(plan)
        try checkConstraints(plan)
    }

    private func planOperation(
        _ operation: SaveOperation, _ request: SaveRequest, _ plan: inout SavePlan
    ) throws {
        let table = table(operation.entity.name)
        if operation.kind == .insert {
            guard let row = plan.resolve(operation.row) else { return }
            guard !operation.entity.isAbstract else {
                throw CoordinatorError(
                    .malformed, "\(operation.entity.name) is abstract: insert a sub-entity.")
            }
            try planInsert(operation, table, row, &plan)
            return
        }
        guard let row = plan.resolve(operation.row) else {
            throw CoordinatorError(
                .malformed, "An operation names an object that the save does not insert.")
        }
        let values = try resolved(operation.values, table, operation.row, &plan)
        if var planned = plan.rows[row] {
            // A second operation on the same object: it goes on from the first.
            switch operation.kind {
            case .delete: planned.kind = .delete
            case .update:
                guard planned.kind != .delete else {
                    throw CoordinatorError(.malformed, "The save deletes what it updates.")
                }
                for (position, value) in values { planned.set(position, value) }
                planned.resolves = planned.resolves || operation.resolves
            case .insert, .check: break
            }
            plan.rows[row] = planned
            return
        }
        let loaded = try load(table, row)
        var operation = operation
        operation.values = values
        try planExisting(operation, request, loaded, row, &plan)
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
                isSettled: false))
    }

    /// Replaces temporary identities in values by permanent ones.
    private func resolved(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable, _ name: RowID,
        _ plan: inout SavePlan
    ) throws -> [(position: Int, value: PropertyValue)] {
        if table.references.isEmpty { return values }
        var values = values
        for index in values.indices {
            guard case .reference(let target) = values[index].value, target.rawValue < 0 else {
                continue
            }
            guard let row = plan.resolve(target) else {
                plan.failures.append(
                    ValidationFailure(
                        object: "\(name)",
                        property: table.entity.properties[values[index].position].name,
                        code: .danglingReference,
                        message: "It refers to an object that the save does not insert."))
                continue
            }
            values[index].value = .reference(row)
        }
        return values
    }

    private func planExisting(
        _ operation: SaveOperation, _ request: SaveRequest, _ loaded: LoadedRow?, _ row: RowID,
        _ plan: inout SavePlan
    ) throws {
        let entity = loaded?.table.entity ?? operation.entity
        guard entity.isKind(of: operation.entity) else {
            throw CoordinatorError(
                .objectNotFound, "\(operation.entity.name)/\(row) is of entity \(entity.name).")
        }
        let table = loaded?.table ?? table(entity.name)
        let isAlive = loaded?.isAlive ?? false
        let isStale = operation.version.map { !isAlive || $0 != loaded?.state.version } ?? false
        if !isStale {
            guard isAlive || operation.kind == .check || (operation.resolves && loaded != nil)
            else {
                throw CoordinatorError(
                    .objectNotFound, "There is no \(entity.name)/\(row), or no more.")
            }
            if operation.kind == .check { return }
            var kind: SavePlan.Row.Kind = operation.kind == .delete ? .delete : .update
            var values = operation.values
            if !isAlive, kind == .update, let loaded {
                kind = .revival
                let assigned = Set(values.map(\.position))
                values += loaded.columns.enumerated().filter { !assigned.contains($0.offset) }
                    .map { ($0.offset, $0.element) }
            }
            plan.add(
                row,
                SavePlan.Row(
                    table: table, loaded: loaded, kind: kind, values: values,
                    assignedCount: operation.values.count, resolves: operation.resolves,
                    name: operation.row, isSettled: false))
            return
        }
        try settle(operation, request, loaded, table, row, &plan)
    }

    private func settle(
        _ operation: SaveOperation, _ request: SaveRequest, _ loaded: LoadedRow?,
        _ table: EntityTable, _ row: RowID, _ plan: inout SavePlan
    ) throws {
        let known = try operation.snapshot == nil ? knownTo(operation.version) : VersionVector()
        let changed =
            loaded.map {
                OptimisticLocking.changedInStore(
                    operation, store: $0, knownToCaller: known.contains)
            } ?? []
        let settlement = OptimisticLocking.settle(
            operation, store: loaded, changedInStore: changed, policy: request.mergePolicy)
        func planned(
            _ kind: SavePlan.Row.Kind, _ values: [(position: Int, value: PropertyValue)]
        ) -> SavePlan.Row {
            SavePlan.Row(
                table: table, loaded: loaded, kind: kind, values: values,
                assignedCount: kind == .revival ? 0 : values.count,
                resolves: operation.resolves, name: operation.row, isSettled: true)
        }
        switch settlement {
        case .conflict:
            plan.stale.append(
                mergeConflict(operation, table, row, loaded, changed: changed))
            return
        case .write(let values): plan.add(row, planned(.update, values))
        case .delete: plan.add(row, planned(.delete, []))
        case .revive(let whole):
            if loaded == nil, try load(table, row) != nil { return }
            plan.add(row, planned(.revival, whole.enumerated().map { ($0, $1) }))
        case .drop:
            plan.dropped.append(loaded)
            plan.droppedIDs.append(
                ManagedObjectID(entityName: table.entity.name, row: row))
        }
        if operation.kind != .check {
            noteDiscarded(operation, settlement, loaded, table, row, changed, request, &plan)
        }
    }

    /// What a version's writer knew: its transaction's causal context and the transaction.
    private func knownTo(_ version: RowVersion?) throws -> VersionVector {
        var known = VersionVector()
        for dot in version?.dots ?? [] {
            guard let transaction = try transaction(dot) else { continue }
            known.join(transaction.transaction.seen)
            known.advance(to: dot)
        }
        return known
    }

    /// A transaction of the log; nil where it is not there.
    func transaction(_ dot: Dot) throws -> EncodedTransaction? {
        guard state.actors.code(of: dot.actor) != nil else { return nil }
        let statement = try database.prepared("SELECT bytes FROM _transaction WHERE dot = ?1")
        statement.bind(1, state.actors.integer(dot))
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try? EncodedTransaction(decoding: statement.bytes(0))
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
        let isForeign = loaded?.state.version.dots.contains { $0.actor.node != actor.node } ?? false
        let assigned = operation.values.map(\.position)
        let disputed = assigned.filter { changed.contains($0) }
        return MergeConflict(
            object: ManagedObjectID(entityName: table.entity.name, row: row),
            properties: (disputed.isEmpty ? assigned : disputed).sorted().map { names[$0].name },
            oldVersion: operation.version, newVersion: isAlive ? loaded?.state.version : nil,
            objectSnapshot: operation.snapshot.map(snapshot), cachedSnapshot: cached,
            persistedSnapshot: isForeign ? cached : nil)
    }

    /// Notes what a context's policy discarded, its own values or the store's.
    private func noteDiscarded(
        _ operation: SaveOperation, _ settlement: Settlement, _ loaded: LoadedRow?,
        _ table: EntityTable, _ row: RowID, _ changed: Set<Int>, _ request: SaveRequest,
        _ plan: inout SavePlan
    ) {
        let properties = table.entity.properties
        var written: [(position: Int, value: PropertyValue)] = []
        var saveWins = true
        switch settlement {
        case .write(let values): written = values
        case .delete: break
        case .revive(let values): written = values.enumerated().map { ($0, $1) }
        case .drop: saveWins = false
        case .conflict: return
        }
        let positions: [Int]
        if operation.kind == .delete {
            positions = changed.sorted()
        } else if saveWins {
            let dropped = operation.values.map(\.position).filter { position in
                !written.contains { $0.position == position }
            }
            let replaced = written.map(\.position).filter { changed.contains($0) }
            positions = Set(dropped + replaced).sorted()
            if !dropped.isEmpty, replaced.isEmpty { saveWins = false }
        } else {
            positions = operation.values.map(\.position).sorted()
        }
        if positions.isEmpty, operation.kind == .update, loaded?.isAlive ?? false { return }
        func values(_ value: (Int) -> PropertyValue?) -> [ConflictSide.RowValue] {
            positions.compactMap { position in
                value(position).map { .init(name: properties[position].name, value: $0) }
            }
        }
        let isAlive = loaded?.isAlive ?? false
        let storeSide = ConflictSide(
            dot: loaded?.state.version.dots.last, timestamp: nil, isVisible: !saveWins,
            isDeleted: !isAlive, value: nil,
            row: isAlive ? values { loaded?.columns[$0] } : [])
        let saveSide = ConflictSide(
            dot: nil, timestamp: nil, isVisible: saveWins, isDeleted: operation.kind == .delete,
            value: nil,
            row: values { position in
                (operation.values.last { $0.position == position }
                    ?? written.last { $0.position == position })?.value
            }, author: request.author, contextName: request.contextName)
        plan.journal.append(
            Conflict(
                id: ConflictID(entity: table.entity.name, row: row, subject: "save"),
                kind: .save, state: .settled, property: nil, policy: request.mergePolicy,
                sides: [storeSide, saveSide],
                explanation: Explanation(
                    rule: .savePolicy,
                    text: "The object had changed since the context fetched it; the context's "
                        + "merge policy \(request.mergePolicy.rawValue) decided."),
                closedBy: nil, openedAt: state.generation))
    }

    // MARK: Checks

    /// Saving over what waits for a decision takes an explicit word (DESIGN section 6).
    private func checkUnresolved(_ plan: SavePlan) throws {
        var found: [MergeConflict] = []
        for row in plan.order {
            guard let planned = plan.rows[row], !planned.resolves, let loaded = planned.loaded,
                loaded.state.hasSiblings
            else { continue }
            let conflicts = loaded.state.conflicts(loaded.table.entity.policies)
                .filter { $0.state == .unresolved }
            let touched = conflicts.contains { conflict in
                switch conflict.subject {
                case .object: true
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
    private func checkConstraints(_ plan: SavePlan) throws {
        for row in plan.order {
            guard let planned = plan.rows[row], planned.kind != .delete else { continue }
            let entity = planned.table.entity
            for constraint in entity.uniquenessConstraints {
                let isTouched =
                    planned.kind != .update
                    || constraint.contains { planned.value(at: $0) != nil }
                guard isTouched else { continue }
                let key = constraint.map { position in
                    planned.value(at: position) ?? planned.loaded?.columns[position] ?? .null
                }
                if key.contains(where: \.isNull) { continue }
                guard let other = try holder(of: key, constraint, entity, besides: row, plan)
                else { continue }
                let names = constraint.map { entity.properties[$0].name }
                throw CoordinatorError(
                    .constraintConflict,
                    "\(entity.name) has another object with the same "
                        + names.joined(separator: " and ") + ".",
                    conflicts: [
                        MergeConflict(
                            object: ManagedObjectID(entityName: entity.name, row: other),
                            properties: names, oldVersion: nil, newVersion: nil,
                            objectSnapshot: nil,
                            cachedSnapshot: Dictionary(
                                zip(names, key), uniquingKeysWith: { first, _ in first }),
                            persistedSnapshot: nil)
                    ])
            }
        }
    }

    private func holder(
        of key: [PropertyValue], _ constraint: [Int], _ entity: ManagedObjectModel.Entity,
        besides row: RowID, _ plan: SavePlan
    ) throws -> RowID? {
        for other in plan.order where other != row {
            guard let planned = plan.rows[other], planned.kind != .delete,
                planned.table.entity.root == entity.root
            else { continue }
            let otherKey = constraint.map { position in
                planned.value(at: position) ?? planned.loaded?.columns[position] ?? .null
            }
            if otherKey == key { return other }
        }
        let terms = constraint.enumerated().map {
            "\(EntityTable.quote(entity.properties[$1].name)) = ?\($0 + 1)"
        }
        let statement = try database.prepared(
            "SELECT _id FROM \(EntityTable.quote(entity.root)) WHERE "
                + terms.joined(separator: " AND "))
        for (index, value) in key.enumerated() { statement.bind(Int32(index + 1), value) }
        var found: RowID?
        while try statement.step() {
            let candidate = RowID(statement.integer(0))
            if candidate == row { continue }
            if let planned = plan.rows[candidate] {
                // Rows of this save were compared above, as the save leaves them.
                if planned.kind == .delete
                    || constraint.contains(where: {
                        planned.value(at: $0) != nil
                    })
                {
                    continue
                }
            }
            found = candidate
        }
        return found
    }
}
