import Merge

/// The delete rules of relationships.
struct DeleteRules: PlanningPart {
    let view: StoreView

    /// Carries out the delete rules of everything the save deletes, and of what they delete.
    ///
    /// Nullify writes nothing: a reference to a deleted row reads as nil anyway, and writing it
    /// would revive children that are deleted elsewhere at the same time (DESIGN section 5.4).
    func propagateDeletes(_ plan: inout SavePlan) throws {
        var queue = plan.rows.compactMap { $0.value.kind == .delete ? $0.row : nil }
        var denied: [(RowID, ManagedObjectModel.Relationship, EntityTable)] = []
        var nullified: [(RowID, ManagedObjectModel.Relationship)] = []
        var next = 0
        while next < queue.count {
            let row = queue[next]
            next += 1
            guard let planned = plan.rows[row] else { continue }
            for relationship in planned.table.entity.relationships {
                // Members of a row that makes way for another of its key are that one's now.
                if planned.isExact {
                    guard case .column = relationship.storage else { continue }
                }
                switch relationship.description.deleteRule {
                case .noAction: continue
                case .deny: denied.append((row, relationship, planned.table))
                case .nullify: nullified.append((row, relationship))
                case .cascade:
                    for member in try ruledMembers(of: relationship, row: row, &plan)
                    where !plan.deletes(member) {
                        if plan.spared.contains(member) {
                            nullified.append((row, relationship))
                            continue
                        }
                        try planCascade(
                            to: member, relationship, resolves: planned.resolves, &plan)
                        queue.append(member)
                    }
                }
            }
        }
        for (row, relationship, table) in denied {
            let remaining = try ruledMembers(of: relationship, row: row, &plan)
                .filter { !plan.deletes($0) }
            guard !remaining.isEmpty, let planned = plan.rows[row] else { continue }
            plan.failures.append(
                ValidationFailure(
                    object: told(planned), property: relationship.name,
                    code: .relationshipDeniedDelete,
                    message: "\(table.entity.name)/\(row) cannot be deleted while its "
                        + "\(relationship.name) has "
                        + (remaining.count == 1 ? "an object." : "\(remaining.count) objects.")))
            let object = ManagedObjectID(entityName: table.entity.name, row: row)
            let isListed = plan.denied.last?.object == object
            let listed = isListed ? plan.denied.removeLast().properties : []
            plan.denied.append(
                MergeConflict(
                    object: object, properties: listed + [relationship.name], oldVersion: nil,
                    newVersion: planned.loaded?.state.version, objectSnapshot: nil,
                    cachedSnapshot: nil, persistedSnapshot: nil))
        }
        for (row, relationship) in nullified {
            try checkMandatoryInverse(row, relationship, &plan)
        }
    }

    private func planCascade(
        to member: RowID, _ relationship: ManagedObjectModel.Relationship, resolves: Bool,
        _ plan: inout SavePlan
    ) throws {
        if var planned = plan.rows[member] {
            planned.kind = .delete
            plan.rows[member] = planned
            return
        }
        guard let loaded = try view.load(table(relationship.destination), member), loaded.isAlive
        else {
            return
        }
        plan.add(
            member,
            SavePlan.Row(
                table: loaded.table, loaded: loaded, kind: .delete, values: [],
                assignedCount: 0, resolves: resolves, name: member, isSettled: true))
    }

    /// Nullify into a mandatory inverse fails (CD-110).
    private func checkMandatoryInverse(
        _ row: RowID, _ relationship: ManagedObjectModel.Relationship, _ plan: inout SavePlan
    ) throws {
        guard case .inverseColumn(let entity, let property) = relationship.storage,
            let position = table(entity).entity.position(of: property),
            !table(entity).entity.properties[position].isOptional
        else { return }
        for member in try heldMembers(of: relationship, row: row, &plan) {
            plan.failures.append(
                ValidationFailure(
                    object: told(member, entity), property: property,
                    code: .missingMandatoryProperty,
                    message: "\(entity).\(property) is mandatory, and the object it refers to "
                        + "would be deleted."))
        }
    }

