import Merge
import Testing

@testable import Replication

/// Store transfers as a protocol: who begins one, with whom, and what becomes of it when links,
/// donors and joiners fail.
@Suite struct StoreTransferTests {
    private func world(_ seed: UInt64 = 1, partBytes: Int = 2_000) -> World {
        let world = World(seed: seed)
        world.limits.transferPartBytes = partBytes
        world.limits.transferTransactions = 100
        return world
    }

    private func started(_ count: Int) -> World {
        let world = world()
        world.addNodes(count)
        world.start()
        return world
    }

    /// Saves 200 transactions on the first node. The others hear of them as they are saved.
    private func fill(_ world: World) {
        for _ in 0..<20 {
            world.save(0, count: 10, bytes: 500)
            world.run(200)
        }
    }

    /// Nodes. The first has saved 200 transactions, and one has lost its store and is down.
    private func filled(_ count: Int, losing lost: Int) -> World {
        let world = started(count)
        fill(world)
        world.lose(lost)
        return world
    }

    /// Expects that all have the same, and how often a node has taken a copy.
    private func expect(
        _ world: World, _ index: Int, installed: Int,
        at place: SourceLocation = #_sourceLocation
    ) {
        #expect(world.nodes[index].installed == installed, sourceLocation: place)
        #expect(world.isConverged, sourceLocation: place)
    }

    private func purge(_ world: World, _ indices: Int...) {
        for index in indices {
            world.nodes[index].store.purgedCount = world.nodes[index].store.log.count
        }
    }

    /// Goes on until a node has a part of a copy, and not the whole.
    private func runUntilPartial(_ world: World, _ index: Int) -> TransferCopy? {
        for _ in 0..<5_000 {
            world.run(1)
            if let (copy, bytes) = world.nodes[index].store.incoming, bytes.count > 10_000 {
                return bytes.count < Int(copy.total) ? copy : nil
            }
        }
        return nil
    }

    @Test("A node that no log reaches takes a copy over, with its own saves, and all converge")
    func behind() {
        let world = started(3)
        world.save(0, count: 5)
        world.run(3_000)
        world.stop(2)
        for _ in 0..<10 { world.save(0, count: 3) }
        world.run(3_000)
        world.nodes[2].isUp = true
        purge(world, 0, 1)
        world.restart(2)
        world.save(2, count: 4)
        world.save(0)
        world.run(10_000)
        expect(world, 2, installed: 1)
        #expect(world.nodes[2].store.violations.isEmpty)
        #expect(world.nodes[2].store.vector[world.nodes[0].actor] == 36)
    }

    @Test("A donor that is heard and gives nothing is left for another", arguments: [0, 1])
    func silentDonor(index: Int) {
        let world = filled(3, losing: 2)
        purge(world, 0, 1)
        world.silentDonors = [index]
        world.restart(2)
        world.run(world.limits.transferTimeoutMilliseconds + 60_000)
        expect(world, 2, installed: 1)
    }

    @Test("A donor that falls silent midway is left too, and gone back to if nobody else gives")
    func silentMidway() throws {
        let world = filled(2, losing: 1)
        purge(world, 0)
        world.restart(1)
        let copy = try #require(runUntilPartial(world, 1))
        world.silentDonors = [0]
        world.run(world.limits.transferPatienceMilliseconds * 2)
        #expect(world.nodes[1].installed == 0)
        world.silentDonors = []
        world.run(60_000)
        #expect(world.nodes[1].installed == 1)
        #expect(world.copies.keys.sorted() == [copy.number], "It started over.")
    }

    @Test("Of a node that has left, and whose log is too short, members take a copy")
    func donorHasLeft() {
        let world = started(3)
        for number in 1...3 { world.change(0, .join(World.id(number), World.address)) }
        world.run(3_000)
        // The two others are away while it saves, leaves, and purges what one had that is gone.
        world.stop(0)
        world.stop(1)
        world.save(2, count: 7)
        world.change(2, .depart(World.id(3), isRetired: false))
        purge(world, 2)
        world.restart(0)
        world.restart(1)
        world.run(60_000)
        for index in [0, 1] {
            #expect(world.nodes[index].store.vector == world.nodes[2].store.vector)
            #expect(world.nodes[index].store.membership.current == [1, 2].map(World.id))
        }
    }

