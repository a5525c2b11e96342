import Client
import Coordinator
import Foundation
import LinkProxy
import Node
import Synchronization
import TestSupport

/// Real nodes as processes, every directed link of their mesh through proxies that can be cut.
final class TestCluster: Sendable {
    /// The way from one node to another: what it subscribes to there, and what it asks there.
    struct Link: Sendable {
        let from: Int
        let to: Int
        let proxies: [LinkProxy]
    }

    let folder: URL
    let nodes: [NodeHandle]
    let links: [Link]

    /// Starts a cluster, hands it to the test, and ends all of it, whatever happens.
    ///
    /// - Parameters:
    ///   - size: how many nodes are configured.
    ///   - starting: which of them are started; nil for all.
    ///   - model: the model as JSON.
    ///   - storeFolders: where the stores are of nodes that have them somewhere else.
    ///   - founders: how many of them are members by configuration, nil for all; the others know
    ///     the first alone, and nobody knows them.
    static func with<Result>(
        nodes size: Int = 3, founders: Int? = nil, starting: [Int]? = nil,
        model: String = TestModel.json, storeFolders: [Int: URL] = [:],
        _ body: (TestCluster) async throws -> Result
    ) async throws -> Result {
        let cluster = try await TestCluster(
            size: size, founders: founders ?? size, model: model, storeFolders: storeFolders)
        do {
            for number in starting ?? Array(1...size) { try await cluster.node(number).start() }
            let result = try await body(cluster)
            await cluster.end()
            return result
        } catch {
            let logs = cluster.nodes.map {
                "node \($0.number): \($0.process?.lastErrors.suffix(1500) ?? "never started")"
            }
            await cluster.end()
            throw EndToEndError("\(error)\n\(logs.joined(separator: "\n"))")
        }
    }

    private init(size: Int, founders: Int, model: String, storeFolders: [Int: URL]) async throws {
        folder = try URL.makeTemporaryFolder()
        try Data(model.utf8).write(to: folder.appendingPathComponent("model.json"))
        var nodes: [NodeHandle] = []
        for number in 1...size {
            nodes.append(
                try NodeHandle(
                    number: number, folder: folder, ports: try Loopback.freePorts(3),
                    storeFolder: storeFolders[number]))
        }
        var links: [Link] = []
        for node in nodes {
            for peer in nodes where peer.number != node.number {
                links.append(
                    Link(
                        from: node.number, to: peer.number,
                        proxies: [
                            try await LinkProxy(targetPort: peer.publishPort),
                            try await LinkProxy(targetPort: peer.exchangePort),
                        ]))
            }
        }
        self.nodes = nodes
        self.links = links
        for node in nodes {
            try configuration(of: node, founders: founders).write(to: node.configuration)
        }
    }

    private func configuration(of node: NodeHandle, founders: Int) -> Data {
        let peers = links.filter { link in
            link.from == node.number
                && (link.to == 1 || (link.to <= founders && node.number <= founders))
        }
        return Data(
            NodeHandle.settings(
                number: node.number, store: node.store.path, ports: node.ports,
                peers: peers.map { ($0.to, $0.proxies[0].port, $0.proxies[1].port) }
            ).utf8)
    }

    private func end() async {
        for node in nodes { await node.end() }
        for link in links { for proxy in link.proxies { await proxy.shutdown() } }
        if ProcessInfo.processInfo.environment["TRIBUTARY_KEEP"] == nil {
            try? FileManager.default.removeItem(at: folder)
        }
    }

    /// A node by its number, from 1.
    func node(_ number: Int) -> NodeHandle { nodes[number - 1] }

    // MARK: - Partitions

    /// Cuts every link between nodes that are not in one group.
    func partition(_ groups: [[Int]]) async {
        for proxy in proxies(across: groups) { await proxy.cut() }
    }

    /// Lets no byte pass between nodes that are not in one group, without closing a connection.
    func stall(_ groups: [[Int]]) async {
        for proxy in proxies(across: groups) { await proxy.stall() }
    }

    private func proxies(across groups: [[Int]]) -> [LinkProxy] {
        let across = links.filter { link in
            !groups.contains { $0.contains(link.from) && $0.contains(link.to) }
        }
        return across.flatMap(\.proxies)
    }

    /// Mends every link.
    func heal() async {
        for link in links { for proxy in link.proxies { await proxy.heal() } }
    }

    // MARK: - Agreement

    /// Waits until nodes have applied the same, and show the same.
    ///
    /// - Parameter among: the numbers of the nodes; nil for all.
    func waitForConvergence(
        among numbers: [Int]? = nil, timeout: Duration = .seconds(60)
    ) async throws {
        let nodes = numbers.map { $0.map(node) } ?? self.nodes
        let last = Mutex<[String]>([])
        try await eventually(
            "the nodes agreed:\n" + last.withLock { $0.joined(separator: "\n") }, within: timeout,
            every: .milliseconds(100)
        ) {
            var positions: [Position] = []
            for node in nodes {
                do {
                    positions.append(try await node.position())
                } catch let error as ClientError where error.isNoAnswer {
                    // It opens its store again, or has ended, which is found when the time is over.
                    return false
                }
            }
            last.withLock { $0 = positions.map(\.description) }
            return Set(positions).count == 1
        }
    }

    /// Everything by which nodes that agree can be compared, as text: all objects of entities, and
    /// the conflicts nobody has resolved.
    func contents(
        of node: NodeHandle, entities: [String] = TestModel.entities + TestModel.keyed
    ) async throws -> [String] {
        var lines: [String] = []
        for entity in entities {
            for object in try await node.objects(entity) {
                lines.append(JSONWriter.text(of: .object(object)))
            }
        }
        for conflict in try await node.unresolvedConflicts() {
            let sides = JSONWriter.text(of: conflict["sides"] ?? .null)
            lines.append("\(conflict.text("id")) \(conflict.text("kind")) \(sides)")
        }
        return lines
    }
}
