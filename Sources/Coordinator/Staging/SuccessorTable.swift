import Foundation
import GRDB
import Merge

/// The successors of rows that a staged transaction changes, in a table beside that of their hierarchy.
///
/// Until they are shown nobody reads them. To show them the hierarchy's table makes way for a view of
/// the same name: a row that has a successor is read as that. Whoever writes to the view writes the
/// row itself, which has no successor then. Once no row has one, the table has its name again. So
/// neither reads nor writes of single rows need to know of any of this; fetches join no views
/// (``SQLBuilder/hasViews``).
///
/// A row that is deleted has a successor without a version, which is read as no row; its tombstone is
/// there from the beginning, for a tombstone counts only where its row is in no table. Unique keys that
/// it had, or that a successor has not, are free once that is shown, though the indexes of the hierarchy's
/// table still have them: the row makes way there for whoever takes one, or gives it up.
///
///     hidden   "Product"                   "_successor.Product"
///     shown    "_former.Product"  ◄─ view "Product" ─►  "_successor.Product"
///     folded   "Product"
///
/// Whether it is shown is the same for all tables of a staged transaction, see `_staged`.
struct SuccessorTable {
    private static let prefix = "_successor."
    private static let formerPrefix = "_former."

    /// The root of the hierarchy.
    let root: String
    /// The columns of its table, quoted, in their order.
    private let columns: [String]

    private var shown: String { EntityTable.quote(root) }
    private var successors: String { EntityTable.quote(Self.prefix + root) }
    private var former: String { EntityTable.quote(Self.formerPrefix + root) }

    /// The tables that a store has.
    static func all(in database: Database) throws -> [SuccessorTable] {
        try String.fetchAll(
            database,
            sql: """
                SELECT substr(name, ?1) FROM sqlite_master
                WHERE type = 'table' AND substr(name, 1, ?1 - 1) = ?2 ORDER BY name
                """, arguments: [prefix.count + 1, prefix]
        ).map { root in
            SuccessorTable(
                root: root, columns: try Self.columns(of: prefix + root, database).map(\.name))
        }
    }

    /// The condition that a row has no successor, in SQL.
    ///
    /// - Parameter row: the column that names the row, with its table's name, for a property of the
    ///   hierarchy may have the same.
    func lacks(_ row: String) -> String {
        "NOT EXISTS (SELECT 1 FROM \(successors) WHERE _id = \(row))"
    }

    /// The condition that a row `f` has no successor that shows something else in a column, in SQL.
    func keeps(_ column: String) -> String {
        "NOT EXISTS (SELECT 1 FROM \(successors) AS s WHERE s._id = f._id "
            + "AND s._version IS NOT NULL AND s.\(column) IS NOT f.\(column))"
    }

    /// Makes the table of a hierarchy, without rows.
    static func create(root: String, in database: Database) throws -> SuccessorTable {
        let columns = try columns(of: root, database)
        let table = SuccessorTable(root: root, columns: columns.map(\.name))
        let list = columns.map { name, type in
            "\(name) \(type)" + (name == "\"_id\"" ? " PRIMARY KEY" : "")
        }
        try database.execute(
            sql: """
                DROP TABLE IF EXISTS \(table.successors);
                CREATE TABLE \(table.successors) (\(list.joined(separator: ", ")))
                """)
        // What is looked up in one is looked up in the other: without these a save would read all
        // successors for each reference and each key, and a fetch for each row.
        let indexes = try String.fetchAll(
            database, sql: "SELECT name FROM pragma_index_list(?) WHERE origin = 'c' ORDER BY name",
            arguments: [root])
        for index in indexes {
            let elements = try Self.columns(ofIndex: index, database)
            if elements.isEmpty { continue }
            try database.execute(
                sql: "CREATE INDEX \(EntityTable.quote(prefix + index)) "
                    + "ON \(table.successors) (\(elements.joined(separator: ", ")))")
        }
        return table
    }

    private static func columns(
        of table: String, _ database: Database
    ) throws -> [(name: String, type: String)] {
        try Row.fetchAll(
            database, sql: "SELECT name, type FROM pragma_table_info(?) ORDER BY cid",
            arguments: [table]
        ).map { (EntityTable.quote($0[0]), $0[1]) }
    }

    /// The rows whose successors have a key.
    func rows(
        with key: UniqueKey, of constraint: UniqueConstraint, in database: Database
    ) throws -> [RowID] {
        let statement = try database.prepared(
            "SELECT _id FROM \(successors) WHERE \(constraint.condition) ORDER BY _id")
        statement.bind(key)
        var rows: [RowID] = []
        while try statement.step() { rows.append(RowID(statement.integer(0))) }
        return rows
    }

