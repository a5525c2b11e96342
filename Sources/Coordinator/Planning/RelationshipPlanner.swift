import Merge

/// Turns a save's changes of relationships into columns of other rows, or links.
struct RelationshipPlanner: PlanningPart {
    let view: StoreView

    /// The same as the plan will leave it.
    func plannedMembers(
        of relationship: ManagedObjectModel.Relationship, row: RowID, _ plan: inout SavePlan
    ) throws -> [RowID] {
        switch relationship.storage {
        case .column(let position):
            if let planned = plan.rows[row], let value = planned.value(at: position) {
                guard case .reference(let target) = value,
                    // Of what is deleted nobody checks whether its references lead anywhere.
                    try planned.kind != .delete || isThere(target, relationship.destination, plan)
                else { return [] }
                return [target]
            }
            guard case .reference(let target)? = plan.rows[row]?.loaded?.columns[position] else {
                return []
            }
            return [target]
        case .inverseColumn(let entity, let property):
            var members = try view.members(of: relationship, row: row)
            members.removeAll { plan.rows[$0]?.value(of: property) != nil }
            let owner = table(entity).entity
            for other in plan.referrers(to: row) {
                guard let planned = plan.rows[other], planned.table.entity.isKind(of: owner),
                    planned.value(of: property) == .reference(row)
                else { continue }
                members.append(other)
            }
            return Array(Set(members.filter { !plan.deletes($0) })).sorted()
        case .link(let name, let isFirst):
            var members = Set(try view.members(of: relationship, row: row))
            for key in plan.links(of: row) where key.link == name {
                guard (isFirst ? key.source : key.target) == row else { continue }
                let other = isFirst ? key.target : key.source
                if plan.links[key] ?? false { members.insert(other) } else { members.remove(other) }
            }
            return members.filter { !plan.deletes($0) }.sorted()
        }
    }

    /// Whether a row is among the members of a to-many, but for its being deleted.
    func isMember(
        _ member: RowID, of relationship: ManagedObjectModel.Relationship, row: RowID,
        _ plan: SavePlan
    ) throws -> Bool {
        switch relationship.storage {
        case .column: return false
        case .inverseColumn(let entity, let property):
            if let value = plan.rows[member]?.value(of: property) {
                return value == .reference(row)
            }
            guard let loaded = try plan.rows[member]?.loaded ?? view.load(table(entity), member),
                let position = loaded.table.entity.position(of: property)
            else { return false }
            return loaded.isVisible && loaded.columns[position] == .reference(row)
        case .link(let name, let isFirst):
            let key = LinkKey(
                link: name, source: isFirst ? row : member, target: isFirst ? member : row)
            if let planned = plan.links[key] { return planned }
            guard let link = model.link(named: name) else { return false }
            return try view.isShown(link, source: key.source, target: key.target)
        }
    }

    /// The row that an operation is for: in place of an eclipsed one its survivor, but under an
    /// error policy the row itself.
    ///
    /// - Returns: nil where it names an object that the save does not insert.
    func addressed(_ operation: SaveOperation, _ plan: SavePlan) throws -> RowID? {
        guard let row = plan.resolve(operation.row) else { return nil }
        guard state.eclipsed > 0, !operation.isExact, operation.row.rawValue > 0,
            plan.rows[row] == nil, view.groupedRoots.contains(operation.entity.root),
            let survivor = try view.survivor(of: row),
            let loaded = try view.load(table(operation.entity.name), survivor),
            !loaded.table.entity.policies.entity.leavesUnresolved,
            loaded.table.entity.isKind(of: operation.entity)
        else { return row }
        return survivor
    }

    // MARK: Changes made from the other side

