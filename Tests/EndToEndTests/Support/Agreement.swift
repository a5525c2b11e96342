import Coordinator
import TestSupport
import Testing

/// Expects that all nodes of a converged cluster show the same, list the same unresolved
/// conflicts, and find their digests right.
func expectEqualContents(
    _ cluster: TestCluster, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let first = try await cluster.contents(of: cluster.node(1))
    for node in cluster.nodes.dropFirst() {
        let other = try await cluster.contents(of: node)
        // Only what differs is shown; whole stores would drown it.
        let difference = other.difference(from: first)
        #expect(
            difference.isEmpty,
            "Node \(node.number) differs from node 1: \(difference.map { "\($0)" }.prefix(6))",
            sourceLocation: sourceLocation)
    }
    try await expectVerified(cluster, sourceLocation: sourceLocation)
}

/// Expects that every node's kept digest is the one that its rows and its peers have.
func expectVerified(
    _ cluster: TestCluster, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    for node in cluster.nodes {
        let report = try await node.verify()
        #expect(
            report["ok"]?.boolean == true, "Node \(node.number): \(report)",
            sourceLocation: sourceLocation)
        #expect(report.text("recomputed") == report.text("digest"), sourceLocation: sourceLocation)
    }
}

extension TestCluster {
    /// Waits until every node's store is vouched for, as those of clusters that have run are.
    func waitForVouching() async throws {
        try await eventually("all stores were vouched for") {
            for node in nodes {
                let members = try await node.status()["stability"]?.object?["members"]?.array
                guard members?.count == nodes.count - 1,
                    members?.allSatisfy({ $0.object?["hindrance"] == .null }) == true
                else { return false }
            }
            return true
        }
    }
}
