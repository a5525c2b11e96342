import ArgumentParser
import Coordinator

/// `tributary conflicts resolve`.
struct ConflictsResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolve a conflict by a save that follows all its sides.",
        discussion: """
            The sides seen are sent along, so that nobody resolves what they have not seen: it \
            ends with 3 where there are others by now.
            """)

    @Argument(help: "The conflicts; with --policy there may be several.")
    var ids: [String]

    @Option(help: "Take the side that this transaction wrote.")
    var side: String?

    @Option(help: "Take what this merge policy would choose.")
    var policy: String?

    @Option(help: "Write these values: a JSON object by property.")
    var values: String?

    @Flag(help: "Delete the object.")
    var delete = false

    @Option(help: "The sides as seen, separated by commas; by default they are looked up now.")
    var seen: String?

    @OptionGroup var options: NodeOptions

    func validate() throws {
        let ways = [side != nil, policy != nil, values != nil, delete].filter { $0 }.count
        guard ways == 1 else {
            throw ValidationError("Give one of --side, --policy, --values and --delete.")
        }
        guard ids.count == 1 || (policy != nil && seen == nil) else {
            throw ValidationError("Only with --policy can several be resolved at once.")
        }
    }

    func run() async throws {
        var body = JSONObject()
        if let side { body["side"] = .string(side) }
        if let policy { body["policy"] = .string(policy) }
        if delete { body["delete"] = .boolean(true) }
        if let values {
            guard let object = (try? JSONParser.parse(Array(values.utf8)))?.object else {
                throw CommandFailure.usage("--values is a JSON object, such as '{\"age\": 5}'.")
            }
            body["values"] = .object(object)
        }
        let node = try options.open()
        for id in ids {
            body["sides"] = try await sides(of: id, node)
            let path = RequestPath("conflicts", id, "resolution").description
            let answer = try await node.post(path, .object(body))
            node.show(answer, asJSON: options.json) { answer, terminal in
                let dot = answer["transaction"]?.string ?? "nothing"
                return ["\(id): resolved by \(terminal.style.paint(dot, .green))."]
            }
        }
        await node.close()
    }

    private func sides(of id: String, _ node: NodeInterface) async throws -> JSONValue {
        if let seen { return .array(seen.split(separator: ",").map { .string(String($0)) }) }
        let conflict = try await node.get(RequestPath("conflicts", id).description)
        let sides = conflict.json.object?["sides"]?.array ?? []
        return .array(sides.compactMap { $0.object?["dot"] }.filter { $0 != .null })
    }
}

/// `tributary conflicts undo`.
struct ConflictsUndoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo", abstract: "Write what a conflict's outcome replaced.")

    @Argument(help: "The conflict; a closed one with @GENERATION.")
    var id: String

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let node = try options.open()
        let path = RequestPath("conflicts", id, "undo").description
        let answer = try await node.post(path, .object(JSONObject()))
        node.show(answer, asJSON: options.json) { answer, terminal in
            let dot = answer["transaction"]?.string ?? "nothing"
            return ["\(id): undone by \(terminal.style.paint(dot, .green))."]
        }
        await node.close()
    }
}
