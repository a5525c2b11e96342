import Merge

/// The keys that rows of a save would have, as it is planned.
///
/// Settling a dispute changes few rows, and may bring about another one, again and again: objects of
/// which each takes the key of the next are as many rounds. So each looks only at the keys of what
/// the one before has changed, and at those that were in dispute.
struct PlannedKeys {
    struct Claim {
        /// As one of the rows has it; those of other entities of the hierarchy have it at other positions.
        let constraint: UniqueConstraint
        /// The rows that would show the key, in the order of the save, and whether it gives them that.
        var rows: [(row: RowID, isTouched: Bool)] = []
    }

    private(set) var claims: [UniqueKey: Claim] = [:]
    /// The keys that are to be looked at, in the order of the save.
    private(set) var unseen: [UniqueKey] = []
    private var keys: [RowID: [UniqueKey]] = [:]
    private var places: [RowID: Int] = [:]
    /// How far the plan's order is in there.
    private var placed = 0

    init(_ plan: SavePlan) {
        notePlaces(plan)
        for (row, _) in plan.rows { add(row, plan) }
        sortUnseen(Set(unseen))
    }

    /// Takes note of what became of rows; their keys, those of before as well, are to be looked at, and
    /// some besides.
    mutating func update(_ rows: Set<RowID>, _ plan: SavePlan, besides others: [UniqueKey]) {
        notePlaces(plan)
        var concerned = Set(others)
        for row in rows { concerned.formUnion(keys.removeValue(forKey: row) ?? []) }
        for key in concerned { claims[key]?.rows.removeAll { rows.contains($0.row) } }
        unseen = []
        for row in rows.sorted() { add(row, plan) }
        sortUnseen(concerned.union(unseen))
    }

    private mutating func notePlaces(_ plan: SavePlan) {
        for place in placed..<plan.rows.rows.count { places[plan.rows.rows[place]] = place }
        placed = plan.rows.rows.count
    }

    private mutating func add(_ row: RowID, _ plan: SavePlan) {
        guard let planned = plan.rows[row], planned.kind != .delete else { return }
        for constraint in planned.table.constraints {
            let key = constraint.key { position in
                planned.value(at: position)
                    ?? planned.loaded.flatMap {
                        $0.state.visible(position, $0.table.policies(for: $0.state))?.value
                    } ?? .null
            }
            guard let key else { continue }
            keys[row, default: []].append(key)
            unseen.append(key)
            // An eclipsed row has its key already, and keeps it in the shade.
            let isTouched = planned.touches(constraint.names)
            if !isTouched, planned.loaded?.survivor != nil { continue }
            claims[key, default: Claim(constraint: constraint)].rows.append((row, isTouched))
        }
    }

    /// Puts keys, and of each the rows, in the order of the save.
    private mutating func sortUnseen(_ concerned: Set<UniqueKey>) {
        var firsts: [(place: Int, index: Int, key: UniqueKey)] = []
        for key in concerned {
            guard var rows = claims[key]?.rows, !rows.isEmpty else { continue }
            rows.sort { places[$0.row, default: 0] < places[$1.row, default: 0] }
            claims[key]?.rows = rows
            let index = keys[rows[0].row]?.firstIndex(of: key) ?? 0
            firsts.append((places[rows[0].row, default: 0], index, key))
        }
        firsts.sort { ($0.place, $0.index) < ($1.place, $1.index) }
        unseen = firsts.map(\.key)
    }
}

/// Uniqueness at saves made here, as Core Data has it (CONFORMANCE CD-35 to CD-44): keys are
/// compared with those of the rows that readers see, and among the rows of the save.
struct UniquenessPlanner: PlanningPart {
    let view: StoreView

    /// One key that several rows would have.
    private struct Dispute {
        let key: UniqueKey
        let constraint: UniqueConstraint
        /// Rows of the save, in its order.
        let rows: [RowID]
        /// The row of the store.
        var holder: RowID?
    }

    /// Settles what the save would do to keys that others have, by the context's policy.
    ///
    /// An error policy throws, with every conflict. Otherwise an object that would be inserted
    /// becomes one with the object that has the key: with that one's values where the store
    /// stands, with its own, unassigned ones included, where the newer object does. A changed
    /// object of the store gives its key change up where the store stands; where the newer object
    /// does, the two become a group, and the entity's policy decides what it shows.
    ///
    /// - Throws: ``CoordinatorError`` (`constraintConflict`).
    func settleConstraints(_ plan: inout SavePlan, _ request: SaveRequest) throws {
        if view.groupedRoots.isEmpty { return }
        let isConcerned = plan.rows.contains { !$0.value.table.constraints.isEmpty }
        guard isConcerned else { return }
        var keys = PlannedKeys(plan)
        var accepted = Set<UniqueKey>()
        // Each round settles one dispute at least, and hardly a row gives up more than two keys; whatever
        // that overlooks is refused rather than tried for ever.
        for round in 0... {
            let disputes = try self.disputes(keys, plan).filter { !accepted.contains($0.key) }
            if disputes.isEmpty { return }
            let refused =
                round > 2 * plan.rows.rows.count + 8
                ? disputes
                : disputes.filter {
                    self.request(for: $0, request, plan).mergePolicy.leavesUnresolved
                }
            if !refused.isEmpty { throw try refusal(refused, plan) }
            var changed = Set<RowID>()
            for dispute in disputes {
                try settle(
                    dispute, &plan, self.request(for: dispute, request, plan), &accepted, &changed)
            }
            keys.update(changed, plan, besides: disputes.map(\.key))
        }
    }

