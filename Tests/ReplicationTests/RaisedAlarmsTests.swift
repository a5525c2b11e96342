import Merge
import Testing

@testable import Replication

@Suite("Alarms that are raised once a run")
struct RaisedAlarmsTests {
    private let own = World.id(1)
    private let limits: Limits = {
        var limits = Limits()
        limits.peers = 2
        return limits
    }()

    private func unexpected(_ number: Int) -> Alarm {
        .unexpectedSender(expected: World.id(2), claimed: World.id(number))
    }

    @Test("The very same is raised once, and only as many as there may be peers")
    func once() {
        var raised = RaisedAlarms()
        let news = [3, 3, 4, 5].map { raised.note(unexpected($0), own: own, limits: limits) }
        #expect(news == [true, false, true, false])
    }

    @Test("What this node ends by is raised however many were before")
    func ownEnd() {
        var raised = RaisedAlarms()
        for number in 3...4 { _ = raised.note(unexpected(number), own: own, limits: limits) }
        let alarms: [Alarm] = [
            .departed(told: World.id(2)), .twoNodesWithOneID(own, incarnation: nil),
            .twoNodesWithOneID(World.id(2), incarnation: nil),
        ]
        let news = alarms.map { raised.note($0, own: own, limits: limits) }
        let again = alarms.map { raised.note($0, own: own, limits: limits) }
        #expect(news == [true, true, false] && again == [false, false, false])
    }

    @Test("A frame that nobody can read is reported once, whatever is wrong with it")
    func undecodable() {
        var raised = RaisedAlarms()
        let news = ["a", "b"].map {
            raised.note(.undecodable(reason: $0), own: own, limits: limits)
        }
        #expect(news == [true, false])
    }
}
