import GRDBSQLite

/// A statement that reads an integer, a text and a double of each row, by SQLite's own interface.
final class BareReader {
    private var connection: OpaquePointer?
    private var statement: OpaquePointer?

    init(path: String, _ sql: String) throws {
        guard sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
            sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK
        else { throw BenchmarkError(String(cString: sqlite3_errmsg(connection))) }
    }

    deinit {
        sqlite3_finalize(statement)
        sqlite3_close(connection)
    }

    /// Reads all, with the text as a Swift string.
    func sum() throws -> Int {
        var sum = 0
        while sqlite3_step(statement) == SQLITE_ROW {
            sum &+= Int(sqlite3_column_int64(statement, 0))
            sum &+= Int(sqlite3_column_int64(statement, 1))
            let text = sqlite3_column_text(statement, 2).map { String(cString: $0) } ?? ""
            sum &+= text.utf8.count
            sum &+= sqlite3_column_double(statement, 3) > 0 ? 1 : 0
        }
        sqlite3_reset(statement)
        return sum
    }
}
