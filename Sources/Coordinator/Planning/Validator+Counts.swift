import Merge

/// Whether a save leaves the to-manys that it changes as many objects as the model asks for, and the
/// mandatory to-ones whose state is at the other side theirs.
extension Validator {
    /// Checks the counts of the rows that the save names, and of others that it leads objects to or
    /// away from, as Core Data does, to which either side of a relationship is a change of both.
    ///
    /// A row that a save does not name is no reason to refuse the save if it was wrong before:
    /// merges leave such rows, which are listed, and the rest of the work goes on beside them.
    func validateCounts(_ plan: inout SavePlan) throws {
        let before = plan.failures.count
        try noteViolations(&plan)
        guard plan.failures.count > before, leaveCounted(&plan) else { return }
        plan.failures.removeSubrange(before...)
        try noteViolations(&plan)
    }

    /// Leaves the references that are brought back, and whose other side is counted, as the store has
    /// them: the caller is not to be refused for what it never assigned.
    ///
    /// - Returns: whether there are any.
    private func leaveCounted(_ plan: inout SavePlan) -> Bool {
        var hasLeft = false
        for row in plan.rows.rows {
            guard let planned = plan.rows[row] else { continue }
            for reference in planned.table.countedReferences
            where planned.isBroughtBack(reference.position) {
                plan.rows[row]?.leave { $0 == reference.position }
                hasLeft = true
            }
        }
        return hasLeft
    }

    private func noteViolations(_ plan: inout SavePlan) throws {
        let changes = try countChanges(plan)
        for row in plan.rows.rows {
            // What leads to a row that is eclipsed is shown, and counted, at another. Its own count is
            // known when it is shown, and must not keep a group from being resolved.
            guard let planned = plan.rows[row], planned.kind != .delete,
                planned.loaded?.survivor == nil
            else { continue }
            for counted in planned.table.counted {
                let change = changes[CountedOwner(row: row, name: counted.relationship.name)]
                let leaving = change?.leaving ?? 0
                let difference = (change?.joining ?? 0) - leaving
                // No further than it takes to tell: there may be very many.
                func count(atMost limit: Int) throws -> Int {
                    planned.kind == .insert
                        ? 0 : try view.count(counted, of: row, atMost: limit)
                }
                let enough = max(counted.least, counted.most + 1) + leaving
                guard let violation = counted.violation(of: try count(atMost: enough) + difference)
                else { continue }
                note(
                    violation, of: counted, told(planned), planned.table.entity.name,
                    try count(atMost: .max) + difference, &plan)
            }
        }
        for (owner, change) in changes.sorted(by: { $0.key < $1.key })
        where plan.rows[owner.row] == nil {
            let counted = change.counted
            // Enough to tell whether it is valid now, and whether it is without those that leave.
            let before = try view.count(
                counted, of: owner.row,
                atMost: max(counted.least, counted.most + 1) + change.leaving)
            if counted.violation(of: before) != nil { continue }
            let after = before - change.leaving + change.joining
            guard let violation = counted.violation(of: after) else { continue }
            let object = try view.load(table(change.entity), owner.row)?.objectID
            note(
                violation, of: counted,
                told(owner.row, object?.entityName ?? change.entity),
                object?.entityName ?? change.entity, after, &plan)
        }
    }

    func note(
        _ violation: ConflictViolation, of counted: CountedRelationship, _ object: String,
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
        case .missingMandatoryProperty:
            code = .missingMandatoryProperty
            message = "\(name) is mandatory."
        }
        plan.failures.append(
            ValidationFailure(
                object: object, property: counted.relationship.name, code: code,
                message: message))
    }

    // MARK: What a save changes

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
        for (_, planned) in plan.rows {
            guard planned.table.isCounting, !hasSuccessor(planned) else { continue }
            for reference in planned.table.countedReferences {
                let (before, after) = try shownTargets(of: reference, planned, plan)
                if before == after { continue }
                if let before { change(before, reference.counted, reference.target, \.leaving) }
                if let after { change(after, reference.counted, reference.target, \.joining) }
            }
        }
        for name in view.countedLinks.sorted() {
            guard let link = model.link(named: name) else { continue }
            for isFirst in [true, false] {
                guard let counted = view.counted(link, isFirst: isFirst) else { continue }
                for key in try changedLinks(link, isFirst: isFirst, plan) {
                    let owner = isFirst ? key.source : key.target
                    guard let (before, after) = try shown(key, of: link, isFirst: isFirst, plan),
                        before != after
                    else { continue }
                    change(
                        owner, counted, isFirst ? link.source : link.target,
                        before ? \.leaving : \.joining)
                }
            }
        }
        return changes
    }

    /// Whether another row of its group comes to be shown in a row's place, so that what the row led
    /// to may lose nothing by its going. The journal tells what comes of it.
    private func hasSuccessor(_ planned: SavePlan.Row) -> Bool {
        planned.kind == .delete && !planned.writesGroup
            && !(planned.loaded?.eclipsed.isEmpty ?? true)
    }

    /// The targets that a reference of a row shows before a save and after it; nil if it shows
    /// none.
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
        return (before, try view.ledTo(target, from: planned.table, reference.position))
    }

    /// The links that a save may change for their owners.
    ///
    /// - Parameter isFirst: whether the owners are the links' sources.
    private func changedLinks(
        _ link: ManagedObjectModel.Link, isFirst: Bool, _ plan: SavePlan
    ) throws -> [LinkKey] {
        var keys = Set(plan.linkOrder.filter { $0.link == link.name })
        let root = model.entity(named: isFirst ? link.target : link.source)?.root
        let near = isFirst ? "target" : "source"
        for row in plan.rows.rows where plan.deletes(row) {
            guard plan.rows[row]?.table.entity.root == root else { continue }
            for owner in try view.linked(link, with: near, row) {
                keys.insert(
                    LinkKey(
                        link: link.name, source: isFirst ? owner : row,
                        target: isFirst ? row : owner))
            }
        }
        return keys.sorted()
    }

    /// Whether a link is shown at its owner before a save and after it; nil where nobody can tell.
    ///
    /// A link outlives its ends: who is deleted, or eclipsed, keeps what it had, and shows none of it.
    func shown(
        _ key: LinkKey, of link: ManagedObjectModel.Link, isFirst: Bool, _ plan: SavePlan
    ) throws -> (Bool, Bool)? {
        let (owner, member) = isFirst ? (key.source, key.target) : (key.target, key.source)
        let roots = [link.source, link.target].map { model.entity(named: $0)?.root ?? "" }
        let planned = plan.rows[member]
        if let planned, hasSuccessor(planned) { return nil }
        let isOwnerThere =
            try plan.rows[owner].map { $0.kind != .delete }
            ?? view.isVisible(owner, root: roots[isFirst ? 0 : 1])
        guard isOwnerThere else { return nil }
        let isAlive = try view.isShown(link, source: key.source, target: key.target)
        let isThere = try view.isVisible(member, root: roots[isFirst ? 1 : 0])
        let isLeft = planned.map { $0.kind != .delete } ?? isThere
        return (isAlive && isThere, isLeft && plan.links[key] ?? isAlive)
    }
}
