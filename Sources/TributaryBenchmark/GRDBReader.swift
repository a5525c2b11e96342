import GRDB

/// Reads an integer, a text and a double of each row through GRDB.
struct GRDBReader {
    private let queue: DatabaseQueue
    private let sql: String

    private struct Record: Codable, FetchableRecord {
        var _id: Int64
        var count: Int64?
        var name: String?
        var weight: Double?
    }

    private struct Item {
        let id: Int64
        let count: Int64
        let name: String
        let weight: Double
    }

    init(path: String, _ sql: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        queue = try DatabaseQueue(path: path, configuration: configuration)
        self.sql = sql
    }

    /// Structs that are filled from rows by hand.
    func sumByHand() throws -> Int {
        try queue.read { database in
            let rows = try Row.fetchCursor(database, sql: sql)
            var items: [Item] = []
            while let row = try rows.next() {
                items.append(Item(id: row[0], count: row[1], name: row[2], weight: row[3]))
            }
            return items.reduce(0) { sum, item in
                sum &+ Int(item.count) &+ item.name.utf8.count &+ (item.weight > 0 ? 1 : 0)
            }
        }
    }

    /// Records that are decoded by their names.
    func sumOfRecords() throws -> Int {
        try queue.read { database in
            try Record.fetchAll(database, sql: sql).reduce(0) { sum, item in
                sum &+ Int(item.count ?? 0) &+ (item.name?.utf8.count ?? 0)
                    &+ (item.weight == nil ? 0 : 1)
            }
        }
    }
}
