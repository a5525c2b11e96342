import Merge
import Replication
import Testing

/// Who is believed that a node is a member no more, told to one replicator by hand.
@Suite struct DepartureTests {
    private static func actor(_ node: Int) -> ActorID { ActorID(node, UInt64(node) << 32) }

    /// Node 1, to which nodes 2 and 3 are members as well.
    private struct Subject {
        var replicator: Replicator

        init(recovery: Recovery = .none, configured: [Int] = [2, 3]) {
            replicator = Replicator(started: actor(1), recovery: recovery, peers: configured)
        }

        /// Hears a node say who departed, and whom it has met.
        @discardableResult
        mutating func hear(
            from node: Int, departed: [Int] = [], met: [Int] = [], recovery: Recovery = .none
        ) -> [Effect] {
            let heads = Heads(
                actor(node), met: met.map { actor($0) }, departed: departed.map(World.id),
                recovery: recovery)
            return replicator.hear(.heads(heads), from: node)
        }

        /// Hears a node publish heads whose vector cannot be completed here.
        mutating func hearPart(from node: Int, departed: [Int]) -> [Effect] {
            let (theirs, own) = (dot(actor(4), 1), dot(actor(node), 1))
            let vector = VersionVector(upTo: [theirs, own])
            var beginnings = Beginnings()
            beginnings.note(actor(node), VersionVector(upTo: [theirs]))
            let heads = Heads(actor(node), vector: vector, departed: departed.map(World.id))
            let envelope = Envelope(
                cluster: "test", sender: actor(node).node, message: .heads(heads))
            return replicator.handle(
                .messageReceived(
                    bytes: envelope.encoded(telling: beginnings), from: actor(node).node,
                    over: .publish, now: 1))
        }

        /// Hears a node publish its first transaction.
        mutating func publish(from node: Int) -> [Effect] {
            let transaction = makeTransaction(dot(actor(node), 1), seen: VersionVector())
            return replicator.hear(.notification([transaction.bytes]), from: node, over: .publish)
        }

        /// Its store learns who the members are, and that one of them departed.
        @discardableResult
        mutating func learn(members: [Int] = [1, 2, 3], departed node: Int? = nil) -> [Effect] {
            let state = told(members: members, departed: node)
            return replicator.handle(.applied(state: state, rejected: [], now: 2))
        }

        /// What its store holds then, besides what it held before.
        func told(
            members: [Int] = [1, 2, 3], departed node: Int? = nil, by teller: Int = 3
        ) -> StoreState {
            let dot = Dot(actor: actor(node == nil ? 1 : teller), sequence: 1)
            let stamp = Stamp(timestamp: .zero, dot: dot)
            var membership = Membership()
            for member in members {
                membership.apply(.join(World.id(member), World.address), stamp: stamp)
            }
            if let node { membership.apply(.depart(World.id(node), isRetired: true), stamp: stamp) }
            var state = StoreState.empty
            state.vector.advance(to: dot)
            state.membership = membership
            return state
        }

        mutating func tick(_ now: UInt64) -> [Effect] {
            replicator.handle(.tick(now: now, wallMilliseconds: World.wallStart + now))
        }
    }

    @Test("A departed node learns it from heads whose vector it cannot read")
    func toldByPart() {
        var subject = Subject()
        let isTold = subject.hearPart(from: 2, departed: [1]).contains { effect in
            if case .alarm(.departed) = effect { true } else { false }
        }
        #expect(isTold)
        #expect(subject.replicator.status.peers.first?.vector.isEmpty == true)
    }

    @Test("The word of a departed node does not count, once that is known")
    func tellerDeparts() {
        var subject = Subject()
        let told = subject.hear(from: 2, departed: [1])
        #expect(told.contains(.setSaving(allowed: false)))
        #expect(told.contains(.alarm(.departed(told: World.id(2)))))
        #expect(subject.learn(departed: 2).contains(.setSaving(allowed: true)))
    }

    @Test("The word of another member goes on counting")
    func anotherTells() {
        var subject = Subject()
        subject.hear(from: 2, departed: [1])
        subject.hear(from: 3, departed: [1])
        #expect(!subject.learn(departed: 2).contains(.setSaving(allowed: true)))
        #expect(!subject.replicator.status.isSaving)
    }

    @Test("A new store takes nothing from a node that only its log names before a peer is heard")
    func newStoreAsks() {
        var subject = Subject(recovery: .new, configured: [2])
        subject.learn(members: [1, 2, 3])
        subject.hear(from: 3, met: [1, 2])
        #expect(!subject.publish(from: 3).contains { $0.isApply })
        #expect(subject.replicator.status.recovery != .none)
        // Node 2 has met it and has nothing that it lacks: node 3 is a member indeed.
        #expect(subject.hear(from: 2, met: [1, 3]).tellsVouched)
        #expect(subject.publish(from: 3).contains { $0.isApply })
    }

