import ArgumentParser
import Console
import Coordinator

/// `tributary conflicts list`.
struct ConflictsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List conflicts, newest first.",
        discussion: """
            Each has a number and a short ID. The number counts in the last list that you have seen, and \
            the ID does so everywhere: `tributary conflicts show 1`, `tributary conflicts resolve 3f9a2c \
            --side 2`. In VALUES a star marks the side that readers see. Times are UTC.
            """)

    @Option(help: "unresolved, settled, resolved or all.")
    var state = "all"

    @Option(help: "Only of this entity.")
    var entity: String?

    @Option(help: "Only of this object: Contact/p123, as `tributary fetch` shows it, or its URI.")
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

    @OptionGroup var columns: ColumnOptions

    @OptionGroup var source: SourceOptions

    func validate() throws {
        guard ["unresolved", "settled", "resolved", "all"].contains(state) else {
            throw ValidationError("--state is unresolved, settled, resolved or all.")
        }
        guard limit >= 1 else { throw ValidationError("--limit is at least 1.") }
        try columns.check(against: ConflictTable.columns)
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
            RecentConflicts(of: interface.name).keep(conflicts)
            return ConflictTable.table(conflicts, chosen: columns.chosen).lines(terminal)
                + next.map { terminal.style.paint($0, .dim) }
        }
        await interface.close()
    }
}
