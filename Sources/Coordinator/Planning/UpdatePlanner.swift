import Merge

/// The updates of a save as changes, in the making.
struct PlainUpdates {
    var shapes = ShapeTable()
    var changes: [Change] = []
    /// The objects, in order of the operations; with the version of those that stay as they are.
    var objects: [(objectID: ManagedObjectID, unchanged: RowVersion?)] = []

    init(capacity: Int) {
        changes.reserveCapacity(capacity)
        objects.reserveCapacity(capacity)
    }
}

/// Works out a save that does nothing but update objects that have not moved on, straight from its
/// operations.
///
/// What a plan by row keeps of each makes a large save slow. The checks are the same.
struct UpdatePlanner: PlanningPart {
    let view: StoreView

    /// Works out the changes of updates.
    ///
    /// - Returns: nil where the request needs the whole plan: other kinds of operation, references,
    ///   relationships kept elsewhere, uniqueness constraints, counts, conflicts of any kind, several
    ///   operations on one row, or anything not valid, which the plan then reports in full.
    func plainUpdates(_ operations: [SaveOperation]) throws -> PlainUpdates? {
        guard operations.first?.kind == .update, arePlain(operations) else { return nil }
        var updates = PlainUpdates(capacity: operations.count)
        for operation in operations {
            let table = table(operation.entity.name)
            guard let loaded = try view.load(table, operation.row), loaded.isPlain,
                loaded.table === table,
                operation.version.map({ $0 == loaded.version }) ?? true
            else { return nil }
            updates.add(operation, loaded)
        }
        return updates.changes.isEmpty ? nil : updates
    }

    /// Whether operations are plain updates, as far as they tell by themselves.
    private func arePlain(_ operations: [SaveOperation]) -> Bool {
        var current: EntityTable?
        var last = RowID(0)
        for operation in operations {
            // Rising rows are different ones.
            guard operation.kind == .update, operation.row > last, !operation.resolves,
                !operation.isExact, !operation.hasPremises, operation.relationships.isEmpty
            else { return false }
            last = operation.row
            if operation.entity !== current?.entity {
                let table = table(operation.entity.name)
                guard !table.isCounted, !table.isGrouped, table.references.isEmpty else {
                    return false
                }
                current = table
            }
            guard let table = current, table.accepts(operation.values) else { return false }
        }
        return true
    }
}

extension PlainUpdates {
    fileprivate mutating func add(_ operation: SaveOperation, _ loaded: LoadedRow) {
        let table = loaded.table
        func shown(_ position: Int) -> PropertyValue { loaded.shown(position)?.value ?? .null }
        let assigned = operation.values.filter { shown($0.position) != $0.value }
        objects.append((loaded.objectID, assigned.isEmpty ? loaded.version : nil))
        if assigned.isEmpty { return }
        let carried =
            table.entity.policies.isRowGrained
            ? table.entity.properties.indices.filter { position in
                !assigned.contains { $0.position == position }
            }.map { (position: $0, value: shown($0)) } : []
        let shape = shapes.position(of: table, assigned: assigned, carried: carried)
        changes.append(
            Change(
                kind: .update, shape: shape, row: loaded.row,
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
