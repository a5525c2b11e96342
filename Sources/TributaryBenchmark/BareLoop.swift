import GRDBSQLite

/// The same inserts without the product: prepared statements against SQLite's own interface.
///
/// The table has all columns that the product's has, and the connection its settings, so what is
/// left between both is the product's own work: history, digest, validation, identities.
final class BareLoop {
    private var connection: OpaquePointer?
    private var insert: OpaquePointer?
    private var begin: OpaquePointer?
    private var commit: OpaquePointer?
    private var nextRow: Int64 = 1 << 40

    init(path: String) throws {
        try check(sqlite3_open(path, &connection))
        try execute(
            """
            PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -8192;
            PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY;
            CREATE TABLE IF NOT EXISTS Item (_id INTEGER PRIMARY KEY, _version INTEGER NOT NULL,
                _timestamp INTEGER NOT NULL, _registers BLOB, count INTEGER, name TEXT,
                note TEXT, weight);
            CREATE TABLE IF NOT EXISTS Log (id INTEGER PRIMARY KEY, row INTEGER NOT NULL);
            """)
        insert = try prepare(
            """
            INSERT INTO Item (_id, _version, _timestamp, _registers, count, name, note, weight)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            """)
        begin = try prepare("BEGIN IMMEDIATE")
        commit = try prepare("COMMIT")
    }

    deinit {
        for statement in [insert, begin, commit] { sqlite3_finalize(statement) }
        sqlite3_close(connection)
    }

    /// Inserts objects in one transaction that waits for the disk.
    func save(_ items: some Collection<SampleData.Item>) throws {
        try run(begin)
        for item in items {
            var name = item.name
            var note = item.note
            // Bound without a copy: the texts stay where they are until the step is done.
            try name.withUTF8 { name in
                try note.withUTF8 { note in
                    sqlite3_bind_int64(insert, 1, nextRow)
                    sqlite3_bind_int64(insert, 2, 1 << 40 | nextRow)
                    sqlite3_bind_int64(insert, 3, 0x0199_0000_0000_0000)
                    sqlite3_bind_null(insert, 4)
                    sqlite3_bind_int64(insert, 5, item.count)
                    bind(6, name)
                    bind(7, note)
                    sqlite3_bind_double(insert, 8, item.weight)
                    try run(insert)
                }
            }
            nextRow += 1
        }
        try run(commit)
    }

    /// Inserts so many objects, in transactions of a batch request's size.
    func fill(_ count: Int) throws {
        for start in stride(from: 0, to: count, by: BatchCommand.chunk) {
            try save(
                (start..<min(start + BatchCommand.chunk, count)).map(SampleData.Item.init))
        }
    }

    /// Changes or deletes all objects of a table that was filled, in such transactions; the log gets each
    /// row.
    func change(_ statement: String, _ count: Int) throws {
        for start in stride(from: 0, to: count, by: BatchCommand.chunk) {
            let end = start + BatchCommand.chunk
            let range =
                "WHERE _id >= (1 << 40) + \(start) AND _id < (1 << 40) + \(end) AND count >= 0"
            try execute(
                "BEGIN IMMEDIATE; INSERT INTO Log (row) SELECT _id FROM Item \(range); "
                    + "\(statement) \(range); COMMIT;")
        }
    }

    private func bind(_ index: Int32, _ text: UnsafeBufferPointer<UInt8>) {
        text.withMemoryRebound(to: CChar.self) {
            _ = sqlite3_bind_text(insert, index, $0.baseAddress, Int32($0.count), nil)
        }
    }

    private func prepare(_ sql: String) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(connection, sql, -1, &statement, nil))
        return statement
    }

    private func execute(_ sql: String) throws {
        try check(sqlite3_exec(connection, sql, nil, nil, nil))
    }

    private func run(_ statement: OpaquePointer?) throws {
        let code = sqlite3_step(statement)
        sqlite3_reset(statement)
        guard code == SQLITE_DONE else {
            throw BenchmarkError(
                "The bare loop failed: \(String(cString: sqlite3_errmsg(connection))).")
        }
    }

    private func check(_ code: Int32) throws {
        guard code == SQLITE_OK else {
            throw BenchmarkError("SQLite failed with code \(code) in the bare loop.")
        }
    }
}
