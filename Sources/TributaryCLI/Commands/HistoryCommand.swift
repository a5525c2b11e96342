import ArgumentParser
import Console
import Coordinator

/// `tributary history`.
struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "Show saves, the newest first.",
        discussion: """
            Newest first is the order in which this node applied them, from the end. --reverse, or --after \
            a token, begins with the oldest. Times are UTC.
            """)

    @Option(
        help: "Begin after this token, oldest first; the last line of an earlier answer gives one.")
    var after: String?

    @Option(
        help: "Go on before this place, newest first; the last line of an earlier answer gives it.")
    var before: String?

    @Flag(help: "Oldest first.")
    var reverse = false

    @Option(help: "At most so many saves.")
    var limit = 100

    @Option(help: "Only saves of that author.")
    var author: String?

    @Option(help: "Only saves of contexts of that name.")
    var context: String?

    @Option(help: "Only saves of the node of that number.")
    var by: Int?

    @Option(help: "Only changes of objects of that entity.")
    var entity: String?

    @Option(
        help:
            "Only changes of that object: Contact/p123, as `tributary fetch` shows it, or its URI.")
    var object: String?

    @Option(help: "Only inserts, deletes, and updates of that property.")
    var property: String?

    @Option(
        name: .customLong("where"),
        help: "A predicate, such as \"author == nil AND ANY changes.changeType == 'delete'\".")
    var predicate: String?

    @Flag(help: "Show what every change wrote.")
    var changes = false

    @OptionGroup var columns: ColumnOptions
    @OptionGroup var source: SourceOptions

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
        if before != nil, isApplied {
            throw ValidationError("--before is for newest first, without --reverse and --after.")
        }
        try columns.check(against: Self.columns)
    }

    private var isApplied: Bool { reverse || after != nil }

    func run() async throws {
        let interface = try source.open()
        let path = RequestPath("history").adding("order", isApplied ? nil : "newest")
            .adding("after", after).adding("before", before).adding("limit", String(limit))
            .adding("author", author).adding("context", context)
            .adding("node", by.map(String.init)).adding("entity", entity)
            .adding("object", object).adding("property", property).adding("where", predicate)
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            let transactions = (answer["transactions"]?.array ?? []).compactMap(\.object)
            let lines =
                changes
                ? transactions.flatMap { Self.detailed($0, terminal.style) }
                : Self.table(transactions, columns.chosen).lines(terminal)
            return lines + next(answer, terminal)
        }
        await interface.close()
    }

    /// How to go on.
    private func next(_ answer: JSONObject, _ terminal: Terminal) -> [String] {
        let flag: String
        if isApplied {
            flag = "--after \(answer["token"]?.string ?? "")"
        } else {
            guard let place = answer["next"]?.string else { return [] }
            flag = "--before \(place)"
        }
        return [terminal.style.paint("next: \(flag)", .dim)]
    }

    static let columns: [Table.Column] = [
        Table.Column("SAVE", fit: .whole), Table.Column("WHEN", fit: .whole),
        Table.Column("AUTHOR", fit: .middle, rank: 1, least: 6),
        Table.Column("WHAT", fit: .end, rank: 2, least: 9),
        Table.Column("NOTE", fit: .end, rank: 3, least: 10),
        Table.Column("CONTEXT", fit: .middle, rank: 4, least: 6, isExtra: true),
        Table.Column("SAVEID", fit: .whole, rank: 5, isExtra: true),
    ]

    private static func table(_ transactions: [JSONObject], _ chosen: [String]?) -> Table {
        var table = Table(columns)
        table.chosen = chosen
        for transaction in transactions {
            let time = JSONRendering.minute(transaction["timestamp"])
            table.add([
                Table.Cell(JSONRendering.shortDot(transaction["dot"]?.string ?? ""), .cyan),
                Table.Cell(time, short: String(time.dropFirst(5))),
                Table.Cell(transaction["author"]?.string ?? ""),
                Table.Cell(summary(transaction)), Table.Cell(transaction["note"]?.string ?? ""),
                Table.Cell(transaction["context"]?.string ?? ""),
                Table.Cell(transaction["saveID"]?.string ?? ""),
            ])
        }
        return table
    }

    /// `+2 Contact, ~1 Shop`: objects inserted (+), updated (~) and deleted (-), by entity.
    static func summary(_ transaction: JSONObject) -> String {
        var counts: [(key: String, objects: Set<String>)] = []
        for change in (transaction["changes"]?.array ?? []).compactMap(\.object) {
            guard let uri = change["object"]?.string else { continue }
            let kind = change["kind"]?.string ?? ""
            let sign = kind == "insert" ? "+" : kind == "delete" ? "-" : "~"
            let key = "\(sign)\t\(ObjectURI(uri)?.entityName ?? "")"
            if let place = counts.firstIndex(where: { $0.key == key }) {
                counts[place].objects.insert(uri)
            } else {
                counts.append((key, [uri]))
            }
        }
        return counts.map { key, objects in
            let parts = key.split(separator: "\t", omittingEmptySubsequences: false)
            return "\(parts[0])\(objects.count) \(parts[1])"
        }.joined(separator: ", ")
    }

    static func detailed(_ transaction: JSONObject, _ style: Style) -> [String] {
        let author = transaction["author"]?.string.map { "  by \($0)" } ?? ""
        let note = transaction["note"]?.string.map { "  (\($0))" } ?? ""
        let time = JSONRendering.time(transaction["timestamp"])
        let name = (transaction["dot"] ?? transaction["transaction"])?.string ?? ""
        var lines = [style.paint(name, .cyan) + "  \(time)" + DisplayText.line(author + note)]
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