    /// Turns changes of members into what keeps them: columns of other rows, or links.
    func planRelationships(_ operation: SaveOperation, _ plan: inout SavePlan) throws {
        // A delete tells links for its rules to go by, if it stands.
        guard let row = try addressed(operation, plan),
            (operation.kind == .delete) == (plan.rows[row]?.kind == .delete)
        else { return }
        let entity = plan.rows[row]?.table.entity ?? operation.entity
        for change in operation.relationships {
            guard let relationship = entity.relationship(named: change.name) else {
                throw CoordinatorError(
                    .malformed, "\(entity.name) has no relationship \(change.name).")
            }
            if case .column = relationship.storage {
                throw CoordinatorError(
                    .malformed, "\(entity.name).\(change.name) is a to-one: assign its value.")
            }
            var members: [RowID] = []
            for member in change.members {
                guard let member = plan.resolve(member),
                    try isThere(member, relationship.destination, plan)
                        || (operation.resolves && change.kind == .remove)
                        || (operation.isExact && isDisputed(relationship, row, member)
                            && view.isAlive(
                                member, root: table(relationship.destination).entity.root))
                else {
                    // Objects that the save, or this operation, deletes may be gone already.
                    if operation.kind == .delete
                        || plan.droppedRows.contains(member)
                    {
                        continue
                    }
                    plan.failures.append(
                        ValidationFailure(
                            object: told(operation.row, entity.name), property: change.name,
                            code: .danglingReference,
                            message: "\(entity.name).\(change.name) names an object that is not "
                                + "there: \(member)."))
                    continue
                }
                let destination = table(relationship.destination)
                let isMeant =
                    try plan.rows[member] != nil
                    || operation.isExact && isDisputed(relationship, row, member)
                members.append(
                    isMeant ? member : try view.shownRow(member, as: destination) ?? member)
            }
            try apply(
                change.kind, members, of: relationship, row: row, resolves: operation.resolves,
                &plan)
        }
    }

    /// Whether a link is in conflict: who decides over it means that one, whatever is shown for its ends.
    private func isDisputed(
        _ relationship: ManagedObjectModel.Relationship, _ row: RowID, _ member: RowID
    ) throws -> Bool {
        guard case .link(let name, let isFirst) = relationship.storage,
            let link = model.link(named: name)
        else { return false }
        return try view.loadLink(
            link, source: isFirst ? row : member, target: isFirst ? member : row
        ).siblings.count > 1
    }

    /// Whether a row is there, or will be, and is of an entity or inherits from it.
    func isThere(_ row: RowID, _ destination: String, _ plan: SavePlan) throws -> Bool {
        let table = table(destination)
        if let planned = plan.rows[row] {
            return table.entity.familyNames.contains(planned.table.entity.name)
        }
        guard try view.isFound(row, as: destination) else { return false }
        if table.entity.parent == nil { return true }
        return try view.load(table, row).map {
            table.entity.familyNames.contains($0.table.entity.name)
        } ?? false
    }

    func apply(
        _ kind: RelationshipOperation.Kind, _ members: [RowID],
        of relationship: ManagedObjectModel.Relationship, row: RowID, resolves: Bool,
        _ plan: inout SavePlan
    ) throws {
        // Only a replacement has to know all members; there may be many.
        let isPartial = relationship.isToMany && kind != .replace
        let current = Set(
            isPartial
                ? try members.filter { member in
                    // A link that is taken away is gone for the rules of a deleted member, too.
                    try (kind == .remove || !plan.deletes(member))
                        && isMember(member, of: relationship, row: row, plan)
                }
                : try plannedMembers(of: relationship, row: row, &plan))
        let wanted: Set<RowID> =
            switch kind {
            case .add: current.union(members)
            case .remove: current.subtracting(members)
            case .replace: Set(members)
            }
        if !relationship.isToMany, wanted.count > 1 {
            throw CoordinatorError(
                .malformed, "\(relationship.name) leads to one object, not to \(wanted.count).")
        }
        var joining = wanted.subtracting(current).sorted()
        var leaving = current.subtracting(wanted).sorted()
        if resolves, case .link = relationship.storage {
            // A decision over a link names the link even if it already is as wanted.
            joining = kind == .remove ? [] : Set(members).sorted()
            if kind == .remove { leaving = Set(members).sorted() }
        }
        switch relationship.storage {
        case .column: break
        case .inverseColumn(let entity, let property):
            // An object that has the target already keeps it, whatever others claim.
            if !relationship.isToMany, resolves || wanted.isEmpty || wanted != current {
                let claim = Claim(owner: entity, property: property, target: row)
                try releaseHidden(claim, besides: wanted, &plan)
            }
            for member in leaving { try assign(entity, property, of: member, .null, &plan) }
            for member in joining {
                try assign(entity, property, of: member, .reference(row), &plan)
            }
        case .link(let name, let isFirst):
            for (rows, isAlive) in [(leaving, false), (joining, true)] {
                for other in rows {
                    plan.setLink(
                        LinkKey(
                            link: name, source: isFirst ? row : other,
                            target: isFirst ? other : row), isAlive)
                    if model.isOwnInverse(relationship) {
                        plan.setLink(
                            LinkKey(link: name, source: other, target: row), isAlive)
                    }
                }
            }
        }
    }

