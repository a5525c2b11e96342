import ArgumentParser
import Client
import Coordinator
import Node

/// How soon nodes agree that saved on their own while the links between them had failed.
///
/// They run throughout, as processes of their own, new ones for each partition. They are like those
/// of a cluster that has run for a while: all stores are vouched for before the links fail. And
/// they are left alone until they have done whatever they do about silent peers.
struct HealCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "heal",
        abstract: "Time from a partition's end until three nodes agree.",
        discussion: """
            Three nodes save 10,000 times each while every link between them is gone; then the \
            links are mended. Each of --rounds (3 by default) has new stores and nodes, as has \
            each way in which links fail.
            """)

    @OptionGroup var common: CommonOptions

    @Option(help: "How many saves each node makes.")
    var saves = 10_000

    @Option(help: "How many of a hundred change what the others change too.")
    var conflicting = 10

    @Option(help: "How the links fail: dropped, held or cut; without, each in its turn.")
    var partition: MeshLinks.Partition?

    /// How many connections save at each node: about as many in all as where the most is saved, see
    /// ``HTTPCommand``.
    private static let connections = 10

    /// How long a partition lasts at least. A node gives up a handshake after 3 s, and after 5 s a
    /// peer that it does not hear, sockets that reach nobody, and connections that take no bytes.
    private static let leastSeconds = 10.0

    /// How many objects all nodes change.
    private var shared: Int { saves * conflicting / 100 }

    func validate() throws {
        guard saves > 0, (0...100).contains(conflicting) else {
            throw ValidationError("--saves is at least 1, --conflicting is 0 to 100.")
        }
    }

    func tables() async throws -> [MarkdownTable] { [try await measure()] }

    /// The figures of one partition.
    private struct Outcome {
        /// From the mending of the links until all nodes agreed.
        var seconds: Double
        /// The saves of all nodes together in a second while they were apart.
        var rate: Double
        /// The time that a bare loop took for as many saves as each node gets afterwards.
        var bare: Double
    }

    func measure() async throws -> MarkdownTable {
        let partitions = partition.map { [$0] } ?? MeshLinks.Partition.allCases
        var outcomes = [[Outcome]](repeating: [], count: partitions.count)
        for _ in 0..<common.rounds {
            for (index, partition) in partitions.enumerated() {
                outcomes[index].append(
                    try await Workspace.with(common.directory, "heal") { workspace in
                        try await once(workspace, partition)
                    })
            }
        }
        var table = MarkdownTable(
            "Three nodes that each saved \(Figures.text(Double(saves), 0)) times while apart, "
                + "\(conflicting) % of it on the same objects",
            columns: ["median of \(common.rounds)"] + partitions.map(\.title))
        func row(_ name: String, _ places: Int, _ figure: ([Outcome]) -> Double) {
            table.rows.append([name] + outcomes.map { Figures.text(figure($0), places) })
        }
        row("seconds from the heal until all have all and show the same", 2) {
            Figures.median($0.map(\.seconds))
        }
        row("the same, the longest of all rounds", 2) { $0.map(\.seconds).max() ?? 0 }
        row("saves that each node gets in a second of it", 0) {
            Figures.median($0.map { Double(2 * saves) / $0.seconds })
        }
        row("seconds in which a bare loop makes as many, a thousand a commit", 3) {
            Figures.median($0.map(\.bare))
        }
        row("the nodes, times that", 1) { Figures.median($0.map { $0.seconds / $0.bare }) }
        row("saves in a second while apart, at all nodes together", 0) {
            Figures.median($0.map(\.rate))
        }
        table.notes = [
            "The nodes run throughout; what they send each other goes through proxies of this "
                + "process. Each save is a request of its own through HTTP, by "
                + "\(Self.connections) connections a node, and the links are gone for "
                + "\(Figures.text(Self.leastSeconds, 0)) s at least. Open conflicts afterwards, on "
                + "each node: \(shared)."
        ]
        table.goals = zip(partitions, outcomes).map { partition, outcomes in
            Goal(
                "until all are equal, \(partition.title)", .atMost(5),
                Figures.median(outcomes.map(\.seconds)), unit: " s")
        }
        return table
    }

    private func bareSeconds(_ workspace: Workspace) throws -> Double {
        let loop = try BareLoop(path: workspace.file("bare.sqlite"))
        let items = (0..<1000).map(SampleData.Item.init)
        return try Clocks.measure {
            for _ in 0..<max(1, saves * 2 / 1000) { try loop.save(items) }
        }.wall
    }

    private func once(
        _ workspace: Workspace, _ partition: MeshLinks.Partition
    ) async throws -> Outcome {
        let bare = try bareSeconds(workspace)
        return try await MeshLinks.with { links in
            try await ServedNode.with(3, in: workspace, links: links) { nodes in
                let uris = try await insertShared(at: nodes[0])
                let before = try await wait(for: nodes, until: "all are alike and vouched for") {
                    Self.areEqual($0) && $0.allSatisfy(Self.vouchesForOthers)
                }
                let known = Self.transactions(before[0])

                await links.fail(partition)
                let begin = Clocks.seconds()
                try await save(at: nodes, over: Array(uris.prefix(shared)))
                let rate = Double(nodes.count * saves) / (Clocks.seconds() - begin)
                let apart = try await wait(for: nodes, until: "nobody hears another") {
                    Clocks.seconds() >= begin + Self.leastSeconds
                        && !$0.contains(where: Self.hearsSomebody)
                }
                guard apart.allSatisfy({ Self.transactions($0) == known + Int64(saves) }) else {
                    throw BenchmarkError("The nodes were not apart: one has saves of another.")
                }

                let start = Clocks.seconds()
                await links.heal()
                let all = known + Int64(nodes.count * saves)
                let after = try await wait(for: nodes, until: "all have all and show the same") {
                    Self.areEqual($0) && Self.transactions($0[0]) == all
                }
                let seconds = Clocks.seconds() - start

                for node in nodes { try await node.verify() }
                guard after.allSatisfy({ Self.conflicts($0) == Int64(shared) }) else {
                    throw BenchmarkError(
                        "There are \(after.map(Self.conflicts)) open conflicts, not \(shared).")
                }
                return Outcome(seconds: seconds, rate: rate, bare: bare)
            }
        }
    }

    // MARK: - Saving

    /// Inserts the objects that all nodes will change, one at least, so that none is new to the
    /// others; gives their URIs.
    private func insertShared(at node: ServedNode) async throws -> [String] {
        let saver = try HTTPSaver(url: node.url)
        let names = (0..<max(shared, 1)).map { "@\($0)" }
        let answer = try await saver.save(
            names.enumerated().map { HTTPSaver.insertion(SampleData.Item($0), named: $1) })
        await saver.client.close()
        let ids = try JSONParser.parse(answer).object?["ids"]?.object
        return try names.map { name in
            guard let uri = ids?[name]?.string else {
                throw BenchmarkError("A save's answer does not tell the URI of \(name).")
            }
            return uri
        }
    }

    /// Has all nodes save at once: first over the objects that they share, then new ones.
    private func save(at nodes: [ServedNode], over uris: [String]) async throws {
        let saves = saves
        let connections = Self.connections
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes {
                let side = node.number
                for connection in 0..<connections {
                    let saver = try HTTPSaver(url: node.url)
                    group.addTask {
                        for number in stride(from: connection, to: saves, by: connections) {
                            let operation =
                                number < uris.count
                                ? HTTPSaver.noting("side \(side)", in: uris[number])
                                : HTTPSaver.insertion(SampleData.Item(number))
                            _ = try await saver.save([operation])
                        }
                        await saver.client.close()
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    // MARK: - What nodes say of themselves

    /// Asks all nodes until what they say of themselves is as it is waited for; gives that.
    private func wait(
        for nodes: [ServedNode], until what: String, _ isSo: ([JSONObject]) -> Bool
    ) async throws -> [JSONObject] {
        let deadline = Clocks.seconds() + 300
        while true {
            var statuses: [JSONObject] = []
            for node in nodes { statuses.append(try await node.status()) }
            if isSo(statuses) { return statuses }
            guard Clocks.seconds() < deadline else {
                throw BenchmarkError("It is not so after five minutes that \(what).")
            }
            // Rarely enough that the nodes, which share the processors with it, are not kept busy.
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Whether all have the same, and show the same. A digest that a node does not tell equals
    /// none.
    private static func areEqual(_ statuses: [JSONObject]) -> Bool {
        statuses.allSatisfy {
            $0["digest"]?.string != nil && $0["digest"] == statuses[0]["digest"]
                && $0["vector"] == statuses[0]["vector"]
        }
    }

    /// How many transactions a node has.
    private static func transactions(_ status: JSONObject) -> Int64 {
        (status["vector"]?.object?.members ?? []).reduce(0) { $0 + ($1.value.integer ?? 0) }
    }

    private static func conflicts(_ status: JSONObject) -> Int64 {
        status["conflicts"]?.object?["settled"]?.object?["update"]?.integer ?? 0
    }

    /// Whether a node has nothing against any other's reports, such as a store that is not yet
    /// vouched for.
    private static func vouchesForOthers(_ status: JSONObject) -> Bool {
        let members = status["stability"]?.object?["members"]?.array ?? []
        return !members.isEmpty && members.allSatisfy { $0.object?["hindrance"] == .null }
    }

    private static func hearsSomebody(_ status: JSONObject) -> Bool {
        (status["peers"]?.array ?? []).contains { $0.object?["connected"]?.boolean ?? true }
    }
}