    /// For each unique key its columns, quoted, and the condition that a row has the one that `NEW` has,
    /// in SQL.
    ///
    /// Of a key that not all entities of the hierarchy have, the condition is its index's as well:
    /// without it SQLite would read all rows.
    func keys(in database: Database) throws -> [(columns: [String], condition: String)] {
        try Row.fetchAll(
            database,
            sql: """
                SELECT l.name, l.partial, m.sql FROM pragma_index_list(?) AS l
                    JOIN sqlite_master AS m ON m.type = 'index' AND m.name = l.name
                WHERE l."unique" ORDER BY l.name
                """, arguments: [root]
        ).map { index in
            let columns = try Self.columns(ofIndex: index["name"], database)
            var terms = columns.map { "\($0) = NEW.\($0)" }
            let sql: String = index["sql"]
            if index["partial"], let place = sql.range(of: " WHERE ", options: .backwards) {
                terms.append(String(sql[place.upperBound...]))
            }
            return (columns, terms.joined(separator: " AND "))
        }
    }

    private static func columns(ofIndex name: String, _ database: Database) throws -> [String] {
        try String?.fetchAll(
            database, sql: "SELECT name FROM pragma_index_info(?) ORDER BY seqno", arguments: [name]
        ).compactMap { $0.map(EntityTable.quote) }
    }

    /// Has the successors read in the place of their rows.
    func show(in database: Database) throws {
        let list = columns.joined(separator: ", ")
        let values = columns.map { "NEW.\($0)" }.joined(separator: ", ")
        let assigned = columns.filter { $0 != "\"_id\"" }.map { "\($0) = NEW.\($0)" }
            .joined(separator: ", ")
        let makeWay: String = try keys(in: database).map { columns, key in
            let gone =
                "EXISTS (SELECT 1 FROM \(successors) AS s "
                + "WHERE s._id = \(former)._id AND s._version IS "
            let freed = columns.map { "\($0) = NULL" }.joined(separator: ", ")
            let differs = columns.map { "s.\($0) IS NOT \(former).\($0)" }
                .joined(separator: " OR ")
            return "DELETE FROM \(former) WHERE \(key) AND \(gone) NULL); "
                + "UPDATE \(former) SET \(freed) WHERE \(key) AND \(gone) NOT NULL "
                + "AND (\(differs))); "
        }.joined()
        func trigger(_ event: String, _ body: String) -> String {
            "CREATE TRIGGER \(EntityTable.quote(Self.prefix + root + "." + event)) "
                + "INSTEAD OF \(event) ON \(shown) BEGIN \(body) END;"
        }
        try database.execute(
            sql: """
                ALTER TABLE \(shown) RENAME TO \(former);
                CREATE VIEW \(shown) AS
                    SELECT \(list) FROM \(former) AS f
                    WHERE NOT EXISTS (SELECT 1 FROM \(successors) AS s WHERE s._id = f._id)
                    UNION ALL SELECT \(list) FROM \(successors) WHERE _version IS NOT NULL;
                \(trigger(
                    "INSERT",
                    "DELETE FROM \(former) WHERE _id = NEW._id AND EXISTS (SELECT 1 "
                        + "FROM \(successors) AS s WHERE s._id = NEW._id AND s._version IS NULL); "
                        + "DELETE FROM \(successors) WHERE _id = NEW._id AND _version IS NULL; "
                        + makeWay + "INSERT INTO \(former) (\(list)) VALUES (\(values));"))
                \(trigger(
                    "UPDATE",
                    "DELETE FROM \(successors) WHERE _id = OLD._id; " + makeWay
                        + "UPDATE \(former) SET \(assigned) WHERE _id = OLD._id;"))
                \(trigger(
                    "DELETE",
                    "DELETE FROM \(successors) WHERE _id = OLD._id; "
                        + "DELETE FROM \(former) WHERE _id = OLD._id;"))
                """)
    }

    /// Gives the table its name back, once no row has a successor, or none is to be shown.
    func drop(in database: Database, isShown: Bool) throws {
        if isShown {
            try database.execute(
                sql: "DROP VIEW \(shown); ALTER TABLE \(former) RENAME TO \(shown)")
        }
        try database.execute(sql: "DROP TABLE \(successors)")
    }

    /// Writes the successor of a row that is deleted.
    ///
    /// - Parameter registers: the tombstone's.
    func insertDead(_ dead: LoadedRow, registers: [UInt8], in database: Database) throws {
        let statement = try database.prepared("INSERT INTO \(successors) (_id) VALUES (?1)")
        statement.bind(1, dead.row.rawValue)
        try statement.run()
        let tombstone = try database.prepared(
            "INSERT INTO _tombstone (row, entity, registers) VALUES (?1, ?2, ?3)")
        tombstone.bind(1, dead.row.rawValue)
        tombstone.bind(2, dead.table.code)
        tombstone.bind(3, registers)
        try tombstone.run()
    }

