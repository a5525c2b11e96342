import GRDB
public import Merge

extension StoreReader {
    /// The objects that a request asks for, in its order. Pending changes of contexts are not
    /// part of it.
    ///
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`.
    package func fetch(_ request: FetchRequest) throws -> [RowSnapshot] {
        var result: [RowSnapshot] = []
        try forEach(request) { snapshot in
            result.append(snapshot)
            return true
        }
        return result
    }

    /// Hands the objects that a request asks for to a closure, one at a time, in bounded memory.
    ///
    /// - Parameter body: gives false to stop.
    package func forEach(
        _ request: FetchRequest, _ body: (RowSnapshot) throws -> Bool
    ) throws {
        let cursor = try FetchCursor(self, request, .rows)
        defer { cursor.close() }
        while try cursor.next() {
            if let snapshot = try cursor.snapshot(), try !body(snapshot) { return }
        }
    }

    /// The identities of the objects that a request asks for, in its order.
    package func objectIDs(_ request: FetchRequest) throws -> [ManagedObjectID] {
        let cursor = try FetchCursor(self, request, .identities)
        var result: [ManagedObjectID] = []
        while try cursor.next() { result.append(cursor.objectID) }
        return result
    }

    /// How many objects a request asks for.
    ///
    /// - Parameter excluded: rows that are not to be counted.
    package func count(
        _ request: FetchRequest, without excluded: [RowID] = []
    ) throws -> Int {
        var request = request
        request.resultType = .count
        let statement = try statement(try compile(request, without: excluded))
        defer { statement.reset() }
        guard try statement.step() else { return 0 }
        return Int(statement.integer(0))
    }

    /// The rows of a request for dictionaries: properties and aggregates by name, in order.
    ///
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`, and `aggregateOverflow`
    ///   where a sum is more than its type can hold.
    package func dictionaries(
        _ request: FetchRequest
    ) throws -> [[(
        name: String, content: ManagedObjectModel.Property.Content, value: PropertyValue
    )]] {
        var result: [[(String, ManagedObjectModel.Property.Content, PropertyValue)]] = []
        try forEachDictionary(request) { row in
            result.append(row)
            return true
        }
        return result
    }

    /// Hands the rows of a request for dictionaries to a closure, one at a time, in bounded memory.
    ///
    /// - Parameter body: gives false to stop.
    /// - Throws: as ``dictionaries(_:)``.
    package func forEachDictionary(
        _ request: FetchRequest,
        _ body: (
            [(name: String, content: ManagedObjectModel.Property.Content, value: PropertyValue)]
        ) throws -> Bool
    ) throws {
        var request = request
        request.resultType = .dictionary
        let compiled = try compile(request)
        let statement = try statement(compiled)
        defer { statement.reset() }
        while try stepAdding(statement, request) {
            let row = try compiled.columns.enumerated().map { index, column in
                (
                    name: column.name, content: column.content,
                    value: try statement.value(Int32(index), column.content)
                )
            }
            if try !body(row) { return }
        }
    }

    /// Moves to the next row of a fetch that may have aggregates.
    private func stepAdding(_ statement: SQLStatement, _ request: FetchRequest) throws -> Bool {
        do {
            return try statement.step()
        } catch let failure as SQLFailure {
            guard let position = AggregateFunctions.overflowing(failure),
                request.propertiesToFetch.indices.contains(position),
                case .aggregate(let name, let function, let keyPath) =
                    request.propertiesToFetch[position]
            else { throw failure }
            throw CoordinatorError(
                .aggregateOverflow,
                "The \(function.rawValue) of \"\(keyPath)\" (\"\(name)\") is beyond what its type "
                    + "can hold; fetch it of fewer objects, or in smaller groups.")
        }
    }

    func entity(_ request: FetchRequest) throws -> ManagedObjectModel.Entity {
        guard let entity = catalog.model.entity(named: request.entityName) else {
            throw CoordinatorError(.malformed, "There is no entity \(request.entityName).")
        }
        return entity
    }

    func compile(
        _ request: FetchRequest, selecting columns: [String] = [], selectsSortKeys: Bool = false,
        without excluded: [RowID] = []
    ) throws -> CompiledFetch {
        let compiler = FetchCompiler(
            model: catalog.model, codes: EntityCodes(catalog.names.entities),
            cluster: catalog.cluster)
        do {
            return try compiler.compile(
                request, selecting: columns, selectsSortKeys: selectsSortKeys, without: excluded)
        } catch let error as PredicateError {
            throw CoordinatorError(.invalidPredicate, "\(error)")
        } catch let error as FetchRequestError {
            throw CoordinatorError(.malformed, "\(error)")
        }
    }

    /// Prepares what people ask, which is not kept: a cache of statements that come from outside
    /// would have no bound.
    func statement(_ compiled: CompiledFetch) throws -> SQLStatement {
        counting?.countStatement()
        let statement: SQLStatement
        do {
            statement = SQLStatement(try database.makeStatement(sql: compiled.sql))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The SQL is ours, so all that can be wrong with it is its size.
            throw CoordinatorError(
                .invalidPredicate,
                "The request is larger, or nested deeper, than SQLite bears (\(error.message ?? "")); "
                    + "ask for less at once.")
        }
        for (index, value) in compiled.bindings.enumerated() {
            statement.bind(Int32(index + 1), value)
        }
        return statement
    }