    @Test("A node told of its departure by one that departed itself takes the others' copy")
    func toldWrongly() {
        let world = started(4)
        for index in 0..<4 { world.change(index, .join(World.id(index + 1), World.address)) }
        world.run(3_000)
        // Two retire the fourth, and save more than they keep.
        world.stop(0)
        world.stop(3)
        world.save(1, count: 10)
        world.change(1, .depart(World.id(4), isRetired: true))
        world.run(3_000)
        purge(world, 1, 2)
        // The fourth has not heard of it, and retires the first.
        world.stop(1)
        world.stop(2)
        world.restart(3)
        world.save(3, count: 5)
        world.change(3, .depart(World.id(1), isRetired: true))
        purge(world, 3)
        world.restart(0)
        world.run(10_000)
        #expect(!world.nodes[0].replicator.status.isSaving)
        world.restart(1)
        world.restart(2)
        world.run(60_000)
        #expect(world.nodes[0].installed == 1)
        #expect(world.nodes[0].store.vector == world.nodes[1].store.vector)
        #expect(world.nodes[0].replicator.status.isSaving)
    }

    @Test("A newcomer whose join is in what was purged meanwhile takes a copy")
    func joinIsPurged() {
        let world = world(partBytes: 20_000)
        world.limits.transferTransactions = .max
        world.limits.pageBytes = 5_000
        world.addNodes(3, peers: [1: [2], 2: [1], 3: [1, 2]])
        world.start()
        world.lose(2)
        world.change(0, .join(World.id(4), World.address))
        fill(world)
        world.change(0, .join(World.id(3), World.address))
        world.run(3_000)
        world.restart(2)
        for _ in 0..<5_000 where world.nodes[2].store.log.count < 20 { world.run(1) }
        #expect(world.nodes[2].store.membership.current == [1, 2, 4].map(World.id))
        purge(world, 0, 1)
        world.run(30_000)
        #expect(world.nodes[2].installed == 1)
        #expect(world.nodes[2].store.vector == world.nodes[0].store.vector)
    }

    @Test("A wish that comes before the asking node is agreed with is not lost")
    func earlyWish() {
        var donor = Replicator(started: ActorID(1, 1), peers: [2])
        func isRead(_ effects: [Effect]) -> Bool {
            effects.contains { if case .readTransfer = $0 { true } else { false } }
        }
        let wish = TransferPull(id: 7, number: 0, offset: 0, credit: 1_000)
        #expect(!isRead(donor.hear(.transferPull(wish), from: 2)))
        #expect(isRead(donor.hear(.heads(Heads(ActorID(2, 2))), from: 2)))
    }

    @Test("A node that has saved as much itself is no newcomer: it reads the others' logs")
    func savedMuch() {
        let world = world()
        world.addNodes(2)
        world.cut = [102]
        world.start()
        for _ in 0..<12 {
            for index in 0...1 { world.save(index, count: 10) }
            world.run(200)
        }
        world.cut = []
        world.run(20_000)
        #expect(world.isConverged)
        #expect(world.nodes.map(\.installed) == [0, 0])
    }

    @Test("While one member's log reaches, it is pulled from, and no copy is taken")
    func oneReaches() {
        let world = started(3)
        world.save(0, count: 50)
        world.run(3_000)
        world.stop(2)
        for _ in 0..<10 { world.save(0, count: 3) }
        world.run(3_000)
        purge(world, 0)
        world.restart(2)
        world.run(10_000)
        expect(world, 2, installed: 0)
    }

    @Test("A member whose log reaches is pulled from though a copy is under way")
    func logAppears() throws {
        let world = started(3)
        fill(world)
        world.run(3_000)
        world.stop(2)
        for _ in 0..<10 { world.save(0, count: 3, bytes: 2_000) }
        world.run(3_000)
        world.stop(1)
        purge(world, 0)
        world.restart(2)
        _ = try #require(runUntilPartial(world, 2))
        world.nodes[1].isUp = true
        world.restart(1)
        world.run(10_000)
        expect(world, 2, installed: 0)
    }

    @Test("A new node takes a copy where the log is long, and the log where it is short")
    func newcomer() {
        for (count, installed) in [(99, 0), (100, 1)] {
            let world = started(2)
            for _ in 0..<count { world.save(0) }
            world.run(3_000)
            world.addNode(3, peers: [1, 2])
            for (index, other) in [(0, 2), (1, 1)] {
                world.nodes[index].peers.append(World.id(3))
                world.give(index, .peersChanged([World.id(other), World.id(3)], now: world.now))
            }
            world.startNewcomer(2)
            world.run(15_000)
            expect(world, 2, installed: installed)
        }
    }

    @Test("A part that is lost is asked for again, and nothing that came is asked for twice")
    func lossy() {
        let world = world()
        world.limits.transferTimeoutMilliseconds = 1_000
        world.limits.pullTimeoutMaximumMilliseconds = 1_000
        world.addNodes(2)
        world.start()
        fill(world)
        world.lose(1)
        world.faults.exchangeLoss = 0.3
        world.faults.repeats = 0.2
        world.restart(1)
        world.run(300_000)
        expect(world, 1, installed: 1)
        #expect(world.copies.count == 1)
    }

