import Coordinator
import LinkProxy
import TestSupport
import Testing

extension EndToEnd {
    @Suite("After kill -9")
    struct CrashTests {}
}

extension EndToEnd.CrashTests {
    @Test("every acknowledged save is there, and every other one wholly or not at all")
    func keepsAcknowledgedSaves() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            let node = cluster.node(1)
            var acknowledged: [String] = []
            var unanswered: [String] = []
            for round in 1...4 {
                let load = try Load(on: node, prefix: "round\(round)", clients: 4)
                // Not at the same place of a group commit every time.
                try await load.waitForAcknowledged(30 + round * 17)
                try await node.kill()
                let outcome = await load.stop()
                #expect(outcome.refusals == [])
                acknowledged += outcome.acknowledged
                unanswered += outcome.unanswered
                try await node.start()
                try await expectWhole(acknowledged, unanswered, on: node)
            }
            #expect(!unanswered.isEmpty, "The node was never killed in the middle of a save")
            try await cluster.waitForConvergence()
            try await expectWhole(acknowledged, unanswered, on: cluster.node(2))
            try await expectVerified(cluster)
        }
    }

    @Test("a save that was repeated after a crash is there once")
    func repeatsSavesOnce() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            let node = cluster.node(1)
            let load = try Load(on: node, prefix: "once", clients: 3)
            try await load.waitForAcknowledged(40)
            try await node.kill()
            let outcome = await load.stop()
            try await node.start()
            // As a careful client does: whatever had no answer is saved again under its ID.
            for saveID in outcome.unanswered + outcome.acknowledged.suffix(5) {
                let index = try #require(saveID.split(separator: "-").last.flatMap { Int($0) })
                try await node.save(Load.inserts(saveID, index), saveID: saveID)
            }
            let counts = try await objectsBySave(node)
            for saveID in outcome.unanswered + outcome.acknowledged {
                #expect(counts[saveID] == 3, "\(saveID)")
            }
        }
    }

    @Test("a node killed again and again while it applies others' saves catches up")
    func survivesCrashesWhileApplying() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let victim = cluster.node(3)
            await cluster.partition([[1, 2], [3]])
            let loads = try [1, 2].map {
                try Load(
                    on: cluster.node($0), prefix: "flood\($0)", clients: 4, limit: 150
                ) { saveID, index in
                    (0..<12).map { number in
                        .insert(
                            "Latest",
                            [
                                "name": "\(saveID)-\(number)", "a": .string(saveID),
                                "number": .integer(Int64(index)),
                            ])
                    }
                }
            }
            var acknowledged: [String] = []
            for load in loads {
                let outcome = await load.finish()
                #expect(outcome.refusals == [])
                acknowledged += outcome.acknowledged
            }
            #expect(acknowledged.count == 1200)
            let before = try await victim.count("Latest")
            // So slow, from the first byte on, and so much in batches of 5,000 changes at the most,
            // that it cannot have all between two looks, on whatever machine.
            for proxy in cluster.links.filter({ $0.to == 3 || $0.from == 3 }).flatMap(\.proxies) {
                await proxy.stall()
                await proxy.set(LinkFault(trickle: .init(bytes: 16_384, everyMilliseconds: 40)))
            }
            var killedHalfway = 0
            for _ in 1...4 {
                let start = try await victim.count("Latest")
                try await eventually("node 3 applied something", every: .milliseconds(2)) {
                    let count = try await victim.count("Latest")
                    return count > start || count == 14_400
                }
                let count = try await victim.count("Latest")
                if (before + 1..<14_400).contains(count) { killedHalfway += 1 }
                try await victim.kill()
                try await victim.start()
                // A half-applied save never is: all objects of a save are there, or none.
                let counts = try await objectsBySave(victim)
                #expect(counts.allSatisfy { $0.value == 12 })
            }
            #expect(killedHalfway > 0, "The node was never killed while it applied")
            await cluster.heal()
            try await cluster.waitForConvergence()
            #expect(try await victim.count("Latest") == 14_400)
            try await expectVerified(cluster)
        }
    }

    // MARK: - Checking saves

    private func expectWhole(
        _ acknowledged: [String], _ unanswered: [String], on node: NodeHandle
    ) async throws {
        let counts = try await objectsBySave(node)
        for saveID in acknowledged where counts[saveID] != 3 {
            Issue.record(
                "\(saveID) was acknowledged; node \(node.number) has \(counts[saveID] ?? 0) of 3")
        }
        for saveID in acknowledged.suffix(20) + unanswered {
            let outcome = try await node.expect("GET", "/v1/saves/\(saveID)").text("outcome")
            let isKnown = node.number == 1
            switch counts[saveID] ?? 0 {
            case 0:
                #expect(outcome == "notSaved", "\(saveID)")
                #expect(!acknowledged.contains(saveID))
            case 3: #expect(!isKnown || outcome == "saved", "\(saveID)")
            default: Issue.record("Of \(saveID) there are \(counts[saveID] ?? 0) objects of 3")
            }
        }
    }

    /// How many objects there are by the save ID that they bear.
    private func objectsBySave(_ node: NodeHandle) async throws -> [String: Int] {
        var counts: [String: Int] = [:]
        let answer = try await node.expect(
            "POST", "/v1/fetch",
            .object([
                "entity": "Latest", "resultType": "dictionary",
                "properties": .array(["a"]),
            ]))
        for row in answer["rows"]?.array ?? [] {
            counts[row.object?.text("a") ?? "", default: 0] += 1
        }
        return counts
    }
}
