import CZeroMQ
import Coordinator
import Foundation
import Logging
import Merge
import Replication
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("A listed peer that forges", .serialized) struct ForgingPeerTests {
    @Test("Forged transactions change nothing, and the others go on")
    func forging() async throws {
        let cluster = try TestCluster(3)
        let keys = try Mesh.keys(3)
        let peers = zip(cluster.peers, keys).map { peer, keys in
            var peer = peer
            peer.publicKeys = [keys.publicKey]
            return peer
        }
        var nodes: [NodeService] = []
        for number in 1...2 {
            nodes.append(try await Self.start(number, cluster, peers, keys[number - 1]))
        }
        for node in nodes { try await node.insertNotes(5) }
        try await NodeService.converge(nodes, transactions: 10)

        // The key of node 3, in the wrong hands, knocks at node 1.
        let context = try ZeroMQContext()
        let forger = try ZeroMQSocket(.dealer, in: context)
        try Gatekeeper.introduceClient(forger, keys[2], to: keys[0].publicKey)
        try forger.set(ZMQ_ROUTING_ID, text: "node-3-0123456789abcdef")
        try forger.connect("tcp://\(peers[0].exchange.address)")
        let frames = try Self.forgeries(in: nodes)
        for round in 0..<3 {
            for frame in frames { _ = try forger.send(frame) }
            try await nodes[round % 2].insertNotes(2)
            try await Task.sleep(for: .milliseconds(100))
        }
        try await NodeService.converge(nodes, transactions: 16)
        try await eventually("the forger was heard") {
            nodes[0].overviewBlockingStatistics >= frames.count
        }
        for node in nodes {
            let vector = try node.coordinator.read { try $0.token.versionVector }
            // Nothing but what the two have saved: five each, and two in each of three rounds.
            #expect(vector.entries.count == 2)
            #expect(vector.entries.reduce(0) { $0 + $1.sequence } == 16)
            #expect(try await node.verifyRows())
            #expect(node.isReady)
        }
        for node in nodes { await node.stop() }
    }

    @Test("A member of whom data alone tell, and no key, is left out when keys change")
    func memberWithoutKey() async throws {
        let cluster = try TestCluster(3)
        let (keys, later) = (try CurveKeys.generate(), try CurveKeys.generate())
        var peers = cluster.peers
        for index in peers.indices { peers[index].publicKeys = [keys.publicKey] }
        let node = try await Self.start(1, cluster, Array(peers.prefix(2)), keys)
        let joins = cluster.peers.enumerated().map { index, peer in
            MembershipChange.join(
                peer.node,
                MemberAddress(
                    publish: "\(peer.publish)", exchange: "\(peer.exchange)",
                    publicKeys: index == 2 ? [] : [keys.publicKey.text]))
        }
        _ = try await node.saveOnceVouched { try await $0.changeMembership(joins) as SaveResult }
        try await eventually("all are members") { await node.status().members.count == 3 }
        node.shared.handover.give(.rekeyed(MeshChange(keys: later, peers: [peers[1]])))
        try await eventually("the node goes on with its new key") {
            node.shared.report.withLock { $0.keys.publicKey } == later.publicKey
        }
        #expect(node.isReady)
        try await node.insertNotes(1)
        await node.stop()
    }

    private static func start(
        _ number: Int, _ cluster: TestCluster, _ peers: [MeshPeer], _ keys: CurveKeys
    ) async throws -> NodeService {
        let own = peers[number - 1]
        let coordinator = try await cluster.open(number)
        var settings = NodeService.Settings()
        settings.peers = peers.filter { $0.node != own.node }
        settings.logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let listed = settings.peers
        let service = try NodeService(coordinator: coordinator, settings: settings) {
            var settings = ZeroMQTransport.Settings(
                node: own.node, publish: own.publish, exchange: own.exchange)
            settings.keys = keys
            settings.listed = listed
            return try ZeroMQTransport(settings)
        }
        try await service.start()
        return service
    }

    /// Frames as node 3 could send them: in its own name, in another's, and broken.
    private static func forgeries(in nodes: [NodeService]) throws -> [[UInt8]] {
        let three = try #require(NodeID(3))
        let model = nodes[0].coordinator.model.modelHash
        let forged = ActorID(node: three, startedAtSeconds: 1_700_000_000, random: 7)
        let next = try nodes[1].coordinator.currentToken.versionVector[nodes[1].actor] + 1
        func transaction(
            _ actor: ActorID, _ sequence: UInt64, model: [UInt8], row: Int64 = 99
        ) -> [UInt8] {
            EncodedTransaction(
                Transaction(
                    dot: Dot(actor: actor, sequence: sequence),
                    timestamp: HybridTimestamp(milliseconds: 1_700_000_000_000, counter: 3)
                        ?? .zero,
                    seen: VersionVector(), author: "forger", modelHash: model,
                    shapes: [ChangeShape(entity: "Note", assigned: ["text"])],
                    changes: [
                        Change(
                            kind: .insert, shape: 0, row: RowID(row), values: [.string("forged")])
                    ])
            ).bytes
        }
        func frame(_ message: Message, cluster: String = "test", sender: NodeID) -> [UInt8] {
            Envelope(cluster: cluster, sender: sender, message: message).encoded()
        }
        let strange = [UInt8](repeating: 9, count: 32)
        var broken = transaction(forged, 1, model: model)
        broken[broken.count / 2] ^= 0x40
        return [
            // In the name of node 2, as its next save; from node 3, and claiming to be node 2.
            frame(.notification([transaction(nodes[1].actor, next, model: model)]), sender: three),
            frame(
                .notification([transaction(nodes[1].actor, next, model: model)]),
                sender: nodes[1].coordinator.node),
            // In the name of the receiver.
            frame(.notification([transaction(nodes[0].actor, 999, model: model)]), sender: three),
            // Of another model, of another cluster, broken, and no transaction at all.
            frame(.notification([transaction(forged, 1, model: strange)]), sender: three),
            frame(
                .notification([transaction(forged, 1, model: model)]), cluster: "other",
                sender: three),
            frame(.notification([broken]), sender: three),
            frame(.notification([[1, 2, 3]]), sender: three),
            // An answer that nobody asked for.
            frame(
                .page(
                    Page(
                        id: 1, transactions: [transaction(nodes[1].actor, next, model: model)],
                        reachedEnd: true, vector: VersionVector())), sender: three),
        ]
    }
}

extension NodeService {
    fileprivate var overviewBlockingStatistics: Int {
        shared.report.withLock { $0.transport.framesReceived }
    }

    /// Whether the digest that is kept is that of the rows.
    fileprivate func verifyRows() async throws -> Bool {
        let coordinator = coordinator
        return try coordinator.verify().isOK
    }
}
