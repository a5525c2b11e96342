import ArgumentParser
import Console
import Coordinator

/// `tributary blame`.
struct BlameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blame",
        abstract: "Tell who wrote each value of an object, when, and what it replaced or beat.")

    @Argument(
        help:
            "The object: Contact/p123, as `tributary fetch` shows it; with .phone that property alone."
    )
    var object: String

    @Flag(help: "Look for replaced values in all of history, however long that takes.")
    var deep = false

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let name = try ObjectName(object)
        let interface = try source.open()
        let path = RequestPath("objects", name.entity, name.row, "blame")
            .adding("property", name.property).adding("lookback", deep ? "1000000000" : nil)
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            BlameView(answer, terminal, isBrief: name.property == nil).lines()
        }
        await interface.close()
    }
}

/// Why an object's values are what they are, for people.
struct BlameView {
    let blame: JSONObject
    let style: Style
    let width: Int
    /// Whether all properties are to fit one screen.
    let isBrief: Bool

    init(_ blame: JSONObject, _ terminal: Terminal, isBrief: Bool) {
        self.blame = blame
        self.isBrief = isBrief
        style = terminal.style
        width = terminal.isInteractive ? terminal.width : 1_000
    }

    func lines() -> [String] {
        var lines = [style.paint(JSONRendering.brief(blame["object"]), .bold)]
        if let inserted = blame["inserted"]?.object {
            lines.append("inserted  " + Self.who(inserted))
        }
        if let deleted = blame["deleted"]?.object {
            lines.append(style.paint("deleted", .red) + "   " + Self.who(deleted))
        }
        let insert = blame["inserted"]?.object?["dot"]?.string
        let properties = (blame["properties"]?.array ?? []).compactMap(\.object)
        // What was never written again says nothing by itself.
        let (changed, first) = properties.reduce(into: ([JSONObject](), [JSONObject]())) {
            let dot = $1["write"]?.object?["dot"]?.string
            if isBrief, dot == nil || dot == insert, ($1["beat"]?.array ?? []).isEmpty {
                $0.1.append($1)
            } else {
                $0.0.append($1)
            }
        }
        for property in changed { lines += [""] + self.lines(of: property) }
        if !first.isEmpty {
            lines += ["", style.paint("as inserted", .dim)]
            for property in first where property["value"] != .null {
                lines.append(
                    cut("  \(property["property"]?.string ?? "") = \(value(property["value"]))"))
            }
            let empty = first.filter { $0["value"] == .null }.compactMap { $0["property"]?.string }
            if !empty.isEmpty { lines.append(cut("  nil: \(empty.joined(separator: ", "))")) }
        }
        return lines
    }

    private func lines(of property: JSONObject) -> [String] {
        let name = property["property"]?.string ?? ""
        var lines = [
            cut(style.paint(DisplayText.line(name), .bold) + " = \(value(property["value"]))")
        ]
        guard let write = property["write"]?.object else { return lines + ["  nobody wrote it"] }
        lines.append(cut("  by     \(Self.who(write))"))
        if let note = write["note"]?.string {
            lines.append(cut("  note   \(DisplayText.line(note))"))
        }
        if let saveID = write["saveID"]?.string {
            lines.append(cut("  save   \(DisplayText.line(saveID))"))
        }
        if let previous = property["previous"]?.object {
            let author = previous["write"]?.object.map(Self.who) ?? ""
            lines.append(cut("  was    \(value(previous["value"]))  \(author)"))
        }
        if !isBrief {
            let seen = JSONRendering.vector(property["seen"])
            lines.append(cut("  saw    \(seen.isEmpty ? "nothing" : seen)"))
        }
        for loser in (property["beat"]?.array ?? []).compactMap(\.object) {
            let isOpen = loser["state"]?.string == "unresolved"
            let label = isOpen ? style.paint("beside", .red) : "beat  "
            let lost = loser["deleted"]?.boolean ?? false ? "the delete" : value(loser["value"])
            let author = loser["write"]?.object.map(Self.who) ?? ""
            lines.append(cut("  \(label) \(lost)  \(author)"))
            let isDecided = loser["state"]?.string == "resolved"
            let reason = isDecided ? "Decided by a save that had seen both." : loser["text"]?.string
            lines += DisplayText.wrap(reason ?? "", to: max(20, width - 9)).map {
                "         " + style.paint($0, .dim)
            }
        }
        let open = (property["beat"]?.array ?? []).compactMap(\.object).first {
            $0["state"]?.string == "unresolved"
        }
        if let open {
            let command = "tributary conflicts show \(open["short"]?.string ?? "")"
            lines.append("  decide " + style.paint(command, .cyan))
        } else if let undo = property["undo"]?.object {
            let command =
                undo["kind"]?.string == "conflict"
                ? "tributary conflicts undo \(undo["short"]?.string ?? "")"
                : "tributary undo \(JSONRendering.shortDot(undo["transaction"]?.string ?? ""))"
            lines.append("  undo   " + style.paint(command, .cyan))
        }
        return lines
    }

    /// `anna on node 2, 2026-01-31 14:02 UTC, 2.6f3a-117`.
    static func who(_ write: JSONObject) -> String {
        var parts: [String] = []
        let node = write["node"]?.integer.map { "node \($0)" }
        if let author = write["author"]?.string {
            parts.append(node.map { "\(author) on \($0)" } ?? author)
        } else if let node {
            parts.append(node)
        }
        let time = JSONRendering.minute(write["timestamp"])
        if !time.isEmpty { parts.append("\(time) UTC") }
        if let dot = write["dot"]?.string { parts.append(JSONRendering.shortDot(dot)) }
        return DisplayText.line(parts.joined(separator: ", "))
    }

    private func value(_ value: JSONValue?) -> String {
        DisplayText.shorten(
            DisplayText.line(JSONRendering.quoted(value ?? .null)), to: max(16, width / 2))
    }

    private func cut(_ line: String) -> String {
        // Paint takes no columns, and a painted line is short.
        line.contains("\u{1B}") ? line : DisplayText.cut(line, to: width)
    }
}
