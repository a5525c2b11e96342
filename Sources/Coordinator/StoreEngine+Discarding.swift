import Merge

/// What a context's policy discarded at a save: the journal's entries of kind `save`.
extension StoreEngine {
    /// Notes what a context's policy discarded, its own values or the store's.
    func noteDiscarded(
        _ operation: SaveOperation, _ settlement: Settlement, _ loaded: LoadedRow?,
        _ table: EntityTable, _ row: RowID, _ changed: Set<Int>, _ request: SaveRequest,
        _ plan: inout SavePlan
    ) {
        guard let (positions, written, saveWins) = discarded(operation, settlement, loaded, changed)
        else { return }
        let properties = table.entity.properties
        let saveSide = ConflictSide(
            dot: nil, timestamp: nil, isVisible: saveWins, isDeleted: operation.kind == .delete,
            value: nil,
            row: positions.compactMap { position in
                let value =
                    operation.values.last { $0.position == position }
                    ?? written.last { $0.position == position }
                return value.map { .init(name: properties[position].name, value: $0.value) }
            }, author: request.author, contextName: request.contextName)
        plan.journal.append(
            Conflict(
                id: ConflictID(entity: table.entity.name, row: row, subject: "save"),
                kind: .save, state: .settled, property: nil, policy: request.mergePolicy,
                sides: [storeSide(loaded, positions, isVisible: !saveWins), saveSide],
                explanation: Explanation(
                    rule: .savePolicy,
                    text: "The object had changed since the context fetched it; the context's "
                        + "merge policy \(request.mergePolicy.rawValue) decided."),
                closedBy: nil, openedAt: state.generation))
    }

    /// A journal entry once the save is planned to its end, for later operations and relationships
    /// may have changed what it writes; nil where in the end it discards nothing.
    ///
    /// - Parameter stamp: the save's; nil where it wrote nothing.
    func completed(_ conflict: Conflict, _ plan: SavePlan, _ stamp: Stamp?) -> Conflict? {
        var conflict = conflict
        conflict.closedBy = stamp?.dot
        // What was discarded is in no transaction, and so has no dot.
        guard var save = conflict.sides.popLast() else { return nil }
        if save.isVisible {
            if let planned = plan.rows[conflict.id.row], planned.kind == .delete {
                save.isDeleted = true
                save.row = []
            } else if let planned = plan.rows[conflict.id.row] {
                let properties = planned.table.entity.properties
                let written = planned.writtenValues.map { position, value in
                    ConflictSide.RowValue(name: properties[position].name, value: value)
                }
                let listed = Set(save.row.map(\.name))
                save.row = written.filter { listed.contains($0.name) }.sorted {
                    $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
                }
                let kept = Set(save.row.map(\.name))
                for index in conflict.sides.indices {
                    conflict.sides[index].row.removeAll { !kept.contains($0.name) }
                }
                if save.row.isEmpty { return nil }
            }
            save.dot = stamp?.dot
            save.timestamp = stamp?.timestamp
        }
        conflict.sides.append(save)
        return conflict
    }

    /// The properties of which one side's values are discarded, what the save writes, and whether
    /// it is the store's values that are; nil where nothing is.
    private func discarded(
        _ operation: SaveOperation, _ settlement: Settlement, _ loaded: LoadedRow?,
        _ changed: Set<Int>
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
        if positions.isEmpty, operation.kind == .update, loaded?.isAlive ?? false { return nil }
        return (positions, written, saveWins)
    }

    /// What the save found in the store. Several writes may have put it there: the side is named
    /// after the latest of them, and the values of others bear their own.
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
