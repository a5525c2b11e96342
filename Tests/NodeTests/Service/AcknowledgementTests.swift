import Coordinator
import Merge
import NodeCore
import TestSupport
import Testing

@testable import Node

@Suite("Saves are acknowledged by other nodes", .serialized)
struct AcknowledgementTests {
    @Test("The level and the members decide who must confirm")
    func confirmations() {
        let needed = [1, 2, 3, 4, 5].map { members in
            [Acknowledgement.local, .nodes(2), .majority, .all].map {
                $0.confirmationsNeeded(members: members)
            }
        }
        #expect(
            needed == [[0, 1, 0, 0], [0, 1, 1, 1], [0, 1, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4]])
    }

    @Test("A save that all have on disk is acknowledged; without one of them it names it")
    func allAndMissing() async throws {
        let cluster = try TestCluster(3)
        let link = Link()
        let nodes = [
            try await cluster.start(1), try await cluster.start(2),
            try await cluster.start(3, link: link),
        ]
        let entity = try #require(nodes[0].coordinator.model.entity(named: "Note"))
        let note = SaveRequest(operations: [
            SaveOperation(kind: .insert, entity: entity, row: RowID(-1))
        ])
        let result = try await nodes[0].save(note, acknowledgement: .all, timeout: .seconds(60))
        let dot = try #require(result.transaction)
        for node in nodes { #expect(node.coordinator.durableVector.contains(dot)) }

        link.isCut = true
        _ = try await nodes[0].save(note, acknowledgement: .majority, timeout: .seconds(60))
        let error = await #expect(throws: NodeError.self) {
            try await nodes[0].save(note, acknowledgement: .all, timeout: .milliseconds(300))
        }
        #expect(error?.code == .acknowledgementTimeout)
        #expect(error?.detail("missing")?.contains("3") == true)
        #expect(try nodes[0].coordinator.currentToken.versionVector[nodes[0].actor] == 3)
        for node in nodes { await node.stop() }
    }

    @Test("More nodes than there are can never acknowledge, and nothing is saved")
    func tooMany() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        let entity = try #require(node.coordinator.model.entity(named: "Note"))
        let error = await #expect(throws: NodeError.self) {
            try await node.save(
                SaveRequest(operations: [
                    SaveOperation(kind: .insert, entity: entity, row: RowID(-1))
                ]), acknowledgement: .nodes(2))
        }
        #expect(error?.code == .tooFewNodes)
        #expect(try node.coordinator.currentToken.versionVector.isEmpty)
        await node.stop()
    }

    @Test("A save that waits fails when the node stops")
    func stopping() async throws {
        let acknowledgements = Acknowledgements()
        let actor = ActorID(node: try #require(NodeID(1)), incarnation: 7)
        let peers = [try #require(NodeID(2)), try #require(NodeID(3))]
        async let outcome = acknowledgements.wait(
            for: .init(
                dot: Dot(actor: actor, sequence: 1), peers: peers, needed: 2, deadline: .max),
            onWaiting: {})
        try await eventually("one waits") { acknowledgements.count == 1 }
        var vector = VersionVector()
        vector.advance(actor, to: 1)
        acknowledgements.update([(peers[0], vector)])
        #expect(acknowledgements.awaitedPeers == [peers[1]])
        acknowledgements.end()
        #expect(await outcome == .missing([peers[1]]))
    }
}
