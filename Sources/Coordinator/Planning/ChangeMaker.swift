import Merge

/// The changes that a planned save comes to.
struct ChangeMaker: PlanningPart {
    let view: StoreView

    /// The changes that a planned row comes to.
    func changes(
        _ planned: SavePlan.Row, _ row: RowID, _ shapes: inout ShapeTable
    ) -> [Change] {
        guard let own = change(planned, row, &shapes) else { return [] }
        guard planned.writesGroup, let loaded = planned.loaded else { return [own] }
        var result = [own]
        for member in loaded.eclipsed {
            switch planned.kind {
            case .insert, .revival: break
            case .delete:
                result.append(delete(of: member, &shapes))
            case .update:
                if let change = update(of: member, by: planned, loaded, &shapes) {
                    result.append(change)
                }
            }
        }
        return result
    }

    /// The same update for another row of the group. Row-grained: the row as it is shown, with
    /// the change (MODEL P13).
    func update(
        of member: LoadedRow, by planned: SavePlan.Row, _ survivor: LoadedRow,
        _ shapes: inout ShapeTable
    ) -> Change? {
        let places = member.table.positions(in: survivor.table)
        let written = planned.writtenValues
        var assigned: [(position: Int, value: PropertyValue)] = []
        var carried: [(position: Int, value: PropertyValue)] = []
        for (position, place) in places.enumerated() {
            if let place, let value = written.last(where: { $0.position == place })?.value {
                assigned.append((position, value))
            } else if member.table.entity.policies.isRowGrained {
                let isShown = survivor.table.entity.policies.isRowGrained
                let shown = place.flatMap { isShown ? survivor.shown($0)?.value : nil }
                carried.append((position, shown ?? member.columns[position]))
            }
        }
        if assigned.isEmpty, !planned.resolves { return nil }
        return change(.update, member.table, member.row, assigned, carried, &shapes)
    }

    /// The links that making or taking away one between visible rows comes to.
    ///
    /// Taken away are all that readers see as this one. Made is a link from every row of the one's
    /// group to every row of the other's, but under an error policy of the row itself.
    func linksToWrite(
        _ link: ManagedObjectModel.Link, _ key: LinkKey, isAlive: Bool
    ) throws -> [(source: RowID, target: RowID)] {
        let own = try view.loadLink(link, source: key.source, target: key.target)
        let isMade = LinkCoding.isAlive(own, policy: history.settling(link, own).policy)
        let needsOwn = isMade != isAlive || own.siblings.count > 1
        guard state.eclipsed > 0, view.isGrouped(link) else {
            return needsOwn ? [(key.source, key.target)] : []
        }
        if !isAlive {
            let members = try view.memberLinks(link, source: key.source, target: key.target)
            return members.filter { $0.isAlive || $0.register.siblings.count > 1 }
                .map { ($0.source, $0.target) }
        }
        var result: [(source: RowID, target: RowID)] = []
        for source in try members(of: key.source, link.source) {
            for target in try members(of: key.target, link.target) {
                let register = try view.loadLink(link, source: source, target: target)
                let policy = history.settling(link, register).policy
                if LinkCoding.isAlive(register, policy: policy), register.siblings.count < 2 {
                    continue
                }
                result.append((source, target))
            }
        }
        return result
    }

    /// A row with those of its group that are written with it.
    func members(of row: RowID, _ entity: String) throws -> [RowID] {
        guard table(entity).isGrouped, let loaded = try view.load(table(entity), row),
            !loaded.table.entity.policies.entity.leavesUnresolved
        else { return [row] }
        // What the link does not lead to is of one key with it, and no end of it.
        let family = table(entity).entity.familyNames
        return [row] + loaded.eclipsed.filter { family.contains($0.table.entity.name) }.map(\.row)
    }

    func change(
        _ planned: SavePlan.Row, _ row: RowID, _ shapes: inout ShapeTable
    ) -> Change? {
        let table = planned.table
        let policies = table.entity.policies
        switch planned.kind {
        case .insert:
            let assigned = planned.values.prefix(planned.assignedCount)
            var carried = Array(planned.values.dropFirst(planned.assignedCount))
            if policies.isRowGrained { carried += rest(planned, table) { _ in .null } }
            return change(.insert, table, row, Array(assigned), carried, &shapes)
        case .revival:
            let assigned = planned.values
            return change(
                .revival, table, row, assigned, rest(planned, table) { _ in .null }, &shapes)
        case .update:
            guard let loaded = planned.loaded else { return nil }
            let raw: (Int) -> PropertyValue = { loaded.shown($0)?.value ?? .null }
            let values = planned.resolves ? planned.values : planned.changedValues
            if values.isEmpty, !planned.resolves { return nil }
            // A property not assigned carries the register's value, never its projection: a
            // reference projected to nil must not become nil (MODEL P13).
            let carried =
                policies.isRowGrained
                ? table.entity.properties.indices.filter { position in
                    !values.contains { $0.position == position }
                }.map { ($0, raw($0)) } : []
            return change(.update, table, row, values, carried, &shapes)
        case .delete:
            guard let loaded = planned.loaded, loaded.isAlive || planned.resolves else {
                return nil
            }
            return delete(of: loaded, &shapes)
        }
    }

    /// The delete of a row, with what history keeps of it.
    private func delete(of loaded: LoadedRow, _ shapes: inout ShapeTable) -> Change {
        change(
            .delete, loaded.table, loaded.row, [],
            loaded.table.preserved.map { ($0, loaded.columns[$0]) }, &shapes)
    }

    func change(
        _ kind: Change.Kind, _ table: EntityTable, _ row: RowID,
        _ assigned: [(position: Int, value: PropertyValue)],
        _ carried: [(position: Int, value: PropertyValue)], _ shapes: inout ShapeTable
    ) -> Change {
        let shape = shapes.position(of: table, assigned: assigned, carried: carried)
        var values: [PropertyValue] = []
        values.reserveCapacity(assigned.count + carried.count)
        for entry in assigned { values.append(entry.value) }
        for entry in carried { values.append(entry.value) }
        return Change(kind: kind, shape: shape, row: row, values: values)
    }

    func rest(
        _ planned: SavePlan.Row, _ table: EntityTable, _ value: (Int) -> PropertyValue
    ) -> [(position: Int, value: PropertyValue)] {
        table.entity.properties.indices.filter { position in
            !planned.values.contains { $0.position == position }
        }.map { ($0, value($0)) }
    }
}

extension SavePlan.Row {
    /// Whether what is written to the row is written to all rows of its group.
    var writesGroup: Bool {
        !isExact && !(loaded?.eclipsed.isEmpty ?? true)
            && !table.entity.policies.entity.leavesUnresolved
    }
}
