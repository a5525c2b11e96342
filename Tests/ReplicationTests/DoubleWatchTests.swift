import Replication
import Testing

@Suite("What a process does about another under its number")
struct DoubleWatchTests {
    private let newcomer = DoubleWatch.newcomerMilliseconds
    private let patience = DoubleWatch.patienceMilliseconds

    @Test("A process that meets its double just after its start ends; the elder stays")
    func meeting() {
        for (after, isNewcomer) in [(newcomer - 1, true), (newcomer, false)] {
            var watch = DoubleWatch(beganAt: 100, isStoreOwn: true)
            #expect(watch.verdict(now: 100 + after) == .goOn)
            watch.noteMeeting(now: 100 + after)
            // The other one is to hear of it, too.
            let farewell = 100 + after + DoubleWatch.farewellMilliseconds
            watch.noteMeeting(now: farewell - 1)
            #expect(watch.verdict(now: farewell - 1) == .goOn)
            #expect(watch.verdict(now: farewell) == (isNewcomer ? .end : .goOn))
            watch.note(later: 7, now: farewell)
            let verdict = watch.verdict(now: farewell)
            #expect(verdict == (isNewcomer ? .end : .reopen(after: 7, hasMet: true)))
        }
    }

    @Test("A process that hears of a later incarnation waits for its double, then acts without it")
    func patient() {
        for (isOwn, verdict) in [
            (true, DoubleWatch.Verdict.endForOtherStore),
            (false, .reopen(after: 9, hasMet: false)),
        ] {
            var watch = DoubleWatch(beganAt: 0, isStoreOwn: isOwn)
            watch.note(later: 7, now: 50_000)
            // Hearing it again does not start the waiting over.
            watch.note(later: 9, now: 50_500)
            watch.note(later: 8, now: 50_600)
            #expect(watch.verdict(now: 50_000 + patience - 1) == .goOn)
            #expect(watch.verdict(now: 50_000 + patience) == verdict)
        }
    }

    @Test(
        "The elder of two that met goes on in a later incarnation, at once, with its own store too")
    func elder() {
        for isOwn in [true, false] {
            for isToldFirst in [true, false] {
                var watch = DoubleWatch(beganAt: 0, isStoreOwn: isOwn)
                if isToldFirst { watch.note(later: 7, now: 50_000) }
                watch.noteMeeting(now: 50_000)
                if !isToldFirst {
                    #expect(watch.verdict(now: 50_000) == .goOn)
                    watch.note(later: 7, now: 50_000)
                }
                #expect(watch.verdict(now: 50_001) == .reopen(after: 7, hasMet: true))
            }
        }
    }

    @Test("Told again soon it ends; where it has met its double, after many times")
    func reopenings() {
        let soon = Reopenings.lastingMilliseconds - 1
        let many = Reopenings.maximumAfterMeetings
        var reopenings = Reopenings()
        func answers(hasMet: Bool, _ openFor: [UInt64]) -> [Bool] {
            openFor.map { reopenings.mayReopen(hasMet: hasMet, openFor: $0) }
        }
        #expect(answers(hasMet: false, [0, soon, soon + 1]) == [true, false, true])
        let inARow = answers(hasMet: true, Array(repeating: soon, count: many + 1))
        #expect(inARow == Array(repeating: true, count: many) + [false])
        #expect(answers(hasMet: true, [soon + 1]) == [true])
    }
}
