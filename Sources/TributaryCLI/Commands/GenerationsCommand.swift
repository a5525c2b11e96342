import ArgumentParser
import Coordinator

/// `tributary generations`.
struct GenerationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generations",
        abstract: "Pin a generation to read from it for a while, and release it.",
        subcommands: [Pin.self, Release.self, List.self])

    /// `tributary generations pin`.
    struct Pin: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "pin",
            abstract: "Pin the current generation, and print its token.")

        @Option(help: "Wait until this token's changes are there.")
        var after: String?

        @Option(help: "Seconds until it is released by itself, unless it is used.")
        var lease: Int?

        @OptionGroup var options: NodeOptions

        func run() async throws {
            var body = JSONObject()
            if let after { body["after"] = .string(after) }
            if let lease { body["leaseSeconds"] = .integer(Int64(lease)) }
            let node = try options.open()
            let answer = try await node.change("/v1/generations", .object(body))
            try node.show(answer, asJSON: options.json) { answer, _ in
                [answer["token"]?.string ?? ""]
            }
            await node.close()
        }
    }

    /// `tributary generations release`.
    struct Release: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "release", abstract: "Release a pinned generation.")

        @Argument(help: "The token that pinning gave.")
        var token: String

        @OptionGroup var options: NodeOptions

        func run() async throws {
            let node = try options.open()
            let path = RequestPath("generations", token).description
            let answer = try await node.change("DELETE", path, nil)
            try node.show(answer, asJSON: options.json) { _, _ in ["Released."] }
            await node.close()
        }
    }

    /// `tributary generations list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Show how many generations are pinned, and how old the oldest is.")

        @OptionGroup var options: NodeOptions

        func run() async throws {
            let node = try options.open()
            let status = try await node.get("/v1/status")
            let pins = status.json.object?["pins"] ?? .null
            try node.show(InterfaceAnswer(pins), asJSON: options.json) { pins, _ in
                pins.members.map { "\($0.key)\t\(JSONRendering.brief($0.value))" }
            }
            await node.close()
        }
    }
}
