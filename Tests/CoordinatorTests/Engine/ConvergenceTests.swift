import Coordinator
import Merge
import Testing

/// Real coordinators, saves at random, delivery in random order: law 1 and what follows from it.
@Suite struct ConvergenceTests {
    private static let model = Result { try EngineModel.everything() }

    @Test("CD-148: nodes that have seen the same saves show the same", arguments: 0..<5)
    func converge(_ block: Int) throws {
        let model = try Self.model.get()
        for seed in block * 30..<(block + 1) * 30 {
            var cluster = try RandomCluster(seed: UInt64(seed), model)
            try cluster.run(steps: 45)
            try cluster.settle()
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
            guard let first = cluster.nodes.first else { continue }
            try ClusterExpectations.expectOracle(first, seed)
        }
    }

    @Test("A store that is opened again is the same, as a new incarnation", arguments: 0..<2)
    func reopen(_ block: Int) throws {
        let model = try Self.model.get()
        for seed in 1_000 + block * 10..<1_010 + block * 10 {
            var cluster = try RandomCluster(seed: UInt64(seed), model)
            for _ in 0..<3 {
                try cluster.run(steps: 15)
                for node in cluster.nodes { try reopen(node) }
            }
            try cluster.settle()
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
            let dots = cluster.nodes[0].transactions.map(\.dot)
            #expect(Set(dots).count == dots.count)
            var inserted = Set<RowID>()
            for encoded in cluster.nodes[0].transactions {
                for change in encoded.transaction.changes where change.kind == .insert {
                    #expect(inserted.insert(change.row).inserted, "\(change.row) is used twice")
                }
            }
        }
    }

    private func reopen(_ node: EngineNode) throws {
        let digest = try node.coordinator.currentDigest
        let vector = try node.vector
        let actor = try #require(node.coordinator.actor)
        try node.reopen()
        #expect(try node.coordinator.currentDigest == digest)
        #expect(try node.vector == vector)
        #expect(node.coordinator.actor != actor)
        #expect(node.coordinator.actor?.node == actor.node)
        #expect(try node.coordinator.verify().isOK)
    }
}
