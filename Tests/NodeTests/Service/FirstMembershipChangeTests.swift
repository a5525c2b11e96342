import Coordinator
import Foundation
import Merge
import Testing

@testable import Node

/// The first change of membership makes data of what one node's configuration says of all.
@Suite("The first change of membership")
struct FirstMembershipChangeTests {
    /// A node that was not started: its store, and what it knows of two.
    private struct Bench {
        let cluster: TestCluster
        let service: NodeService
        var coordinator: PersistentStoreCoordinator { service.coordinator }

        init() async throws {
            cluster = try TestCluster(3)
            var settings = NodeService.Settings()
            settings.peers = [cluster.peers[1]]
            settings.address = Self.address(of: cluster.peers[0])
            service = try NodeService(coordinator: try await cluster.open(1), settings: settings)
        }

        static func address(of peer: MeshPeer) -> MemberAddress {
            MemberAddress(publish: "\(peer.publish)", exchange: "\(peer.exchange)")
        }

        /// Has the store apply a save of another node.
        func apply(savedBy peer: MeshPeer) throws {
            let actor = ActorID(node: peer.node, startedAtSeconds: 1_700_000_000, random: 7)
            let transaction = Transaction(
                dot: Dot(actor: actor, sequence: 1),
                timestamp: HybridTimestamp(milliseconds: 1_700_000_000_000, counter: 3) ?? .zero,
                seen: VersionVector(), modelHash: coordinator.model.modelHash, shapes: [],
                changes: [])
            _ = try coordinator.apply([EncodedTransaction(transaction)])
        }
    }

    // A key that was withdrawn, for it was stolen, came back in by the data.
    @Test("It tells what a reload has brought, and not what was there at the start")
    func reloaded() async throws {
        let bench = try await Bench()
        let moved = MeshPeer(
            node: bench.cluster.peers[1].node, publish: bench.cluster.peers[2].exchange,
            exchange: bench.cluster.peers[2].publish)
        try bench.service.update(MeshChange(keys: nil, peers: [moved]))
        let fourth = try #require(NodeID(4))
        let address = MemberAddress(publish: "tcp://127.0.0.1:17", exchange: "tcp://127.0.0.1:18")
        _ = try await bench.service.join(fourth, at: address)
        let membership = try bench.coordinator.membership
        #expect(membership[moved.node]?.address == Bench.address(of: moved))
        #expect(membership.current.map(\.rawValue) == [1, 2, 4])
    }

    @Test("A configured node that joins with it is where the command says")
    func configured() async throws {
        let bench = try await Bench()
        let address = MemberAddress(publish: "tcp://127.0.0.1:17", exchange: "tcp://127.0.0.1:18")
        _ = try await bench.service.join(bench.cluster.peers[1].node, at: address)
        let membership = try bench.coordinator.membership
        #expect(membership[bench.cluster.peers[1].node]?.address == address)
        #expect(membership.current.map(\.rawValue) == [1, 2])
    }

    // It ceased to be a member without a word, went on acknowledging saves, and nobody took them.
    @Test("A node that has saved and that the configuration does not name is not left out silently")
    func unnamed() async throws {
        let bench = try await Bench()
        let third = bench.cluster.peers[2]
        try bench.apply(savedBy: third)
        let fourth = try #require(NodeID(4))
        let address = MemberAddress(publish: "tcp://127.0.0.1:17", exchange: "tcp://127.0.0.1:18")
        let error = await #expect(throws: CoordinatorError.self) {
            _ = try await bench.service.join(fourth, at: address)
        }
        #expect(error?.code == .malformed && error?.message.contains("Node 3") == true)
        #expect(try bench.coordinator.membership.isEmpty)
        _ = try await bench.service.retire(third.node)
        _ = try await bench.service.join(fourth, at: address)
        let membership = try bench.coordinator.membership
        #expect(membership.current.map(\.rawValue) == [1, 2, 4])
        #expect(membership[third.node]?.departure?.isRetired == true)
    }
}
