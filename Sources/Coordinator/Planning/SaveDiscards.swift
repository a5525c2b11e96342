import Merge

/// The changes that a context's policy discarded at a save: the journal's entries of kind `save`.
struct SaveDiscards: PlanningPart {
    let view: StoreView

    /// Notes what a context's policy discarded, its own values or the store's.
    func noteDiscarded(
        _ operation: SaveOperation, _ settlement: Settlement, _ loaded: LoadedRow?,
        _ table: EntityTable, _ row: RowID, _ changed: Set<Int>, _ request: SaveRequest,
        _ plan: inout SavePlan
    ) {
        // A second operation on an object loses its values alone.
        var relationships: [RelationshipOperation] = []
        if case .drop = settlement, plan.rows[row] == nil {
            relationships = operation.relationships
        }
        guard
            let (positions, written, saveWins) = discarded(
                operation, settlement, loaded, changed, isOfLinks: !relationships.isEmpty)
        else { return }
        let properties = table.entity.properties
        let saveSide = ConflictSide(
            dot: nil, timestamp: nil, isVisible: saveWins, isDeleted: operation.kind == .delete,
            value: nil,
            row: positions.compactMap { position in
                let value =
                    operation.values.last { $0.position == position }
                    ?? written.last { $0.position == position }
                let read = saveWins ? nil : operation.snapshot?[position]
                return (value?.value ?? read).map {
                    .init(name: properties[position].name, value: $0)
                }
            }, author: request.author, contextName: request.contextName,
            relationships: relationships)
        note(
            of: table, row,
            sides: [storeSide(loaded, positions, isVisible: !saveWins), saveSide],
            "The object had changed since the context fetched it; the context's merge policy "
                + "\(request.mergePolicy.rawValue) decided.", request, &plan)
    }

    /// Notes that a changed object gave the change of a key up, for another has that key.
    func noteGivenUp(
        _ values: [(position: Int, value: PropertyValue)], of planned: SavePlan.Row, _ row: RowID,
        _ request: SaveRequest, _ plan: inout SavePlan
    ) {
        if values.isEmpty { return }
        let properties = planned.table.entity.properties
        note(
            of: planned.table, row,
            sides: [
                storeSide(planned.loaded, values.map(\.position).sorted(), isVisible: true),
                saveSide(
                    values.map { (properties[$0.position].name, $0.value) }, isVisible: false,
                    request),
            ],
            "Another object has the unique key; the context's merge policy "
                + "\(request.mergePolicy.rawValue) left it that.", request, &plan)
    }

    /// Notes that a save does not delete an object, because it edits another that has become one
    /// with it.
    func noteDeleteGivenUp(
        _ planned: SavePlan.Row, _ row: RowID, _ request: SaveRequest, _ plan: inout SavePlan
    ) {
        plan.spared.insert(row)
        // Nor does it replace what was written since.
        plan.journal.removeAll { entry in
            entry.id.row == row && entry.sides.last.map { $0.isDeleted && $0.isVisible } ?? false
        }
        note(
            of: planned.table, row,
            sides: [
                storeSide(planned.loaded, [], isVisible: true),
                ConflictSide(
                    dot: nil, timestamp: nil, isVisible: false, isDeleted: true, value: nil,
                    row: [], author: request.author, contextName: request.contextName),
            ],
            "The save edited an object that has become one with this, which it deleted; the edit "
                + "stands.", request, &plan)
    }

    /// Notes what an object of the store loses to a new one that has its key, and becomes one with it.
    func noteReplaced(
        _ positions: [Int], of loaded: LoadedRow, _ request: SaveRequest, _ plan: inout SavePlan
    ) {
        if positions.isEmpty { return }
        let properties = loaded.table.entity.properties
        note(
            of: loaded.table, loaded.row,
            sides: [
                storeSide(loaded, positions.sorted(), isVisible: false),
                // Its writes are known once the save is planned to its end.
                saveSide(
                    positions.map { (properties[$0].name, .null) }, isVisible: true, request),
            ],
            "A new object has the same unique key; the context's merge policy "
                + "\(request.mergePolicy.rawValue) made it one with this, whose values it replaced.",
            request, &plan)
    }

