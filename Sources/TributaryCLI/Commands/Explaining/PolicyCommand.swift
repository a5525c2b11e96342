import ArgumentParser
import Console
import Coordinator

/// `tributary policy`.
struct PolicyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "policy", abstract: "Choose merge policies from your own history.",
        subcommands: [PolicyTryCommand.self])
}

/// `tributary policy try`.
struct PolicyTryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "try",
        abstract: "Show what another merge policy would have decided; nothing is written.",
        discussion: """
            It looks at the conflicts that the journal has, open and closed. Policies: error, errorByRow, \
            mergeByPropertyStoreTrump, mergeByPropertyObjectTrump, rollback, overwrite.
            """)

    @Option(help: "The entity.")
    var entity: String

    @Option(help: "The policy to try.")
    var policy: String

    @Option(help: "Only conflicts over this property.")
    var property: String?

    @Option(help: "Show at most so many.")
    var limit = 100

    @OptionGroup var columns: ColumnOptions
    @OptionGroup var source: SourceOptions

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
        try columns.check(against: Self.columns)
    }

    static let columns: [Table.Column] = [
        Table.Column("ID", fit: .whole), Table.Column("WHAT", fit: .middle, least: 10),
        Table.Column("SHOWN", fit: .middle, least: 6),
        Table.Column("WOULD BE", fit: .middle, least: 6),
        Table.Column("STATE", fit: .whole, rank: 1, isExtra: true),
        Table.Column("OBJECT", fit: .whole, rank: 2, isExtra: true),
    ]

    func run() async throws {
        var body: JSONObject = [
            "entity": .string(entity), "policy": .string(policy), "limit": .integer(Int64(limit)),
        ]
        if let property { body["property"] = .string(property) }
        let interface = try source.open()
        let answer = try await interface.post("/v1/policies/try", .object(body))
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            Self.lines(answer, entity, policy, columns.chosen, terminal)
        }
        await interface.close()
    }

    static func lines(
        _ answer: JSONObject, _ entity: String, _ policy: String, _ chosen: [String]?,
        _ terminal: Terminal
    ) -> [String] {
        var table = Table(columns)
        table.chosen = chosen
        for item in (answer["items"]?.array ?? []).compactMap(\.object) {
            let property = item["property"]?.string.map { "\(entity).\($0)" } ?? entity
            table.add([
                Table.Cell(item["short"]?.string ?? "", .cyan), Table.Cell(property),
                Table.Cell(value(item["shown"])), Table.Cell(value(item["would"])),
                Table.Cell(item["state"]?.string ?? ""),
                Table.Cell(JSONRendering.brief(item["object"])),
            ])
        }
        let (all, changed) = (answer["conflicts"]?.integer ?? 0, answer["changed"]?.integer ?? 0)
        return (table.rows.isEmpty ? [] : table.lines(terminal))
            + [
                "Of \(all) conflicts of \(entity), \(policy) would have decided \(changed) otherwise."
            ]
    }

    private static func value(_ side: JSONValue?) -> String {
        guard let side = side?.object else { return "undecided" }
        if side["deleted"]?.boolean ?? false { return "deleted" }
        return JSONRendering.brief(side["value"])
    }
}