    /// Writes the successor of a row that stays.
    func insert(
        _ loaded: LoadedRow, registers: [UInt8]?, in database: Database
    ) throws {
        let table = loaded.table
        let columns = table.selectedColumns + (table.entity.sharesTable ? ["_entity"] : [])
        let statement = try database.prepared(
            "INSERT INTO \(successors) (\(columns.joined(separator: ", "))) VALUES ("
                + (1...columns.count).map { "?\($0)" }.joined(separator: ", ") + ")")
        statement.bind(1, loaded.row.rawValue)
        statement.bind(2, ActorTable.stagedVersion)
        statement.bind(3, Int64(0))
        if let registers {
            statement.bind(4, registers)
        } else {
            statement.bindNull(4)
        }
        var index: Int32 = 5
        for value in loaded.columns {
            statement.bind(index, value)
            index += 1
        }
        if table.entity.sharesTable { statement.bind(index, table.code) }
        try statement.run()
    }

    /// Removes a row's successor, if it has one, before it is shown.
    func remove(_ row: RowID, in database: Database) throws {
        // Where the row is gone the tombstone is not ours.
        let tombstone = try database.prepared(
            "DELETE FROM _tombstone WHERE row = ?1 "
                + "AND EXISTS (SELECT 1 FROM \(shown) WHERE _id = ?1)")
        tombstone.bind(1, row.rawValue)
        try tombstone.run()
        try forget(row, database)
    }

    private func forget(_ row: RowID, _ database: Database) throws {
        let statement = try database.prepared("DELETE FROM \(successors) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        try statement.run()
    }

    /// Puts a shown successor in the place of its row; nothing where the row has been written since.
    ///
    /// - Parameters:
    ///   - version: the integer of the transaction's dot.
    ///   - timestamp: its raw value.
    func fold(
        _ row: RowID, version: Int64, timestamp: Int64, in database: Database
    ) throws {
        let look = try database.prepared(
            "SELECT _registers, _version FROM \(successors) WHERE _id = ?1")
        look.bind(1, row.rawValue)
        guard try look.step() else { return }
        let registers = look.isNull(0) ? nil : look.bytes(0)
        let isDead = look.isNull(1)
        look.reset()
        if isDead { return try bury(row, version, timestamp, database) }
        let system = ["\"_id\"", "\"_version\"", "\"_timestamp\"", "\"_registers\""]
        let assigned = columns.filter { !system.contains($0) }.map { ", \($0) = s.\($0)" }.joined()
        let statement = try database.prepared(
            "UPDATE \(former) AS f SET _version = ?2, _timestamp = ?3, _registers = ?4\(assigned) "
                + "FROM \(successors) AS s WHERE s._id = ?1 AND f._id = ?1")
        statement.bind(1, row.rawValue)
        statement.bind(2, version)
        statement.bind(3, timestamp)
        if let registers {
            statement.bind(
                4,
                try StoreEngine.restamped(registers, version, UInt64(bitPattern: timestamp)))
        } else {
            statement.bindNull(4)
        }
        try statement.run()
        try forget(row, database)
    }

    /// Takes a row away that is shown as deleted, and lets its tombstone be collected in time.
    private func bury(
        _ row: RowID, _ version: Int64, _ timestamp: Int64, _ database: Database
    ) throws {
        let removal = try database.prepared("DELETE FROM \(former) WHERE _id = ?1")
        removal.bind(1, row.rawValue)
        try removal.run()
        try forget(row, database)
        let look = try database.prepared("SELECT registers FROM _tombstone WHERE row = ?1")
        look.bind(1, row.rawValue)
        guard try look.step() else { return }
        let registers = look.bytes(0)
        look.reset()
        let update = try database.prepared("UPDATE _tombstone SET registers = ?2 WHERE row = ?1")
        update.bind(1, row.rawValue)
        update.bind(
            2, try StoreEngine.restamped(registers, version, UInt64(bitPattern: timestamp)))
        try update.run()
        let uncollected = try database.prepared(
            """
            INSERT OR IGNORE INTO _uncollected (row, target, name, waitsFor)
            SELECT t.row, 0, n.entity, ?2 FROM _tombstone AS t
                JOIN _name AS n ON n.code = t.entity WHERE t.row = ?1
            """)
        uncollected.bind(1, row.rawValue)
        uncollected.bind(2, version)
        try uncollected.run()
    }

    /// The rows that have a successor.
    func rows(in database: Database) throws -> [RowID] {
        try Int64.fetchAll(database, sql: "SELECT _id FROM \(successors) ORDER BY _id")
            .map { RowID($0) }
    }
}
