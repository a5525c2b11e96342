import Merge
import Testing

@testable import Coordinator

/// What a store remembers of other nodes' incarnations, and what it becomes when it goes on after
/// one of its own node that it does not know.
@Suite struct RememberedIncarnationTests {
    private let node: EngineNode

    init() throws { node = try EngineNode() }

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
        try node.reopen()
        #expect(try node.coordinator.rememberedIncarnations == expected)
    }

    @Test("The cluster's founders are remembered, over openings, until it is vouched for again")
    func founders() throws {
        #expect(node.coordinator.recovery == .new)
        try node.coordinator.noteFounder()
        try node.reopen()
        #expect(node.coordinator.recovery == .founder)
        let founders = [try #require(node.coordinator.actor), try actor(7, .max)]
        try node.coordinator.vouch(founders: founders)
        try node.reopen()
        #expect(node.coordinator.recovery == .none)
        #expect(try node.coordinator.founders == founders)
        let backup = node.path + "-backup"
        _ = try node.coordinator.backUp(to: backup)
        #expect(try PersistentStoreCoordinator(readingStoreAt: backup).founders == [])
        try node.coordinator.outgrow()
        try node.coordinator.vouch()
        #expect(try node.coordinator.founders == [])
    }

    @Test("A store knows the incarnations it was open in, and not those its node had with another")
    func formerIncarnations() throws {
        #expect(try node.coordinator.formerIncarnations == [])
        var lives = [try #require(node.coordinator.actor)]
        for _ in 0..<2 {
            try node.reopen()
            #expect(try node.coordinator.formerIncarnations == lives)
            lives.append(try #require(node.coordinator.actor))
        }
        // What another store of this node has saved comes back from a peer.
        let other = try EngineNode(node.model, node: Int(node.node.rawValue))
        try other.insert("Tag")
        let peer = try EngineNode(node.model, node: 9)
        try peer.take(from: other)
        // Within a second chance alone says which is the later one.
        let isLater = { (store: EngineNode) in
            let actors = (store.coordinator.actor, other.coordinator.actor)
            return try #require(actors.0) > #require(actors.1)
        }
        var successor = try EngineNode(node.model, node: Int(node.node.rawValue))
        for _ in 0..<64 where try !isLater(successor) {
            successor = try EngineNode(node.model, node: Int(node.node.rawValue))
        }
        let own = try #require(successor.coordinator.actor)
        try successor.take(from: peer)
        try successor.reopen()
        #expect(try successor.coordinator.formerIncarnations == [own])
    }

    @Test("A store that goes on after an incarnation it does not know must be vouched for again")
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
