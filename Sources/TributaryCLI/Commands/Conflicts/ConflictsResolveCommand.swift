import ArgumentParser
import Console
import Coordinator
import Foundation

/// The sides that a person has looked at before they decide.
struct SeenOptions: ParsableArguments {
    @Option(
        help: """
            The transactions whose sides you have seen, separated by commas, as `tributary conflicts \
            show` prints them. If there are others by now, nothing is done, and it ends with 3.
            """)
    var seen: String?

    /// The request's member `sides`; nil where nobody says what they have seen.
    ///
    /// - Parameter listed: the sides that a list has shown; they count where nothing else is said.
    func sides(listed: [String] = []) -> JSONValue? {
        let dots = seen?.split { $0 == "," || $0 == " " }.map(String.init) ?? listed
        if seen == nil, dots.isEmpty { return nil }
        return JSONValue.array(dots.map { .string($0) })
    }
}

/// The person who decides.
struct AuthorOptions: ParsableArguments {
    @Option(
        help: """
            Who decides, as history and `tributary conflicts show` tell it; by default \
            TRIBUTARY_AUTHOR, or your user name.
            """)
    var author: String?

    @Option(help: "Why, in at most 1,000 bytes; kept with the decision on every node.")
    var note: String?

    func validate() throws {
        if let note, note.isEmpty || note.utf8.count > 1_000 {
            throw ValidationError("--note has 1 to 1,000 bytes of UTF-8.")
        }
    }

    /// Adds who decides, and why, to a request.
    func describe(_ body: inout JSONObject) {
        let environment = ProcessInfo.processInfo.environment
        let name = [author, environment["TRIBUTARY_AUTHOR"], environment["USER"]]
            .compactMap(\.self).first { !$0.isEmpty }
        if let name { body["author"] = .string(name) }
        if let note { body["note"] = .string(note) }
    }
}

/// `tributary conflicts resolve`.
struct ConflictsResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolve a conflict by a save that follows all its sides.",
        discussion: """
            Name conflicts by their number in the last list, or by their ID. The node refuses if a side \
            came that the list, or --seen, does not have. By ID and without --seen the save also \
            overwrites sides that you have not seen.

            With --where, --entity, --kind or --property in place of IDs it resolves all open conflicts that \
            are so, in one save, which `tributary undo` takes back. Look at them first with --dry-run.
            """)

    @Argument(
        help: "The conflicts: numbers of the last list, or IDs. With --policy there may be several."
    )
    var ids: [String] = []

    @OptionGroup var many: ManyConflictsOptions

    @Option(help: "Take the side that this transaction wrote, or the side with this number.")
    var side: String?

    @Option(help: "With --side: the object whose side it is, where the transaction wrote several.")
    var object: String?

    @Option(help: "Take what this merge policy would choose.")
    var policy: String?

    @Option(help: "Write these values: a JSON object by property.")
    var values: String?

    @Flag(help: "Delete the object.")
    var delete = false

    @OptionGroup var who: AuthorOptions
    @OptionGroup var seen: SeenOptions
    @OptionGroup var options: NodeOptions

    func validate() throws {
        let ways = [side != nil, policy != nil, values != nil, delete].filter { $0 }.count
        guard ways == 1 else {
            throw ValidationError("Give one of --side, --policy, --values and --delete.")
        }
        guard object == nil || side != nil else {
            throw ValidationError("--object belongs to --side.")
        }
        guard ids.isEmpty != many.isEmpty else {
            throw ValidationError(
                ids.isEmpty
                    ? "Give a conflict, or --where, --entity, --kind or --property."
                    : "IDs stand alone, without --where, --entity, --kind, --property and --dry-run."
            )
        }
        guard ids.count == 1 || (policy != nil && seen.seen == nil) else {
            throw ValidationError(
                "Only with --policy, and without --seen, can several be resolved at once.")
        }
    }

    func run() async throws {
        var body = JSONObject()
        if let side { body["side"] = Int64(side).map { .integer($0) } ?? .string(side) }
        if let object { body["object"] = .string(object) }
        if let policy { body["policy"] = .string(policy) }
        if delete { body["delete"] = .boolean(true) }
        if let values {
            guard let object = (try? JSONParser.parse(Array(values.utf8)))?.object else {
                throw CommandFailure.usage("--values is a JSON object, such as '{\"age\": 5}'.")
            }
            body["values"] = .object(object)
        }
        who.describe(&body)
        let node = try options.open()
        if ids.isEmpty { return try await many.resolve(body, options, node) }
        let recent = RecentConflicts(of: node.name)
        for text in ids {
            let entry = try recent.entry(named: text)
            let id = entry.id
            body["sides"] = seen.sides(listed: entry.sides)
            let path = RequestPath("conflicts", id, "resolution").description
            let answer = try await node.change(path, .object(body))
            try node.show(answer, asJSON: options.json) { answer, terminal in
                let dot = answer["transaction"]?.string.map(JSONRendering.shortDot) ?? "nothing"
                return ["\(id): resolved by \(terminal.style.paint(dot, .green))."]
            }
        }
        await node.close()
    }
}

/// `tributary conflicts undo`.
struct ConflictsUndoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Write what a conflict's outcome replaced.",
        discussion: """
            Undo overwrites the current value. Copy the command from `tributary conflicts show`: \
            its --seen makes the node refuse if somebody wrote meanwhile.
            """)

    @Argument(
        help: "The conflict: its number in the last list, or its ID; a closed one with @GENERATION."
    )
    var id: String

    @OptionGroup var who: AuthorOptions
    @OptionGroup var seen: SeenOptions
    @OptionGroup var options: NodeOptions

    func run() async throws {
        var body = JSONObject()
        who.describe(&body)
        let node = try options.open()
        let id = try RecentConflicts(of: node.name).entry(named: self.id).id
        // What came since a list is no side of it, so that only --seen says what was seen.
        body["sides"] = seen.sides()
        let path = RequestPath("conflicts", id, "undo").description
        let answer = try await node.change(path, .object(body))
        try node.show(answer, asJSON: options.json) { answer, terminal in
            let dot = answer["transaction"]?.string.map(JSONRendering.shortDot) ?? "nothing"
            return ["\(id): undone by \(terminal.style.paint(dot, .green))."]
        }
        await node.close()
    }
}
