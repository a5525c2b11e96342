import Coordinator
import Foundation
import LinkProxy
import Testing

extension EndToEnd {
    @Suite("With a network that fails in every way")
    struct NetworkFaultTests {}
}

extension EndToEnd.NetworkFaultTests {
    @Test("partitions, of both directions or one, lose nothing")
    func partitions() async throws {
        try await FaultScenario.run("partitions", seed: 31) { cluster, generator in
            for round in 0..<FaultScenario.rounds(6) {
                let (first, second) = cluster.pair(&generator)
                switch round % 3 {
                case 0:
                    await cluster.partition([[first], cluster.all(but: first)])
                case 1:
                    // Nobody hears the first one; it hears all.
                    for other in cluster.all(but: first) {
                        await cluster.set(LinkFault(passage: .lost), from: first, to: other)
                    }
                default:
                    await cluster.set(LinkFault(passage: .stalled), from: first, to: second)
                }
                try await Task.sleep(for: .milliseconds(700))
                await cluster.heal()
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    @Test("connections that are reset again and again lose nothing")
    func resets() async throws {
        try await FaultScenario.run("resets", seed: 32) { cluster, generator in
            for _ in 0..<FaultScenario.rounds(40) {
                let link = cluster.links[Int.random(in: 0..<cluster.links.count, using: &generator)]
                for proxy in link.proxies { await proxy.reset() }
                try await Task.sleep(
                    for: .milliseconds(Int.random(in: 20...120, using: &generator)))
            }
        }
    }

    @Test("links that trickle and are slow lose nothing")
    func trickles() async throws {
        try await FaultScenario.run("trickles", seed: 33) { cluster, generator in
            for round in 0..<FaultScenario.rounds(2) {
                let bytes = Int.random(in: 20...200, using: &generator)
                await cluster.set(
                    LinkFault(
                        delayMilliseconds: 30 * round,
                        trickle: .init(bytes: bytes, everyMilliseconds: 10)))
                try await Task.sleep(for: .seconds(2))
            }
        }
    }

    @Test("flipped bytes are noticed, and nothing wrong is stored")
    func flips() async throws {
        try await FaultScenario.run(
            "flips", seed: 34,
            mend: { cluster in
                try await cluster.waitForFirstHeads()
                let logs = cluster.nodes.compactMap {
                    try? String(contentsOf: $0.errors, encoding: .utf8)
                }
                #expect(
                    logs.contains { $0.contains("ignored for a while") }, "Nobody noticed anything")
                for node in cluster.nodes where try await node.ignoresSomebody() {
                    // A quarantine lasts a minute, or until the node is restarted.
                    #expect(try await node.terminate() == 0)
                    try await node.start()
                }
            },
            { cluster, generator in
                for _ in 0..<FaultScenario.rounds(4) {
                    let (first, second) = cluster.pair(&generator)
                    let every = [150, 1500][Int.random(in: 0...1, using: &generator)]
                    let flips = LinkFault.Flips(every: every, seed: generator.next())
                    await cluster.set(LinkFault(flips: flips), from: first, to: second)
                    try await Task.sleep(for: .milliseconds(700))
                    await cluster.heal()
                }
            })
    }

    @Test("five nodes, with everything at once, lose nothing")
    func fiveNodes() async throws {
        try await FaultScenario.run("five nodes", nodes: 5, seed: 35) { cluster, generator in
            for _ in 0..<FaultScenario.rounds(6) {
                let (first, second) = cluster.pair(&generator)
                switch Int.random(in: 0...5, using: &generator) {
                case 0:
                    await cluster.partition([[first, second], cluster.all(but: first, second)])
                case 1: await cluster.set(LinkFault(passage: .lost), from: first, to: second)
                case 2:
                    await cluster.set(LinkFault(delayMilliseconds: 100), from: first, to: second)
                case 3:
                    for link in cluster.links { for proxy in link.proxies { await proxy.reset() } }
                case 4:
                    cluster.node(first).suspend()
                    try await Task.sleep(for: .milliseconds(300))
                    cluster.node(first).resume()
                default:
                    try await cluster.node(first).kill()
                    try await cluster.node(first).start()
                }
                try await Task.sleep(for: .milliseconds(500))
                await cluster.heal()
            }
        }
    }
}

extension TestCluster {
    /// The numbers of all other nodes.
    fileprivate func all(but numbers: Int...) -> [Int] {
        nodes.map(\.number).filter { !numbers.contains($0) }
    }

    /// Waits until every node has been heard after all links were mended.
    fileprivate func waitForFirstHeads() async throws {
        try await Task.sleep(for: .milliseconds(1500))
    }
}

extension NodeHandle {
    /// Whether it does not listen to a peer because of what that has sent.
    fileprivate func ignoresSomebody() async throws -> Bool {
        let peers = try await status()["peers"]?.array ?? []
        return peers.contains { !($0.object?.text("refusal") ?? "").isEmpty }
    }
}
