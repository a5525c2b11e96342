import Merge

/// Saves to rows of groups (DESIGN section 5.5).
///
/// What is written to a survivor is written to every row of its group, so that what has seen the
/// union dominates it. Under an error policy nothing is united, and a save is for the row it names.
extension StoreEngine {
    /// The row that an operation is for: in place of an eclipsed one its survivor, but under an
    /// error policy the row itself.
    ///
    /// - Returns: nil where it names an object that the save does not insert.
    func addressed(_ operation: SaveOperation, _ plan: SavePlan) throws -> RowID? {
        guard let row = plan.resolve(operation.row) else { return nil }
        guard state.eclipsed > 0, !operation.isExact, operation.row.rawValue > 0,
            plan.rows[row] == nil, groupedRoots.contains(operation.entity.root),
            let survivor = try survivor(of: row),
            let loaded = try load(table(operation.entity.name), survivor),
            !loaded.table.entity.policies.entity.leavesUnresolved,
            loaded.table.entity.isKind(of: operation.entity)
        else { return row }
        return survivor
    }

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
                result.append(change(.delete, member.table, member.row, [], [], &shapes))
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
    private func update(
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
        let own = try loadLink(link, source: key.source, target: key.target)
        let isMade = LinkCoding.isAlive(own, policy: history.settling(link, own).policy)
        let needsOwn = isMade != isAlive || own.siblings.count > 1
        guard state.eclipsed > 0, isGrouped(link) else {
            return needsOwn ? [(key.source, key.target)] : []
        }
        if !isAlive {
            let members = try memberLinks(link, source: key.source, target: key.target)
            return members.filter { $0.isAlive || $0.register.siblings.count > 1 }
                .map { ($0.source, $0.target) }
        }
        var result: [(source: RowID, target: RowID)] = []
        for source in try members(of: key.source, link.source) {
            for target in try members(of: key.target, link.target) {
                let register = try loadLink(link, source: source, target: target)
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
    private func members(of row: RowID, _ entity: String) throws -> [RowID] {
        guard table(entity).isGrouped, let loaded = try load(table(entity), row),
            !loaded.table.entity.policies.entity.leavesUnresolved
        else { return [row] }
        // What the link does not lead to is of one key with it, and no end of it.
        let family = table(entity).entity.familyNames
        return [row] + loaded.eclipsed.filter { family.contains($0.table.entity.name) }.map(\.row)
    }

    /// Whether readers see a link between two visible rows.
    func isShown(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        let statement = try database.prepared(
            "SELECT _alive FROM \(EntityTable.quote(link.name)) "
                + "WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        guard try statement.step() else { return false }
        defer { statement.reset() }
        return statement.integer(0) != 0
    }

    /// A row that may be of a group as the save left it; nil where it is of none.
    func savedGroup(_ planned: SavePlan.Row, _ row: RowID) throws -> SaveResult.SavedRow? {
        let wasGrouped = planned.loaded.map { !$0.eclipsed.isEmpty || $0.survivor != nil } ?? false
        guard wasGrouped || state.eclipsed > 0, planned.table.isGrouped,
            let now = try load(planned.table, row)
        else { return nil }
        guard now.isVisible else {
            return .init(objectID: now.objectID, version: nil, values: nil)
        }
        guard wasGrouped || !now.eclipsed.isEmpty else { return nil }
        return .init(objectID: now.objectID, version: now.version, values: now.columns)
    }
}

extension SavePlan.Row {
    /// Whether what is written to the row is written to all rows of its group.
    var writesGroup: Bool {
        !isExact && !(loaded?.eclipsed.isEmpty ?? true)
            && !table.entity.policies.entity.leavesUnresolved
    }
}
