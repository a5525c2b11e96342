import Merge
import Replication
import Testing

@Suite("A store that lost what its node has reported is read-only until it is vouched for")
struct RecoveryTests {
    static let own = Reporter.own
    static let second = Reporter.second
    static let third = Reporter.third
    let old = makeTransaction(dot(Reporter.second, 1), seen: VersionVector())

    @Test("A restored store refuses saves before anything else")
    func restored() {
        let node = Reporter(recovery: .restored)
        #expect(node.effects == [.setSaving(allowed: false)])
        #expect(node.lastHeads?.recovery != Recovery.none)
        #expect(!node.replicator.status.isSaving)
    }

    @Test(
        "It is vouched for by all that one member had when it had met us", arguments: [false, true])
    func vouchedByOne(isMet: Bool) {
        var node = Reporter(recovery: .restored)
        node.heads(Self.second, [old.dot], met: isMet ? [Self.own] : [])
        node.page([old], from: 2)
        #expect(node.store.vector.contains(old.dot))
        #expect(node.effects.tellsVouched == isMet)
        #expect(node.replicator.status.isSaving == isMet)
        guard isMet else { return }
        #expect(node.effects.suffix(2) == [.vouched(founders: []), .setSaving(allowed: true)])
        node.tick()
        #expect(node.lastHeads?.recovery == Recovery.none)
        #expect(node.effects.filter(\.isVouched).count == 1)
    }

    @Test("What is applied but not on disk vouches for nothing")
    func vouchedOnDisk() {
        var node = Reporter(
            recovery: .restored, store: FakeStore(recovery: .restored, isLazy: true))
        node.heads(Self.second, [old.dot])
        node.page([old], from: 2)
        #expect(!node.effects.tellsVouched)
        node.store.sync()
        node.give(.committed([], state: node.store.state, now: node.now))
        #expect(node.effects.tellsVouched)
    }

    @Test("A member that is itself not vouched for vouches for nobody alone, but all together do")
    func vouchedByAll() {
        var node = Reporter(recovery: .restored)
        node.heads(Self.second, [], recovery: .restored)
        #expect(!node.replicator.status.isSaving)
        node.heads(Self.third, [], met: [Self.second], recovery: .new)
        #expect(!node.replicator.status.isSaving)
        node.heads(Self.third, [], recovery: .new)
        #expect(node.effects.tellsVouched)
        #expect(node.replicator.status.isSaving)
    }

    @Test("A peer's later saves do not put off the end: its first report that met us is enough")
    func busyPeer() {
        var node = Reporter(recovery: .restored)
        node.heads(Self.second, [old.dot])
        node.heads(Self.second, [dot(Self.second, 9)])
        node.page([old], from: 2)
        #expect(node.effects.tellsVouched)
    }

    @Test("A peer that restarts takes its word back")
    func peerRestarts() {
        var node = Reporter(recovery: .restored)
        node.heads(Self.second, [old.dot])
        let restarted = ActorID(2, 21)
        node.heads(restarted, [old.dot], met: [])
        node.page([old], from: 2)
        #expect(!node.effects.tellsVouched)
        node.heads(restarted, [old.dot])
        #expect(node.effects.tellsVouched)
    }

    @Test("Without peers a store is vouched for at once", arguments: [Recovery.new, .restored])
    func alone(recovery: Recovery) {
        let node = Reporter(recovery: recovery, peers: [1])
        #expect(node.effects.first == .vouched(founders: []))
        #expect(!node.effects.contains(.setSaving(allowed: false)))
    }

    @Test("New stores save at once and go on saving while they meet, until all are vouched for")
    func freshCluster() {
        let world = World(seed: 1)
        for number in 1...3 {
            world.addNode(number, peers: [1, 2, 3].filter { $0 != number }, recovery: .new)
        }
        for index in 0...1 { world.start(index) }
        for round in 0..<40 {
            world.save(round % 2)
            world.run(60)
        }
        #expect(world.isConvergedOf([0, 1]))
        #expect(world.nodes[0].store.log.count == 40)
        #expect(world.status(0).recovery == .new && world.status(0).isSaving)
        world.start(2)
        for _ in 0..<200 {
            world.run(30)
            #expect(world.nodes.map(\.isSaving) == [true, true, true])
        }
        #expect(world.isConverged)
        for index in 0...2 {
            #expect(world.status(index).recovery == .none)
            #expect(world.status(index).stable == world.nodes[index].store.vector)
        }
    }