    /// The request as it is for a dispute: the context's policy may have settled it.
    private func request(
        for dispute: Dispute, _ request: SaveRequest, _ plan: SavePlan
    ) -> SaveRequest {
        if request.settled.keys.isEmpty { return request }
        let values = Array(zip(dispute.constraint.names, dispute.key.values))
        let policies = dispute.rows.map { row in
            request.settled.policy(
                forKey: values, of: named(row, plan.rows[row]), holder: dispute.holder)
        }
        // Settled if it is for all.
        return request.settling(by: policies.contains(nil) ? nil : policies.first ?? nil)
    }

    /// The disputes about keys that are to be looked at, in the order of the save.
    private func disputes(_ keys: PlannedKeys, _ plan: SavePlan) throws -> [Dispute] {
        try keys.unseen.compactMap { key in
            guard let claim = keys.claims[key], claim.rows.contains(where: \.isTouched) else {
                return nil
            }
            var dispute = Dispute(
                key: key, constraint: claim.constraint, rows: claim.rows.map(\.row))
            dispute.holder = try holder(of: dispute, plan)
            return dispute.rows.count > 1 || dispute.holder != nil ? dispute : nil
        }
    }

    /// The row of the store that shows a key and keeps it, or comes to show it by the save.
    ///
    /// Where a save is for one row, another that it eclipsed takes its key over as it gives that up,
    /// and would eclipse what is inserted with it.
    private func holder(of dispute: Dispute, _ plan: SavePlan) throws -> RowID? {
        var leaving = Set<RowID>()
        for candidate in try view.rows(showing: dispute.key, of: dispute.constraint) {
            // Rows of this save are compared as the save leaves them.
            if dispute.rows.contains(candidate) { continue }
            guard let planned = plan.rows[candidate] else { return candidate }
            guard gives(planned, dispute.constraint) else { return candidate }
            if !planned.writesGroup { leaving.insert(candidate) }
        }
        if leaving.isEmpty { return nil }
        return try view.eclipsedRows(with: dispute.key).first { row in
            guard !dispute.rows.contains(row), let survivor = try view.survivor(of: row),
                leaving.contains(survivor)
            else { return false }
            return plan.rows[row].map { !gives($0, dispute.constraint) } ?? true
        }
    }

    func gives(_ planned: SavePlan.Row, _ constraint: UniqueConstraint) -> Bool {
        planned.kind == .delete || planned.touches(constraint.names)
    }

    /// How a conflict calls a row.
    private func named(_ row: RowID, _ planned: SavePlan.Row?) -> RowID {
        guard let planned, planned.kind == .insert else { return row }
        return planned.name
    }

    // MARK: Refusing

    private func refusal(_ disputes: [Dispute], _ plan: SavePlan) throws -> CoordinatorError {
        var conflicts: [ConstraintConflict] = []
        for dispute in disputes {
            let conflict = try self.conflict(dispute, plan)
            let same = conflicts.firstIndex {
                $0.databaseObject == conflict.databaseObject
                    && $0.conflictingObjects == conflict.conflictingObjects
            }
            if let same {
                for name in conflict.constraint where !conflicts[same].constraint.contains(name) {
                    conflicts[same].constraint.append(name)
                }
                conflicts[same].constraintValues.merge(conflict.constraintValues) { old, _ in old }
                continue
            }
            conflicts.append(conflict)
        }
        return CoordinatorError.keyTaken(conflicts[0], of: conflicts)
    }

    private func conflict(_ dispute: Dispute, _ plan: SavePlan) throws -> ConstraintConflict {
        func snapshot(_ loaded: LoadedRow) -> [String: PropertyValue] {
            Dictionary(
                zip(loaded.table.entity.properties.map(\.name), loaded.columns),
                uniquingKeysWith: { first, _ in first })
        }
        let holder = try dispute.holder.flatMap {
            try view.load(table(dispute.constraint.scope), $0)
        }
        let planned = dispute.rows.compactMap { row in plan.rows[row].map { (row, $0) } }
        return ConstraintConflict(
            scope: dispute.constraint.scope, constraint: dispute.constraint.names,
            constraintValues: Dictionary(
                zip(dispute.constraint.names, dispute.key.values),
                uniquingKeysWith: { first, _ in first }),
            databaseObject: holder?.objectID, databaseSnapshot: holder.map(snapshot),
            conflictingObjects: planned.map { row, planned in
                ManagedObjectID(
                    entityName: planned.table.entity.name,
                    row: named(row, planned))
            },
            conflictingSnapshots: planned.map { _, planned in planned.loaded.map(snapshot) })
    }

