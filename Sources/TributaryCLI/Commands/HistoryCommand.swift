import ArgumentParser
import Console
import Coordinator

/// `tributary history`.
struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "Show the transactions in the order applied here.")

    @Option(help: "Begin after this token; the last line of an earlier answer gives one.")
    var after: String?

    @Option(help: "At most so many transactions.")
    var limit = 100

    @Option(help: "Only transactions of that author.")
    var author: String?

    @Option(help: "Only transactions of contexts of that name.")
    var context: String?

    @Option(help: "Only transactions that the node of that number saved.")
    var by: Int?

    @Option(help: "Only changes of objects of that entity.")
    var entity: String?

    @Option(help: "Only inserts, deletes, and updates of that property.")
    var property: String?

    @Option(
        name: .customLong("where"),
        help: "A predicate, such as \"author == nil AND ANY changes.changeType == 'delete'\".")
    var predicate: String?

    @Flag(help: "Show what every change wrote.")
    var changes = false

    @OptionGroup var source: SourceOptions

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws {
        let interface = try source.open()
        let path = RequestPath("history").adding("after", after).adding("limit", String(limit))
            .adding("author", author).adding("context", context)
            .adding("node", by.map(String.init)).adding("entity", entity)
            .adding("property", property).adding("where", predicate)
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            let transactions = (answer["transactions"]?.array ?? []).compactMap(\.object)
            let token = answer["token"]?.string ?? ""
            let lines =
                changes
                ? transactions.flatMap { Self.detailed($0, terminal.style) }
                : Self.table(transactions).lines(terminal)
            return lines + [terminal.style.paint("next: --after \(token)", .dim)]
        }
        await interface.close()
    }

    private static func table(_ transactions: [JSONObject]) -> Table {
        var table = Table([
            "TRANSACTION", "TIME", "AUTHOR", "CONTEXT", Table.Column("CHANGES", isNumeric: true),
        ])
        for transaction in transactions {
            table.add([
                Table.Cell(transaction["dot"]?.string ?? "", .cyan),
                Table.Cell(JSONRendering.time(transaction["timestamp"])),
                Table.Cell(transaction["author"]?.string ?? ""),
                Table.Cell(transaction["context"]?.string ?? ""),
                Table.Cell(String(transaction["changes"]?.array?.count ?? 0)),
            ])
        }
        return table
    }

    static func detailed(_ transaction: JSONObject, _ style: Style) -> [String] {
        let author = transaction["author"]?.string.map { "  by \($0)" } ?? ""
        let time = JSONRendering.time(transaction["timestamp"])
        let name = (transaction["dot"] ?? transaction["transaction"])?.string ?? ""
        var lines = [style.paint(name, .cyan) + "  \(time)" + DisplayText.line(author)]
        for change in (transaction["changes"]?.array ?? []).compactMap(\.object) {
            let kind = change["kind"]?.string ?? ""
            let colour: Colour = kind == "insert" ? .green : kind == "delete" ? .red : .yellow
            var parts = [
                JSONRendering.brief(change["object"]), JSONRendering.brief(change["values"]),
            ]
            if let kept = change["tombstone"] { parts.append("had \(JSONRendering.brief(kept))") }
            if let added = change["add"] { parts.append("add \(JSONRendering.brief(added))") }
            if let gone = change["remove"] { parts.append("remove \(JSONRendering.brief(gone))") }
            let text = parts.filter { !$0.isEmpty }.joined(separator: "  ")
            lines.append("  \(style.paint(kind, colour)) \(DisplayText.line(text))")
        }
        return lines
    }
}