    /// Notes what a new object had that became one with the object that has its key.
    ///
    /// It is filed under the object that was kept: under the new one's entity an undo would bring
    /// that object back, once its tombstone is collected, as one of another entity than it is where
    /// the tombstone is still there.
    ///
    /// - Parameter links: those that the kept object's entity does not have.
    func noteMerged(
        _ planned: SavePlan.Row, _ links: [RelationshipOperation], into target: RowID,
        _ kept: EntityTable, _ request: SaveRequest, _ plan: inout SavePlan
    ) {
        let properties = planned.table.entity.properties
        note(
            of: kept, target,
            sides: [
                saveSide(
                    planned.values.map { (properties[$0.position].name, $0.value) },
                    relationships: links, isVisible: false, request)
            ],
            "Another object had the unique key already; the context's merge policy "
                + "\(request.mergePolicy.rawValue) kept that one.", request, &plan)
    }

    /// Notes the values of a new object that the object with its key cannot take, because that is
    /// of another entity. The new object's values stand.
    func noteMisfits(
        _ planned: SavePlan.Row, _ links: [RelationshipOperation], into target: RowID,
        _ kept: EntityTable, _ request: SaveRequest, _ plan: inout SavePlan
    ) {
        let properties = planned.table.entity.properties
        let taken = Set(kept.positions(in: planned.table).compactMap(\.self))
        // A default is no assignment.
        let left = planned.values.prefix(planned.assignedCount).filter {
            !taken.contains($0.position) && !$0.value.isNull
        }
        if left.isEmpty, links.isEmpty { return }
        note(
            of: kept, target,
            sides: [
                saveSide(
                    left.map { (properties[$0.position].name, $0.value) }, relationships: links,
                    isVisible: false, request)
            ],
            "Another object had the unique key already, of entity \(kept.entity.name), and the context's "
                + "merge policy \(request.mergePolicy.rawValue) made them one: it cannot take these.",
            request, &plan)
    }

    private func saveSide(
        _ values: [(name: String, value: PropertyValue)],
        relationships: [RelationshipOperation] = [], isVisible: Bool, _ request: SaveRequest
    ) -> ConflictSide {
        ConflictSide(
            dot: nil, timestamp: nil, isVisible: isVisible, isDeleted: false, value: nil,
            row: values.map { ConflictSide.RowValue(name: $0.name, value: $0.value) }.sorted {
                $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
            }, author: request.author, contextName: request.contextName,
            relationships: relationships)
    }

    func note(
        of table: EntityTable, _ row: RowID, sides: [ConflictSide], _ text: String,
        _ request: SaveRequest, _ plan: inout SavePlan
    ) {
        plan.journal.append(
            Conflict(
                id: ConflictID(entity: table.entity.name, row: row, subject: "save"),
                kind: .save, state: .settled, property: nil, policy: request.mergePolicy,
                sides: sides, explanation: Explanation(rule: .savePolicy, text: text),
                closedBy: nil, openedAt: state.generation))
    }

    /// A journal entry once the save is planned to its end, for later operations and relationships
    /// may have changed what it writes; nil where in the end it discards nothing.
    ///
    /// - Parameters:
    ///   - written: what ``written(_:_:)`` tells of the journal's objects.
    ///   - dot: the save's; nil where it wrote nothing.
    ///   - timestamp: when it was made.
    func completed(
        _ conflict: Conflict, _ plan: SavePlan, _ written: [RowID: [ConflictSide.RowValue]],
        _ dot: Dot?, at timestamp: HybridTimestamp?
    ) -> Conflict? {
        var conflict = conflict
        conflict.closedBy = dot
        for index in conflict.sides.indices { named(&conflict.sides[index], plan) }
        // Discarded values are in no transaction, and so have no dot.
        guard var save = conflict.sides.popLast() else { return nil }
        if save.isVisible {
            if let planned = plan.rows[conflict.id.row], planned.kind == .delete {
                save.isDeleted = true
                save.row = []
            } else if plan.rows[conflict.id.row] != nil {
                let listed = Set(save.row.map(\.name))
                save.row = (written[conflict.id.row] ?? []).filter { listed.contains($0.name) }
                    .sorted {
                        $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
                    }
                let kept = Set(save.row.map(\.name))
                for index in conflict.sides.indices {
                    conflict.sides[index].row.removeAll { !kept.contains($0.name) }
                }
                if save.row.isEmpty { return nil }
            }
            save.dot = dot
        }
        save.timestamp = timestamp
        conflict.sides.append(save)
        return conflict
    }

