import Merge
import Replication
import Testing

/// Who is believed that a node is a member no more, told to one replicator by hand.
@Suite struct DepartureTests {
    private static let hash = [UInt8](repeating: 1, count: 32)

    private static func actor(_ node: Int) -> ActorID {
        guard let node = NodeID(node) else { preconditionFailure("No such node.") }
        return ActorID(node: node, incarnation: UInt64(node.rawValue) << 32)
    }

    /// Node 1, to which nodes 2 and 3 are members as well.
    private struct Subject {
        var replicator: Replicator
        let state = StoreState(vector: VersionVector(), digest: ProjectionDigest())
        let wall: UInt64 = 1_800_000_000_000

        init() {
            replicator = Replicator(
                configuration: .init(cluster: "test", actor: actor(1), modelHash: hash),
                generator: SeededGenerator(seed: 1))
            _ = replicator.handle(
                .started(
                    state: state, peers: [actor(2).node, actor(3).node], now: 0,
                    wallMilliseconds: wall))
        }

        /// Hears a node say who departed.
        mutating func hear(from node: Int, departed: [Int]) -> [Effect] {
            let heads = Heads(
                actor: actor(node), vector: VersionVector(), durable: VersionVector(),
                digest: ProjectionDigest(), clock: .zero, wallMilliseconds: wall, modelHash: hash,
                departed: departed.map { actor($0).node })
            let envelope = Envelope(
                cluster: "test", sender: actor(node).node, message: .heads(heads))
            return replicator.handle(
                .messageReceived(
                    bytes: envelope.encoded(), from: actor(node).node, over: .exchange, now: 1))
        }

        /// Its store learns who the members are, and that one of them departed.
        mutating func learn(departed node: Int) -> [Effect] {
            let dot = Dot(actor: actor(3), sequence: 1)
            let stamp = Stamp(timestamp: .zero, dot: dot)
            var membership = Membership()
            for member in 1...3 {
                membership.apply(
                    .join(actor(member).node, MemberAddress(publish: "p", exchange: "e")),
                    stamp: stamp)
            }
            membership.apply(.depart(actor(node).node, isRetired: true), stamp: stamp)
            var state = state
            state.vector.advance(to: dot)
            state.membership = membership
            return replicator.handle(.applied(state: state, rejected: [], now: 2))
        }
    }

    @Test("The word of one who is a member no more does not count, once that is known")
    func tellerDeparts() {
        var subject = Subject()
        let told = subject.hear(from: 2, departed: [1])
        #expect(told.contains(.setSaving(allowed: false)))
        #expect(told.contains(.alarm(.departed(told: actor(2)))))
        #expect(subject.learn(departed: 2).contains(.setSaving(allowed: true)))
    }

    @Test("The word of another member goes on counting")
    func anotherTells() {
        var subject = Subject()
        _ = subject.hear(from: 2, departed: [1])
        _ = subject.hear(from: 3, departed: [1])
        #expect(!subject.learn(departed: 2).contains(.setSaving(allowed: true)))
        #expect(!subject.replicator.status.isSaving)
    }

    private func actor(_ node: Int) -> NodeID { Self.actor(node).node }
}
