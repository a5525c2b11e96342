import Coordinator
import LinkProxy
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Saves that follow a lost one")
    struct OrphanTests {}
}

extension EndToEnd.OrphanTests {
    @Test(
        "What a lost node saved after a save that nobody has is kept, listed, and saved again by hand"
    )
    func kept() async throws {
        try await TestCluster.with { cluster in
            let (heir, lost) = (cluster.node(1), cluster.node(3))
            try await save("known to all", on: lost)
            try await cluster.waitForConvergence()
            try await cluster.waitForVouching()
            await cluster.partition([[1, 2], [3]])
            try await save("known to nobody", on: lost)
            // Node 1 hears what node 3 tells, and can ask it for nothing.
            try await mend(from: 1, to: 3, cluster)
            var orphans: [String] = []
            try await eventually("node 1 heard a save of node 3", every: .milliseconds(200)) {
                orphans.append(try await save("known to one \(orphans.count)", on: lost))
                return try await heir.metric("tributary_causal_queue_transactions") ?? 0 > 0
            }
            #expect(try await lost.terminate() == 0)
            // Its machine is gone. The rest go on without it.
            await cluster.heal()
            try await eventually("node 3 could be retired") {
                try await heir.ask("POST", "/v1/members/3/departure", [:]).status == 200
            }
            try await eventually("node 1 kept what it cannot apply") {
                try await !listed(heir).isEmpty
            }
            let kept = try await listed(heir)
            #expect(Set(kept).isSubset(of: orphans))
            #expect(try await listed(cluster.node(2)) == [])
            for node in [heir, cluster.node(2)] {
                try await cluster.waitForConvergence(among: [1, 2])
                #expect(try await names(node) == ["known to all"])
                #expect(try await node.verify()["ok"]?.boolean == true)
            }
            #expect(try await heir.alarms().contains("orphaned"))

            // It is there after a kill as well, whole, until somebody has seen to it.
            try await heir.kill()
            try await heir.start()
            #expect(try await listed(heir) == kept)
            let orphan = try #require(kept.first)
            let whole = try await heir.expect("GET", "/v1/orphans/\(orphan)")
            let change = try #require(whole["changes"]?.array?.first?.object)
            let name = try #require(change["values"]?.object?["name"]?.string)
            #expect(name.hasPrefix("known to one"))
            try await save(name, on: heir)
            _ = try await heir.expect("DELETE", "/v1/orphans/\(orphan)")
            #expect(try await listed(heir) == Array(kept.dropFirst()))
            try await cluster.waitForConvergence(among: [1, 2])
            #expect(try await names(cluster.node(2)) == ["known to all", name])
        }
    }

    /// Mends what a node hears of another, and not what it asks it.
    private func mend(from: Int, to: Int, _ cluster: TestCluster) async throws {
        let link = try #require(cluster.links.first { $0.from == from && $0.to == to })
        // The first is what it subscribes to.
        await link.proxies[0].heal()
    }

    /// - Returns: the transaction.
    @discardableResult
    private func save(_ name: String, on node: NodeHandle) async throws -> String {
        try await node.save(.insert("Latest", ["name": .string(name)])).transaction
    }

    private func names(_ node: NodeHandle) async throws -> [String] {
        try await node.objects("Latest").compactMap { $0.value("name")?.string }
    }

    private func listed(_ node: NodeHandle) async throws -> [String] {
        let answer = try await node.expect("GET", "/v1/orphans")
        return (answer["orphans"]?.array ?? []).compactMap { $0.object?.text("transaction") }
    }
}
