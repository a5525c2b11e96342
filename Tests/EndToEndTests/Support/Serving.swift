import Coordinator
import Testing

/// Expects that every node takes saves, and that all nodes get them.
func expectServing(_ cluster: TestCluster, _ numbers: [Int]? = nil) async throws {
    let nodes = numbers.map { $0.map(cluster.node) } ?? cluster.nodes
    for node in nodes {
        #expect(node.process?.isRunning == true)
        try await node.save(.insert("Rollback", ["name": "served by \(node.number)"]))
    }
    try await cluster.waitForConvergence(among: nodes.map(\.number))
    for node in nodes {
        #expect(try await node.count("Rollback") == nodes.count)
    }
}
