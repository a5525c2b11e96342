import GRDB
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Real coordinators that save, decide and hear of each other at random, and collect at random
/// moments what is stable as far as each of them knows.
@Suite struct CollectingClusterTests {
    private static let model = Result { try EngineModel.everything() }

    /// What each node has said of itself, in order: its vectors.
    private struct Reports {
        private var made: [NodeID: [VersionVector]] = [:]

        mutating func make(_ nodes: [EngineNode]) throws {
            for node in nodes { made[node.node, default: []].append(try node.vector) }
        }

        /// The dots that are stable at a node: every member's report has them, and the node has
        /// applied all that the report holds of the reporter's own. The vectors' minimum alone
        /// would not do: a save made before its writer heard of a dot may still be on its way.
        func stable(at node: EngineNode) throws -> VersionVector {
            let own = try node.vector
            var stable = own
            for (reporter, vectors) in made.sorted(by: { $0.key < $1.key }) {
                let usable = vectors.last { vector in
                    vector.entries.allSatisfy { entry in
                        entry.actor.node != reporter || own[entry.actor] >= entry.sequence
                    }
                }
                stable = stable.meet(usable ?? VersionVector())
            }
            return stable
        }
    }

    @Test(
        "Nodes that collect at different moments show the same, and lose nothing",
        arguments: 0..<4)
    func converge(_ block: Int) throws {
        let model = try Self.model.get()
        var early = CollectionResult()
        var late = CollectionResult()
        for seed in block * 20..<(block + 1) * 20 {
            var random = SeededGenerator(seed: UInt64(seed) + 77_000)
            var cluster = try RandomCluster(seed: UInt64(seed), model)
            var reports = Reports()
            for _ in 0..<12 {
                try cluster.run(steps: Int.random(in: 2...6, using: &random))
                // Now and then all hear of all, so that there is much to collect.
                if Int.random(in: 0..<4, using: &random) == 0 { try cluster.settle() }
                try reports.make(cluster.nodes)
                for node in cluster.nodes where Int.random(in: 0..<3, using: &random) > 0 {
                    let limit = Int.random(in: 1...12, using: &random)
                    let result = try collect(node, try reports.stable(at: node), limit, seed)
                    early.add(result)
                }
            }
            try cluster.settle()
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
            for node in cluster.nodes { try ClusterExpectations.expectOracle(node, seed) }

            for node in cluster.nodes {
                let vector = try node.vector
                var rounds = 0
                while rounds < 1000 {
                    let result = try collect(node, vector, 5, seed)
                    late.add(result)
                    rounds += 1
                    if result.isDone { break }
                }
                #expect(try node.coordinator.collect(stable: vector) == CollectionResult())
                try expectClean(node, seed)
                try ClusterExpectations.expectOracle(node, seed)
            }
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
        }
        // All of it has happened, or this has tested nothing.
        #expect(early.siblingsCollapsed > 0 && early.tombstonesCollected > 0)
        #expect(early.conflictsSettled > 0)
        #expect(late.siblingsCollapsed > 0 && late.conflictsSettled > 0)
    }

    /// Collects, and expects that nothing shows of it.
    private func collect(
        _ node: EngineNode, _ stable: VersionVector, _ limit: Int, _ seed: Int
    ) throws -> CollectionResult {
        let digest = try node.coordinator.currentDigest
        let vector = try node.vector
        let unresolved = try ClusterExpectations.unresolved(node)
        let shown = try everything(node)
        let result = try node.coordinator.collect(stable: stable, limit: limit)
        #expect(try node.coordinator.currentDigest == digest, "seed \(seed)")
        #expect(try node.vector == vector, "seed \(seed)")
        #expect(try ClusterExpectations.unresolved(node) == unresolved, "seed \(seed)")
        #expect(try everything(node) == shown, "seed \(seed)")
        return result
    }

    /// All rows with their versions.
    private func everything(_ node: EngineNode) throws -> [[RowSnapshot]] {
        try RandomCluster.entities.map { entity in
            try node.coordinator.read { try $0.fetch(FetchRequest(entity)) }
                .sorted { $0.objectID < $1.objectID }
        }
    }

    /// Where everything is stable, nothing is kept but what waits for a decision.
    private func expectClean(_ node: EngineNode, _ seed: Int) throws {
        try node.coordinator.read { reader in
            func count(_ sql: String) throws -> Int {
                try Int.fetchOne(reader.database, sql: "SELECT count(*) FROM \(sql)") ?? -1
            }
            #expect(try count("_tombstone") == 0, "seed \(seed)")
            #expect(try count("_uncollected") == 0, "seed \(seed)")
            for entity in node.model.entities where !entity.isAbstract {
                for row in try reader.fetch(FetchRequest(entity.name)) {
                    guard row.objectID.entityName == entity.name,
                        let state = try reader.registers(entity, row.objectID.row)
                    else { continue }
                    let isWaiting = state.conflicts(entity.policies)
                        .contains { $0.subject == .object && $0.state == .unresolved }
                    if isWaiting { continue }
                    let place = "seed \(seed): \(row.objectID)"
                    if entity.policies.isRowGrained {
                        #expect(state.existence.siblings.count == 1, "\(place)")
                    }
                    for (position, register) in state.properties.enumerated() {
                        let policy = entity.policies.properties[position]
                        #expect(
                            register.siblings.count < 2
                                || (policy.leavesUnresolved && register.isInConflict),
                            "\(place) \(position)")
                    }
                }
            }
            let actors = try reader.actors()
            for link in node.model.links {
                let statement = try reader.database.prepared(
                    "SELECT _siblings, _alive FROM \(EntityTable.quote(link.name))")
                while try statement.step() {
                    let register = try LinkCoding.decode(statement.bytes(0), actors: actors)
                    #expect(statement.integer(1) == 1, "seed \(seed): \(link.name)")
                    #expect(
                        register.siblings.count == 1
                            || (link.policy.leavesUnresolved && register.isInConflict),
                        "seed \(seed): \(link.name)")
                }
            }
        }
    }
}

extension CollectionResult {
    fileprivate mutating func add(_ other: CollectionResult) {
        siblingsCollapsed += other.siblingsCollapsed
        tombstonesCollected += other.tombstonesCollected
        linksCollected += other.linksCollected
        conflictsSettled += other.conflictsSettled
    }
}
