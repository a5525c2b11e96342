import Merge

extension StoreEngine {
    /// Saves a request that does nothing but insert, straight from its operations.
    ///
    /// An import is a million of these: without a plan by row an insert costs half. The checks
    /// are the same, and come before the first write.
    ///
    /// - Returns: nil where the request needs the whole plan: other kinds of operation,
    ///   relationships kept elsewhere, uniqueness constraints, counts, or anything not valid,
    ///   which the plan then reports in full.
    func saveInserts(_ request: SaveRequest) throws -> SaveResult? {
        guard request.operations.first?.kind == .insert else { return nil }
        let allocator = state.allocator
        var inserts = PlainInserts(capacity: request.operations.count)
        guard try prepare(request.operations[...], into: &inserts) else {
            state.allocator = allocator
            return nil
        }
        return try write(request, inserts)
    }

    /// Works out the changes of inserts; false where they need the whole plan.
    ///
    /// References are taken only where the objects have been named before.
    ///
    /// - Parameter areStaged: whether the caller sees to it that no row has another one's unique key or
    ///   claims what another one does, and to their links.
    func prepare(
        _ operations: ArraySlice<SaveOperation>, into inserts: inout PlainInserts,
        areStaged: Bool = false
    ) throws -> Bool {
        var allocator = state.allocator
        var current: EntityTable?
        for operation in operations {
            guard operation.kind == .insert, areStaged || operation.relationships.isEmpty,
                operation.row.rawValue < 0
            else { return false }
            if operation.entity !== current?.entity {
                let table = table(operation.entity.name)
                guard !table.entity.isAbstract, !table.isCounted,
                    areStaged || table.constraints.isEmpty && table.exclusive.isEmpty,
                    table.references.isEmpty || inserts.areNamed
                else {
                    return false
                }
                current = table
            }
            guard let table = current,
                let assigned = try resolved(operation.values, table, inserts),
                let carried = carried(assigned, table)
            else { return false }
            let row = inserts.named[operation.row]?.row ?? allocator.next()
            inserts.inserted.append(
                .init(
                    temporary: operation.row, row: row, entityName: table.entity.name,
                    name: operation.name))
            let shape = inserts.shapes.position(
                of: table, assigned: assigned, carried: carried)
            var values: [PropertyValue] = []
            values.reserveCapacity(assigned.count + carried.count)
            for entry in assigned { values.append(entry.value) }
            for entry in carried { values.append(entry.value) }
            inserts.changes.append(Change(kind: .insert, shape: shape, row: row, values: values))
        }
        state.allocator = allocator
        return true
    }

    /// Whether entities of some operations have to-ones.
    func haveReferences(_ operations: [SaveOperation], at places: [Int]) -> Bool {
        var last: ManagedObjectModel.Entity?
        return places.contains { place in
            let entity = operations[place].entity
            if entity === last { return false }
            last = entity
            return !table(entity.name).references.isEmpty
        }
    }

    /// Gives the objects that some operations insert their identities, so that they can refer to each
    /// other in any order.
    ///
    /// - Returns: nil where one of them bears another's name, or none of an insert.
    func name(
        _ operations: [SaveOperation], at places: [Int]
    ) -> [RowID: PlainInserts.Named]? {
        var allocator = state.allocator
        var named: [RowID: PlainInserts.Named] = [:]
        named.reserveCapacity(places.count)
        for place in places {
            let row = operations[place].row
            let name = PlainInserts.Named(
                row: allocator.next(), entity: operations[place].entity)
            guard row.rawValue < 0, named.updateValue(name, forKey: row) == nil else { return nil }
        }
        state.allocator = allocator
        return named
    }

    /// Values with the identities of what they refer to; nil where that is not there, or another
    /// object is shown in its place.
    private func resolved(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable,
        _ inserts: PlainInserts
    ) throws -> [(position: Int, value: PropertyValue)]? {
        if table.references.isEmpty { return values }
        var values = values
        for index in values.indices {
            guard case .reference(let target) = values[index].value else { continue }
            guard case .toOne(let name) = table.entity.properties[values[index].position].content
            else { return nil }
            let destination = self.table(name).entity
            if target.rawValue < 0 {
                guard let named = inserts.named[target],
                    destination.familyNames.contains(named.entity.name)
                else { return nil }
                values[index].value = .reference(named.row)
            } else {
                guard try isThere(target, name, SavePlan()),
                    try shownRow(target, as: self.table(name)) == target
                else { return nil }
            }
        }
        return values
    }

