import ArgumentParser
import Console
import Coordinator

/// `tributary log`.
struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Show an object's life, newest first; concurrent saves are drawn as branches.")

    @Argument(
        help:
            "The object: Contact/p123, as `tributary fetch` shows it; with .phone that property alone."
    )
    var object: String

    @Option(help: "The newest so many saves, at most 1,000.")
    var limit = 100

    @OptionGroup var source: SourceOptions

    func validate() throws {
        guard (1...1_000).contains(limit) else { throw ValidationError("--limit is 1 to 1,000.") }
    }

    func run() async throws {
        let name = try ObjectName(object)
        let interface = try source.open()
        let path = RequestPath("objects", name.entity, name.row, "log")
            .adding("limit", String(limit))
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            Self.lines(answer, property: name.property, terminal)
        }
        await interface.close()
    }

    static func lines(
        _ answer: JSONObject, property: String?, _ terminal: Terminal
    ) -> [String] {
        let entries = (answer["entries"]?.array ?? []).compactMap(\.object)
        let graph = BranchGraph(
            entries.map { entry in
                BranchGraph.Commit(
                    id: entry["dot"]?.string ?? "",
                    after: (entry["after"]?.array ?? []).compactMap(\.string))
            })
        var lines: [String] = []
        let width = terminal.isInteractive ? terminal.width : Int.max
        for row in graph.rows {
            guard let index = row.commit else {
                lines.append(row.drawing)
                continue
            }
            let entry = entries[index]
            let kind = entry["kind"]?.string ?? ""
            let colour: Colour = kind == "insert" ? .green : kind == "delete" ? .red : .yellow
            let head = "\(row.drawing)  \(kind) "
            let who = BlameView.who(entry)
            lines.append(
                row.drawing + "  " + terminal.style.paint(kind, colour) + " "
                    + DisplayText.cut(who, to: max(10, width - DisplayText.width(head))))
            for text in details(entry, property) {
                let line = "\(row.below)    \(text)"
                lines.append(width == .max ? line : DisplayText.cut(line, to: width))
            }
        }
        if !(answer["complete"]?.boolean ?? true) {
            lines.append(
                terminal.style.paint("What came before is not in history, or not in --limit.", .dim)
            )
        }
        return lines
    }

    private static func details(_ entry: JSONObject, _ property: String?) -> [String] {
        var lines: [String] = []
        if let note = entry["note"]?.string { lines.append("\"\(DisplayText.line(note))\"") }
        for member in entry["values"]?.object?.members ?? [] {
            if let property, member.key != property { continue }
            // Of an insert the values that it has.
            if member.value == .null, entry["kind"]?.string == "insert" { continue }
            lines.append(DisplayText.line("\(member.key) = \(JSONRendering.quoted(member.value))"))
        }
        for (key, sign) in [("add", "+"), ("remove", "-")] {
            for member in entry[key]?.object?.members ?? [] {
                if let property, member.key != property { continue }
                lines.append(
                    DisplayText.line("\(member.key) \(sign) \(JSONRendering.brief(member.value))"))
            }
        }
        return lines
    }
}
