import GRDB

/// A database in memory with a store's tables and indexes and none of its rows, in which SQLite says
/// what it would do with an index. Used by one thread.
///
/// SQLite's own advisor (sqlite3expert) is no part of its library, so that it cannot be used here.
final class IndexTrial {
    private let scratch: DatabaseQueue

    /// Makes the tables, with what `ANALYZE` has found in the store, if it ever ran.
    init(of store: Database) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { PredicateFunctions.register(on: $0) }
        scratch = try DatabaseQueue(configuration: configuration)
        // Tables before their indexes.
        let schema = try String.fetchAll(
            store,
            sql: """
                SELECT sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL
                AND substr(name, 1, 7) <> 'sqlite_' ORDER BY type = 'index', rowid
                """)
        let isAnalysed = try store.tableExists("sqlite_stat1")
        let statistics =
            isAnalysed
            ? try Row.fetchAll(store, sql: "SELECT tbl, idx, stat FROM sqlite_stat1") : []
        try scratch.write { database in
            for sql in schema { try database.execute(sql: sql) }
            guard isAnalysed else { return }
            // Of empty tables it finds nothing, and makes the table for what it finds.
            try database.execute(sql: "ANALYZE; DELETE FROM sqlite_stat1")
            for row in statistics {
                try database.execute(
                    sql: "INSERT INTO sqlite_stat1 VALUES (?, ?, ?)",
                    arguments: StatementArguments(row.databaseValues))
            }
            try database.execute(sql: "ANALYZE sqlite_schema")
        }
    }

    /// How SQLite would run a statement.
    func plan(of sql: String) throws -> QueryPlan {
        try scratch.read { database in
            let statement = SQLStatement(
                try database.makeStatement(sql: "EXPLAIN QUERY PLAN \(sql)"))
            var rows: [(id: Int64, parent: Int64, detail: String)] = []
            while try statement.step() {
                rows.append((statement.integer(0), statement.integer(1), statement.text(3)))
            }
            return QueryPlan(rows: rows)
        }
    }

    /// The columns of each index that a table has.
    func indexes(of table: String) throws -> [[IndexDescription.Element]] {
        try scratch.read { database in
            try String.fetchAll(
                database, sql: "SELECT name FROM pragma_index_list(?) WHERE partial = 0",
                arguments: [table]
            ).map { name in
                try Row.fetchAll(
                    database,
                    sql: """
                        SELECT coalesce(name, ''), "desc" FROM pragma_index_xinfo(?)
                        WHERE key ORDER BY seqno
                        """,
                    arguments: [name]
                ).map { IndexDescription.Element($0[0], ascending: $0[1] == 0) }
            }
        }
    }

    /// Tries something with more indexes, which are gone afterwards.
    ///
    /// - Parameter indexes: over columns, in order, as a store would make them.
    func with<Result>(
        _ indexes: [(name: String, columns: [IndexDescription.Element])], on table: String,
        _ body: () throws -> Result
    ) throws -> Result {
        defer {
            try? scratch.write { database in
                for index in indexes {
                    try database.execute(
                        sql: "DROP INDEX IF EXISTS \(EntityTable.quote(index.name))")
                }
            }
        }
        try scratch.write { database in
            for index in indexes {
                let columns = index.columns.map(\.sql).joined(separator: ", ")
                try database.execute(
                    sql: "CREATE INDEX \(EntityTable.quote(index.name)) "
                        + "ON \(EntityTable.quote(table)) (\(columns))")
            }
        }
        return try body()
    }
}

extension StoreReader {
    /// How many rows the table of an entity has, heirs' rows included: SQLite counts them.
    func rowCount(of entity: ManagedObjectModel.Entity) throws -> Int {
        let statement = try prepared("SELECT count(*) FROM \(EntityTable.quote(entity.root))")
        defer { statement.reset() }
        return try statement.step() ? Int(statement.integer(0)) : 0
    }

    /// The mean bytes of an index's entry over properties: its record with the row's identity.
    ///
    /// - Parameter rows: how many of the table's first rows are looked at.
    func meanKeyBytes(
        of entity: ManagedObjectModel.Entity, _ properties: [String], sampling rows: Int
    ) throws -> Double {
        func size(_ column: String) -> String {
            """
            CASE typeof(\(column)) WHEN 'null' THEN 0 WHEN 'real' THEN 8 WHEN 'integer' THEN
            CASE WHEN \(column) BETWEEN 0 AND 1 THEN 0 WHEN abs(\(column) / 2) < 64 THEN 1
            WHEN abs(\(column) / 2) < 16384 THEN 2 WHEN abs(\(column) / 2) < 4194304 THEN 3
            WHEN abs(\(column) / 2) < 1073741824 THEN 4
            WHEN abs(\(column) / 2) < 70368744177664 THEN 6 ELSE 8 END
            ELSE length(CAST(\(column) AS BLOB)) END
            """
        }
        let columns = properties.map(EntityTable.quote)
        let sum = (columns + ["_id"]).map(size).joined(separator: " + ")
        let list = (["_id"] + columns).joined(separator: ", ")
        let statement = SQLStatement(
            try database.makeStatement(
                sql: "SELECT cast(avg(\(sum)) * 100 AS INTEGER) FROM (SELECT \(list) FROM "
                    + "\(EntityTable.quote(entity.root)) LIMIT \(rows))"))
        defer { statement.reset() }
        guard try statement.step() else { return 0 }
        // A byte for each type and the header, and three to find the entry in its page.
        return Double(statement.integer(0)) / 100 + Double(columns.count + 2) + 3
    }
}