    /// The final values that a save wrote to the objects of its journal. An object is written more
    /// than once if the save also changes another that has become one with it.
    func written(
        _ journal: [Conflict], _ transaction: Transaction
    ) -> [RowID: [ConflictSide.RowValue]] {
        if journal.isEmpty { return [:] }
        var written: [RowID: [ConflictSide.RowValue]] = [:]
        let rows = Set(journal.map(\.id.row))
        for change in transaction.changes where change.target == nil && rows.contains(change.row) {
            for (name, value) in zip(transaction.shapes[change.shape].assigned, change.values) {
                written[change.row]?.removeAll { $0.name == name }
                written[change.row, default: []].append(.init(name: name, value: value))
            }
        }
        return written
    }

    /// Names what the save inserted by the identities that it came to have, and what became one with
    /// another object by that one's.
    func named(_ side: inout ConflictSide, _ plan: SavePlan) {
        func final(_ row: RowID) -> RowID? {
            guard var row = plan.resolve(row) else { return nil }
            while let other = plan.merged[row] { row = other }
            return row
        }
        for index in side.row.indices {
            guard case .reference(let target) = side.row[index].value else { continue }
            let entry = side.row[index]
            side.row[index] = .init(
                name: entry.name, value: final(target).map { .reference($0) } ?? .null,
                stamp: entry.stamp)
        }
        for index in side.relationships.indices {
            let members = side.relationships[index].members
            side.relationships[index].members = members.compactMap(final)
        }
    }

    /// The properties for which one side's values are discarded, what the save writes, and whether
    /// it is the store's values that are; nil if nothing is.
    func discarded(
        _ operation: SaveOperation, _ settlement: Settlement, _ loaded: LoadedRow?,
        _ changed: Set<Int>, isOfLinks: Bool
    ) -> (positions: [Int], written: [(position: Int, value: PropertyValue)], saveWins: Bool)? {
        var written: [(position: Int, value: PropertyValue)] = []
        var saveWins = true
        switch settlement {
        case .write(let values): written = values
        case .delete: break
        case .revive(let values): written = values.enumerated().map { ($0, $1) }
        case .drop: saveWins = false
        case .conflict: return nil
        }
        let positions: [Int]
        // Of a row that is one register a tombstone keeps nothing, so the journal keeps it whole: what
        // the delete takes away, and what an edit of the deleted would have left.
        let isRegister =
            loaded.map { $0.table.policies(for: $0.state).isRowGrained }
            ?? operation.entity.policies.isRowGrained
        if case .delete = settlement, isRegister {
            positions = Array(operation.entity.properties.indices)
        } else if operation.kind == .delete {
            positions = changed.sorted()
        } else if case .drop = settlement, isRegister, operation.snapshot != nil,
            !(loaded?.isAlive ?? false)
        {
            positions = Array(operation.entity.properties.indices)
        } else if case .revive = settlement {
            // The delete is discarded.
            let assigned = operation.values.map(\.position)
            positions = assigned.isEmpty ? written.map(\.position) : assigned.sorted()
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
        if positions.isEmpty, operation.kind == .update, !isOfLinks, loaded?.isAlive ?? false {
            return nil
        }
        return (positions, written, saveWins)
    }

    /// The values that the save found in the store. Several writes may have put them there: the
    /// side is named after the latest of them, and the values of others bear their own.
    private func storeSide(
        _ loaded: LoadedRow?, _ positions: [Int], isVisible: Bool
    ) -> ConflictSide {
        guard let loaded, loaded.isAlive else {
            let death = loaded?.state.existence.siblings.last { !$0.value.isAlive }
            return ConflictSide(
                dot: death?.dot, timestamp: death?.stamp.timestamp, isVisible: isVisible,
                isDeleted: true, value: nil, row: [])
        }
        let entity = loaded.table.entity
        // The registers' values, not what is shown: a reference that reads as nil was never
        // written as nil. What nobody wrote is null since the insertion.
        var row = positions.map { position in
            let visible = loaded.shown(position)
            return ConflictSide.RowValue(
                name: entity.properties[position].name, value: visible?.value ?? .null,
                stamp: visible?.stamp ?? loaded.state.insertionStamp)
        }
        let own =
            row.compactMap(\.stamp).max()
            ?? loaded.state.existence.siblings.last { $0.value.isAlive }?.stamp
        for index in row.indices where row[index].stamp == own { row[index].stamp = nil }
        return ConflictSide(
            dot: own?.dot, timestamp: own?.timestamp, isVisible: isVisible, isDeleted: false,
            value: nil, row: row)
    }
}
