import Coordinator
import Foundation
import LinkProxy
import TestSupport
import Testing

@testable import Node

extension EndToEnd {
    @Suite("A peer that is stopped, slow, or floods")
    struct SlowPeerTests {}
}

extension EndToEnd.SlowPeerTests {
    /// How much more memory a node may hold because of such a peer, in bytes.
    static let allowance = 64 << 20
    /// How long each goes on.
    private static let time = Duration.seconds(9)

    /// Saves that are published whole, as long as these may be: what costs most for each.
    private func load(on node: NodeHandle, prefix: String) throws -> Load {
        let text = JSONValue.string(String(repeating: "x", count: 240 << 10))
        return try Load(on: node, prefix: prefix, clients: 3) { saveID, _ in
            [.insert("Latest", ["name": .string(saveID), "a": text])]
        }
    }

    /// Saves on node 1 while something is wrong with node 3, and expects that node 1 holds little
    /// more memory than by itself, and that it and node 2 go on.
    private func expectLittle(
        _ what: String, in cluster: TestCluster, _ wrong: () async throws -> Void,
        enough: () -> Bool = { true }, end: () async throws -> Void
    ) async throws {
        let (one, two) = (cluster.node(1), cluster.node(2))
        let loads = [
            try load(on: one, prefix: "\(what)1"),
            try Load(on: two, prefix: "\(what)2", clients: 1),
        ]
        // What saving costs by itself is there before anything is wrong.
        for load in loads { try await load.waitForAcknowledged(60) }
        try await Task.sleep(for: .seconds(2))
        let before = try one.beginPeak()
        try await wrong()
        let saved = loads.map(\.outcome.acknowledged.count)
        try await Task.sleep(for: Self.time)
        // A busy machine takes longer.
        try await eventually("\(what) went on for long enough") {
            enough() && zip(loads, saved).allSatisfy { $0.outcome.acknowledged.count > $1 + 40 }
        }
        let peak = try one.peak()
        for (load, before) in zip(loads, saved) {
            // By far fewer than a machine of this century saves in the time.
            #expect(load.outcome.acknowledged.count > before + 40)
            await load.stopWhole(within: .seconds(5))
        }
        print(
            "\(what): node 1 held \(megabytes(before)) and at the most \(megabytes(peak)); "
                + "\(loads.map { $0.outcome.acknowledged.count }) saves")
        #expect(peak - before <= Self.allowance, "\(megabytes(before)) became \(megabytes(peak))")
        try await cluster.waitForConvergence(among: [1, 2])
        try await end()
    }

    @Test("A stopped peer costs at most 64 MiB while others are served, and catches up")
    func stopped() async throws {
        try await TestCluster.with { cluster in
            try await expectLittle("stopped", in: cluster) {
                cluster.node(3).suspend()
            } end: {
                cluster.node(3).resume()
                try await cluster.waitForConvergence()
            }
            try await expectVerified(cluster)
        }
    }

    @Test("A peer behind a link that trickles costs at most 64 MiB while others are served")
    func trickling() async throws {
        try await TestCluster.with { cluster in
            let proxies = cluster.links.filter { $0.from == 3 || $0.to == 3 }.flatMap(\.proxies)
            try await expectLittle("trickling", in: cluster) {
                for proxy in proxies {
                    await proxy.set(LinkFault(trickle: .init(bytes: 4096, everyMilliseconds: 50)))
                }
            } end: {
                await cluster.heal()
                try await cluster.waitForConvergence()
            }
            try await expectVerified(cluster)
        }
    }

    @Test("A peer that floods on every way and reads nothing costs at most 64 MiB")
    func flooding() async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            for number in [1, 2] { try await cluster.node(number).start() }
            let (server, keys) = (try ring.keys(of: 1).publicKey, try ring.keys(of: 3))
            // As long as a frame may be, and as long as a frame of a publisher ever is.
            let lengths = [(4 << 20) + (400 << 10), (2 << 20) - 1000, 256 << 10, 1000]
            var flood: FloodingPeer?
            try await expectLittle("flooding", in: cluster) {
                flood = FloodingPeer(
                    cluster.node(1), inPlaceOf: cluster.node(3), keys: keys, server: server,
                    frames: lengths.map { [UInt8](repeating: 0x66, count: $0) })
            } enough: {
                guard let counts = flood?.counts else { return false }
                return counts.asked > 64 << 20 && counts.answered > 32 << 20 && counts.pulls > 50
            } end: {
            }
            let counts = try #require(try await flood?.stop())
            print("flooding: \(counts)")
            #expect(counts.failure == nil)
            #expect(counts.asked > 64 << 20 && counts.answered > 32 << 20, "No flood: \(counts)")
            #expect(counts.pulls > 50)
        }
    }
}
