import ArgumentParser
import Console
import Coordinator

/// `tributary conflicts list`.
struct ConflictsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List conflicts, newest first.")

    @Option(help: "unresolved, settled, resolved or all.")
    var state = "all"

    @Option(help: "Only of this entity.")
    var entity: String?

    @Option(help: "Only of the object with this URI.")
    var object: String?

    @Option(help: "update, delete, row, uniqueness, dangling, link, count or save.")
    var kind: String?

    @Option(
        help: """
            Only where the object breaks this rule of the model: missingMandatoryProperty, \
            relationshipLacksMinimumCount or relationshipExceedsMaximumCount.
            """)
    var violation: String?

    @Option(help: "true for open ones only, false for closed ones only.")
    var open: Bool?

    @Option(help: "Go on after this place: the \"next\" of the list before.")
    var after: String?

    @Option(help: "At most so many; 10,000 at once, and no more than 8 MiB.")
    var limit = 100

    @OptionGroup var source: SourceOptions

    func validate() throws {
        guard ["unresolved", "settled", "resolved", "all"].contains(state) else {
            throw ValidationError("--state is unresolved, settled, resolved or all.")
        }
        guard limit >= 1 else { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws {
        let interface = try source.open()
        let path = RequestPath("conflicts").adding("state", state).adding("entity", entity)
            .adding("object", object).adding("kind", kind).adding("violation", violation)
            .adding("open", open.map { "\($0)" }).adding("after", after)
            .adding("limit", String(limit))
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            let conflicts = (answer["conflicts"]?.array ?? []).compactMap(\.object)
            if conflicts.isEmpty, terminal.isInteractive { return ["No conflicts."] }
            let next = answer["next"]?.string.map { ["next: --after \($0)"] } ?? []
            return Self.table(conflicts).lines(terminal)
                + next.map { terminal.style.paint($0, .dim) }
        }
        await interface.close()
    }

    static func table(_ conflicts: [JSONObject]) -> Table {
        var table = Table([
            "ID", "KIND", "STATE", "POLICY", Table.Column("SIDES", isNumeric: true), "VISIBLE",
            "VIOLATES",
        ])
        for conflict in conflicts {
            let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
            let visible = sides.first { $0["visible"]?.boolean ?? false }
            let isDeleted = visible?["deleted"]?.boolean ?? false
            let isOpen = conflict["open"]?.boolean ?? false
            let state = conflict["state"]?.string ?? ""
            table.add([
                Table.Cell(conflict["id"]?.string ?? "", .cyan),
                Table.Cell(conflict["kind"]?.string ?? ""),
                Table.Cell(
                    state + (isOpen ? "" : ", closed"), state == "unresolved" ? .red : nil),
                Table.Cell(conflict["policy"]?.string ?? ""), Table.Cell(String(sides.count)),
                Table.Cell(isDeleted ? "deleted" : JSONRendering.brief(visible?["value"])),
                Table.Cell(conflict["violation"]?.string ?? "", .red),
            ])
        }
        return table
    }
}
