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

    @Flag(help: "Print how SQLite would find the rows, as a tree, and not the rows.")
    var explain = false

    @Flag(
        help: """
            Print {"columns": [...], "rows": [[...]]}, or with --explain {"plan": [{"depth": 0, \
            "detail": "..."}]}.
            """)
    var json = false

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws {
        // Opened by the coordinator first: it says clearly what is no store.
        try PersistentStoreCoordinator(readingStoreAt: store).close()
        let file = try SQLiteFile(path: store)
        if explain { return try show(try file.plan(of: statement)) }
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

    private func show(_ plan: QueryPlan) throws {
        guard !json else {
            return try Terminal.print(bytes: JSONWriter.bytes(of: ["plan": plan.json]))
        }
        for line in plan.lines { try Terminal.print(DisplayText.line(line)) }
    }
}
