import ArgumentParser
import Console
import Coordinator

/// Which open conflicts are resolved together.
struct ManyConflictsOptions: ParsableArguments {
    @Option(
        name: .customLong("where"),
        help: "Of objects that are so; needs --entity. For example \"shop.name == 'North'\".")
    var predicate: String?

    @Option(help: "Of objects of this entity.")
    var entity: String?

    @Option(help: "update, delete, row, dangling or link.")
    var kind: String?

    @Option(help: "Over this property.")
    var property: String?

    @Option(help: "unresolved, settled or all.")
    var state = "unresolved"

    @Flag(help: "Only show what would be written.")
    var dryRun = false

    @Option(
        help: """
            The state that a dry run printed: conflicts with sides that came since stay open.
            """)
    var asOf: String?

    var isEmpty: Bool {
        predicate == nil && entity == nil && kind == nil && property == nil && !dryRun
    }

    func validate() throws {
        if predicate != nil, entity == nil { throw ValidationError("--where needs --entity.") }
        guard ["unresolved", "settled", "all"].contains(state) else {
            throw ValidationError("--state is unresolved, settled or all.")
        }
    }

    /// Resolves them, or shows what that would write.
    ///
    /// - Parameter decision: the policy, who decides and why.
    func resolve(
        _ decision: JSONObject, _ options: NodeOptions, _ node: NodeInterface
    ) async throws {
        guard decision["policy"] != nil else {
            throw CommandFailure.usage("Several are resolved by --policy alone.")
        }
        var body = decision
        if let predicate { body["where"] = .string(predicate) }
        if let entity { body["entity"] = .string(entity) }
        if let kind { body["kind"] = .string(kind) }
        if let property { body["property"] = .string(property) }
        body["state"] = .string(state)
        if dryRun { body["dryRun"] = .boolean(true) }
        if let asOf { body["seen"] = .string(asOf) }
        let answer = try await node.change("/v1/conflicts/resolution", .object(body))
        try node.show(answer, asJSON: options.json) { answer, terminal in
            Self.lines(answer, terminal, isDryRun: dryRun)
        }
        await node.close()
    }

    private static func lines(
        _ answer: JSONObject, _ terminal: Terminal, isDryRun: Bool
    ) -> [String] {
        let count = answer["count"]?.integer ?? 0
        let what = count == 1 ? "1 conflict" : "\(count) conflicts"
        var lines: [String] = []
        if isDryRun, count > 0 {
            var table = Table([
                Table.Column("ID", fit: .whole), Table.Column("CONFLICT", fit: .middle, rank: 1),
                Table.Column("WOULD BE", fit: .middle),
            ])
            for conflict in (answer["conflicts"]?.array ?? []).compactMap(\.object) {
                table.add([
                    Table.Cell(conflict["short"]?.string ?? "", .cyan),
                    Table.Cell(conflict["id"]?.string ?? ""),
                    Table.Cell(
                        conflict["deleted"]?.boolean ?? false
                            ? "deleted" : JSONRendering.brief(conflict["value"])),
                ])
            }
            lines = table.lines(terminal)
        }
        for conflict in (answer["skipped"]?.array ?? []).compactMap(\.object) {
            lines.append(
                "\(conflict["id"]?.string ?? ""): left open. \(conflict["reason"]?.string ?? "")")
        }
        if isDryRun {
            let state = answer["state"]?.string.map { ["as of: --as-of \($0)"] } ?? []
            return lines + ["Would resolve \(what)."]
                + (count > 0 ? state.map { terminal.style.paint($0, .dim) } : [])
        }
        guard let dot = answer["transaction"]?.string else {
            return lines + ["There is nothing to resolve."]
        }
        let name = JSONRendering.shortDot(dot)
        return lines + [
            "Resolved \(what) by \(terminal.style.paint(name, .green)). "
                + "`tributary undo \(name)` takes that back."
        ]
    }
}
