import Merge

/// The updates and deletes of a save as changes, in the making.
struct PlainChanges {
    var shapes = ShapeTable()
    var changes: [Change] = []
    /// The objects, in order of the operations, with what they are after the save.
    var objects: [(objectID: ManagedObjectID, outcome: Outcome)] = []

    /// What an object is after the save.
    enum Outcome {
        case written
        case unchanged(RowVersion)
        case deleted
    }

    init(capacity: Int) {
        changes.reserveCapacity(capacity)
        objects.reserveCapacity(capacity)
    }
}

/// Works out a save that does nothing but update and delete objects that have not moved on, straight from
/// its operations.
///
/// What a plan by row keeps of each makes a large save slow. The checks are the same.
struct PlainPlanner: PlanningPart {
    let view: StoreView

    /// Works out the changes.
    ///
    /// - Returns: nil where the request needs the whole plan: other kinds of operation, references,
    ///   relationships kept elsewhere, uniqueness constraints, counts, conflicts of any kind, several
    ///   operations on one row, or anything not valid, which the plan then reports in full.
    func plainChanges(_ operations: [SaveOperation]) throws -> PlainChanges? {
        guard arePlain(operations) else { return nil }
        var made = PlainChanges(capacity: operations.count)
        var start = 0
        while start < operations.count {
            let table = table(operations[start].entity.name)
            var end = PlainRowStore.end(of: operations, from: start, \.row)
            end = operations[start..<end].firstIndex { $0.entity !== table.entity } ?? end
            let rows = try view.plainRows(of: table)?.load(
                operations[start].row, count: end - start)
            for (place, operation) in operations[start..<end].enumerated() {
                guard
                    let (columns, version) = try rows?[place].map({
                        ($0.columns, try view.version(of: $0))
                    }) ?? self.plain(operation.row, table),
                    operation.version.map({ $0 == version }) ?? true
                else { return nil }
                made.add(operation, table, columns, version)
            }
            start = end
        }
        return made.changes.isEmpty ? nil : made
    }

    /// What a row shows that has no conflicts, whatever its registers are like, and its version.
    private func plain(
        _ row: RowID, _ table: EntityTable
    ) throws -> (columns: [PropertyValue], version: RowVersion)? {
        guard let loaded = try view.load(table, row), loaded.isPlain, loaded.table === table
        else { return nil }
        return (loaded.columns, loaded.version)
    }

    /// Whether operations are plain, as far as they tell by themselves.
    private func arePlain(_ operations: [SaveOperation]) -> Bool {
        var current: EntityTable?
        var last = RowID(0)
        for operation in operations {
            // Rising rows are different ones.
            guard operation.kind == .update || operation.kind == .delete, operation.row > last,
                !operation.resolves, !operation.isExact, !operation.hasPremises,
                operation.relationships.isEmpty
            else { return false }
            last = operation.row
            if operation.entity !== current?.entity {
                let table = table(operation.entity.name)
                guard !table.isCounted, !table.isGrouped, table.references.isEmpty else {
                    return false
                }
                current = table
            }
            guard let table = current else { return false }
            // What is deleted may be led to, or lead somewhere.
            guard operation.kind == .update ? table.accepts(operation.values) : table.isApart
            else { return false }
        }
        return true
    }
}

extension PlainChanges {
    /// - Parameter shown: the values that the object shows, which without references are its registers'.
    fileprivate mutating func add(
        _ operation: SaveOperation, _ table: EntityTable, _ shown: [PropertyValue],
        _ version: RowVersion
    ) {
        let id = ManagedObjectID(entityName: table.entity.name, row: operation.row)
        if operation.kind == .delete {
            objects.append((id, .deleted))
            // What history keeps of it.
            append(.delete, table, operation.row, [], table.preserved.map { ($0, shown[$0]) })
            return
        }
        let assigned = operation.values.filter { shown[$0.position] != $0.value }
        objects.append((id, assigned.isEmpty ? .unchanged(version) : .written))
        if assigned.isEmpty { return }
        let carried =
            table.entity.policies.isRowGrained
            ? table.entity.properties.indices.filter { position in
                !assigned.contains { $0.position == position }
            }.map { (position: $0, value: shown[$0]) } : []
        append(.update, table, operation.row, assigned, carried)
    }

    private mutating func append(
        _ kind: Change.Kind, _ table: EntityTable, _ row: RowID,
        _ assigned: [(position: Int, value: PropertyValue)],
        _ carried: [(position: Int, value: PropertyValue)]
    ) {
        let shape = shapes.position(of: table, assigned: assigned, carried: carried)
        changes.append(
            Change(
                kind: kind, shape: shape, row: row,
                values: assigned.map(\.value) + carried.map(\.value)))
    }
}

extension EntityTable {
    /// Whether attributes may have some values, as far as can be told without their validation rules:
    /// then the whole plan has to look.
    func accepts(_ values: [(position: Int, value: PropertyValue)]) -> Bool {
        for (index, entry) in values.enumerated() {
            if entry.value.isNull {
                if mandatory.contains(entry.position) { return false }
            } else {
                guard let type = plainTypes[entry.position],
                    Validation.fits(entry.value, type: type)
                else { return false }
            }
            for earlier in values[..<index] where earlier.position == entry.position {
                return false
            }
        }
        return true
    }
}

extension LoadedRow {
    /// Whether it is shown by itself, and no two writes of it are concurrent.
    var isPlain: Bool { isVisible && eclipsed.isEmpty && !state.hasSiblings }
}
