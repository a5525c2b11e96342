import ArgumentParser
import Console
import Coordinator
import Node

/// `tributary keys`.
struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Look at a node's keys, and have it read keys, tokens and certificates again.",
        discussion: "`tributary keygen` makes a key pair; docs/OPERATIONS.md has how to rotate.",
        subcommands: [
            KeysListCommand.self, KeysReloadCommand.self, KeysPublicCommand.self,
            KeysTokenCommand.self,
        ])
}

/// `tributary keys list`.
struct KeysListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Show the node's public key, those its peers have proven, and who was refused.")

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.get("/v1/status")
        let keys: JSONObject = [
            "keys": answer.json.object?["keys"] ?? .null,
            "peers": .array((answer.json.object?["peers"]?.array ?? []).map(Self.peer)),
        ]
        if options.json {
            try Terminal.print(bytes: JSONWriter.bytes(of: .object(keys)))
        } else {
            for line in Self.lines(keys, .output) { try Terminal.print(line) }
        }
        await interface.close()
    }

    private static func peer(_ value: JSONValue) -> JSONValue {
        var result = JSONObject()
        for name in ["node", "connected", "handshake", "publicKey", "refusal"] {
            result[name] = value.object?[name] ?? .null
        }
        return .object(result)
    }

    private static func lines(_ answer: JSONObject, _ terminal: Terminal) -> [String] {
        guard let keys = answer["keys"]?.object else { return ["This mesh has no keys."] }
        var lines = ["This node's public key is \(JSONRendering.brief(keys["publicKey"]))"]
        if keys["listening"]?.boolean == false {
            lines.append("Its endpoints are not bound at the moment.")
        }
        var peers = Table(["PEER", "HANDSHAKE", "PROVEN KEY", "REFUSAL"])
        for peer in (answer["peers"]?.array ?? []).compactMap(\.object) {
            let hasSucceeded = peer["handshake"]?.string == "succeeded"
            peers.add([
                Table.Cell(JSONRendering.brief(peer["node"])),
                Table.Cell(
                    JSONRendering.brief(peer["handshake"]), hasSucceeded ? .green : .yellow),
                Table.Cell(JSONRendering.brief(peer["publicKey"])),
                Table.Cell(JSONRendering.brief(peer["refusal"])),
            ])
        }
        if !peers.rows.isEmpty { lines += [""] + peers.lines(terminal) }
        var refused = Table(["REFUSED", "KEY", "KEY OF", "CLAIMS TO BE", "FROM", "TIMES"])
        for entry in (keys["refused"]?.array ?? []).compactMap(\.object) {
            refused.add(
                ["reason", "publicKey", "node", "claimed", "address", "count"].map {
                    Table.Cell(JSONRendering.brief(entry[$0]))
                })
        }
        if !refused.rows.isEmpty { lines += [""] + refused.lines(terminal) }
        return lines
    }
}

/// `tributary keys reload`.
struct KeysReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Have the node read keys, tokens and certificates of its configuration again.",
        discussion: """
            Needs an admin token where there are tokens. A key that is not listed any more is cut \
            off within five seconds. A file that is wrong changes nothing. SIGHUP does \
            the same, and tells in the node's log.
            """)

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.change("/v1/reload", nil)
        try interface.show(answer, asJSON: options.json) { answer, _ in
            let changed = (answer["changed"]?.array ?? []).compactMap(\.string)
            let waiting = (answer["atNextStart"]?.array ?? []).compactMap(\.string)
            return
                (changed.isEmpty ? ["Nothing has changed."] : changed.map { "Changed: \($0)" })
                + waiting.map { "At the next start: \($0)" }
        }
        await interface.close()
    }
}

/// `tributary keys public`.
struct KeysPublicCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "public", abstract: "Print the public key of a secret key's file.")

    @Argument(help: "The file with the secret, mode 0600.", completion: .file())
    var secretFile: String

    func run() async throws {
        try Terminal.print(try CurveKeys.read(secretFile: secretFile).publicKey.text)
    }
}

/// `tributary keys token`.
struct KeysTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Write a new random token for the HTTP interface to a file with the mode 0600.",
        discussion: "The file goes into http.tokens with a scope: read, write or admin.")

    @Argument(help: "The file for the token; it must not exist.", completion: .file())
    var file: String

    func run() async throws {
        try HTTPToken.writeNew(to: file)
        try Terminal.print("A new token is in \(file).")
    }
}
