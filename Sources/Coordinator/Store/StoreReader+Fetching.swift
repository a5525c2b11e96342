import GRDB
package import Merge

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
        let compiled = try compile(request, without: excluded)
        let statement = try statement(compiled)
        let run = begin(compiled)
        defer {
            statement.reset()
            run.end(rows: 0)
        }
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
        let run = begin(compiled)
        var count = 0
        defer {
            statement.reset()
            run.end(rows: count)
        }
        while try stepAdding(statement, request) {
            count += 1
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
        without excluded: [RowID] = [], isHeld: Bool = false
    ) throws -> CompiledFetch {
        let compiler = FetchCompiler(
            model: catalog.model, codes: EntityCodes(catalog.names.entities),
            cluster: catalog.cluster, now: now)
        do {
            return try compiler.compile(
                request, selecting: columns, selectsSortKeys: selectsSortKeys, without: excluded,
                isHeld: isHeld)
        } catch let error as PredicateError {
            throw CoordinatorError(.invalidPredicate, "\(error)")
        } catch let error as FetchRequestError {
            throw CoordinatorError(.malformed, "\(error)")
        }
    }

    /// Begins to count and observe a request.
    func begin(_ compiled: CompiledFetch) -> FetchRun {
        FetchRun(counting: counting, observation: observer?.begin(compiled))
    }

    /// Prepares what people ask, which is not kept: a cache of statements that come from outside
    /// would have no bound.
    func statement(_ compiled: CompiledFetch) throws -> SQLStatement {
        counting?.countStatement()
        let statement: SQLStatement
        do {
            statement = SQLStatement(try database.makeStatement(sql: compiled.sql))
            try sqlDebug?.explain(compiled.sql, on: database)
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
}
