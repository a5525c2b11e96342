import ArgumentParser
import Console
import Coordinator
import Merge

/// `tributary orphans`.
struct OrphansCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "orphans",
        abstract: "Look at saves that can never be applied, and see to them.",
        discussion: """
            A lost node's save 5 may have reached others while its save 4 reached nobody. Save 5 can \
            then never be applied: it is an orphan. Each node keeps the orphans that it has. Save \
            again what you want of them, at any node, and discard them.
            """,
        subcommands: [
            OrphansListCommand.self, OrphansShowCommand.self, OrphansDiscardCommand.self,
            OrphansDiscardedCommand.self,
        ])

    static func lines(_ answer: JSONObject, _ terminal: Terminal) -> [String] {
        let orphans = (answer["orphans"]?.array ?? []).compactMap(\.object)
        var table = Table([
            "TRANSACTION", "SAVED", "AUTHOR", "CONTEXT", Table.Column("CHANGES", isNumeric: true),
            "KEPT",
        ])
        for orphan in orphans {
            let isDamaged = orphan["damaged"]?.boolean ?? false
            table.add([
                Table.Cell(orphan["transaction"]?.string ?? "", .cyan),
                isDamaged
                    ? Table.Cell("damaged", .red)
                    : Table.Cell(JSONRendering.time(orphan["timestamp"])),
                Table.Cell(orphan["author"]?.string ?? ""),
                Table.Cell(orphan["context"]?.string ?? ""),
                Table.Cell(String(orphan["changes"]?.array?.count ?? 0)),
                Table.Cell(JSONRendering.time(orphan["keptAt"])),
            ])
        }
        if orphans.isEmpty { return ["There are none."] }
        let next = answer["next"]?.string.map { ["next: --after \($0)"] } ?? []
        return table.lines(terminal) + next.map { terminal.style.paint($0, .dim) }
    }

    static func details(_ orphan: JSONObject, _ style: Style) -> [String] {
        if orphan["damaged"]?.boolean ?? false {
            return ["What is kept of it is damaged: nothing of it can be read."]
        }
        let seen = JSONRendering.vector(orphan["seen"])
        return HistoryCommand.detailed(orphan, style)
            + [
                "had seen \(seen.isEmpty ? "nothing" : seen)",
                "kept     \(JSONRendering.time(orphan["keptAt"]))",
            ]
    }
}

/// `tributary orphans list`.
struct OrphansListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Show the saves that are kept, a line each.")

    @Option(help: "Begin after this one; the last line of an earlier answer names it.")
    var after: String?

    @Option(help: "At most so many.")
    var limit = 100

    @OptionGroup var source: SourceOptions

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
        if let after { try OrphansShowCommand.check(after) }
    }

    func run() async throws {
        let interface = try source.open()
        let path = RequestPath("orphans").adding("after", after).adding("limit", String(limit))
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { OrphansCommand.lines($0, $1) }
        await interface.close()
    }
}

/// `tributary orphans show`.
struct OrphansShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show what one of them would have written.")

    @Argument(help: "Its name, as `tributary orphans list` shows it.")
    var transaction: String

    @OptionGroup var source: SourceOptions

    static func check(_ text: String) throws {
        guard Dot(text) == nil else { return }
        throw ValidationError(
            "\"\(text)\" is not the name of a transaction, such as 2.6f3a91c04be1d277-117.")
    }

    func validate() throws { try Self.check(transaction) }

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.get(RequestPath("orphans", transaction).description)
        try interface.show(answer, asJSON: source.json) {
            OrphansCommand.details($0, $1.style)
        }
        await interface.close()
    }
}

/// `tributary orphans discard`.
struct OrphansDiscardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard",
        abstract: "Discard one of them, for good.",
        discussion: "Only at this node: others that have it keep it.")

    @Argument(help: "Its name, as `tributary orphans list` shows it.")
    var transaction: String

    @OptionGroup var who: AuthorOptions
    @OptionGroup var options: NodeOptions

    func validate() throws { try OrphansShowCommand.check(transaction) }

    func run() async throws {
        var description = JSONObject()
        who.describe(&description)
        let interface = try options.open()
        let answer = try await interface.change(
            "DELETE",
            RequestPath("orphans", transaction).adding("author", description["author"]?.string)
                .adding("note", description["note"]?.string).description, nil)
        try interface.show(answer, asJSON: options.json) { _, _ in
            ["\(transaction) is discarded."]
        }
        await interface.close()
    }
}

/// `tributary orphans discarded`.
struct OrphansDiscardedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discarded",
        abstract: "Show who discarded orphans here, when and why, newest first.")

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.get(RequestPath("discards").description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            var table = Table([
                Table.Column("TRANSACTION", fit: .whole), "DISCARDED", "AUTHOR", "NOTE",
            ])
            for discard in (answer["discards"]?.array ?? []).compactMap(\.object) {
                table.add([
                    Table.Cell(discard["transaction"]?.string ?? "", .cyan),
                    Table.Cell(JSONRendering.minute(discard["discardedAt"])),
                    Table.Cell(discard["author"]?.string ?? ""),
                    Table.Cell(discard["note"]?.string ?? ""),
                ])
            }
            return table.rows.isEmpty ? ["There are none."] : table.lines(terminal)
        }
        await interface.close()
    }
}
