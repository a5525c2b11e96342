import GRDB
import GRDBSQLite
import Merge

/// A failure that SQLite reported.
struct SQLFailure: Error, CustomStringConvertible {
    /// SQLite's extended result code.
    let code: Int32
    let message: String

    /// The primary result code.
    var primary: Int32 { code & 0xFF }
    var description: String { "SQLite error \(code): \(message)" }

    /// Whether a row of that identity is there already: SQLITE_CONSTRAINT_PRIMARYKEY or _ROWID,
    /// whose macros Swift does not import.
    var isIdentityTaken: Bool {
        code == SQLITE_CONSTRAINT | (6 << 8) || code == SQLITE_CONSTRAINT | (10 << 8)
    }
}

/// A prepared statement on the hot paths.
///
/// GRDB opens connections, prepares and caches statements; values are bound and read through
/// SQLite's own functions, for at a million rows GRDB's boxed values cost more than SQLite
/// itself. Belongs to its connection's queue.
///
/// Invariant: between uses the statement is reset.
struct SQLStatement {
    private let statement: GRDB.Statement
    let pointer: OpaquePointer

    init(_ statement: GRDB.Statement) {
        self.statement = statement
        pointer = statement.sqliteStatement
    }

    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    func bind(_ index: Int32, _ number: Int64) { sqlite3_bind_int64(pointer, index, number) }

    func bind(_ index: Int32, _ number: Int) { sqlite3_bind_int64(pointer, index, Int64(number)) }

    func bindNull(_ index: Int32) { sqlite3_bind_null(pointer, index) }

    func bind(_ index: Int32, _ text: String) {
        var text = text
        text.withUTF8 { bytes in
            _ = bytes.withMemoryRebound(to: CChar.self) {
                // An empty buffer may have no address, and SQLite takes none for NULL.
                guard let start = $0.baseAddress else {
                    return sqlite3_bind_text(pointer, index, "", 0, Self.transient)
                }
                return sqlite3_bind_text(
                    pointer, index, start, Int32(truncatingIfNeeded: $0.count), Self.transient)
            }
        }
    }

    func bind(_ index: Int32, _ bytes: [UInt8]) {
        bytes.withUnsafeBytes {
            if let start = $0.baseAddress, !$0.isEmpty {
                _ = sqlite3_bind_blob(
                    pointer, index, start, Int32(truncatingIfNeeded: $0.count), Self.transient)
            } else {
                _ = sqlite3_bind_zeroblob(pointer, index, 0)
            }
        }
    }

    /// Binds a value as its column keeps it.
    func bind(_ index: Int32, _ value: PropertyValue) {
        switch value {
        case .null: bindNull(index)
        case .boolean(let flag): bind(index, flag ? 1 : 0)
        case .integer(let number), .date(let number): bind(index, number)
        case .double(let number):
            if number.isNaN {
                // SQLite turns NaN into NULL, so it is kept as its eight bytes.
                bind(index, Self.notANumber)
            } else {
                sqlite3_bind_double(pointer, index, number)
            }
        case .decimal(let text), .string(let text), .uri(let text): bind(index, text)
        case .binary(let bytes): bind(index, bytes)
        case .uuid(let high, let low): bind(index, UUIDText.text(high, low))
        case .reference(let row): bind(index, row.rawValue)
        }
    }

    static let notANumber: [UInt8] = [0x7F, 0xF8, 0, 0, 0, 0, 0, 0]

    /// Moves to the next row; false at the end, when the statement is reset.
    func step() throws -> Bool {
        switch sqlite3_step(pointer) {
        case SQLITE_ROW: return true
        case SQLITE_DONE:
            sqlite3_reset(pointer)
            return false
        default:
            // Before it is reset a commit says only that it failed, not what followed.
            sqlite3_reset(pointer)
            throw failure()
        }
    }

    /// Runs a statement that gives no rows.
    func run() throws {
        while try step() {}
    }

    func reset() { sqlite3_reset(pointer) }

