import Foundation
import GRDB

/// Writes objects as GRDB's records, in transactions that wait for the disk.
final class GRDBWriter {
    private struct Item: FetchableRecord, PersistableRecord {
        var id: Int64
        var count: Int64
        var name: String
        var note: String
        var weight: Double

        init(_ item: SampleData.Item) {
            id = item.count
            count = item.count
            name = item.name
            note = item.note
            weight = item.weight
        }

        init(row: Row) {
            id = row[0]
            count = row[1]
            name = row[2]
            note = row[3]
            weight = row[4]
        }

        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["count"] = count
            container["name"] = name
            container["note"] = note
            container["weight"] = weight
        }
    }

    private let queue: DatabaseQueue
    private let recorder: SessionRecorder?
    private var held: [Item] = []

    /// - Parameter recorder: Records each transaction; its changeset is kept in a table, in the same
    ///   transaction. Nil means that no history is kept.
    init(path: String, recorder: SessionRecorder?) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                    PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4000;
                    PRAGMA temp_store = MEMORY;
                    """)
        }
        queue = try DatabaseQueue(path: path, configuration: configuration)
        self.recorder = recorder
        try queue.write { database in
            try database.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, count INTEGER, name TEXT,
                        note TEXT, weight);
                    CREATE TABLE history (id INTEGER PRIMARY KEY, changes BLOB);
                    """)
        }
    }

    func insert(_ items: [SampleData.Item]) throws {
        try write { database in
            for item in items { try Item(item).insert(database) }
        }
    }

    /// Fetches all objects, to be changed later.
    func fetchAll() throws {
        held = try queue.read { try Item.order(Column("id")).fetchAll($0) }
    }

    /// Gives objects that were fetched another note.
    func update(_ places: Range<Int>, note: String) throws {
        try write { database in
            for place in places {
                held[place].note = note
                try held[place].update(database)
            }
        }
    }

    /// Deletes objects that were fetched.
    func delete(_ places: Range<Int>) throws {
        try write { database in
            for place in places { _ = try held[place].delete(database) }
        }
    }

    private func write(_ body: (Database) throws -> Void) throws {
        try queue.write { database in
            guard let recorder, let connection = database.sqliteConnection else {
                return try body(database)
            }
            let changes = try recorder.record(connection, table: "item") { try body(database) }
            try database.execute(
                sql: "INSERT INTO history (changes) VALUES (?)", arguments: [changes])
        }
    }
}
