import ArgumentParser
import Console
import Coordinator

/// `tributary consumers`.
struct ConsumersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "consumers",
        abstract: "Look at who reads a node's history, and say how far.",
        discussion: """
            A node keeps history for those who are registered by name, up to the limit of \
            history.maximumBytes. A consumer belongs to one node: register it at each node that it \
            may read from.
            """,
        subcommands: [
            ConsumersListCommand.self, ConsumersSetCommand.self, ConsumersRemoveCommand.self,
        ])

    static func lines(_ consumers: [JSONObject], _ terminal: Terminal) -> [String] {
        var table = Table([
            "CONSUMER", "STATE", Table.Column("BEHIND", isNumeric: true), "OLDEST UNREAD", "TOLD",
        ])
        for consumer in consumers {
            let isExpired = consumer["expired"]?.boolean ?? false
            let behind = consumer["behind"]?.object
            let transactions = behind?["transactions"]?.integer ?? 0
            table.add([
                Table.Cell(consumer["name"]?.string ?? "", .cyan),
                isExpired
                    ? Table.Cell("expired", .red)
                    : transactions == 0 ? Table.Cell("up to date", .green) : Table.Cell("behind"),
                Table.Cell(String(transactions)),
                Table.Cell(JSONRendering.age(behind?["ageMilliseconds"])),
                Table.Cell(JSONRendering.age(consumer["toldMillisecondsAgo"])),
            ])
        }
        return consumers.isEmpty ? ["Nobody is registered."] : table.lines(terminal)
    }
}

/// `tributary consumers list`.
struct ConsumersListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Show all consumers and how far they are behind.")

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.get("/v1/consumers")
        try interface.show(answer, asJSON: options.json) { answer, terminal in
            ConsumersCommand.lines(
                (answer["consumers"]?.array ?? []).compactMap(\.object), terminal)
        }
        await interface.close()
    }
}

/// `tributary consumers set`.
struct ConsumersSetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Register a consumer, or say how far it has read.",
        discussion: "Without a token it has read all that the node has now.")

    @Argument(help: "Its name: 1 to 64 of a-z, A-Z, 0-9, -, _, . and :")
    var name: String

    @Option(help: "How far it has read, as `tributary history` and the change feed tell.")
    var token: String?

    @OptionGroup var options: NodeOptions

    func validate() throws { try ConsumersRemoveCommand.check(name) }

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.change(
            "PUT", "/v1/consumers/\(name)",
            .object(token.map { ["token": .string($0)] } ?? JSONObject()))
        try interface.show(answer, asJSON: options.json) { ConsumersCommand.lines([$0], $1) }
        await interface.close()
    }
}

/// `tributary consumers remove`.
struct ConsumersRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Keep nothing for a consumer any more.")

    @Argument(help: "Its name.")
    var name: String

    @OptionGroup var options: NodeOptions

    static func check(_ name: String) throws {
        guard HistoryConsumer.isName(name) else {
            throw ValidationError("A consumer's name is 1 to 64 of a-z, A-Z, 0-9, -, _, . and :")
        }
    }

    func validate() throws { try Self.check(name) }

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.change("DELETE", "/v1/consumers/\(name)", nil)
        try interface.show(answer, asJSON: options.json) { _, _ in
            ["Nothing is kept for \(name) any more."]
        }
        await interface.close()
    }
}
