import Client
import Coordinator
import Node
import Testing

extension EndToEnd {
    @Suite("A very large save")
    struct LargeTransactionTests {}
}

extension EndToEnd.LargeTransactionTests {
    /// As JSON some 5 MB, of the 16 MiB that `http.maxBodyBytes` is by default.
    private static let size = 100_000
    /// How many of them are changed, and then deleted, by one save each.
    private static let part = 10_000
    /// An entity that no small save inserts.
    private static let entity = "Earliest"
    /// By far longer than a small save has to wait for a large one, also in a program that was not
    /// optimised.
    private static let patience = Duration.seconds(60)
    private static let deadline = Duration.seconds(300)

    @Test(
        "Its objects are there all at once on every node, changed and gone as well, and small saves go on"
    )
    func isNeverSeenByHalf() async throws {
        try await TestCluster.with { cluster in
            let loads = try cluster.nodes.map {
                try Load(on: $0, prefix: "n\($0.number)", clients: 1, pause: .milliseconds(20))
            }
            do {
                for load in loads { try await load.waitForAcknowledged(5) }
                let before = loads.map(\.outcome.acknowledged.count)
                let inserts = (0..<Self.size).map {
                    JSONValue.insert(Self.entity, ["name": "row \($0)"])
                }
                try await expectWhole(inserts, counting: nil, from: 0, to: Self.size, cluster)
                let meanwhile = zip(loads, before).map { $0.outcome.acknowledged.count - $1 }
                let uris = try await someOfThem(cluster.node(2))
                try await expectWhole(
                    uris.map { .update($0, ["a": "changed"]) },
                    counting: "a == \"changed\"", from: 0, to: Self.part, cluster)
                try await expectWhole(
                    uris.map(JSONValue.delete), counting: nil, from: Self.size,
                    to: Self.size - Self.part, cluster)
                #expect(meanwhile.allSatisfy { $0 > 0 }, "\(meanwhile)")
                MachineAbilities.report(
                    "while one save of \(Self.size) objects went round, the three nodes saved "
                        + "\(meanwhile) times")
            } catch {
                for load in loads { await load.stop() }
                throw error
            }
            var saved = 0
            for load in loads { saved += await load.stopWhole(within: Self.patience) }
            try await cluster.waitForConvergence(timeout: Self.deadline)
            for node in cluster.nodes {
                #expect(try await node.count(Self.entity) == Self.size - Self.part)
                #expect(try await node.count("Latest") == 3 * saved)
            }
            try await expectVerified(cluster)
        }
    }

    /// The URIs of those that are to be changed.
    private func someOfThem(_ node: NodeHandle) async throws -> [String] {
        let answer = try await node.expect(
            "POST", "/v1/fetch",
            [
                "entity": .string(Self.entity), "resultType": "ids",
                "limit": .integer(Int64(Self.part)),
            ])
        let uris = (answer["ids"]?.array ?? []).compactMap(\.string)
        #expect(uris.count == Self.part)
        return uris
    }

    /// Saves all by one request to node 1, and expects that no node ever counts a part of it.
    private func expectWhole(
        _ operations: [JSONValue], counting predicate: String?, from before: Int, to after: Int,
        _ cluster: TestCluster
    ) async throws {
        let counts = try await withThrowingTaskGroup(of: (number: Int, seen: Set<Int>).self) {
            group in
            for node in cluster.nodes {
                group.addTask {
                    (node.number, try await self.counts(on: node, predicate, until: after))
                }
            }
            let node = cluster.node(1)
            // The other connection is for counting.
            let client = try node.makeClient()
            let answer = try await node.expect(
                "POST", "/v1/save",
                ["operations": .array(operations), "bulk": .boolean(true)],
                timeout: Self.deadline, using: client)
            await client.close()
            #expect(!answer.text("transaction").isEmpty)
            var all: [Int: Set<Int>] = [:]
            for try await (number, seen) in group { all[number] = seen }
            return all
        }
        for node in cluster.nodes {
            #expect(
                counts[node.number] == [before, after],
                "Node \(node.number), \(predicate ?? "all")")
        }
    }

    private func counts(
        on node: NodeHandle, _ predicate: String?, until after: Int
    ) async throws -> Set<Int> {
        var request: JSONObject = ["entity": .string(Self.entity), "resultType": "count"]
        if let predicate { request["predicate"] = .string(predicate) }
        var seen: Set<Int> = []
        let end = ContinuousClock.now + Self.deadline
        while !seen.contains(after), ContinuousClock.now < end {
            let answer = try await node.expect("POST", "/v1/fetch", .object(request))
            seen.insert(answer["count"]?.integer.map(Int.init) ?? -1)
            try await Task.sleep(for: .milliseconds(5))
        }
        return seen
    }
}
