import Merge

/// The inserts of a save as changes, in the making.
struct PlainInserts {
    var shapes = ShapeTable()
    var inserted: [SaveResult.InsertedRow] = []
    var changes: [Change] = []
    /// The identities that are left.
    var allocator: RowIDAllocator

    init(capacity: Int, _ allocator: RowIDAllocator) {
        self.allocator = allocator
        inserted.reserveCapacity(capacity)
        changes.reserveCapacity(capacity)
    }
}

/// Works out a save that does nothing but insert, straight from its operations.
///
/// An import is a million of these: without a plan by row an insert costs half. The checks are the
/// same.
struct InsertPlanner: PlanningPart {
    let view: StoreView

    /// Works out the changes of inserts.
    ///
    /// - Returns: nil where the request needs the whole plan: other kinds of operation,
    ///   relationships kept elsewhere, uniqueness constraints, counts, or anything not valid,
    ///   which the plan then reports in full.
    func plainInserts(_ operations: [SaveOperation]) -> PlainInserts? {
        guard operations.first?.kind == .insert else { return nil }
        var inserts = PlainInserts(capacity: operations.count, state.allocator)
        var current: EntityTable?
        for operation in operations {
            guard operation.kind == .insert, operation.relationships.isEmpty,
                operation.row.rawValue < 0, operation.reservedRow == nil, !operation.hasPremises
            else { return nil }
            if operation.entity !== current?.entity {
                let table = table(operation.entity.name)
                guard !table.entity.isAbstract, !table.isCounted, table.constraints.isEmpty,
                    table.references.isEmpty
                else { return nil }
                current = table
            }
            guard let table = current, let carried = carried(operation.values, table) else {
                return nil
            }
            let row = inserts.allocator.next()
            inserts.inserted.append(
                .init(
                    temporary: operation.row, row: row, entityName: table.entity.name,
                    name: operation.name))
            let shape = inserts.shapes.position(
                of: table, assigned: operation.values, carried: carried)
            var values: [PropertyValue] = []
            values.reserveCapacity(operation.values.count + carried.count)
            for entry in operation.values { values.append(entry.value) }
            for entry in carried { values.append(entry.value) }
            inserts.changes.append(Change(kind: .insert, shape: shape, row: row, values: values))
        }
        return inserts
    }

    /// The further values of an insert: the defaults, and nulls if the row is one register; nil if
    /// something is not valid.
    func carried(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable
    ) -> [(position: Int, value: PropertyValue)]? {
        guard table.accepts(values) else { return nil }
        for position in table.mandatory
        where !values.contains(where: { $0.position == position })
            && !table.defaults.contains(where: { $0.position == position })
        {
            return nil
        }
        func isAssigned(_ position: Int) -> Bool { values.contains { $0.position == position } }
        var carried = table.defaults.filter { !isAssigned($0.position) }
        if table.entity.policies.isRowGrained {
            // The whole row is one register.
            carried += table.entity.properties.indices.filter { position in
                !isAssigned(position) && !table.defaults.contains { $0.position == position }
            }.map { ($0, .null) }
        }
        return carried
    }
}
