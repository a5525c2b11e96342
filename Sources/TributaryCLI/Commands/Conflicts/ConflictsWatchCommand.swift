import ArgumentParser
import Console
import Coordinator
import Merge

/// `tributary conflicts watch`.
struct ConflictsWatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print conflicts as they arise and close, until interrupted.")

    @Option(help: "End after so many lines; for scripts.")
    var count: Int?

    @Option(help: "unresolved, settled or all.")
    var state = "all"

    @OptionGroup var options: NodeOptions

    /// At most so many open conflicts are watched, the newest: each is kept in memory and asked for
    /// again at every change.
    private static let maximum = 10_000

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count is at least 1.") }
    }

    func run() async throws {
        let node = try options.open()
        var known: Watched?
        var printed = 0
        try await node.changes { _ in
            let after = try await Self.open(node, state)
            guard let before = known else {
                known = after
                return true
            }
            let changes = after.window.changes(since: before.window)
            for id in changes.new {
                guard let conflict = after.conflicts[id] else { continue }
                try show("new", conflict)
                printed += 1
                if printed == count { return false }
            }
            for id in changes.closed {
                guard let conflict = before.conflicts[id] else { continue }
                try show("closed", try await Self.closed(id, conflict, node))
                printed += 1
                if printed == count { return false }
            }
            known = after
            return true
        }
        await node.close()
    }

    private func show(_ event: String, _ conflict: JSONObject) throws {
        if options.json {
            let line: JSONValue = ["event": .string(event), "conflict": .object(conflict)]
            return try Terminal.print(bytes: JSONWriter.bytes(of: line))
        }
        let terminal = Terminal.output
        let id = DisplayText.line(conflict["id"]?.string ?? "")
        let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
        let values = sides.map { side in
            let isDeleted = side["deleted"]?.boolean ?? false
            let mark = side["visible"]?.boolean ?? false ? "*" : ""
            return mark + (isDeleted ? "deleted" : JSONRendering.brief(side["value"]))
        }
        let text = DisplayText.line(values.joined(separator: " | "))
        let label = terminal.style.paint(event, event == "new" ? .red : .green)
        let line = "\(conflict["kind"]?.string ?? "") \(conflict["state"]?.string ?? "")"
        try Terminal.print("\(label)\t\(id)\t\(line)\t\(text)")
    }

    /// The conflicts that are watched, with the text that each showed when it was last asked for.
    private struct Watched {
        var window = ConflictWindow()
        var conflicts: [String: JSONObject] = [:]
    }

    private static func open(_ node: NodeInterface, _ state: String) async throws -> Watched {
        let path = RequestPath("conflicts").adding("state", state).adding("open", "true")
        let (found, isCut) = try await ConflictPages.newest(maximum, of: path, from: node)
        var watched = Watched()
        for conflict in found {
            guard let id = conflict["id"]?.string else { continue }
            watched.conflicts[id] = conflict
            watched.window.ids.append(id)
        }
        watched.window.isCut = isCut
        return watched
    }

    /// The journal's last word on a conflict that is not open any more.
    private static func closed(
        _ id: String, _ conflict: JSONObject, _ node: NodeInterface
    ) async throws -> JSONObject {
        let path = RequestPath("conflicts").adding("object", conflict["object"]?.string)
            .adding("open", "false").adding("state", "all").adding("limit", "100")
        let answer = try await node.get(path.description)
        let found = (answer.json.object?["conflicts"]?.array ?? []).compactMap(\.object)
        return found.first { $0["id"]?.string?.hasPrefix(id + "@") ?? false } ?? conflict
    }
}
