import Merge
import Replication
import Testing

@Suite("Incarnations that the store remembers")
struct IncarnationMemoryTests {
    private static let second = Reporter.second
    private static let later = ActorID(2, 21)

    private func heads(of node: inout Reporter) -> Heads? {
        node.tick(at: node.now + 1_000)
        for message in node.sent.reversed() {
            if case .heads(let heads) = message { return heads }
        }
        return nil
    }

    @Test("Heads name an incarnation as met only once the store remembers it")
    func metWhenRemembered() {
        var node = Reporter()
        node.remembers = false
        node.heads(Self.second)
        #expect(node.remembered == [Self.second])
        #expect(heads(of: &node)?.met == [])
        node.give(.remembered(Self.second, isDurable: true, now: node.now))
        #expect(heads(of: &node)?.met == [Self.second])
    }

    @Test("Where remembering failed the store is asked again, a second later at the earliest")
    func askedAgain() {
        var node = Reporter()
        node.remembers = false
        node.heads(Self.second)
        node.give(.remembered(Self.second, isDurable: false, now: node.now))
        node.heads(Self.second)
        #expect(node.remembered == [Self.second])
        _ = heads(of: &node)
        #expect(node.remembered == [Self.second, Self.second])
        #expect(heads(of: &node)?.met == [])
    }

    @Test("After a restart an incarnation older than the remembered one is not met, but reported")
    func olderAfterRestart() {
        var node = Reporter(incarnations: [Self.later])
        node.heads(Self.second)
        let alarm = Alarm.incarnationOutdated(
            Self.second.node, incarnation: Self.second.incarnation, newest: 21)
        #expect(node.effects.contains(.alarm(alarm)))
        let told = heads(of: &node)
        #expect(told?.met == [])
        #expect(told?.known == [Self.later])
        node.heads(Self.later)
        #expect(node.remembered.isEmpty)
        #expect(heads(of: &node)?.met == [Self.later])
    }

    @Test("A node remembered as a later incarnation is not listened to before it is later still")
    func reopensAfterTheOneRemembered() {
        // Seed 2000315 of the simulator: two live stores of one node, and a third that restarts.
        let world = World(seed: 11, started: 2)
        world.run(2_000)
        let later = ActorID(2, world.nodes[1].actor.incarnation + 9)
        world.nodes[0].store.remember(later)
        world.stop(0)
        world.restart(0)
        world.save(0)
        world.run(5_000)
        #expect(world.nodes[1].actor > later)
        #expect(world.status(1).stable == world.nodes[0].store.vector)
        #expect(world.oracle.faults == [])
    }

    @Test("A node whose peers each remember another later life begins one later than them all")
    func reopensAfterEachOneRemembered() {
        // Seed 10001312 of the simulator: a wiped node whose clock had been far ahead. Here it never
        // gives up; in the product it ends at the second time within a minute, and is started again.
        let world = World(seed: 12, started: 3)
        world.run(2_000)
        let first = world.nodes[1].actor.incarnation + 10_000
        for (index, incarnation) in [(0, first), (2, first + 50_000)] {
            world.nodes[index].store.remember(ActorID(2, incarnation))
            world.stop(index)
            world.restart(index)
        }
        world.save(0)
        world.run(5_000)
        #expect(world.nodes[1].actor.incarnation > first + 50_000)
        for index in 0..<3 { #expect(world.status(index).stable == world.nodes[0].store.vector) }
        #expect(world.oracle.faults == [])
    }
}