    /// What goes with the values that an insert assigns: the defaults, and of a row that is one register
    /// nulls; nil where something is not valid.
    private func carried(
        _ values: [(position: Int, value: PropertyValue)], _ table: EntityTable
    ) -> [(position: Int, value: PropertyValue)]? {
        for (index, entry) in values.enumerated() {
            if entry.value.isNull {
                if table.mandatory.contains(entry.position) { return nil }
            } else if case .reference = entry.value {
                guard case .toOne = table.entity.properties[entry.position].content else {
                    return nil
                }
            } else {
                guard let type = table.plainTypes[entry.position],
                    Validation.fits(entry.value, type: type)
                else { return nil }
            }
            for earlier in values[..<index] where earlier.position == entry.position { return nil }
        }
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

    /// Saves inserts whose changes are worked out.
    private func write(_ request: SaveRequest, _ inserts: PlainInserts) throws -> SaveResult {
        let seen = state.versionVector
        let shapes = inserts.shapes.shapes
        let transaction = transaction(of: request, shapes, inserts.changes)
        try apply(try encode(transaction), isLocal: true)
        let version = RowVersion(dots: [transaction.dot])
        let result = SaveResult(
            transaction: transaction.dot, timestamp: transaction.timestamp, seen: seen,
            token: token, insertedRows: inserts.inserted, conflicts: [],
            rows: inserts.changes.map { change in
                SaveResult.SavedRow(
                    objectID: ManagedObjectID(
                        entityName: shapes[change.shape].entity, row: change.row),
                    version: version, values: nil)
            })
        if let saveID = request.saveID { try remember(result, to: request, under: saveID) }
        return result
    }

    /// Writes rows of a transaction that does nothing but insert rows whose references lead to rows
    /// that are shown.
    ///
    /// What every row has in common is looked up once, and what they add up to is kept in local
    /// variables until the end: a catch-up and an import are little else than this loop.
    ///
    /// - Parameters:
    ///   - version: what stands in the rows for the transaction, with the timestamp.
    ///   - dot: the transaction; nil where it has none yet.
    ///   - mayBeDead: whether a row may have a tombstone.
    ///   - assigned: of each shape how many values the insert assigned, where some have unique keys.
    ///   - body: takes each row's object and its hash, which the dot completes.
    func insertPlain(
        _ changes: ArraySlice<Change>, _ shapes: [ResolvedShape], version: Int64,
        timestamp: Int64, dot: Dot?, mayBeDead: Bool, assigned: [Int] = [],
        _ body: (ManagedObjectID, RowHasher) -> Void
    ) throws {
        var current:
            (
                shape: Int, table: EntityTable, statement: SQLStatement, places: [Int],
                positions: [Int]
            )?
        for change in changes {
            if current?.shape != change.shape {
                guard case .rows(let table, let positions) = shapes[change.shape] else { continue }
                current = (
                    change.shape, table, try database.prepared(table.insertSQL),
                    Self.places(positions, of: table), positions
                )
            }
            guard let (_, table, statement, places, positions) = current else { continue }
            if mayBeDead, try loadTombstone(table, change.row) != nil {
                throw RowAlarm.identityExists
            }
            statement.bind(1, change.row.rawValue)
            statement.bind(2, version)
            statement.bind(3, timestamp)
            let exceptions =
                table.constraints.isEmpty || table.entity.policies.isRowGrained
                ? []
                : Self.exceptions(
                    change.values, at: positions, assigned: assigned[change.shape])
            if exceptions.isEmpty {
                statement.bindNull(4)
            } else {
                statement.bind(4, RowCoding.inserted(table, exceptions: exceptions))
            }
            staging?.noteReferences(of: change.values)
            let names = table.entity.digestNames
            var hasher = RowHasher(entity: names.entity, row: change.row, insertion: dot)
            for (position, place) in places.enumerated() {
                let index = Int32(truncatingIfNeeded: position) + 5
                guard place >= 0 else {
                    statement.bindNull(index)
                    continue
                }
                let value = change.values[place]
                statement.bind(index, value)
                hasher.combine(property: names.properties[position], value: value, dot: dot)
            }
            if table.entity.sharesTable { statement.bind(Int32(places.count) + 5, table.code) }
            do {
                try statement.run()
            } catch let failure as SQLFailure where failure.isIdentityTaken {
                throw RowAlarm.identityExists
            }
            body(ManagedObjectID(entityName: table.entity.name, row: change.row), hasher)
        }
    }

    /// What an insert wrote as null, and what it did not write that is not null: of rows with unique
    /// keys that is kept, for what one of a group did not write another may show.
    ///
    /// - Parameter assigned: how many of the values, from the first, the insert assigned.
    static func exceptions(
        _ values: [PropertyValue], at positions: [Int], assigned: Int
    ) -> [Int] {
        zip(positions, values).enumerated().filter { index, entry in
            (index < assigned) == entry.1.isNull
        }.map(\.element.0).sorted()
    }

    /// For each property of a table the place of its value in a change, or -1.
    private static func places(_ positions: [Int], of table: EntityTable) -> [Int] {
        var places = [Int](repeating: -1, count: table.entity.properties.count)
        for (place, position) in positions.enumerated() { places[position] = place }
        return places
    }
}

/// The inserts of a save as changes, in the making.
struct PlainInserts {
    /// An object to be inserted.
    struct Named {
        let row: RowID
        let entity: ManagedObjectModel.Entity
    }

    var shapes = ShapeTable()
    var inserted: [SaveResult.InsertedRow] = []
    var changes: [Change] = []
    /// The objects, by the names that the request has for them; none where they got their identities
    /// as they came.
    var named: [RowID: Named] = [:]

    /// Whether objects can refer to each other.
    var areNamed: Bool { !named.isEmpty }

    init(capacity: Int) {
        inserted.reserveCapacity(capacity)
        changes.reserveCapacity(capacity)
    }
}
