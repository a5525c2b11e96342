import Coordinator
import Foundation
import Node
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Three nodes in a line whose ends never reach each other")
    struct PartialMeshTests {}
}

extension EndToEnd.PartialMeshTests {
    @Test(
        "the ends get all of each other through the middle, and differ in nothing",
        arguments: [false, true])
    func relayed(isStalled: Bool) async throws {
        try await TestCluster.with(nodes: 3, starting: []) { cluster in
            // Before anybody starts: refused like a port where nobody listens, or silent like a
            // network that drops packets. All three know where all are.
            if isStalled {
                await cluster.stall([[1, 2], [2, 3]])
            } else {
                await cluster.partition([[1, 2], [2, 3]])
            }
            for node in cluster.nodes { try await node.start() }
            let ends = [cluster.node(1), cluster.node(3)]
            let shared = try await SharedRows.insert(in: cluster)
            let contested = try await insertContested(cluster)
            let (outcome, heard) = try await cluster.mixedLoad(
                on: ends, shared, seed: isStalled ? 72 : 71
            ) { load, _ in
                try await waitForSaves(30, of: load, by: ends)
                // Without the middle they go on, each with what it has.
                try await cluster.node(2).kill()
                try await waitForSaves(60, of: load, by: ends)
                let known = try await self.heard(by: ends)
                for end in ends {
                    let text = JSONValue.string("end \(end.number)")
                    try await end.save(contested.map { .update($0, ["a": text]) })
                }
                try await waitForSaves(90, of: load, by: ends)
                #expect(try await self.heard(by: ends) == known, "the ends have another way")
                try await cluster.node(2).start()
                try await waitForSaves(120, of: load, by: ends)
            }
            try await ClusterInvariants.expect(
                cluster, outcome.acknowledged, heard: heard, timeout: .seconds(90))
            try await expectEqualConflicts(cluster)
            try await expectStrangers(cluster)

            // So does a decision.
            let conflict = try #require(
                try await ends[0].unresolvedConflicts().first {
                    contested.contains($0.text("object"))
                })
            let sides = conflict["sides"]?.array ?? []
            let dots = sides.map { $0.object?["dot"] ?? .null }
            _ = try await ends[0].expect(
                "POST", "/v1/conflicts/\(conflict.text("id"))/resolution",
                ["side": dots.first ?? .null, "sides": .array(dots)])
            try await cluster.waitForConvergence()
            let left = try await ends[1].unresolvedConflicts().map { $0.text("id") }
            #expect(!left.contains(conflict.text("id")))
            try await expectEqualConflicts(cluster)
            try await expectVerified(cluster)
            try await expectStrangers(cluster)
        }
    }

    /// Inserts a row of each entity that the load leaves alone, and waits until all have them.
    private func insertContested(_ cluster: TestCluster) async throws -> [String] {
        let answer = try await cluster.node(1).save(
            TestModel.entities.map {
                .insert($0, id: "@\($0)", ["name": "contested", "a": "before"])
            })
        try await cluster.waitForConvergence()
        return try TestModel.entities.map { try answer.uri("@\($0)") }
    }

    /// How many saves of the other one each of two nodes has applied.
    private func heard(by ends: [NodeHandle]) async throws -> [Int64] {
        var counts: [Int64] = []
        for (node, other) in zip(ends, ends.reversed()) {
            let actor = try await other.status().text("actor")
            counts.append(try await node.position().vector[actor] ?? 0)
        }
        return counts
    }

    /// Waits until each of the nodes has had so many saves acknowledged.
    private func waitForSaves(
        _ count: Int, of load: MixedLoad, by nodes: [NodeHandle]
    ) async throws {
        try await eventually("each end had saved \(count) times") {
            let acknowledged = load.outcome.acknowledged
            return nodes.allSatisfy { node in
                acknowledged.count { $0.node == node.number } >= count
            }
        }
    }

    /// Expects that all list the same open conflicts, settled ones too: what 1 and 3 have not met
    /// of each other keeps everything from collapsing.
    private func expectEqualConflicts(
        _ cluster: TestCluster, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        var lists: [[String]] = []
        for node in cluster.nodes {
            let conflicts = try await node.conflicts("state=all&open=true&limit=10000")
            lists.append(
                conflicts.map { conflict in
                    let sides = JSONWriter.text(of: conflict["sides"] ?? .null)
                    return "\(conflict.text("id")) \(conflict.text("state")) \(sides)"
                }.sorted())
        }
        #expect(lists[0].contains { $0.contains(" unresolved ") }, sourceLocation: sourceLocation)
        #expect(lists[0].contains { $0.contains(" settled ") }, sourceLocation: sourceLocation)
        for (node, list) in zip(cluster.nodes, lists).dropFirst() {
            let difference = list.difference(from: lists[0])
            #expect(
                difference.isEmpty,
                "Node \(node.number) lists others than node 1: \(difference.prefix(4))",
                sourceLocation: sourceLocation)
        }
    }

    /// Expects that the ends have never heard each other and say so, that the middle hears both,
    /// and that nobody ignores anybody or finds anything wrong.
    private func expectStrangers(
        _ cluster: TestCluster, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for node in cluster.nodes {
            let status = try await node.status()
            let members = (status["members"]?.array ?? []).compactMap(\.integer)
            #expect(members == [1, 2, 3], sourceLocation: sourceLocation)
            for peer in status.objects("peers") {
                let number = try #require(peer["node"]?.integer)
                let isNeighbour = abs(Int(number) - node.number) == 1
                // A node that was heard once has told its clock and its vector.
                let isHeard =
                    peer["clockOffsetMilliseconds"] != .null || !peer.vector("vector").isEmpty
                #expect(
                    peer["connected"]?.boolean == isNeighbour && isHeard == isNeighbour,
                    "Node \(node.number) says \(peer)", sourceLocation: sourceLocation)
                #expect(
                    isNeighbour
                        ? peer["refusal"] == .null
                        : !peer.text("refusal").contains("ignored for a while"),
                    "\(peer)", sourceLocation: sourceLocation)
            }
            for member in (status["stability"]?.object?["members"]?.array ?? []) {
                guard let member = member.object, let number = member["node"]?.integer else {
                    throw EndToEndError("Node \(node.number) tells of no member: \(member)")
                }
                let isStranger = abs(Int(number) - node.number) == 2
                #expect(
                    (member.text("hindrance") == "nothingHeard") == isStranger, "\(member)",
                    sourceLocation: sourceLocation)
            }
            #expect(status["peers"]?.array?.count == 2, sourceLocation: sourceLocation)
            #expect(status["held"]?.array == [], sourceLocation: sourceLocation)
            #expect(status["alarms"]?.array == [], sourceLocation: sourceLocation)
        }
    }
}
