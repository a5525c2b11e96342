import Merge
import Replication
import Testing

@testable import Node

@Suite("Reports on who holds collection back, and since when")
struct StabilityWatchTests {
    private let actor: ActorID
    private let other: NodeID

    init() throws {
        actor = ActorID(node: try #require(NodeID(1)), incarnation: 7)
        other = try #require(NodeID(2))
    }

    private func vector(_ sequence: UInt64) -> VersionVector {
        VersionVector([.init(actor: actor, sequence: sequence)])
    }

    /// What the replicator tells of the other member, which has some transactions for certain.
    private func status(
        _ recorded: UInt64, _ hindrance: StabilityHindrance? = nil
    ) -> ReplicatorStatus {
        var generator = Replicator(
            configuration: .init(cluster: "c", actor: actor, modelHash: []),
            generator: SeededGenerator(seed: 1)
        ).status
        var member = MemberStatus(node: other)
        member.hindrance = hindrance
        member.recorded = vector(recorded)
        generator.members = [member]
        generator.stable = vector(hindrance == nil ? recorded : 0)
        return generator
    }

    @Test("A member that goes on in a cluster that always saves holds nothing back")
    func goesOn() {
        var watch = StabilityWatch(startedAt: 0)
        for step in 1...100 as ClosedRange<UInt64> {
            // It is always five behind.
            let report = watch.note(status(step), durable: vector(step + 5), now: step * 1_000)
            #expect(report.unstable == 5)
            #expect(report.holders(now: step * 1_000).isEmpty)
        }
    }

    @Test("One that stands still does, since the moment when it stopped")
    func standsStill() {
        var watch = StabilityWatch(startedAt: 0)
        _ = watch.note(status(5), durable: vector(5), now: 1_000)
        var report = watch.note(status(5), durable: vector(6), now: 2_000)
        #expect(report.members.map(\.waitingSince) == [2_000])
        #expect(report.holders(now: 16_999).isEmpty)
        report = watch.note(status(5), durable: vector(900), now: 60_000)
        #expect(report.waitingSince == 2_000)
        #expect(report.holders(now: 60_000).map(\.status.node) == [other])
        report = watch.note(status(6), durable: vector(900), now: 61_000)
        #expect(report.holders(now: 61_000).isEmpty)
        report = watch.note(status(900), durable: vector(900), now: 62_000)
        #expect(report.waitingSince == nil && report.members[0].waitingSince == nil)
    }

    @Test("One whose report does not count does, though it has all")
    func hindered() {
        var watch = StabilityWatch(startedAt: 0)
        _ = watch.note(status(5, .hasNotMet(actor)), durable: vector(5), now: 1_000)
        let report = watch.note(status(5, .hasNotMet(actor)), durable: vector(5), now: 20_000)
        #expect(report.holders(now: 20_000).count == 1)
        #expect(
            report.members[0].reason(now: 20_000, startedAt: 0)
                == "Node 2 has not met node 1 since that was started last.")
    }

    @Test("Times read as people say them")
    func ages() {
        let ages: [(UInt64, String)] = [
            (0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (3_600_000, "1 h 0 min"),
            (7_500_000, "2 h 5 min"), (90_000_000, "1 d 1 h"),
        ]
        for (milliseconds, text) in ages {
            #expect(StabilityReport.Member.age(milliseconds) == text)
        }
    }
}