    @Test("Over a link on which a part takes longer than it is waited for, the copy comes")
    func slowLink() {
        let world = world(partBytes: 1 << 20)
        world.addNodes(2)
        world.start()
        fill(world)
        world.lose(1)
        purge(world, 0)
        // The whole is one part, and takes longer here than the 30 s for which it is waited.
        world.faults.bytesPerSecond = 3_000
        world.restart(1)
        world.run(400_000)
        expect(world, 1, installed: 1)
    }

    @Test("A joiner that starts again goes on where it was, if its donor has the copy still")
    func joinerRestarts() throws {
        let world = filled(3, losing: 2)
        world.restart(2)
        _ = try #require(runUntilPartial(world, 2))
        world.stop(2)
        world.run(500)
        world.restart(2)
        world.run(1_000)
        #expect(world.copies.count == 1)
        world.run(20_000)
        #expect(world.copies.count == 1)
        expect(world, 2, installed: 1)
    }

    @Test("A donor that is gone for long is replaced by another, from its beginning")
    func donorGone() throws {
        let world = filled(3, losing: 2)
        world.restart(2)
        _ = try #require(runUntilPartial(world, 2))
        let donor = try #require(world.nodes[2].replicator.status.transfer?.donor)
        world.stop(donor == World.id(1) ? 0 : 1)
        world.run(400_000)
        #expect(world.nodes[2].installed == 1)
        #expect(world.copies.count == 2)
        #expect(world.nodes[2].store.vector[world.nodes[0].actor] == 200)
    }

    @Test("A copy that is refused is not asked for again at once, and later from its beginning")
    func refused() throws {
        let world = filled(2, losing: 1)
        // Or it would go on by the log.
        purge(world, 0)
        world.restart(1)
        var isSpoilt = false
        for _ in 0..<2_000 where !isSpoilt {
            world.run(1)
            isSpoilt = world.nodes[1].effects.contains {
                if case .installTransfer = $0 { true } else { false }
            }
        }
        world.nodes[1].store.incoming?.bytes.append(0)
        world.run(30_000)
        #expect(world.nodes[1].installed == 0)
        #expect(
            world.nodes[1].alarms.contains {
                if case .transferFailed = $0 { true } else { false }
            })
        world.run(60_000)
        expect(world, 1, installed: 1)
    }

    @Test("A node that could not install a copy asks for none until its pause is over")
    func pausing() {
        let world = filled(2, losing: 1)
        purge(world, 0)
        world.transferPauseMilliseconds = 120_000
        world.restart(1)
        world.run(115_000)
        #expect(world.copies.isEmpty)
        world.run(30_000)
        expect(world, 1, installed: 1)
    }

    @Test("What members recorded may be purged here, unless this store is not vouched for")
    func recordedElsewhere() {
        let world = started(3)
        world.save(0, count: 5)
        world.run(10_000)
        var status = world.nodes[0].replicator.status
        #expect(status.recordedElsewhere?[world.nodes[0].actor] == 5)
        // What is only on a disk, and no member's record, is not counted on.
        for index in status.members.indices { status.members[index].recorded = VersionVector() }
        #expect(status.peers.allSatisfy { $0.durable[world.nodes[0].actor] == 5 })
        #expect(status.recordedElsewhere == VersionVector())
        status.recovery = .restored
        #expect(status.recordedElsewhere == nil)
    }

    @Test("A node that is no member gets nothing")
    func notGiven() throws {
        let world = started(2)
        fill(world)
        // A stranger asks node 1, which does not know it.
        world.addNode(3, peers: [1])
        world.startNewcomer(2)
        world.run(10_000)
        #expect(world.nodes[2].installed == 0)
        #expect(world.copies.isEmpty)
    }

    @Test("Parts out of place quarantine the link, and nothing of them is written")
    func outOfPlace() throws {
        let world = filled(2, losing: 1)
        world.restart(1)
        let copy = try #require(runUntilPartial(world, 1))
        for _ in 0..<100 {
            let answers = world.nodes[1].replicator.transfer
            if case .asking(let id, _)? = answers?.phase {
                let part = TransferPart(id: id, copy: copy, offset: 7, bytes: [1])
                world.tell(1, .transferPart(part), from: 1)
                break
            }
            world.run(1)
        }
        #expect(world.nodes[1].quarantined == [World.id(1)])
    }
}