    @Test(
        "A new store takes nothing from a node that a peer says has departed",
        arguments: [true, false])
    func newStoreIsTold(isNamed: Bool) {
        var subject = Subject(recovery: .new, configured: isNamed ? [2, 3] : [2])
        subject.learn(members: [1, 2, 3])
        subject.hear(from: 2, departed: isNamed ? [3] : [])
        subject.hear(from: 3)
        #expect(subject.publish(from: 3).contains { $0.isApply } == !isNamed)
        #expect(subject.replicator.status.recovery != .none)
    }

    @Test("A store whose configuration names no member any more believes all that its log names")
    func nobodyConfigured() throws {
        var subject = Subject(recovery: .new, configured: [4])
        subject.learn(members: [1, 2, 3, 4], departed: 4)
        subject.hear(from: 2, met: [1, 3])
        #expect(subject.publish(from: 2).contains { $0.isApply })
    }

    @Test("A new store takes from new members that its log alone names, though a peer was never up")
    func newJoiner() {
        var subject = Subject(recovery: .new, configured: [2])
        subject.learn(members: [1, 2, 3])
        subject.hear(from: 3, met: [1], recovery: .new)
        #expect(subject.publish(from: 3).contains { $0.isApply })
        #expect(subject.replicator.status.recovery == .new)
    }

    @Test("A new store asks the nodes of its configuration, though its log does not have them")
    func newerThanTheLog() {
        var subject = Subject(recovery: .new, configured: [2])
        // Of the log it has the part in which node 2 has not joined.
        subject.learn(members: [1, 3])
        subject.hear(from: 3, met: [1])
        #expect(!subject.publish(from: 3).contains { $0.isApply })
        subject.hear(from: 2, departed: [3])
        #expect(!subject.publish(from: 3).contains { $0.isApply })
        #expect(subject.replicator.status.recovery != .none)
    }

    @Test("A new store listens to the nodes that its configuration names until it is vouched for")
    func configurationNamesMore() throws {
        var subject = Subject(recovery: .new, configured: [2, 3])
        // Of the log it has the part in which nodes 1 and 2 alone are members.
        subject.learn(members: [1, 2])
        // Node 2 lost its store as well, so its word alone does not vouch for this one.
        #expect(!subject.hear(from: 2, met: [1], recovery: .new).tellsVouched)
        subject.hear(from: 3, met: [1])
        #expect(subject.publish(from: 3).contains { $0.isApply })
    }

    @Test("A store that is vouched for listens to the members of its log alone")
    func configurationNamesStranger() throws {
        var subject = Subject(configured: [2, 3])
        subject.learn(members: [1, 2])
        subject.hear(from: 3, met: [1])
        #expect(!subject.publish(from: 3).contains { $0.isApply })
    }

    /// A node that counts a report of a departure may collect what this node would write over
    /// later. So this node must apply nothing of the departed one after it (MODEL.md, P16).
    @Test(
        "P16: what could not be applied of a node that departed meanwhile is dropped, not tried again",
        arguments: [false, true])
    func failedApply(isRejected: Bool) throws {
        var subject = Subject()
        subject.learn()
        subject.hear(from: 2, met: [1, 3])
        subject.hear(from: 3, met: [1, 2])
        let applying = subject.publish(from: 3)
        guard case .apply(let batch)? = applying.last, let saved = batch.first else {
            Issue.record("expected an apply, got \(applying)")
            return
        }
        // Its retirement is saved here before the store has answered, and then the disk is full.
        var state = subject.told(departed: 3, by: 2)
        state.vector.advance(Self.actor(1), to: 1)
        #expect(state.membership.departed.map(\.node) == [World.id(3)])
        _ = subject.replicator.handle(.committed([], state: state, now: 3))
        let rejected = isRejected ? [Rejection(dot: saved.dot, reason: "no such row")] : []
        var effects = subject.replicator.handle(.applied(state: state, rejected: rejected, now: 4))
        for now in stride(from: 50, to: 130_000, by: 50) { effects += subject.tick(UInt64(now)) }
        #expect(!effects.contains { $0.isApply })
        #expect(subject.replicator.status.gauges.waitingCount == 0)
        #expect(subject.replicator.status.held.isEmpty)
        // Its bytes are here until it is known whether somebody has what comes before it.
        #expect(subject.replicator.status.gauges.orphanBytes == saved.bytes.count)
    }
}
