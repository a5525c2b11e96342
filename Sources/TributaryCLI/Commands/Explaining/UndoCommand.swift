import ArgumentParser
import Console
import Coordinator

/// `tributary undo`.
struct UndoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Undo a save: write what it replaced, where nothing newer stands.",
        discussion: """
            Of a batch request and of an import give its save ID: all its saves are undone together. What was \
            written since is named, and left alone unless --force is given. Inserted objects go, deleted ones \
            come back. Undo an undo to have it back.
            """)

    @Argument(help: "The save: its name as `tributary history` shows it, or its save ID.")
    var save: String

    @Flag(help: "Only show what would be written.")
    var dryRun = false

    @Flag(help: "Write over what was written since.")
    var force = false

    @Flag(help: "Allow more than 20,000 objects. Other saves wait while they are written.")
    var bulk = false

    @OptionGroup var who: AuthorOptions
    @OptionGroup var options: NodeOptions

    func run() async throws {
        var body = JSONObject()
        who.describe(&body)
        if dryRun { body["dryRun"] = .boolean(true) }
        if force { body["force"] = .boolean(true) }
        if bulk { body["bulk"] = .boolean(true) }
        let node = try options.open()
        let path = RequestPath("saves", save, "undo").description
        let answer = try await node.change(path, .object(body))
        try node.show(answer, asJSON: options.json) { answer, terminal in
            Self.lines(answer, isDryRun: dryRun, terminal)
        }
        await node.close()
    }

    /// How many objects are shown, of each list.
    private static let shown = 50

    static func lines(
        _ answer: JSONObject, isDryRun: Bool, _ terminal: Terminal
    ) -> [String] {
        var lines: [String] = []
        let objects = (answer["objects"]?.array ?? []).compactMap(\.object)
        if !objects.isEmpty {
            var table = Table([
                Table.Column("OP", fit: .whole), Table.Column("OBJECT", fit: .whole),
                Table.Column(isDryRun ? "WOULD BE" : "IS AGAIN", fit: .middle, rank: 1, least: 10),
            ])
            for object in objects.prefix(shown) {
                let kind = object["kind"]?.string ?? ""
                let colour: Colour = kind == "insert" ? .green : kind == "delete" ? .red : .yellow
                let names = (object["relationships"]?.array ?? []).compactMap(\.string)
                let values = JSONRendering.brief(object["properties"])
                table.add([
                    Table.Cell(kind == "insert" ? "+" : kind == "delete" ? "-" : "~", colour),
                    Table.Cell(JSONRendering.brief(object["object"]), .cyan),
                    Table.Cell(
                        kind == "delete"
                            ? "deleted"
                            : ([values] + names).filter { !$0.isEmpty }.joined(separator: ", ")),
                ])
            }
            lines += table.lines(terminal)
            if objects.count > shown { lines.append("and \(objects.count - shown) more") }
        }
        for newer in (answer["newer"]?.array ?? []).compactMap(\.object).prefix(shown) {
            let names = (newer["properties"]?.array ?? []).compactMap(\.string)
            let what = names.isEmpty ? "" : ".\(names.joined(separator: ", "))"
            let object = JSONRendering.brief(newer["object"])
            let author = newer["by"]?.object.map(BlameView.who) ?? ""
            lines.append(
                terminal.style.paint("kept", .yellow)
                    + "  \(DisplayText.line(object + what)), which is by \(author)")
        }
        for lost in (answer["lost"]?.array ?? []).compactMap(\.object).prefix(shown) {
            let object = JSONRendering.brief(lost["object"])
            let property = lost["property"]?.string.map { ".\($0)" } ?? ""
            lines.append(
                terminal.style.paint("lost", .red)
                    + "  \(DisplayText.line(object + property)): \(lost["reason"]?.string ?? "")")
        }
        let count = answer["count"]?.integer ?? 0
        let what = count == 1 ? "1 object" : "\(count) objects"
        if isDryRun { return lines + ["Would restore \(what)."] }
        guard let dot = answer["transaction"]?.string else {
            return lines + ["There is nothing to undo."]
        }
        let name = JSONRendering.shortDot(dot)
        return lines + ["Restored \(what) by \(terminal.style.paint(name, .green))."]
    }
}
