import Merge
import Replication
import Testing

@Suite("Of two live processes under one number members go on with the elder")
struct LiveDoubleTests {
    private static let own = Reporter.own
    private static let elder = Reporter.second
    private static let former = ActorID(node: own.node, incarnation: own.incarnation - 1)
    private static let younger = ActorID(2, 21)
    private let alive = Limits().elderMilliseconds

    /// Lets the elder tell where it stands each half second, and the younger one in between.
    private func hearBoth(_ node: inout Reporter, for milliseconds: UInt64) {
        let end = node.now + milliseconds
        while node.now < end {
            node.now += 250
            node.heads(Self.elder)
            node.now += 250
            node.heads(Self.younger, known: [])
            node.tick(at: node.now)
        }
    }

    private func isNamed(_ actor: ActorID, by node: Reporter) -> Bool {
        node.sent.contains {
            switch $0 {
            case .heads(let heads), .hello(let heads):
                heads.actor == Self.own
                    && (heads.met + heads.known + heads.vector.entries.map(\.actor)).contains(actor)
            default: false
            }
        }
    }

    private func introductions(_ node: Reporter) -> Int {
        node.sent.count {
            if case .heads(let heads) = $0 { heads.actor == Self.elder } else { false }
        }
    }

    @Test("The younger is not met, nothing of it is taken, and both hear of each other")
    func refused() {
        var node = Reporter()
        hearBoth(&node, for: 10_000)
        let transaction = makeTransaction(dot(Self.younger, 1), seen: VersionVector())
        node.tell(.notification([transaction.bytes]), from: 2)
        node.tell(
            .announcement([Announced(dot: transaction.dot, size: 400_000)]), from: 2,
            over: .publish)
        node.tick()
        #expect(!isNamed(Self.younger, by: node) && isNamed(Self.elder, by: node))
        #expect(!node.remembered.contains(Self.younger))
        #expect(!node.effects.contains { $0.isApply })
        #expect(node.pulls.isEmpty)
        #expect(introductions(node) >= 2)
        let alarm = Alarm.twoNodesWithOneID(World.id(2), incarnation: Self.younger.incarnation)
        #expect(node.effects == [.alarm(alarm)])
        #expect(node.peer(2)?.isAgreed == true)
    }

    @Test("The younger is met once the elder was silent for three seconds, and nobody is alarmed")
    func silent() {
        var node = Reporter()
        node.heads(Self.elder)
        let last = node.now
        for (after, isMet) in [(1, false), (alive - 2, false), (alive, true)] {
            node.now = last + after
            node.heads(Self.younger, known: [])
            #expect(node.remembered.contains(Self.younger) == isMet)
        }
        #expect(node.effects.isEmpty && introductions(node) == 0)
    }

    @Test("A restart that names the elder as the one that had its lock is met at once")
    func restarted() {
        var node = Reporter()
        node.heads(Self.elder)
        node.heads(Self.younger, known: [Self.elder])
        #expect(node.remembered.contains(Self.younger))
        node.heads(Self.elder)
        let alarm = Alarm.incarnationOutdated(World.id(2), incarnation: 20, newest: 21)
        #expect(node.effects == [.alarm(alarm)])
    }

    @Test("After a member's restart the elder that it remembers gets three seconds to be heard")
    func memberRestarted() {
        for isElderThere in [false, true] {
            var node = Reporter(incarnations: [Self.elder])
            node.heads(Self.younger, known: [])
            #expect(node.remembered.isEmpty)
            if isElderThere { node.heads(Self.elder) }
            node.now = alive
            node.heads(Self.younger, known: [])
            #expect(node.remembered == (isElderThere ? [] : [Self.younger]))
            let peer = node.peer(2)
            #expect(peer?.actor == (isElderThere ? Self.elder : Self.younger))
        }
    }

    @Test("A node names the incarnation that had its lock before in all its heads")
    func namesPredecessor() {
        let world = World(seed: 21, started: 2)
        world.run(2_000)
        let former = world.nodes[1].actor
        world.stop(1)
        world.restart(1)
        // Quicker than the silence that is waited for otherwise.
        world.run(500)
        #expect(world.status(0).peers[0].actor == world.nodes[1].actor)
        #expect(world.nodes[1].actor > former)
        world.stop(1)
        world.restart(1, isCertain: false)
        world.run(500)
        #expect(world.status(0).peers[0].actor != world.nodes[1].actor)
        #expect(!world.nodes[1].isSaving)
        world.run(5_000)
        #expect(world.status(0).peers[0].actor == world.nodes[1].actor)
        #expect(world.nodes[1].isSaving && !world.nodes[1].isRefused)
    }