    private func failure() -> SQLFailure {
        let connection = sqlite3_db_handle(pointer)
        return SQLFailure(
            code: sqlite3_extended_errcode(connection),
            message: String(cString: sqlite3_errmsg(connection)))
    }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(pointer, column) == SQLITE_NULL }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(pointer, column) }

    func text(_ column: Int32) -> String {
        guard let start = sqlite3_column_text(pointer, column) else { return "" }
        let count = Int(sqlite3_column_bytes(pointer, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    /// How many bytes a text or a blob has; few of anything else.
    func size(_ column: Int32) -> Int { Int(sqlite3_column_bytes(pointer, column)) }

    func bytes(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(pointer, column) else { return [] }
        let count = Int(sqlite3_column_bytes(pointer, column))
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }

    /// Hands a blob over as it is, until the next step.
    func withBlob<Result>(
        _ column: Int32, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let start = sqlite3_column_blob(pointer, column)
        return body(
            UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(pointer, column))))
    }

    /// Reads a column as a property's value.
    ///
    /// - Throws: ``CoordinatorError`` (`storeDamaged`) where the column holds something that no
    ///   version of the product writes there.
    func value(_ column: Int32, _ content: ManagedObjectModel.Property.Content) throws
        -> PropertyValue
    {
        let type = sqlite3_column_type(pointer, column)
        if type == SQLITE_NULL { return .null }
        guard case .attribute(let attribute) = content else {
            guard type == SQLITE_INTEGER else { throw damage(column) }
            return .reference(RowID(integer(column)))
        }
        switch attribute {
        case .integer16, .integer32, .integer64:
            guard type == SQLITE_INTEGER else { throw damage(column) }
            return .integer(integer(column))
        case .boolean:
            guard type == SQLITE_INTEGER else { throw damage(column) }
            return .boolean(integer(column) != 0)
        case .date:
            guard type == SQLITE_INTEGER else { throw damage(column) }
            return .date(integer(column))
        case .double, .float:
            if type == SQLITE_BLOB { return .double(.nan) }
            guard type == SQLITE_FLOAT || type == SQLITE_INTEGER else { throw damage(column) }
            return .double(sqlite3_column_double(pointer, column))
        case .string: return .string(text(column))
        case .decimal: return .decimal(text(column))
        case .uri: return .uri(text(column))
        case .binary: return .binary(bytes(column))
        case .uuid:
            guard let (high, low) = UUIDText.parse(text(column)) else { throw damage(column) }
            return .uuid(high, low)
        }
    }

    private func damage(_ column: Int32) -> CoordinatorError {
        let name = sqlite3_column_name(pointer, column).map { String(cString: $0) } ?? "?"
        return CoordinatorError(
            .storeDamaged, "Column \(name) holds a value that Tributary never writes there.")
    }
}

extension Database {
    /// A statement of this connection, prepared once.
    func prepared(_ sql: String) throws -> SQLStatement {
        SQLStatement(try cachedStatement(sql: sql))
    }
}

/// UUIDs as upper-case text.
enum UUIDText {
    private static let digits = Array("0123456789ABCDEF".utf8)

    static func text(_ high: UInt64, _ low: UInt64) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(36)
        for (lane, breaks) in [(high, [8, 12]), (low, [0, 4])] {
            for index in 0..<16 {
                if breaks.contains(index) { result.append(45) }
                result.append(digits[Int((lane >> UInt64(60 - index * 4)) & 15)])
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    static func parse(_ text: String) -> (UInt64, UInt64)? {
        let bytes = Array(text.utf8)
        guard bytes.count == 36, [8, 13, 18, 23].allSatisfy({ bytes[$0] == 45 }) else {
            return nil
        }
        var lanes: (UInt64, UInt64) = (0, 0)
        var count = 0
        for (index, byte) in bytes.enumerated() where ![8, 13, 18, 23].contains(index) {
            let digit: UInt64
            switch byte {
            case 48...57: digit = UInt64(byte - 48)
            case 65...70: digit = UInt64(byte - 55)
            case 97...102: digit = UInt64(byte - 87)
            default: return nil
            }
            if count < 16 { lanes.0 = lanes.0 << 4 | digit } else { lanes.1 = lanes.1 << 4 | digit }
            count += 1
        }
        return lanes
    }
}
