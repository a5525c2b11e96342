import Coordinator
import Foundation
import TestSupport
import Testing

@testable import Node

extension EndToEnd {
    @Suite("Storms on one object")
    struct StormTests {}
}

extension EndToEnd.StormTests {
    /// The most closed conflicts that the nodes keep.
    private static let records = 300
    /// How much more memory a storm may cost, in bytes.
    private static let allowance = 64 << 20

    @Test("Many writers of one object, under every policy, cost a bounded amount and converge")
    func oneObject() async throws {
        try await TestCluster.with(starting: []) { cluster in
            for node in cluster.nodes {
                try await node.start(environment: [
                    "TRIBUTARY_JOURNAL_MAXIMUM_RECORDS": "\(Self.records)"
                ])
            }
            let hot = try await hotObjects(cluster)
            try await cluster.waitForConvergence()
            let before = try cluster.nodes.map { try $0.beginPeak() }
            let loads = try cluster.nodes.map { node in
                try Load(on: node, prefix: "storm\(node.number)", clients: 4) { saveID, index in
                    let property = index % 3 == 0 ? "a" : "b"
                    return [
                        .update(
                            hot[index % hot.count],
                            [property: .string(saveID), "number": .integer(Int64(index))])
                    ]
                }
            }
            var sides = 0
            let end = ContinuousClock.now + .seconds(8)
            while ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(500))
                sides = max(sides, try await mostSides(cluster))
            }
            var saved = 0
            for load in loads {
                let outcome = await load.stop()
                #expect(outcome.unanswered == [])
                // A save over a value that is there in several versions is refused, to be tried
                // again or until somebody decides; nothing else is.
                let others = outcome.refusals.filter {
                    !$0.contains("\"unresolvedConflict\"") && !$0.contains("\"mergeConflict\"")
                }
                #expect(others == [], "\(others.prefix(2))")
                saved += outcome.acknowledged.count
            }
            try await cluster.waitForConvergence()
            sides = max(sides, try await mostSides(cluster))
            try await expectEqualContents(cluster)
            #expect(saved > 100 && sides >= 2, "No storm: \(saved) saves, \(sides) sides")
            // Each writer replaces what its node shows: one version for each node at the most.
            #expect(sides <= cluster.nodes.count)
            try await expectBoundedJournal(cluster)
            for (node, before) in zip(cluster.nodes, before) {
                #expect(try node.peak() - before <= Self.allowance)
            }
            try await expectNamed(hot, cluster)
            print("storm: \(saved) saves of \(hot.count) objects, \(sides) sides at the most")
        }
    }

    /// One object of every entity.
    private func hotObjects(_ cluster: TestCluster) async throws -> [String] {
        let answer = try await cluster.node(1).save(
            TestModel.entities.map {
                .insert($0, id: "@\($0)", ["name": "hot"])
            })
        return try TestModel.entities.map { try answer.uri("@\($0)") }
    }

    private func mostSides(_ cluster: TestCluster) async throws -> Int {
        var most = 0
        for node in cluster.nodes {
            for conflict in try await node.conflicts("state=all&open=true&limit=100") {
                most = max(most, conflict["sides"]?.array?.count ?? 0)
            }
        }
        return most
    }

    private func expectBoundedJournal(_ cluster: TestCluster) async throws {
        for node in cluster.nodes {
            try await eventually(
                "the journal of node \(node.number) was within its limit", within: .seconds(60),
                every: .milliseconds(200)
            ) {
                let path = "/v1/conflicts?state=all&open=false&limit=10000"
                let closed = try await node.expect("GET", path)["conflicts"]?.array?.count
                return (closed ?? .max) <= Self.records
            }
            // What is open is at most one entry for each property of each object, and its row.
            let open = try await node.expect("GET", "/v1/conflicts?state=all&open=true&limit=10000")
            #expect((open["conflicts"]?.array?.count ?? .max) <= 4 * TestModel.entities.count)
        }
    }

    /// Expects that a client that asks learns which objects those were.
    private func expectNamed(_ hot: [String], _ cluster: TestCluster) async throws {
        let result = try await TestProcess.run(
            ["conflicts", "stats", "--json", "--node", cluster.node(2).url], in: cluster.folder)
        #expect(result.code == 0, "\(result.errors)")
        let told = try JSONParser.parse(Array(result.output.utf8), maximumBytes: 1 << 20)
        let objects = (told.object?["objects"]?.array ?? []).compactMap(\.object)
        #expect(!objects.isEmpty && objects.allSatisfy { hot.contains($0.text("object")) })
    }
}
