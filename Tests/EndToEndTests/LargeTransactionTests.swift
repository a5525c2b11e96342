import Coordinator
import Node
import Testing

extension EndToEnd {
    @Suite("A very large save")
    struct LargeTransactionTests {}
}

extension EndToEnd.LargeTransactionTests {
    /// As JSON some 5 MB, of the 16 MiB that `http.maxBodyBytes` is by default. A save of more than
    /// 5,000 objects is written part by part, where it is made and where it is applied.
    private static let size = 100_000
    /// Of which the small saves insert nothing.
    private static let entity = "Earliest"
    /// By far longer than a small save has to wait for a part of the large one, also in a program
    /// that was not optimised.
    private static let patience = Duration.seconds(10)
    private static let deadline = Duration.seconds(300)

    @Test("Its 100,000 objects are there all at once, on every node, and small saves go on")
    func isNeverSeenByHalf() async throws {
        try await TestCluster.with { cluster in
            let loads = try cluster.nodes.map {
                try Load(
                    on: $0, prefix: "n\($0.number)", clients: 1, pause: .milliseconds(20))
            }
            do {
                for load in loads { try await load.waitForAcknowledged(5) }
                let before = loads.map(\.outcome.acknowledged.count)
                let counts = try await saveLarge(cluster)
                let meanwhile = zip(loads, before).map { $0.outcome.acknowledged.count - $1 }
                for node in cluster.nodes {
                    let seen = (counts[node.number] ?? []).sorted()
                    #expect(seen == [0, Self.size], "Node \(node.number)")
                }
                #expect(meanwhile.allSatisfy { $0 > 0 }, "\(meanwhile)")
                MachineAbilities.report(
                    "while one save of \(Self.size) objects went round, the three nodes saved "
                        + "\(meanwhile) times")
            } catch {
                for load in loads { await load.stop() }
                throw error
            }
            var saved = 0
            for load in loads {
                let outcome = await load.stop()
                #expect(outcome.unanswered == [] && outcome.refusals == [])
                #expect(outcome.longest < Self.patience)
                saved += outcome.acknowledged.count
            }
            try await cluster.waitForConvergence(timeout: Self.deadline)
            for node in cluster.nodes {
                #expect(try await node.count(Self.entity) == Self.size)
                #expect(try await node.count("Latest") == 3 * saved)
            }
            try await expectVerified(cluster)
        }
    }

    /// Saves all objects by one request to node 1, and has every node count them until it has all.
    ///
    /// - Returns: all counts that each node has told.
    private func saveLarge(_ cluster: TestCluster) async throws -> [Int: Set<Int>] {
        let inserts = (0..<Self.size).map {
            TestModel.insert(Self.entity, ["name": .string("row \($0)")])
        }
        let request: JSONValue = ["operations": .array(inserts)]
        return try await withThrowingTaskGroup(of: (number: Int, seen: Set<Int>).self) { group in
            for node in cluster.nodes {
                group.addTask { (node.number, try await counts(on: node)) }
            }
            let node = cluster.node(1)
            // The other connection is for counting.
            let client = try node.makeClient()
            let answer = try await node.expect(
                "POST", "/v1/save", request, timeout: Self.deadline, using: client)
            await client.close()
            #expect(!answer.text("transaction").isEmpty)
            var all: [Int: Set<Int>] = [:]
            for try await (number, seen) in group { all[number] = seen }
            return all
        }
    }

    private func counts(on node: NodeHandle) async throws -> Set<Int> {
        var seen: Set<Int> = []
        let end = ContinuousClock.now + Self.deadline
        while !seen.contains(Self.size), ContinuousClock.now < end {
            seen.insert(try await node.count(Self.entity))
            try await Task.sleep(for: .milliseconds(5))
        }
        return seen
    }
}
