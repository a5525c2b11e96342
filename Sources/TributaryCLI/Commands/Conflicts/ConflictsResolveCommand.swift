import ArgumentParser
import Console
import Coordinator

/// The sides that a person has looked at before they decide.
struct SeenOptions: ParsableArguments {
    @Option(
        help: """
            The transactions whose sides were seen, separated by commas, as `tributary conflicts \
            show` prints them: where there are others by now, nothing is done, and it ends with 3.
            """)
    var seen: String?

    /// The request's member `sides`; nil where nobody says what they have seen.
    var sides: JSONValue? {
        seen.map { text in
            let dots = text.split { $0 == "," || $0 == " " }
            return JSONValue.array(dots.map { JSONValue.string(String($0)) })
        }
    }
}

/// The person who decides.
struct AuthorOptions: ParsableArguments {
    @Option(help: "Who decides, as history and `tributary conflicts show` tell it.")
    var author: String?
}

/// `tributary conflicts resolve`.
struct ConflictsResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolve a conflict by a save that follows all its sides.",
        discussion: """
            The save follows all sides that the node has at that moment. Copy the command from \
            `tributary conflicts show`: its --seen makes the node refuse if another side came \
            meanwhile. Without --seen the save also overwrites sides that you have not seen.
            """)

    @Argument(help: "The conflicts; with --policy there may be several.")
    var ids: [String]

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
        guard ids.count == 1 || (policy != nil && seen.sides == nil) else {
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
        if let sides = seen.sides { body["sides"] = sides }
        if let author = who.author { body["author"] = .string(author) }
        let node = try options.open()
        for id in ids {
            let path = RequestPath("conflicts", id, "resolution").description
            let answer = try await node.change(path, .object(body))
            try node.show(answer, asJSON: options.json) { answer, terminal in
                let dot = answer["transaction"]?.string ?? "nothing"
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

    @Argument(help: "The conflict; a closed one with @GENERATION.")
    var id: String

    @OptionGroup var who: AuthorOptions
    @OptionGroup var seen: SeenOptions
    @OptionGroup var options: NodeOptions

    func run() async throws {
        var body = JSONObject()
        if let sides = seen.sides { body["sides"] = sides }
        if let author = who.author { body["author"] = .string(author) }
        let node = try options.open()
        let path = RequestPath("conflicts", id, "undo").description
        let answer = try await node.change(path, .object(body))
        try node.show(answer, asJSON: options.json) { answer, terminal in
            let dot = answer["transaction"]?.string ?? "nothing"
            return ["\(id): undone by \(terminal.style.paint(dot, .green))."]
        }
        await node.close()
    }
}
