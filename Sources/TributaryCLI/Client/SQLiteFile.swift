// A store's file as SQLite sees it, for reading by hand.

import Console
import Coordinator
import GRDBSQLite
import Glibc

/// A connection that can only read. Used by one thread.
final class SQLiteFile {
    private var connection: OpaquePointer?

    /// - Throws: ``CommandFailure`` where the file cannot be opened.
    init(path: String) throws {
        var file = stat()
        if stat(path, &file) == 0, file.st_mode & S_IFMT == S_IFDIR {
            throw CommandFailure.usage("\(path) is a directory; name the store's file in it.")
        }
        let status = sqlite3_open_v2(
            path, &connection, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nil)
        guard status == SQLITE_OK else {
            throw CommandFailure(.failed, "\(path) cannot be read: \(message).")
        }
        // A function that opens other files could also write them.
        sqlite3_limit(connection, SQLITE_LIMIT_ATTACHED, 0)
        sqlite3_busy_timeout(connection, 5_000)
    }

    deinit { sqlite3_close_v2(connection) }

    /// Runs one statement that reads.
    ///
    /// - Throws: ``CommandFailure`` with `usage` for what is no such statement.
    func rows(_ sql: String, limit: Int) throws -> (columns: [String], rows: [[JSONValue]]) {
        let statement = try prepareOne(sql)
        defer { sqlite3_finalize(statement) }
        guard sqlite3_stmt_readonly(statement) != 0 else {
            throw CommandFailure.usage("A store's file is only read; change objects with save.")
        }
        let count = sqlite3_column_count(statement)
        let columns = (0..<count).map { index in
            sqlite3_column_name(statement, index).map { String(cString: $0) } ?? ""
        }
        var rows: [[JSONValue]] = []
        while rows.count < limit {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: rows.append((0..<count).map { Self.value(statement, $0) })
            case SQLITE_DONE: return (columns, rows)
            case SQLITE_CORRUPT, SQLITE_NOTADB:
                throw CommandFailure(.storeDamaged, "SQLite finds damage: \(message).")
            default: throw CommandFailure(.failed, "SQLite cannot go on: \(message).")
            }
        }
        return (columns, rows)
    }

    /// How SQLite would run one statement that reads.
    ///
    /// - Throws: ``CommandFailure`` with `usage` for what is no such statement.
    func plan(of sql: String) throws -> QueryPlan {
        // Alone first: behind the words for explaining, one that writes would seem to read.
        _ = try rows(sql, limit: 0)
        let answer = try rows("EXPLAIN QUERY PLAN " + sql, limit: Self.stepsOfPlan)
        return QueryPlan(
            rows: answer.rows.compactMap { row in
                guard row.count == 4, let id = row[0].integer, let parent = row[1].integer,
                    let detail = row[3].string
                else { return nil }
                return (id, parent, detail)
            })
    }

    /// More than SQLite's bounds of a statement allow for.
    private static let stepsOfPlan = 100_000

    /// The only statement of a text.
    ///
    /// - Throws: ``CommandFailure`` with `usage` where there is none, or another.
    private func prepareOne(_ sql: String) throws -> OpaquePointer {
        var found: OpaquePointer?
        try sql.withCString { text in
            var rest: UnsafePointer<CChar>? = text
            while let next = rest, next.pointee != 0 {
                var statement: OpaquePointer?
                guard sqlite3_prepare_v2(connection, next, -1, &statement, &rest) == SQLITE_OK
                else {
                    sqlite3_finalize(found)
                    throw CommandFailure.usage("That is no SQL this store understands: \(message).")
                }
                // White space and comments are none.
                guard let statement else { continue }
                guard found == nil else {
                    sqlite3_finalize(statement)
                    sqlite3_finalize(found)
                    throw CommandFailure.usage("Those are several statements; give one.")
                }
                found = statement
            }
        }
        guard let found else { throw CommandFailure.usage("There is no SQL statement.") }
        return found
    }

    private var message: String { String(cString: sqlite3_errmsg(connection)) }

    private static func value(_ statement: OpaquePointer?, _ column: Int32) -> JSONValue {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return .double(sqlite3_column_double(statement, column))
        case SQLITE_TEXT:
            return .string(sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "")
        case SQLITE_BLOB:
            let count = Int(sqlite3_column_bytes(statement, column))
            let start = sqlite3_column_blob(statement, column)
            return .string(
                ValueText.base64(Array(UnsafeRawBufferPointer(start: start, count: count))))
        default: return .null
        }
    }
}