    @Test(
        "Beside one that it was new together with, a new store stays new", arguments: [0, 1, 2, 3])
    func fellowFounder(others: Int) {
        // The same, the same store in an earlier incarnation, one of another store, or nobody of it.
        let former = ActorID(node: Self.own.node, incarnation: 49)
        let founders = [
            [Self.own, Self.second], [former, Self.second],
            [ActorID(node: Self.own.node, incarnation: 48), Self.second], [Self.second],
        ][others]
        var node = Reporter(recovery: .new, formerIncarnations: [former])
        node.heads(Self.second, [old.dot], met: [], recovery: .new)
        node.heads(Self.second, [old.dot], met: [], founders: founders)
        #expect(node.effects.contains(.setSaving(allowed: false)) == (others > 1))
        guard others <= 1 else { return }
        node.page([old], from: 2, recovery: others == 0 ? .new : .none)
        #expect(node.effects == [.founder, .apply([old])])
        #expect(node.replicator.status.recovery == .new)
        node.heads(Self.second, [old.dot], founders: founders)
        #expect(node.effects.last == .vouched(founders: [Self.own, Self.second]))
    }

    @Test("A founder stays one after a restart, also where nobody tells it any more")
    func foundedBefore() {
        var node = Reporter(recovery: .new, isFounder: true)
        node.heads(Self.second, [old.dot], met: [])
        node.page([old], from: 2)
        #expect(node.effects == [.apply([old])])
        #expect(node.replicator.status.isSaving)
    }

    @Test("A founder whose store was replaced by an older one refuses saves", arguments: [49, 48])
    func founderLost(incarnation: UInt64) {
        // Of another store that its node had once, others may have what this one never had.
        var node = Reporter(
            recovery: .new, isFounder: true,
            formerIncarnations: [ActorID(node: Self.own.node, incarnation: 49)])
        let lost = dot(ActorID(node: Self.own.node, incarnation: incarnation), 1)
        node.heads(Self.second, [lost], met: [])
        #expect(node.effects.contains(.outgrown) == (incarnation == 49))
        #expect(node.replicator.status.isSaving == (incarnation == 48))
    }

    @Test("A store that was vouched for names the founders after a restart, unless it was put back")
    func namesFoundersLater() {
        let founders = [Self.own, Self.second]
        var node = Reporter(founders: founders)
        node.tick()
        #expect(node.lastHeads?.founders == founders)
        var restored = Reporter(recovery: .restored, founders: founders)
        restored.heads(Self.second)
        restored.tick()
        #expect(restored.effects.tellsVouched)
        #expect(restored.lastHeads?.founders == [])
    }

    @Test(
        "One whose clock was far ahead when the cluster began stops nobody's saves",
        arguments: 0..<20)
    func founderAhead(seed: UInt64) {
        let world = World(seed: 100 + seed)
        for number in 1...3 {
            world.addNode(number, peers: [1, 2, 3].filter { $0 != number }, recovery: .new)
        }
        // What it saves before it hears the others they have to hold, and none is vouched for
        // beside it before they have it.
        world.start(2)
        world.save(2, ahead: 365 * 86_400_000)
        for index in 0...1 { world.start(index) }
        world.run(5_000 + seed * 50)
        for index in [2, 0, 1, 1, 0, 2] {
            world.stop(index)
            world.restart(index)
            world.run(seed * 100)
            #expect(world.nodes.map(\.isSaving) == [true, true, true])
        }
        for index in 0...2 { world.save(index) }
        world.run(5_000)
        #expect(world.nodes.map(\.isSaving) == [true, true, true])
        // What it saves later waits for what it saved first.
        #expect(world.isConvergedOf([0, 1]) && world.nodes[0].store.log.count == 2)
    }

    @Test("A new store stays new beside a restored one that has nothing else", arguments: [0, 1])
    func besideRestored(more: Int) {
        // The third was never up, so nobody vouches for the second, and would for this one.
        var node = Reporter(recovery: .new)
        node.heads(Self.second, more == 0 ? [] : [old.dot], recovery: .restored)
        #expect(node.replicator.status.isSaving == (more == 0))
        #expect(node.effects.contains(.outgrown) == (more == 1))
    }

    @Test("The last member is vouched for at once")
    func lastMember() {
        var node = Reporter(recovery: .new, peers: [2])
        node.tick()
        #expect(!node.effects.tellsVouched)
        let save = makeTransaction(dot(Self.own, 1), seen: VersionVector())
        node.store.append(save)
        var state = node.store.state
        let stamp = Stamp(timestamp: .zero, dot: save.dot)
        for member in [1, 2] {
            state.membership.apply(
                .join(World.id(member), MemberAddress(publish: "p", exchange: "e")), stamp: stamp)
        }
        state.membership.apply(.depart(World.id(2), isRetired: true), stamp: stamp)
        node.give(.committed([save], state: state, now: node.now))
        #expect(node.effects.tellsVouched)
    }

