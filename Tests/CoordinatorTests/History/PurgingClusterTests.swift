import Coordinator
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Real coordinators that save, decide and hear of each other at random. One keeps all its
/// history; the others purge at random moments, and collect.
@Suite struct PurgingClusterTests {
    private static let model = Result { try EngineModel.everything() }

    /// What may go at a node that purges.
    enum Extent: CaseIterable {
        /// What all nodes have.
        case stable
        /// All there is, as over the limit where another member has it.
        case everything
    }

    @Test(
        "A node that purges shows what nodes show that keep everything, and counts what is left",
        arguments: Extent.allCases, 0..<4)
    func converge(_ extent: Extent, _ block: Int) throws {
        let model = try Self.model.get()
        var purged = 0
        for seed in block * 10..<(block + 1) * 10 {
            var random = SeededGenerator(seed: UInt64(seed) + 99_000)
            var cluster = try RandomCluster(seed: UInt64(seed) + 4_000, model)
            for _ in 0..<10 {
                try cluster.run(steps: Int.random(in: 3...8, using: &random))
                if Int.random(in: 0..<4, using: &random) == 0 { try cluster.settle() }
                let common = try cluster.nodes.dropFirst().reduce(
                    try cluster.nodes[0].vector
                ) { $0.meet(try $1.vector) }
                for node in cluster.nodes.dropFirst()
                where Int.random(in: 0..<2, using: &random) == 0 {
                    purged += try purge(node, extent, common: common, seed)
                }
            }
            try cluster.settle()
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
            try ClusterExpectations.expectOracle(cluster.nodes[0], seed)
            for node in cluster.nodes.dropFirst() {
                purged += try purge(node, extent, common: try node.vector, seed)
            }
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
        }
        // It has happened, or this has tested nothing.
        #expect(purged > 100)
    }

    /// Purges some, and expects that nothing shows of it but in the journal of what is closed.
    private func purge(
        _ node: EngineNode, _ extent: Extent, common: VersionVector, _ seed: Int
    ) throws -> Int {
        let (digest, vector) = (try node.coordinator.currentDigest, try node.vector)
        let unresolved = try ClusterExpectations.unresolved(node)
        let open = try node.conflicts().map(\.id)
        var limits = HistoryLimits()
        limits.keepMilliseconds = extent == .stable ? 0 : .max
        limits.maximumBytes = extent == .stable ? .max : 1
        let elsewhere = extent == .stable ? VersionVector() : vector
        let result = try node.coordinator.tendHistory(
            limits, HistoryKnowledge(stable: common, elsewhere: elsewhere))
        #expect(try node.coordinator.currentDigest == digest, "seed \(seed)")
        #expect(try node.vector == vector, "seed \(seed)")
        #expect(try ClusterExpectations.unresolved(node) == unresolved, "seed \(seed)")
        #expect(try node.conflicts().map(\.id) == open, "seed \(seed)")
        let kept = node.coordinator.writer?.current.log
        let counted = try node.coordinator.read { try StoreLayout.readLogStanding(in: $0.database) }
        #expect(kept == counted, "seed \(seed)")
        // No holes: what is left of each actor's transactions ends with its latest.
        let log = try node.coordinator.read { try $0.history(afterPosition: 0, limit: .max) }
        var oldest = VersionVector()
        for logged in log.reversed() {
            let dot = logged.encoded.dot
            let next = oldest[dot.actor]
            #expect(
                dot.sequence == (next == 0 ? vector[dot.actor] : next - 1),
                "seed \(seed): \(dot)")
            oldest = VersionVector(
                oldest.entries.filter { $0.actor != dot.actor }
                    + [.init(actor: dot.actor, sequence: dot.sequence)])
        }
        return result.purged
    }
}
