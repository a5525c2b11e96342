import Foundation
import GRDB
import GRDBSQLite
public import Logging
import Synchronization

/// Writes the SQL that a store runs to a log, as Core Data's `-com.apple.CoreData.SQLDebug` does, and
/// warns of what costs more than it gives.
///
/// | Level | What is written |
/// |---|---|
/// | 1 | each statement, how long it took, and how many rows it gave |
/// | 2 | also the values bound to it |
/// | 3 | also the rows |
/// | 4 | also the query plan of fetches |
///
/// Thread-safe. Without a level nothing is asked of SQLite, and nothing costs anything.
public struct SQLDebug: Sendable {
    /// What is written, 0...4; 0 for nothing.
    public var level: Int
    /// Where it is written, at level info; warnings at level warning.
    public var logger: Logger
    /// A statement is warned of that goes over more rows than this without an index to give few.
    public var scanLimit = 1_000
    /// A fetch is warned of that gives more objects than this without a limit or a batch size.
    public var resultLimit = 10_000
    /// A relationship is warned of that is followed to so many unread objects within one event.
    public var faultLimit = 100

    /// What `TRIBUTARY_SQL_DEBUG` in the environment says, 1...4; nil where it says nothing, or 0.
    public static let environment: SQLDebug? = {
        guard let text = ProcessInfo.processInfo.environment["TRIBUTARY_SQL_DEBUG"] else {
            return nil
        }
        guard let level = Int(text), (0...4).contains(level) else {
            Logger(label: "tributary.sql").warning(
                "TRIBUTARY_SQL_DEBUG is \"\(text)\", and a level is one of 0...4: no SQL is shown.")
            return nil
        }
        return level == 0 ? nil : SQLDebug(level: level)
    }()

    /// Makes settings.
    ///
    /// - Parameters:
    ///   - level: what is written; what is not within 0...4 is brought there.
    ///   - logger: where to.
    public init(level: Int, logger: Logger = Logger(label: "tributary.sql")) {
        self.level = min(max(level, 0), 4)
        self.logger = logger
    }
}

extension SQLDebug {
    func warn(_ text: String) { logger.warning("\(text)") }

    /// Writes the plan of a fetch, at level 4.
    func explain(_ sql: String, on database: Database) throws {
        guard level >= 4 else { return }
        let statement = SQLStatement(try database.makeStatement(sql: "EXPLAIN QUERY PLAN \(sql)"))
        while try statement.step() {
            logger.info("plan: \(statement.text(3))")
        }
    }
}

/// Traces the connections of a store.
final class SQLTrace: Sendable {
    let settings: SQLDebug
    private let running = Mutex<[UInt: Int]>([:])
    private static let bytesShown = 2_000

    /// - Returns: nil at level 0.
    init?(_ settings: SQLDebug) {
        if settings.level == 0 { return nil }
        self.settings = settings
    }

    /// Begins to trace a connection. The trace must live as long as that.
    func follow(_ database: Database) {
        sqlite3_trace_v2(
            database.sqliteConnection,
            UInt32(SQLITE_TRACE_PROFILE | SQLITE_TRACE_ROW),
            { kind, context, statement, detail in
                guard let context, let statement else { return 0 }
                let trace = Unmanaged<SQLTrace>.fromOpaque(context).takeUnretainedValue()
                let pointer = OpaquePointer(statement)
                if kind == UInt32(SQLITE_TRACE_ROW) {
                    trace.note(rowOf: pointer)
                } else if let detail {
                    trace.note(
                        pointer, nanoseconds: detail.assumingMemoryBound(to: Int64.self).pointee)
                }
                return 0
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private func note(rowOf statement: OpaquePointer) {
        running.withLock { $0[UInt(bitPattern: statement), default: 0] += 1 }
        guard settings.level >= 3 else { return }
        let cells = (0..<sqlite3_column_count(statement)).map { column -> String in
            let name = sqlite3_column_name(statement, column).map { String(cString: $0) } ?? ""
            // Bytes are told by their number: as text they would be cut, or changed in kind.
            if sqlite3_column_type(statement, column) == SQLITE_BLOB {
                return "\(name): \(sqlite3_column_bytes(statement, column)) bytes"
            }
            guard sqlite3_column_type(statement, column) != SQLITE_NULL else {
                return "\(name): null"
            }
            return "\(name): \(Self.text(of: statement, column))"
        }
        settings.logger.info("details: \(Self.shortened(cells.joined(separator: ", ")))")
    }

    /// A column as text, without changing what it holds for who reads it next.
    private static func text(of statement: OpaquePointer, _ column: Int32) -> String {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return String(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return String(sqlite3_column_double(statement, column))
        default:
            return sqlite3_column_text(statement, column).map { String(cString: $0) } ?? ""
        }
    }

    private func note(_ statement: OpaquePointer, nanoseconds: Int64) {
        let rows = running.withLock { $0.removeValue(forKey: UInt(bitPattern: statement)) } ?? 0
        let sql = Self.shortened(sqlite3_sql(statement).map { String(cString: $0) } ?? "")
        settings.logger.info("sql: \(sql)")
        if settings.level >= 2, sqlite3_bind_parameter_count(statement) > 0,
            let expanded = sqlite3_expanded_sql(statement)
        {
            settings.logger.info("bound: \(Self.shortened(String(cString: expanded)))")
            sqlite3_free(expanded)
        }
        settings.logger.info(
            "annotation: sql execution time: \(Self.seconds(nanoseconds)) s for \(rows) rows")
        func count(_ what: Int32) -> Int { Int(sqlite3_stmt_status(statement, what, 1)) }
        let steps = count(SQLITE_STMTSTATUS_FULLSCAN_STEP)
        if steps > settings.scanLimit, steps > rows * 10 {
            settings.logger.warning(
                "scan: \(steps) rows were looked at for \(rows); an index would help: \(sql)")
        }
        if count(SQLITE_STMTSTATUS_SORT) > 0, rows > 0 {
            settings.logger.warning(
                "sort: a temporary b-tree puts \(rows) rows in order; an index would help: \(sql)")
        }
        if count(SQLITE_STMTSTATUS_AUTOINDEX) > settings.scanLimit {
            settings.logger.warning("index: SQLite makes one for this statement alone: \(sql)")
        }
    }

    /// Seconds with four decimals, as Core Data writes them.
    private static func seconds(_ nanoseconds: Int64) -> String {
        let units = max(0, nanoseconds) / 100_000
        let fraction = String(units % 10_000)
        return "\(units / 10_000).\(String(repeating: "0", count: 4 - fraction.count))\(fraction)"
    }

    private static func shortened(_ text: String) -> String {
        text.utf8.count <= bytesShown ? text : text.prefix(bytesShown) + "..."
    }
}