    // MARK: Settling

    /// - Parameter changed: receives all rows whose keys may be others now, or none; perhaps more. What
    ///   refers to a row is not among them, because no reference is part of a key.
    private func settle(
        _ dispute: Dispute, _ plan: inout SavePlan, _ request: SaveRequest,
        _ accepted: inout Set<UniqueKey>, _ changed: inout Set<RowID>
    ) throws {
        let saveWins = request.mergePolicy.choice == .latest
        // An earlier dispute of the same round may have settled this one.
        let rows = dispute.rows.filter { plan.rows[$0] != nil }
        guard rows.count == dispute.rows.count else { return }
        // A row that has the key already keeps it.
        let stored =
            rows.first { !(plan.rows[$0]?.touches(dispute.constraint.names) ?? true) }
            ?? rows.first { plan.rows[$0]?.kind != .insert }
        guard let target = dispute.holder ?? stored ?? rows.first else { return }
        for row in rows where row != target {
            guard var planned = plan.rows[row] else { continue }
            changed.formUnion([row, target])
            switch planned.kind {
            case .insert:
                let kept = try merge(
                    row, planned, into: target, dispute, request, &plan, saveWins: saveWins)
                guard let kept else { continue }
                let links = plan.takeMisfits(of: planned, at: target, kept)
                if saveWins {
                    saveDiscards.noteMisfits(planned, links, into: target, kept, request, &plan)
                } else {
                    saveDiscards.noteMerged(planned, links, into: target, kept, request, &plan)
                }
            case .update where !saveWins:
                // By name: in another entity of the hierarchy the properties are at other places.
                let properties = planned.table.entity.properties
                func isOfKey(_ position: Int) -> Bool {
                    dispute.constraint.names.contains(properties[position].name)
                }
                saveDiscards.noteGivenUp(
                    planned.values.filter { isOfKey($0.position) }, of: planned, row, request,
                    &plan)
                planned.leave(where: isOfKey)
                planned.isSettled = true
                plan.rows[row] = planned
            case .update, .revival, .delete:
                guard !planned.table.entity.policies.entity.leavesUnresolved else {
                    throw try refusal([dispute], plan)
                }
                accepted.insert(dispute.key)
            }
        }
    }

    /// Lets an insert be one with the row that has its key.
    ///
    /// - Returns: the table of that row, whose entity may be another than the insert's.
    private func merge(
        _ row: RowID, _ planned: SavePlan.Row, into target: RowID, _ dispute: Dispute,
        _ request: SaveRequest, _ plan: inout SavePlan, saveWins: Bool
    ) throws -> EntityTable? {
        let stored =
            plan.rows[target] == nil ? try view.load(table(dispute.constraint.scope), target) : nil
        let kept = plan.rows[target]?.table ?? stored?.table
        plan.merge(row, into: target, of: kept?.entity.name)
        var into = plan.rows[target]
        if into == nil {
            guard let loaded = stored else { return nil }
            guard saveWins else {
                plan.drop(loaded.objectID, loaded)
                return loaded.table
            }
            into = SavePlan.Row(
                table: loaded.table, loaded: loaded, kind: .update, values: [], assignedCount: 0,
                resolves: planned.resolves, name: planned.name, isSettled: true)
        }
        guard var into else { return nil }
        // It is more than its own object in the context knows of, or less than the other's.
        into.isSettled = true
        guard saveWins else {
            plan.rows[target] = into
            return into.table
        }
        // All of the new object's values, those that nobody assigned too (CD-38); of a row of a batch
        // request those that it gives (CD-136).
        var replaced: [Int] = []
        for (position, place) in into.table.positions(in: planned.table).enumerated() {
            guard let place, request.batch == nil || planned.isAssigned(place) else { continue }
            var value = planned.value(at: place) ?? .null
            if value == .reference(row) { value = .reference(target) }
            // The client knows of the values that the save itself writes there.
            if into.value(at: position) == nil, let loaded = into.loaded,
                loaded.shown(position)?.value ?? .null != value
            {
                replaced.append(position)
            }
            into.set(position, value)
            plan.noteReference(value, from: target)
        }
        if let loaded = into.loaded {
            saveDiscards.noteReplaced(replaced, of: loaded, request, &plan)
        }
        if plan.rows[target] == nil {
            plan.add(target, into)
        } else {
            plan.rows[target] = into
        }
        return into.table
    }
}

extension SavePlan.Row {
    /// Whether the operation itself gives the property a value.
    fileprivate func isAssigned(_ position: Int) -> Bool {
        values.prefix(assignedCount).contains { $0.position == position }
    }

    /// Whether the save may change a key of these properties.
    fileprivate func touches(_ names: [String]) -> Bool {
        kind != .update || names.contains { value(of: $0) != nil }
    }
}
