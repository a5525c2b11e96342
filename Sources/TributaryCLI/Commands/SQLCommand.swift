import ArgumentParser
import Console
import Coordinator

/// `tributary sql`.
struct SQLCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sql",
        abstract: "Read a store's file with SQL.",
        discussion: """
            A table for each entity without a parent, with the rows of all that inherit from it, and a \
            column for each property; the system's tables begin with an underscore. Statements that \
            write are refused.
            """)

    @Argument(help: "A SELECT.")
    var statement: String

    @Option(help: "The store's file.", completion: .file())
    var store: String

    @Option(help: "At most so many rows.")
    var limit = 10_000

    @Flag(help: "Print {\"columns\": [...], \"rows\": [[...]]}.")
    var json = false

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws {
        // Opened by the coordinator first: it says clearly what is no store.
        try PersistentStoreCoordinator(readingStoreAt: store).close()
        let file = try SQLiteFile(path: store)
        // One more, to know whether there are more.
        var (columns, rows) = try file.rows(statement, limit: limit == .max ? limit : limit + 1)
        if rows.count > limit {
            rows.removeLast()
            Terminal.complain("Note: these are the first \(limit) rows; --limit gives more.\n")
        }
        if json {
            let answer: JSONValue = [
                "columns": .array(columns.map { .string($0) }),
                "rows": .array(rows.map { .array($0) }),
            ]
            return try Terminal.print(bytes: JSONWriter.bytes(of: answer))
        }
        guard !columns.isEmpty else { return }
        var table = Table(columns.map { Table.Column($0) })
        for row in rows { table.add(row.map { Table.Cell(JSONRendering.brief($0)) }) }
        for line in table.lines(.output) { try Terminal.print(line) }
    }
}
