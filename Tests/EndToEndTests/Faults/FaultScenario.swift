import Coordinator
import Foundation
import LinkProxy
import TestSupport
import Testing

/// Something that happens to a cluster while writers write.
struct FaultScenario {
    /// Whether the long variants are wanted: TRIBUTARY_SOAK=1.
    static let isSoak = ProcessInfo.processInfo.environment["TRIBUTARY_SOAK"] == "1"

    /// Rounds of a scenario, more of them in a soak.
    static func rounds(_ count: Int) -> Int { isSoak ? count * 10 : count }

    /// Lets writers write on all nodes, and a reader read, while something happens; then mends
    /// everything and checks the invariants.
    ///
    /// - Parameters:
    ///   - size: how many nodes.
    ///   - seed: decides what is saved and what happens.
    ///   - mend: what must be done beside healing all links.
    ///   - body: what happens.
    static func run(
        _ name: String, nodes size: Int = 3, seed: UInt64,
        mend: (TestCluster) async throws -> Void = { _ in },
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: (TestCluster, inout SeededGenerator) async throws -> Void
    ) async throws {
        try await TestCluster.with(nodes: size) { cluster in
            let shared = try await SharedRows.insert(in: cluster)
            var generator = SeededGenerator(seed: seed)
            let (outcome, heard) = try await cluster.mixedLoad(
                shared, seed: seed, heal: cluster.heal, sourceLocation: sourceLocation
            ) { load, reader in
                try await body(cluster, &generator)
                try await eventually("enough was saved and read") {
                    load.outcome.acknowledged.count > 20 * size && reader.hasReadEnough
                }
            }
            try await mend(cluster)
            #expect(outcome.acknowledged.count > 20 * size, sourceLocation: sourceLocation)
            // What a fault has delayed may have to wait for timers that had grown.
            let summary = try await ClusterInvariants.expect(
                cluster, outcome.acknowledged, heard: heard, timeout: .seconds(90),
                sourceLocation: sourceLocation)
            MachineAbilities.report("\(name): \(summary)")
        }
    }
}

extension TestCluster {
    /// Lets writers write, and a reader read on all nodes, while something happens.
    ///
    /// - Parameters:
    ///   - nodes: where is written; nil for on all.
    ///   - heal: what is done between the last save and the last reading.
    ///   - body: what happens.
    /// - Returns: what became of the saves, and what was read.
    func mixedLoad(
        on nodes: [NodeHandle]? = nil, _ shared: SharedRows, seed: UInt64,
        heal: () async -> Void = {}, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: (MixedLoad, MixedReader) async throws -> Void
    ) async throws -> (MixedLoad.Outcome, MixedReader.Outcome) {
        let load = try MixedLoad(on: nodes ?? self.nodes, shared, seed: seed)
        let reader = try MixedReader(on: self.nodes, seed: seed)
        let result: Result<Void, any Error>
        do { result = .success(try await body(load, reader)) } catch { result = .failure(error) }
        let outcome = await load.stop()
        await heal()
        let heard = await reader.stop()
        try result.get()
        #expect(outcome.surprises == [], sourceLocation: sourceLocation)
        return (outcome, heard)
    }

    /// Sets what happens to all bytes on their way from one node to another, over the connections
    /// that either has made.
    func set(_ fault: LinkFault, from sender: Int, to receiver: Int) async {
        for link in links {
            let direction: LinkDirection
            switch (link.from, link.to) {
            case (sender, receiver): direction = .towardsTarget
            case (receiver, sender): direction = .fromTarget
            default: continue
            }
            for proxy in link.proxies { await proxy.set(fault, on: direction) }
        }
    }

    /// Sets what happens to all bytes of the mesh.
    func set(_ fault: LinkFault) async {
        for link in links { for proxy in link.proxies { await proxy.set(fault) } }
    }

    /// Two different nodes.
    func pair(_ generator: inout SeededGenerator) -> (Int, Int) {
        let first = Int.random(in: 1...nodes.count, using: &generator)
        let distance = Int.random(in: 1..<nodes.count, using: &generator)
        return (first, (first - 1 + distance) % nodes.count + 1)
    }
}