    // MARK: - As the younger

    private func introduce(
        _ node: inout Reporter, elder: ActorID, younger: ActorID, by member: Int
    ) {
        let heads = Heads(elder, met: [younger])
        node.tell(.heads(heads), from: member, named: Int(elder.node.rawValue))
    }

    @Test("A process that members refuse for an elder takes no saves, and ends two seconds later")
    func ends() {
        let elder = ActorID(1, 49)
        var node = Reporter()
        node.heads(Self.elder, met: [])
        // A stranger's word does not count.
        introduce(&node, elder: elder, younger: Self.own, by: 9)
        #expect(node.replicator.status.isSaving)
        introduce(&node, elder: elder, younger: Self.own, by: 2)
        #expect(
            node.effects == [
                .alarm(.twoNodesWithOneID(World.id(1), incarnation: 49)),
                .setSaving(allowed: false),
            ])
        let end = node.now + Limits().refusalMilliseconds
        introduce(&node, elder: elder, younger: Self.own, by: 2)
        node.tick(at: end - 1)
        #expect(!node.effects.contains(.refused))
        node.tick(at: end)
        #expect(node.effects.last == .refused)
    }

    @Test("A process that a member meets meanwhile goes on, and cannot be refused later")
    func metMeanwhile() {
        let elder = ActorID(1, 49)
        var node = Reporter()
        node.heads(Self.elder, met: [])
        introduce(&node, elder: elder, younger: Self.own, by: 2)
        node.heads(Reporter.third)
        #expect(node.replicator.status.isSaving)
        introduce(&node, elder: elder, younger: Self.own, by: 2)
        node.now += 10_000
        node.tick()
        #expect(node.replicator.status.isSaving && !node.effects.contains(.refused))
    }

    @Test("The elder hears of it, and goes on saving")
    func elderIsTold() {
        var node = Reporter()
        let other = ActorID(1, 77)
        introduce(&node, elder: Self.own, younger: other, by: 2)
        node.now += 10_000
        node.tick()
        #expect(node.effects == [.alarm(.twoNodesWithOneID(World.id(1), incarnation: 77))])
        #expect(node.replicator.status.isSaving)
    }

    // MARK: - Until it is met

    @Test("A possibly unknown store saves nothing until it is met, or for 1.5 s if it hears nobody")
    func hearsFirst() {
        var node = Reporter(hearsFirst: true)
        #expect(node.effects == [.setSaving(allowed: false)])
        node.tick(at: Limits().lonelyMilliseconds - 1)
        #expect(!node.replicator.status.isSaving)
        node.tick(at: Limits().lonelyMilliseconds)
        #expect(node.effects == [.setSaving(allowed: false), .setSaving(allowed: true)])
    }

    @Test("Where members are heard a copy waits until one has met it, for six seconds at most")
    func waitsForHeard() {
        for isMet in [false, true] {
            var node = Reporter(formerIncarnations: [Self.former], hearsFirst: true)
            node.heads(Self.elder, met: [])
            #expect(!node.replicator.status.isSaving)
            if isMet {
                node.heads(Self.elder)
                #expect(node.replicator.status.isSaving)
            }
            node.tick(at: Limits().meetingMilliseconds - 1)
            #expect(node.replicator.status.isSaving == isMet)
            node.tick(at: Limits().meetingMilliseconds)
            #expect(node.replicator.status.isSaving)
        }
    }

    @Test("A new store that hears members takes saves after 1.5 s, met or not")
    func newStoreIsHeard() {
        var node = Reporter(hearsFirst: true)
        node.heads(Self.elder, met: [])
        node.tick(at: Limits().lonelyMilliseconds - 1)
        #expect(!node.replicator.status.isSaving)
        node.tick(at: Limits().lonelyMilliseconds)
        #expect(node.replicator.status.isSaving)
    }

    @Test("A new store that finds an older cluster saves nothing before it has all of it")
    func newcomer() {
        let old = makeTransaction(dot(Self.elder, 1), seen: VersionVector())
        var node = Reporter(recovery: .new, hearsFirst: true)
        node.heads(Self.elder, [old.dot], met: [])
        node.heads(Self.elder, [old.dot])
        #expect(node.effects == [.setSaving(allowed: false), .outgrown])
        node.page([old], from: 2)
        #expect(node.effects.suffix(2) == [.vouched(founders: []), .setSaving(allowed: true)])
    }

    @Test("A node without peers waits for nobody")
    func alone() {
        let node = Reporter(hearsFirst: true, peers: [1])
        #expect(node.replicator.status.isSaving)
    }
}
