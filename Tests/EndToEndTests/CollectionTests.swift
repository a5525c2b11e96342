import Coordinator
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Collecting what every member has")
    struct CollectionTests {}
}

extension EndToEnd.CollectionTests {
    /// What a node keeps until it is stable, and whom that waits for.
    private struct Kept: Equatable {
        let rows: Int64
        let tombstones: Int64
        let holders: [Int64]

        static let nothing = Kept(rows: 0, tombstones: 0, holders: [])

        init(rows: Int64, tombstones: Int64, holders: [Int64]) {
            self.rows = rows
            self.tombstones = tombstones
            self.holders = holders
        }

        init(_ node: NodeHandle) async throws {
            let stability = try await node.status()["stability"]?.object ?? [:]
            let waiting = stability["waiting"]?.object ?? [:]
            rows = waiting["rows"]?.integer ?? -1
            tombstones = waiting["tombstones"]?.integer ?? -1
            holders = (stability["heldBackBy"]?.array ?? []).compactMap(\.integer)
        }
    }

    @Test(
        "siblings and tombstones stay while a member is away, who is named, and go once it is back"
    )
    func staysAndGoes() async throws {
        try await TestCluster.with { cluster in
            let away = cluster.node(3)
            let shared = try await cluster.node(1).save(
                (0..<6).map { .insert("Latest", id: "@\($0)", ["name": "\($0)"]) }
            )
            try await cluster.waitForConvergence()
            try await cluster.waitForVouching()
            // What each of the two says of the same objects apart; two of them are deleted.
            await cluster.partition([[1], [2], [3]])
            for node in [cluster.node(1), cluster.node(2)] {
                for place in 0..<4 {
                    try await node.save(
                        .update(shared.uri("@\(place)"), ["a": "by \(node.number)"]))
                }
            }
            for place in 4..<6 {
                try await cluster.node(1).save(.delete(shared.uri("@\(place)")))
            }
            away.suspend()
            await cluster.heal()
            try await cluster.waitForConvergence(among: [1, 2])

            // Longer than they need to tell each other all that they have, and to collect.
            for _ in 0..<2 {
                for node in [cluster.node(1), cluster.node(2)] {
                    try await eventually("node \(node.number) named node 3") {
                        try await Kept(node).holders == [3]
                    }
                    let kept = try await Kept(node)
                    #expect(kept.tombstones == 2 && kept.rows >= 4, "\(kept)")
                    #expect(try await node.metric("tributary_tombstones_collected_total") == 0)
                    #expect(try await node.metric("tributary_siblings_collapsed_total") == 0)
                    #expect(try await siblings(node, shared.uri("@0")) == 2)
                }
                try await Task.sleep(for: .seconds(2))
            }
            let before = try await journal(cluster.node(1))
            #expect(before.count == 4)

            away.resume()
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                try await eventually("node \(node.number) kept nothing any more") {
                    try await Kept(node) == .nothing
                }
                #expect(try await node.metric("tributary_tombstones_collected_total") == 2)
                #expect(try await siblings(node, shared.uri("@0")) == 1)
                // The later value stands, and a client that asks months later sees the other.
                let values = try await node.objects("Latest").map { $0.value("a")?.string }
                #expect(values == Array(repeating: "by 2", count: 4))
                #expect(try await journal(node) == before)
                let dead = try await node.ask(
                    "GET", "/v1/objects/Latest/\(number(try shared.uri("@4")))")
                #expect(dead.status == 404)
            }
            try await expectEqualContents(cluster)
        }
    }

    /// How many writes of the property a node has.
    private func siblings(_ node: NodeHandle, _ uri: String) async throws -> Int? {
        let answer = try await node.expect("GET", "/v1/objects/Latest/\(number(uri))?versions=true")
        return answer["versions"]?.object?["a"]?.object?["siblings"]?.array?.count
    }

    private func number(_ uri: String) -> String {
        String(uri.split(separator: "/").last ?? "")
    }

    /// The conflicts there are and were over the property, by object, with the transactions of their
    /// sides.
    private func journal(_ node: NodeHandle) async throws -> [String: Set<String>] {
        var result: [String: Set<String>] = [:]
        for conflict in try await node.conflicts("kind=update&limit=1000") {
            let sides = conflict.objects("sides")
            result[conflict.text("object"), default: []].formUnion(sides.map { $0.text("dot") })
        }
        return result
    }
}
