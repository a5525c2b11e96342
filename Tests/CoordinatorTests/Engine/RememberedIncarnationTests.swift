import Merge
import Testing

@testable import Coordinator

/// What a store remembers of other nodes' incarnations, and what it becomes when it goes on after
/// one of its own node that it does not know.
@Suite struct RememberedIncarnationTests {
    private let node: EngineNode

    init() throws { node = try EngineNode(try EngineModel.everything()) }

    private func actor(_ number: Int, _ incarnation: UInt64) throws -> ActorID {
        ActorID(node: try #require(NodeID(number)), incarnation: incarnation)
    }

    @Test("The last incarnation told of each node is remembered, over openings")
    func remembered() throws {
        for (number, incarnation) in [(7, 1), (3, 5), (7, UInt64.max), (3, 4)] {
            try node.coordinator.remember(try actor(number, incarnation))
        }
        let expected = [try actor(3, 4), try actor(7, .max)]
        #expect(try node.coordinator.rememberedIncarnations == expected)
        node.close()
        try node.open()
        #expect(try node.coordinator.rememberedIncarnations == expected)
    }

    @Test("A store that goes on after an incarnation it does not know must be vouched for anew")
    func laterIncarnation() throws {
        try node.coordinator.vouch()
        let own = try #require(node.coordinator.actor)
        node.close()
        for (minimum, expected) in [
            (own.incarnation, StoreRecovery.none), (UInt64.max >> 1, .restored), (0, .restored),
        ] {
            var options = PersistentStoreCoordinator.Options()
            options.minimumIncarnation = minimum
            let coordinator = try PersistentStoreCoordinator(
                storeAt: node.path, model: node.model, cluster: "test", node: node.node,
                options: options)
            defer { coordinator.close() }
            #expect(coordinator.recovery == expected)
            #expect((coordinator.actor?.incarnation ?? 0) > minimum)
        }
    }
}