    @Test("A vouched store names those it had met as founders, and is to them as new as they are")
    func namesFounders() throws {
        var node = Reporter(recovery: .new)
        #expect(node.lastHeads?.founders == [])
        node.heads(Self.second, recovery: .new)
        node.heads(Self.third, recovery: .new)
        #expect(node.effects == [.vouched(founders: [Self.own, Self.second, Self.third])])
        // It was no member then: what members had was stable without it.
        node.heads(ActorID(4, 40), recovery: .new)
        node.tick()
        #expect(node.lastHeads?.founders == [Self.own, Self.second, Self.third])
        func toldRecovery(_ actor: ActorID) -> Recovery? {
            node.heads(actor, recovery: .new)
            node.tell(
                .pull(Pull(id: 5, vector: VersionVector(), credit: 1_000)),
                from: Int(actor.node.rawValue))
            for case .readLog(let id, _, _) in node.effects.suffix(1) {
                node.give(.logRead(id: id, transactions: [], reachedEnd: true, now: node.now))
            }
            guard case .page(let page)? = node.sent.last else { return nil }
            return page.recovery
        }
        #expect(toldRecovery(Self.second) == .new)
        // Its store was lost since: what it had reported may be stable.
        #expect(toldRecovery(ActorID(node: Self.second.node, incarnation: 21)) == Recovery.none)
    }

    @Test(
        "A new store refuses saves before it takes over from an older one, until it has all of it")
    func newcomer() {
        var node = Reporter(recovery: .new)
        #expect(node.replicator.status.isSaving)
        node.heads(Self.second, [old.dot], met: [])
        #expect(node.effects == [.outgrown, .setSaving(allowed: false)])
        node.heads(Self.second, [old.dot])
        #expect(!node.replicator.status.isSaving)
        node.page([old], from: 2)
        #expect(node.effects.suffix(2) == [.vouched(founders: []), .setSaving(allowed: true)])
        let refused = node.effects.firstIndex(of: .setSaving(allowed: false))
        let applied = node.effects.firstIndex(of: .apply([old]))
        #expect((refused ?? .max) < (applied ?? 0))
    }

    @Test("A page of a peer that was new and is not any more is taken for what it is")
    func outgrownByPage() {
        var node = Reporter(recovery: .new)
        node.heads(Self.second, [old.dot], recovery: .new)
        #expect(node.effects.isEmpty)
        node.page([old], from: 2, recovery: .restored)
        #expect(node.effects == [.outgrown, .setSaving(allowed: false), .apply([old])])
    }

    @Test("P15a: a restored node writes nothing before it has what it had reported")
    func offlineAfterRestore() {
        let world = World(seed: 3, started: 3)
        world.save(1)
        world.run(1_000)
        let backup = world.nodes[2].store
        world.save(0)
        world.run(5_000)
        #expect(world.status(0).stable == world.nodes[0].store.vector)
        world.stop(2)
        world.nodes[2].store = backup
        world.nodes[2].store.restore()
        world.cut = [103, 203]
        world.restart(2)
        world.save(2)
        world.run(5_000)
        #expect(world.nodes[2].store.log.count == 1)
        world.cut = []
        world.run(5_000)
        world.save(2)
        world.run(5_000)
        #expect(world.nodes[0].store.log.count == 3)
        #expect(world.isConverged && world.oracle.faults == [])
    }

    @Test("Its own newer saves come back from the peers to a restored node")
    func ownSavesComeBack() {
        let world = World(seed: 4, started: 3)
        let backup = world.nodes[0].store
        world.save(0, count: 30)
        world.run(2_000)
        world.stop(0)
        world.nodes[0].store = backup
        world.nodes[0].store.restore()
        world.restart(0)
        world.run(3_000)
        #expect(world.nodes[0].store.log.count == 30)
        #expect(world.nodes[0].isSaving && world.nodes[0].alarms.isEmpty)
        world.save(0)
        world.run(5_000)
        #expect(world.isConverged)
        #expect(world.status(1).stable == world.nodes[1].store.vector)
    }

    @Test("A node with its clock set back hears of its newer incarnation and reopens after it")
    func clockSetBack() {
        let world = World(seed: 5, started: 2)
        world.run(2_000)
        world.stop(1)
        world.restart(1, incarnation: 2 << 32 | 500)
        world.run(2_000)
        world.stop(1)
        world.nodes[1].store = FakeStore(recovery: .new)
        world.restart(1, incarnation: 2 << 32 | 7)
        world.run(5_000)
        #expect(world.nodes[1].actor.incarnation > 2 << 32 | 500)
        world.save(1)
        world.run(5_000)
        #expect(world.isConverged && world.nodes[0].store.log.count == 1)
        #expect(world.status(0).stable == world.nodes[0].store.vector)
    }

    @Test("After a restart nothing is reported before all have been met, and then all of it")
    func restarted() {
        let world = World(seed: 6, started: 3)
        world.save(0)
        world.run(5_000)
        world.stop(0)
        world.cut = [103]
        world.restart(0)
        world.run(5_000)
        #expect(world.status(0).stable.isEmpty)
        #expect(world.status(0).members.map(\.hindrance).contains(.nothingHeard))
        world.cut = []
        world.run(5_000)
        #expect(world.status(0).stable == world.nodes[0].store.vector)
    }
}

extension World {
    func isConvergedOf(_ indices: [Int]) -> Bool {
        indices.allSatisfy { nodes[$0].store.vector == nodes[indices[0]].store.vector }
    }
}
