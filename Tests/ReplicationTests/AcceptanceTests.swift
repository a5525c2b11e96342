import Merge
import Testing

@testable import Replication

@Suite("What members make of an incarnation")
struct AcceptanceTests {
    private let limits = Limits()

    private func acceptance(
        former: [ActorID] = [], predecessor: ActorID? = nil, hearsFirst: Bool = false
    ) -> Acceptance {
        Acceptance(
            .init(
                cluster: "test", actor: Reporter.own, modelHash: model,
                formerIncarnations: former, predecessor: predecessor, hearsFirst: hearsFirst))
    }

    @Test("Only a later incarnation than those known counts")
    func later() {
        var acceptance = acceptance()
        let own = acceptance.note(newest: Reporter.own)
        #expect(!own && !acceptance.isOutdated)
        let later = ActorID(node: Reporter.own.node, incarnation: 60)
        let (first, again) = (acceptance.note(newest: later), acceptance.note(newest: later))
        #expect(first && !again && acceptance.later == later)
    }

    @Test("A process refused for some seconds ends once; a word that nobody repeats is forgotten")
    func refusal() {
        var acceptance = acceptance()
        acceptance.refuse(now: 1_000)
        acceptance.refuse(now: 2_000)
        let end = 1_000 + limits.refusalMilliseconds
        let verdicts = [end - 1, end, end + 1].map { now in
            acceptance.judge(now: now, limits: limits)
        }
        #expect(verdicts == [false, true, false])
        let late = acceptance.judge(now: 2_000 + limits.meetingMilliseconds, limits: limits)
        #expect(!late && !acceptance.isRefused)
    }

    @Test("A member that has met the incarnation outweighs those that refuse it")
    func met() {
        var acceptance = acceptance()
        acceptance.refuse(now: 1)
        acceptance.meet()
        #expect(!acceptance.isRefused)
        acceptance.refuse(now: 2)
        #expect(!acceptance.isRefused)
    }

    @Test("A store that hears first waits longer where it may be a copy and members are there")
    func waiting() {
        func wait(_ acceptance: Acceptance, isAnyHeard: Bool) -> UInt64 {
            (0...10_000).first {
                !acceptance.isAwaited(startedAt: 0, isAnyHeard: isAnyHeard, now: $0, limits: limits)
            } ?? .max
        }
        let former = [ActorID(node: Reporter.own.node, incarnation: 40)]
        #expect(wait(acceptance(), isAnyHeard: true) == 0)
        let new = acceptance(hearsFirst: true)
        #expect(wait(new, isAnyHeard: true) == limits.lonelyMilliseconds)
        let copy = acceptance(former: former, hearsFirst: true)
        #expect(wait(copy, isAnyHeard: true) == limits.meetingMilliseconds)
        #expect(wait(copy, isAnyHeard: false) == limits.lonelyMilliseconds)
        let restart = acceptance(former: former, predecessor: former[0], hearsFirst: true)
        #expect(wait(restart, isAnyHeard: true) == limits.lonelyMilliseconds)
        var met = copy
        met.meet()
        #expect(wait(met, isAnyHeard: true) == 0)
    }
}