    // MARK: Members

    /// The objects that a to-many, or the derived side of a one-to-one, leads to; sorted by row.
    public func members(
        of relationship: ManagedObjectModel.Relationship, entity: ManagedObjectModel.Entity,
        row: RowID
    ) throws -> [ManagedObjectID] {
        counting?.countStatement()
        return try Self.members(of: relationship, row: row, model: catalog.model, in: database)
            .map { found in
                let name =
                    found.code.flatMap { catalog.names.entityNames[$0] }
                    ?? relationship.destination
                return ManagedObjectID(entityName: name, row: found.row)
            }
    }

    /// What a to-many, or the derived side of a one-to-one, leads to from several rows, and the rows that
    /// it leads to, each once: one statement, and another for each entity where several have one table.
    func members(
        of relationship: ManagedObjectModel.Relationship, rows owners: [RowID]
    ) throws -> (members: [RowID: [ManagedObjectID]], rows: [RowSnapshot]) {
        guard let destination = catalog.model.entity(named: relationship.destination),
            let source = Self.memberSource(
                of: relationship, isOwned: "IN (SELECT value FROM json_each(?1))",
                model: catalog.model)
        else { return ([:], []) }
        let owner: String
        switch relationship.storage {
        case .column: return ([:], [])
        case .inverseColumn(_, let property): owner = "t.\(EntityTable.quote(property))"
        case .link(_, let isFirst): owner = isFirst ? "l.source" : "l.target"
        }
        let table = catalog.table(destination.name)
        let isShared = destination.sharesTable
        let columns = isShared ? ["_id", "_entity"] : table.selectedColumns
        let statement = try prepared(
            "SELECT \(owner), \(columns.map { "t.\($0)" }.joined(separator: ", ")) FROM \(source)")
        statement.bind(1, SQLBuilder.list(owners))
        defer { statement.reset() }
        let actors = try actors()
        var members: [RowID: [ManagedObjectID]] = [:]
        var rows: [RowSnapshot] = []
        var seen = Set<ManagedObjectID>()
        while try statement.step() {
            let name =
                isShared
                ? catalog.names.entityNames[statement.integer(2)] ?? destination.name
                : destination.name
            let member = ManagedObjectID(entityName: name, row: RowID(statement.integer(1)))
            members[RowID(statement.integer(0)), default: []].append(member)
            if seen.insert(member).inserted, !isShared {
                rows.append(try decode(statement, table, actors: actors, from: 1))
            }
        }
        if isShared {
            let byEntity = Dictionary(grouping: seen, by: \.entityName)
            for name in byEntity.keys.sorted() {
                guard let entity = catalog.model.entity(named: name) else { continue }
                rows += try self.rows(entity, (byEntity[name] ?? []).map(\.row).sorted())
            }
        }
        return (members, rows)
    }

    static func members(
        of relationship: ManagedObjectModel.Relationship, row: RowID, model: ManagedObjectModel,
        in database: Database
    ) throws -> [(row: RowID, code: Int64?)] {
        guard let source = memberSource(of: relationship, isOwned: "= ?1", model: model) else {
            return []
        }
        let sharesTable = model.entity(named: relationship.destination)?.sharesTable ?? false
        let code = sharesTable ? "t._entity" : "NULL"
        let statement = try database.prepared(
            "SELECT t._id, \(code) FROM \(source) ORDER BY t._id")
        statement.bind(1, row.rawValue)
        var result: [(RowID, Int64?)] = []
        while try statement.step() {
            result.append(
                (RowID(statement.integer(0)), statement.isNull(1) ? nil : statement.integer(1)))
        }
        return result
    }

    /// From where SQL selects the objects that a to-many, or the derived side of a one-to-one, leads
    /// to, as `t`; nil where the row's own column tells.
    ///
    /// - Parameter isOwned: what is to hold of the identity of the row that they are of, such as `= ?1`.
    static func memberSource(
        of relationship: ManagedObjectModel.Relationship, isOwned: String, model: ManagedObjectModel
    ) -> String? {
        guard let destination = model.entity(named: relationship.destination) else { return nil }
        let root = EntityTable.quote(destination.root)
        switch relationship.storage {
        case .column: return nil
        case .inverseColumn(let entity, let property):
            let members = "\(root) t WHERE t.\(EntityTable.quote(property)) \(isOwned)"
            guard let declarer = model.entity(named: entity), declarer.parent != nil else {
                return members
            }
            // Another entity of the table may have a to-one of the same name.
            let names = declarer.familyNames.map { "'\($0)'" }.joined(separator: ", ")
            return members
                + " AND t._entity IN (SELECT code FROM _name "
                + "WHERE property = '' AND entity IN (\(names)))"
        case .link(let name, let isFirst):
            let (near, far) = isFirst ? ("source", "target") : ("target", "source")
            return "\(EntityTable.quote(name)) l JOIN \(root) t ON t._id = l.\(far) "
                + "WHERE l.\(near) \(isOwned) AND l._alive"
        }
    }
}