    /// - Parameter isHidden: whether it takes away a claim that readers see nothing of.
    func assign(
        _ entity: String, _ property: String, of row: RowID, _ value: PropertyValue,
        isHidden: Bool = false, _ plan: inout SavePlan
    ) throws {
        if var planned = plan.rows[row] {
            guard planned.kind != .delete,
                let position = planned.table.entity.position(of: property)
            else { return }
            if isHidden { planned.hiddenClaims.insert(position) }
            // The caller that asked for the rest does not know of it.
            if planned.value(at: position) != value { planned.isSettled = true }
            planned.set(position, value)
            plan.rows[row] = planned
            plan.noteReference(value, from: row)
            return
        }
        guard let loaded = try view.load(table(entity), row), loaded.isVisible,
            let position = loaded.table.entity.position(of: property)
        else { return }
        plan.add(
            row,
            SavePlan.Row(
                table: loaded.table, loaded: loaded, kind: .update, values: [(position, value)],
                assignedCount: 1, resolves: false, name: row, isSettled: true,
                hiddenClaims: isHidden ? [position] : []))
    }

    /// Other rows that claim the target of a one-to-one clear their claim.
    ///
    /// It comes after unique keys are settled: what is dropped for an object of the store claims
    /// nothing, and what leads to an insert that becomes one with such an object claims that one.
    func releaseOtherClaims(_ plan: inout SavePlan) throws {
        if view.tables.values.allSatisfy(\.exclusive.isEmpty) { return }
        for row in plan.rows.rows {
            guard let planned = plan.rows[row], planned.kind != .delete,
                !planned.table.references.isEmpty
            else { continue }
            for exclusive in planned.table.exclusive {
                let entity = planned.table.entity
                guard case .reference(let target)? = planned.value(at: exclusive.position),
                    let relationship = entity.relationship(named: exclusive.property),
                    let inverse = relationship.description.inverse,
                    let other = model.entity(named: relationship.destination)?
                        .relationship(named: inverse)
                else { continue }
                // Claims to a row that is eclipsed are known by what is shown in its place.
                let shown =
                    try view.ledTo(target, from: planned.table, exclusive.position) ?? target
                let claim = Claim(
                    owner: exclusive.owner, property: exclusive.property, target: shown)
                let others = try plannedMembers(of: other, row: target, &plan).filter {
                    $0 != row
                }
                if planned.isBroughtBack(exclusive.position),
                    isNeeded(exclusive, of: planned, by: others, plan)
                {
                    plan.rows[row]?.leave { $0 == exclusive.position }
                    continue
                }
                for claimant in others {
                    try assign(entity.name, exclusive.property, of: claimant, .null, &plan)
                    noteLost(exclusive.property, of: claimant, &plan)
                }
                // Those too that lost their claim to another, because this save has seen them; but
                // where the claim stays the one that they lost to, all is as it was.
                let stood = planned.loaded?.columns[exclusive.position] == .reference(shown)
                guard !stood || planned.renews(exclusive.position) else { continue }
                try releaseHidden(claim, besides: [row], &plan)
            }
        }
    }

    /// Has rows give up claims that readers do not see.
    private func releaseHidden(
        _ claim: Claim, besides others: Set<RowID>, _ plan: inout SavePlan
    ) throws {
        for claimant in try view.hiddenClaimants(claim) where !others.contains(claimant) {
            // A claim that the save itself makes is not hidden.
            if plan.rows[claimant]?.value(of: claim.property) != nil { continue }
            try assign(claim.owner, claim.property, of: claimant, .null, isHidden: true, &plan)
        }
    }

    /// Whether bringing a claim back would take a target that another object must not be without:
    /// the object that has the target by now, or the one shown in its place.
    private func isNeeded(
        _ exclusive: ExclusiveReference, of planned: SavePlan.Row, by others: [RowID],
        _ plan: SavePlan
    ) -> Bool {
        if !planned.table.entity.properties[exclusive.position].isOptional {
            return others.contains { !plan.deletes($0) }
        }
        let isCounted = planned.table.countedReferences.contains {
            $0.position == exclusive.position
        }
        return isCounted && !(planned.loaded?.columns[exclusive.position] ?? .null).isNull
    }

    /// Has the save refused where an object must not be without what another takes from it.
    private func noteLost(_ name: String, of row: RowID, _ plan: inout SavePlan) {
        guard let planned = plan.rows[row], planned.kind != .delete,
            let position = planned.table.entity.position(of: name),
            let failure = ValueValidation.failure(
                .null, of: planned.table.entity.properties[position], object: told(planned))
        else { return }
        plan.failures.append(failure)
    }
}
