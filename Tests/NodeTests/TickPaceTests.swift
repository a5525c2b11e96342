import Testing

@testable import Node

@Suite("How often the loop ticks") struct TickPaceTests {
    /// The times of ticks until one is due at a time or later, with events between them.
    private func ticks(
        until end: UInt64, events: [UInt64] = [], isAwaited: Bool = false
    ) -> [UInt64] {
        var pace = TickPace()
        var events = events[...]
        var ticks: [UInt64] = []
        while true {
            while let event = events.first, event <= pace.nextAt {
                pace.noteEvent(now: event)
                events.removeFirst()
            }
            guard pace.nextAt < end else { return ticks }
            ticks.append(pace.nextAt)
            pace.noteTick(now: pace.nextAt, isAwaited: isAwaited)
        }
    }

    @Test("Ticks are far apart once nothing has happened for some of them")
    func quiet() {
        #expect(ticks(until: 1_000) == [0, 50, 100, 150, 200, 400, 600, 800])
    }

    @Test("While somebody waits they stay close")
    func awaited() {
        #expect(ticks(until: 1_000, isAwaited: true) == Array(stride(from: 0, to: 1_000, by: 50)))
    }

    @Test("After an event the next comes soon, and more than the grace of a gap follow closely")
    func event() {
        let all = ticks(until: 3_000, events: [1_010])
        #expect(
            all.filter { $0 > 1_000 && $0 <= 1_500 } == [1_060, 1_110, 1_160, 1_210, 1_260, 1_460])
        // It does not put off a tick that is due before.
        #expect(ticks(until: 300, events: [20, 40, 199]) == [0, 50, 100, 150, 200, 250])
    }
}
