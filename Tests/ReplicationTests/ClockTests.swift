import Merge
import Replication
import Testing

@Suite("A node judges its clock by its members'")
struct ClockTests {
    private static let minute: Int64 = 60_000
    private static let actors = (2...5).map { ActorID(node: World.id($0), incarnation: UInt64($0)) }

    /// Heads of peers 2, 3 and so on, whose clocks are ahead by so many minutes.
    private func reporter(_ minutes: Int64...) -> Reporter {
        var node = Reporter(peers: Array(2..<2 + minutes.count))
        tell(&node, minutes)
        return node
    }

    private func tell(_ node: inout Reporter, _ minutes: [Int64]) {
        for (actor, ahead) in zip(Self.actors, minutes) {
            let wall = Int64(World.wallStart) + ahead * Self.minute
            node.tell(
                .heads(Heads(actor, wallMilliseconds: UInt64(wall))),
                from: Int(actor.node.rawValue))
        }
    }

    private func isOff(_ node: Reporter) -> Bool {
        node.effects.reversed().lazy.compactMap { effect -> Bool? in
            if case .setClockOff(let isOff) = effect { isOff } else { nil }
        }.first ?? false
    }

    @Test("Two of three against it: it takes no saves, whether ahead or behind")
    func off() {
        for minutes in [Int64(6), -6, 525_600] {
            let node = reporter(minutes, minutes)
            #expect(isOff(node) && !node.replicator.status.isSaving)
        }
        for (first, second) in [(6, 0), (0, -525_600), (4, 4), (6, -6)] as [(Int64, Int64)] {
            let node = reporter(first, second)
            #expect(!isOff(node) && node.replicator.status.isSaving)
        }
    }

    @Test("Of four, two against two prove nothing")
    func even() {
        #expect(!isOff(reporter(9, 9, 0)))
        #expect(isOff(reporter(9, 9, 9)))
        #expect(isOff(reporter(9, 8, 0, 9)))
    }

    @Test("It saves again when its clock is right, and the alarm was raised once")
    func right() {
        var node = reporter(10, 10)
        tell(&node, [10, 10])
        tell(&node, [0, 0])
        #expect(!isOff(node) && node.replicator.status.isSaving)
        let alarms = node.effects.filter {
            if case .alarm(.clockOff(let ahead)) = $0 { ahead < -9 * Self.minute } else { false }
        }
        #expect(alarms.count == 1)
    }

    @Test(
        "A node that saves far ahead of its clock reports it, once, if others must take the saves",
        arguments: [0, 1])
    func ahead(others: Int) {
        var node = Reporter(peers: Array(2..<2 + others))
        for sequence in UInt64(1)...2 {
            var seen = VersionVector()
            if sequence > 1 { seen.advance(to: Dot(actor: Reporter.own, sequence: sequence - 1)) }
            let save = makeTransaction(
                Dot(actor: Reporter.own, sequence: sequence), seen: seen,
                milliseconds: World.wallStart + 6 * 60_000)
            node.give(.committed([save], state: node.store.state, now: sequence))
            node.tick()
        }
        let told = node.effects.count { if case .alarm(.stampsAhead) = $0 { true } else { false } }
        #expect(told == others)
    }

    @Test("Of two both warn and go on saving, once until the clocks agree again")
    func two() {
        var node = reporter(30)
        tell(&node, [31])
        func warnings() -> Int {
            node.effects.count {
                if case .alarm(.clocksApart) = $0 { true } else { false }
            }
        }
        #expect(warnings() == 1 && !isOff(node))
        tell(&node, [0])
        tell(&node, [-30])
        #expect(warnings() == 2)
    }

    @Test("A peer that was not heard for long has no say")
    func silent() {
        var node = reporter(10, 10)
        #expect(isOff(node))
        node.now += 600_000
        node.give(.tick(now: node.now, wallMilliseconds: World.wallStart + node.now))
        #expect(!isOff(node))
    }
}
