import ArgumentParser
import Console
import Coordinator
import Foundation
import Merge
import Node

/// `tributary member`.
struct MemberCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "member",
        abstract: "Look at who is a member of the cluster, and change it.",
        discussion: """
            The members are data like any other: a change is made at one node and reaches all. \
            Changes need an admin token where there are tokens. A node's number is never used a \
            second time.
            """,
        subcommands: [
            MemberListCommand.self, MemberJoinCommand.self, MemberLeaveCommand.self,
            MemberRetireCommand.self,
        ])

    /// The warning if too few have heard of a change in time.
    static func warning(_ answer: JSONObject) -> [String] {
        let missing = (answer["missing"]?.array ?? []).map { JSONRendering.brief($0) }
        guard !missing.isEmpty else { return [] }
        return [
            "No majority has it on disk yet; missing: \(missing.joined(separator: ", ")).",
            "Do not go on before they have: `tributary status` shows who is away.",
        ]
    }

    /// The warning if a newcomer's configuration does not name all members.
    ///
    /// Should all that it does name lose their stores before it has caught up, it takes them for the
    /// whole cluster.
    ///
    /// - Parameter named: the newcomer and its peers.
    static func unnamed(_ answer: JSONObject, named: [NodeID]) -> [String] {
        let named = Set(named.map { Int64($0.rawValue) })
        let missing = (answer["members"]?.array ?? []).compactMap(\.object)
            .filter { ["member", "configured"].contains(JSONRendering.brief($0["state"])) }
            .compactMap { $0["node"]?.integer }.filter { !named.contains($0) }.sorted()
        guard !missing.isEmpty else { return [] }
        let nodes = missing.map(String.init).joined(separator: ", ")
        return [
            "Its configuration does not name \(nodes) among its peers. Better it does before it "
                + "starts: should all that it names lose their stores, it goes on without the others."
        ]
    }

    static func lines(_ answer: JSONObject, _ terminal: Terminal) -> [String] {
        var table = Table(["NODE", "STATE", "CONNECTED", "PUBLISH", "EXCHANGE", "SINCE"])
        for member in (answer["members"]?.array ?? []).compactMap(\.object) {
            let state = JSONRendering.brief(member["state"])
            let isMember = state == "member" || state == "configured"
            table.add([
                Table.Cell(JSONRendering.brief(member["node"])),
                Table.Cell(state, isMember ? .green : .yellow),
                Table.Cell(JSONRendering.brief(member["connected"])),
                Table.Cell(JSONRendering.brief(member["publish"])),
                Table.Cell(JSONRendering.brief(member["exchange"])),
                Table.Cell(
                    JSONRendering.brief(isMember ? member["joined"] : member["departed"])),
            ])
        }
        return table.lines(terminal)
    }
}

/// `tributary member list`.
struct MemberListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Show all nodes that are or were members.",
        discussion: """
            The state is configured before the first change of membership, then member, left or \
            retired.
            """)

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.get("/v1/members")
        try interface.show(answer, asJSON: options.json, MemberCommand.lines)
        await interface.close()
    }
}

/// `tributary member join`.
struct MemberJoinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Make a node a member, asking one that is a member.",
        discussion: """
            Reads the new node's own configuration for its number, the addresses where others \
            reach it, and its public key. Start it afterwards with `tributary serve` and at least \
            one member among its peers; it takes all data from them, and refuses saves from \
            when it hears a member until it has all that one had. For a member, this tells all \
            others of its new addresses or key.
            """)

    @Option(help: "The configuration of the node that joins, YAML.", completion: .file())
    var config: String

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let joining = try NodeConfiguration.read(
            file: config, environment: ProcessInfo.processInfo.environment)
        guard let mesh = joining.mesh else {
            throw ValidationError("\(config) has no mesh, so nobody could reach that node.")
        }
        let keys = try joining.readKeys()
        let interface = try options.open()
        let answer = try await interface.change(
            "/v1/members",
            [
                "cluster": .string(joining.cluster),
                "node": .integer(Int64(joining.node.rawValue)),
                "publish": .string("\(mesh.advertisePublish ?? mesh.publish)"),
                "exchange": .string("\(mesh.advertiseExchange ?? mesh.exchange)"),
                "publicKeys": .array(keys.map { [.string($0.publicKey.text)] } ?? []),
            ])
        try interface.show(answer, asJSON: options.json) { answer, terminal in
            ["Node \(joining.node) is a member."] + MemberCommand.lines(answer, terminal)
                + MemberCommand.warning(answer)
                + MemberCommand.unnamed(
                    answer, named: [joining.node] + mesh.peers.map(\.node))
        }
        await interface.close()
    }
}

/// `tributary member leave`.
struct MemberLeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "End the membership of the node that is asked.",
        discussion: """
            It takes no saves from then on. Let it run until `tributary status` at another node \
            shows that nothing of it is missing there, then stop it for good.
            """)

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let interface = try options.open()
        let status = try await interface.get("/v1/status")
        let node = JSONRendering.brief(status.json.object?["node"])
        let answer = try await interface.change("/v1/members/\(node)/departure", [:])
        try interface.show(answer, asJSON: options.json) { answer, terminal in
            ["Node \(node) leaves the cluster."] + MemberCommand.lines(answer, terminal)
        }
        await interface.close()
    }
}

/// `tributary member retire`.
struct MemberRetireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retire",
        abstract: "End the membership of a node that will not return.",
        discussion: """
            Nobody waits for it any more, and nothing is taken from it, should it return after \
            all. What it has saved and told nobody of stays in its own store only. A node that is \
            heard is refused without --force.
            """)

    @Argument(help: "The number of the node.")
    var number: Int

    @Flag(help: "Retire it although it is there.")
    var force = false

    @OptionGroup var options: NodeOptions

    func validate() throws {
        guard NodeID(number) != nil else {
            throw ValidationError("A node is a number from 1 to \(NodeID.maximum).")
        }
    }

    func run() async throws {
        let interface = try options.open()
        let answer = try await interface.change(
            "/v1/members/\(number)/departure", ["force": .boolean(force)])
        try interface.show(answer, asJSON: options.json) { answer, terminal in
            ["Node \(number) is retired."] + MemberCommand.lines(answer, terminal)
                + MemberCommand.warning(answer)
        }
        await interface.close()
    }
}
