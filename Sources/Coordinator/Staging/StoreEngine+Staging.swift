import Foundation
import GRDB
import Merge

/// What a ``StagedTransaction`` does to the store.
extension StoreEngine {
    /// Runs work that changes nothing readers see, in an SQLite transaction outside a group: it
    /// makes no generation, and a failure leaves nothing of it.
    ///
    /// It waits for the disk, for else the commit that shows the rows would wait for all of them.
    func unseen(_ work: () throws -> Void) throws {
        try setDurability(true)
        try database.prepared("BEGIN IMMEDIATE").run()
        knownAlive.removeAll(keepingCapacity: true)
        knownEclipsed.removeAll()
        knownTables.removeAll()
        do {
            try work()
            try database.prepared("COMMIT").run()
            adoptState()
        } catch {
            try? rollBack()
            throw error
        }
    }

    /// Whether a row is there that readers do not see yet.
    func hasHidden(_ row: RowID, root: String) throws -> Bool {
        let statement = try database.prepared(
            "SELECT _version FROM \(EntityTable.quote(root)) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        defer { statement.reset() }
        return try statement.step() && state.actors.isHidden(statement.integer(0))
    }

    /// Has readers leave out the rows to come.
    func beginStaging() throws {
        try database.prepared("INSERT OR IGNORE INTO _staged (id) VALUES (1)").run()
    }

    /// Says whose the staged rows are, so that readers see them from the open group's commit on.
    func markShown(as stamp: Stamp) throws {
        let statement = try database.prepared(
            "UPDATE _staged SET dot = ?1, timestamp = ?2 WHERE id = 1")
        statement.bind(1, state.actors.integer(stamp.dot))
        statement.bind(2, Int64(bitPattern: stamp.timestamp.rawValue))
        try statement.run()
        state.actors.staged = stamp
    }

    /// Gives a shown row its own version, unless it has been written since.
    func fold(_ object: ManagedObjectID) throws {
        guard let stamp = state.actors.staged else { return }
        let statement = try database.prepared(
            "UPDATE \(EntityTable.quote(table(object.entityName).entity.root)) "
                + "SET _version = ?2, _timestamp = ?3 WHERE _id = ?1 AND _version = ?4")
        statement.bind(1, object.row.rawValue)
        statement.bind(2, state.actors.integer(stamp.dot))
        statement.bind(3, Int64(bitPattern: stamp.timestamp.rawValue))
        statement.bind(4, ActorTable.stagedVersion)
        let entityTable = table(object.entityName)
        if !entityTable.constraints.isEmpty, let registers = try stagedRegisters(of: object) {
            let restamped = try Self.restamped(
                registers, state.actors.integer(stamp.dot), stamp.timestamp.rawValue)
            try setRegisters(restamped, of: object)
        }
        try statement.run()
    }

    private func stagedRegisters(of object: ManagedObjectID) throws -> [UInt8]? {
        let statement = try database.prepared(
            "SELECT _registers FROM \(EntityTable.quote(table(object.entityName).entity.root)) "
                + "WHERE _id = ?1 AND _version = ?2 AND _registers IS NOT NULL")
        statement.bind(1, object.row.rawValue)
        statement.bind(2, ActorTable.stagedVersion)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return statement.bytes(0)
    }

    private func setRegisters(_ bytes: [UInt8], of object: ManagedObjectID) throws {
        let statement = try database.prepared(
            "UPDATE \(EntityTable.quote(table(object.entityName).entity.root)) "
                + "SET _registers = ?2 WHERE _id = ?1")
        statement.bind(1, object.row.rawValue)
        statement.bind(2, bytes)
        try statement.run()
    }

    static func restamped(
        _ registers: [UInt8], _ version: Int64, _ timestamp: UInt64
    ) throws -> [UInt8] {
        do {
            return try RowCoding.restamped(registers, version: version, timestamp: timestamp)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(
                .storeDamaged, "The registers of a staged row are damaged: \(failure).")
        }
    }

    /// Removes a row that was never shown.
    func discard(_ object: ManagedObjectID) throws {
        let statement = try database.prepared(table(object.entityName).deleteSQL)
        statement.bind(1, object.row.rawValue)
        try statement.run()
    }

    /// No row has the staged version any more.
    func endStaging() throws {
        try database.prepared("DELETE FROM _staged").run()
        state.actors.staged = nil
    }

    /// Finishes what a process that ended left staged, at an opening, in its transaction: rows that
    /// were shown get their version, others go.
    ///
    /// - Returns: whether there was something.
    static func finishStaging(_ database: Database) throws -> Bool {
        let staged = try StoreLayout.readStaged(in: database)
        if case .none = staged { return false }
        for table in try SuccessorTable.all(in: database) {
            let rows = try table.rows(in: database)
            if case .shown(let dot, let timestamp) = staged {
                for row in rows {
                    try table.fold(row, version: dot, timestamp: timestamp, in: database)
                }
                try table.drop(in: database, isShown: true)
            } else {
                for row in rows { try table.remove(row, in: database) }
                try table.drop(in: database, isShown: false)
            }
        }
        let tables = try String.fetchAll(
            database,
            sql: """
                SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
                WHERE t.type = 'table' AND c.name = '_version' ORDER BY t.name
                """)
        for table in tables.map(EntityTable.quote) {
            if case .shown(let dot, let timestamp) = staged {
                try restamp(table, database, dot, timestamp)
                try database.execute(
                    sql: "UPDATE \(table) SET _version = ?, _timestamp = ? WHERE _version = ?",
                    arguments: [dot, timestamp, ActorTable.stagedVersion])
            } else {
                try database.execute(
                    sql: "DELETE FROM \(table) WHERE _version = ?",
                    arguments: [ActorTable.stagedVersion])
            }
        }
        let links = try String.fetchAll(
            database,
            sql: """
                SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
                WHERE t.type = 'table' AND c.name = '_siblings' ORDER BY t.name
                """)
        for link in links {
            let table = EntityTable.quote(link)
            let made = "WHERE _alive = \(LinkCoding.stagedMade)"
            let unmade = "WHERE _alive = \(LinkCoding.stagedUnmade)"
            if case .shown(let dot, let timestamp) = staged {
                try database.execute(
                    sql: "INSERT OR IGNORE INTO _uncollected (row, target, name, waitsFor) "
                        + "SELECT source, target, ?, ? FROM \(table) \(unmade)",
                    arguments: [link, dot])
                for (own, isAlive) in [(made, true), (unmade, false)] {
                    let register = LinkCoding.encode(
                        madeBy: dot, UInt64(bitPattern: timestamp), isAlive: isAlive)
                    try database.execute(
                        sql: "UPDATE \(table) SET _alive = ?, _siblings = ? \(own)",
                        arguments: [isAlive, Data(register)])
                }
            } else {
                try database.execute(sql: "DELETE FROM \(table) \(made)")
                try database.execute(sql: "UPDATE \(table) SET _alive = 1 \(unmade)")
            }
        }
        try database.execute(sql: "DELETE FROM _staged")
        return true
    }

    /// Gives the registers of a table's staged rows the transaction that they are of.
    private static func restamp(
        _ table: String, _ database: Database, _ version: Int64, _ timestamp: Int64
    ) throws {
        let rows = try Row.fetchCursor(
            database,
            sql: "SELECT _id, _registers FROM \(table) WHERE _version = ? AND _registers NOT NULL",
            arguments: [ActorTable.stagedVersion])
        let update = try database.makeStatement(
            sql: "UPDATE \(table) SET _registers = ? WHERE _id = ?")
        var found: [(row: Int64, registers: [UInt8])] = []
        while let row = try rows.next() {
            let data: Data = row[1]
            found.append((row[0], Array(data)))
        }
        for (row, registers) in found {
            let bytes = try restamped(registers, version, UInt64(bitPattern: timestamp))
            try update.execute(arguments: [Data(bytes), row])
        }
    }
}
