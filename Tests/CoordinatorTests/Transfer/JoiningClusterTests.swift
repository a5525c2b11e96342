import Dispatch
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Real coordinators that save, decide and hear of each other at random, collect what is stable,
/// forget their logs, and are joined by what their rows alone tell.
@Suite struct JoiningClusterTests {
    private static let model = Result { try EngineModel.everything() }

    @Test(
        "Stores that are joined by their rows are what all their transactions make of them",
        arguments: 0..<10)
    func join(_ block: Int) throws {
        let model = try Self.model.get()
        var joined = 0
        for seed in (block * 4)..<(block * 4 + 4) {
            var random = SeededGenerator(seed: UInt64(seed) + 88_000)
            var cluster = try RandomCluster(seed: UInt64(seed) + 500, model)
            // Copies that were made some time ago: what they have others may have collected since.
            var copies: [NodeID: OutgoingTransfer.Part] = [:]
            for _ in 0..<6 {
                try cluster.run(steps: Int.random(in: 4...10, using: &random))
                if Int.random(in: 0..<3, using: &random) == 0 {
                    // What all have, and have heard that all have, is stable; some collect it.
                    try cluster.settle()
                    for node in cluster.nodes where Bool.random(using: &random) {
                        _ = try node.coordinator.collect(
                            stable: try node.vector, limit: Int.random(in: 1...20, using: &random))
                    }
                }
                guard let taker = cluster.nodes.randomElement(using: &random),
                    let donor = cluster.nodes.randomElement(using: &random), taker !== donor
                else { continue }
                if copies[donor.node] == nil || Bool.random(using: &random) {
                    try forgetLog(of: donor)
                    copies[donor.node] = try OutgoingTransfer(donor.coordinator, clock: { 0 })
                        .read(0, from: 0, byteLimit: .max, for: taker.node)
                }
                if let copy = copies[donor.node] { joined += try joinRows(copy, into: taker, seed) }
            }
            let all = Self.transactions(of: cluster)
            for node in cluster.nodes { try expectOracle(node, seed, all) }
            try cluster.settle()
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
            for node in cluster.nodes { try expectOracle(node, seed, all) }
        }
        // Some of them told each other something that no log did.
        #expect(joined > 0)
    }

    /// Every transaction of a cluster, each once, as its own node has it.
    private static func transactions(of cluster: RandomCluster) -> [EncodedTransaction] {
        cluster.nodes.flatMap { node in
            node.transactions.filter { $0.dot.actor.node == node.node }
        }
    }

    /// What a node shows is what the rules make of the transactions that its vector covers.
    private func expectOracle(
        _ node: EngineNode, _ seed: Int, _ all: [EncodedTransaction]
    ) throws {
        let vector = try node.vector
        try ClusterExpectations.expectOracle(node, seed, all.filter { vector.contains($0.dot) })
    }

    /// Has a node forget its log, and take a copy over.
    ///
    /// - Returns: how many transactions came of the rows.
    private func joinRows(
        _ copy: OutgoingTransfer.Part, into taker: EngineNode, _ seed: Int
    ) throws -> Int {
        try forgetLog(of: taker)
        let incoming = IncomingTransfer(for: taker.coordinator)
        _ = try incoming.write(copy.bytes, of: copy.offer, at: 0)
        let copied = try incoming.check(cluster: "test", model: taker.model)
        let both = try taker.vector.joined(copied)
        let isLacking = try !copied.covers(taker.vector)
        taker.close()
        let installed = try TransferInstaller.install(
            at: taker.path, model: taker.model, cluster: "test", node: taker.node)
        try taker.open()
        #expect(try taker.vector == both, "seed \(seed)")
        let report = try taker.coordinator.verify()
        #expect(report.isOK, "seed \(seed): \(report.differences)")
        return isLacking ? installed.carriedCount : 0
    }

    private func forgetLog(of node: EngineNode) throws {
        let token = try node.coordinator.currentToken
        let done = DispatchSemaphore(value: 0)
        node.coordinator.maintain({ engine in
            _ = try engine.purger.purgeHistory(through: token.position, stable: token.versionVector)
        }) { _ in done.signal() }
        done.wait()
    }
}
