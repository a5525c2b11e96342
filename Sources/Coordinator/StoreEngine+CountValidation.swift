import Merge

/// Whether a save leaves the to-manys that it changes as many objects as the model asks for.
extension StoreEngine {
    /// Checks the counts of the rows that the save names, and of others that it leads objects to or
    /// away from, as Core Data does, to which either side of a relationship is a change of both.
    ///
    /// What a save does not name is no reason to refuse it where it was wrong before: merges leave
    /// such rows, which are listed, and the rest of the work goes on beside them.
    func validateCounts(_ plan: inout SavePlan) throws {
        for row in plan.order {
            // What leads to a row that is eclipsed is shown, and counted, at another. Its own count is
            // known when it is shown, and must not keep a group from being resolved.
            guard let planned = plan.rows[row], planned.kind != .delete,
                planned.loaded?.survivor == nil
            else { continue }
            for counted in planned.table.counted {
                let count = try plannedMembers(of: counted.relationship, row: row, &plan).count
                note(
                    counted.violation(of: count), of: counted, planned.name,
                    planned.table.entity.name, count, &plan)
            }
        }
        let changes = try countChanges(plan)
        for (owner, change) in changes.sorted(by: { $0.key < $1.key })
        where plan.rows[owner.row] == nil {
            let counted = change.counted
            // Enough to tell whether it is valid now, and whether it is without those that leave.
            let before = try count(
                counted, of: owner.row,
                atMost: max(counted.least, counted.most + 1) + change.leaving)
            if counted.violation(of: before) != nil { continue }
            let after = before - change.leaving + change.joining
            note(
                counted.violation(of: after), of: counted, owner.row, change.entity, after, &plan)
        }
    }

    private func note(
        _ violation: ConflictViolation?, of counted: CountedRelationship, _ row: RowID,
        _ entity: String, _ count: Int, _ plan: inout SavePlan
    ) {
        let name = "\(entity).\(counted.relationship.name)"
        let code: ValidationFailure.Code
        let message: String
        switch violation {
        case .relationshipLacksMinimumCount:
            code = .relationshipLacksMinimumCount
            message = "\(name) needs at least \(counted.least) objects and has \(count)."
        case .relationshipExceedsMaximumCount:
            code = .relationshipExceedsMaximumCount
            message = "\(name) may have \(counted.most) objects and has \(count)."
        case .missingMandatoryProperty, nil: return
        }
        plan.failures.append(
            ValidationFailure(
                object: "\(row)", property: counted.relationship.name, code: code,
                message: message))
    }

    // MARK: What a save changes without naming it

    /// A to-many of a row.
    private struct CountedOwner: Hashable, Comparable {
        let row: RowID
        let name: String

        static func < (one: Self, other: Self) -> Bool {
            (one.row, one.name) < (other.row, other.name)
        }
    }

    /// How many objects a save leads to it, and away from it.
    private struct CountChange {
        let counted: CountedRelationship
        /// The entity that its message names.
        let entity: String
        var leaving = 0
        var joining = 0
    }

    private func countChanges(_ plan: SavePlan) throws -> [CountedOwner: CountChange] {
        var changes: [CountedOwner: CountChange] = [:]
        func change(
            _ row: RowID, _ counted: CountedRelationship, _ entity: String,
            _ count: WritableKeyPath<CountChange, Int>
        ) {
            let owner = CountedOwner(row: row, name: counted.relationship.name)
            changes[owner, default: CountChange(counted: counted, entity: entity)][
                keyPath: count] += 1
        }
        for row in plan.order {
            guard let planned = plan.rows[row], planned.table.isCounting else { continue }
            for reference in planned.table.countedReferences {
                let (before, after) = try shownTargets(of: reference, planned, plan)
                if before == after { continue }
                if let before { change(before, reference.counted, reference.target, \.leaving) }
                if let after { change(after, reference.counted, reference.target, \.joining) }
            }
        }
        for (key, isFirst, counted, entity) in try changedLinks(plan) {
            guard let link = model.link(named: key.link) else { continue }
            let isShown = try isShown(link, source: key.source, target: key.target)
            let isKept = !plan.deletes(key.source) && !plan.deletes(key.target)
            let isPlanned = isKept && plan.links[key] ?? isShown
            if isShown == isPlanned { continue }
            change(
                isFirst ? key.source : key.target, counted, entity,
                isShown ? \.leaving : \.joining)
        }
        return changes
    }

    /// What a reference of a row shows before a save and after it; nil where it shows nothing.
    private func shownTargets(
        of reference: CountedReference, _ planned: SavePlan.Row, _ plan: SavePlan
    ) throws -> (RowID?, RowID?) {
        // A row that is eclipsed shows nothing of its own, whatever is written to it.
        if planned.kind == .update, planned.loaded?.isVisible == false { return (nil, nil) }
        var before: RowID?
        if let loaded = planned.loaded, loaded.isVisible,
            case .reference(let target) = loaded.columns[reference.position]
        {
            before = target
        }
        if planned.kind == .delete { return (before, nil) }
        guard let value = planned.value(at: reference.position) else { return (before, before) }
        guard case .reference(let target) = value else { return (before, nil) }
        if plan.rows[target] != nil { return (before, target) }
        return (before, try shownRow(target, root: reference.root))
    }

    /// The links of counted to-manys that a save may change, each with the side that is counted.
    private func changedLinks(
        _ plan: SavePlan
    ) throws -> [(SavePlan.LinkKey, isFirst: Bool, CountedRelationship, entity: String)] {
        var changed: [(SavePlan.LinkKey, isFirst: Bool, CountedRelationship, entity: String)] = []
        for name in countedLinks.sorted() {
            guard let link = model.link(named: name) else { continue }
            var keys = plan.linkOrder.filter { $0.link == name }
            for row in plan.order where plan.deletes(row) {
                keys += try links(name, of: row).filter { plan.links[$0] == nil }
            }
            guard !keys.isEmpty else { continue }
            for (entity, isFirst) in [(link.source, true), (link.target, false)] {
                let side = ManagedObjectModel.RelationshipStorage.link(
                    name: name, isFirst: isFirst)
                let relationships = model.entity(named: entity)?.relationships ?? []
                guard
                    let counted = relationships.first(where: { $0.storage == side })
                        .flatMap(CountedRelationship.init)
                else { continue }
                changed += Set(keys).sorted().map { ($0, isFirst, counted, entity) }
            }
        }
        return changed
    }

    /// The links of a row that are shown.
    private func links(_ name: String, of row: RowID) throws -> [SavePlan.LinkKey] {
        let statement = try database.prepared(
            "SELECT source, target FROM \(EntityTable.quote(name)) "
                + "WHERE (source = ?1 OR target = ?1) AND _alive")
        statement.bind(1, row.rawValue)
        var keys: [SavePlan.LinkKey] = []
        while try statement.step() {
            keys.append(
                SavePlan.LinkKey(
                    link: name, source: RowID(statement.integer(0)),
                    target: RowID(statement.integer(1))))
        }
        return keys
    }
}