    /// The targets of a relationship of a row that the save deletes, as the save leaves it.
    ///
    /// Of a one-to-one that is not what another row of the save takes over; and of a row that is
    /// deleted without those it eclipses not what hangs on these, though readers see it at the row.
    private func heldMembers(
        of relationship: ManagedObjectModel.Relationship, row: RowID, _ plan: inout SavePlan
    ) throws -> [RowID] {
        var members = try relationshipPlanner.plannedMembers(of: relationship, row: row, &plan)
        guard let planned = plan.rows[row] else { return members }
        if !planned.writesGroup, !(planned.loaded?.eclipsed.isEmpty ?? true) {
            members = try members.filter {
                try isOwn($0, of: relationship, row: row, planned, plan)
            }
        }
        if relationship.description.isToMany { return members }
        switch relationship.storage {
        case .column(let position):
            guard
                let exclusive = planned.table.exclusive.first(where: { $0.position == position })
            else { return members }
            let owner = table(exclusive.owner).entity
            return members.filter { target in
                !plan.referrers(to: target).contains { other in
                    guard other != row, let claimant = plan.rows[other] else { return false }
                    return claimant.kind != .delete && claimant.table.entity.isKind(of: owner)
                        && claimant.value(of: exclusive.property) == .reference(target)
                }
            }
        case .inverseColumn(_, let property):
            let taking = members.filter {
                plan.rows[$0]?.value(of: property) == .reference(row)
            }
            return taking.isEmpty ? members : taking
        case .link: return members
        }
    }

    /// What the delete rule of a relationship applies to: what it leads to, but where a row makes way for
    /// another of its key, not what one that stays leads to by itself. A save wrote it to all of them.
    private func ruledMembers(
        of relationship: ManagedObjectModel.Relationship, row: RowID, _ plan: inout SavePlan
    ) throws -> [RowID] {
        let members = try heldMembers(of: relationship, row: row, &plan)
        guard let planned = plan.rows[row], planned.isExact, let loaded = planned.loaded,
            case .column = relationship.storage, !members.isEmpty
        else { return members }
        let root = table(relationship.destination).entity.root
        let survivor = try loaded.survivor.flatMap { try view.load(planned.table, $0) } ?? loaded
        var kept = Set<RowID>()
        for other in [survivor] + survivor.eclipsed where !plan.deletes(other.row) {
            guard let position = other.table.entity.position(of: relationship.name) else {
                continue
            }
            let own = other.state.visible(position, other.table.policies(for: other.state))?.value
            guard case .reference(let target)? = plan.rows[other.row]?.value(at: position) ?? own
            else { continue }
            kept.insert(try view.shownRow(target, root: root) ?? target)
        }
        return try members.filter { !kept.contains(try view.shownRow($0, root: root) ?? $0) }
    }

    /// Whether a member is one by the save, or by a register that says so of that very row, not of one
    /// that it eclipses.
    func isOwn(
        _ member: RowID, of relationship: ManagedObjectModel.Relationship, row: RowID,
        _ planned: SavePlan.Row, _ plan: SavePlan
    ) throws -> Bool {
        let root = table(relationship.destination).entity.root
        switch relationship.storage {
        case .column(let position):
            if planned.value(at: position) != nil { return true }
            guard let loaded = planned.loaded,
                case .reference(let target)? = loaded.state.visible(
                    position, loaded.table.policies(for: loaded.state))?.value
            else { return false }
            return try view.shownRow(target, root: root) == member
        case .inverseColumn(let entity, let property):
            if plan.rows[member]?.value(of: property) != nil { return true }
            guard let loaded = try plan.rows[member]?.loaded ?? view.load(table(entity), member),
                let position = loaded.table.entity.position(of: property)
            else { return false }
            return loaded.shown(position)?.value == .reference(row)
        case .link(let name, let isFirst):
            guard let link = model.link(named: name) else { return false }
            let key = LinkKey(
                link: name, source: isFirst ? row : member, target: isFirst ? member : row)
            if plan.links[key] != nil { return true }
            return try view.livingLinks(link, isFirst ? "source" : "target", row).contains {
                try view.shownRow(isFirst ? $0.target : $0.source, root: root) == member
            }
        }
    }
}
