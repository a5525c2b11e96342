import Coordinator
import Merge
import Replication
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("A running node keeps history within its limits", .serialized)
struct HistoryServiceTests {
    private func limits(keep: UInt64 = .max, bytes: UInt64 = .max) -> HistoryLimits {
        var limits = HistoryLimits()
        limits.keepMilliseconds = keep
        limits.maximumBytes = bytes
        return limits
    }

    private func transactions(_ node: NodeService) throws -> UInt64 {
        try node.coordinator.historyStatus().transactions
    }

    @Test("A node by itself purges what is old")
    func alone() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1, history: limits(keep: 0))
        try await node.insertNotes(30)
        try await eventually("history is purged") {
            node.shared.history.report.purgedByAge >= 29
        }
        #expect(node.shared.history.report.purgedByAge == 29)
        #expect(try transactions(node) == 1)
        await node.stop()
    }

    @Test("What a member lacks is kept, and the member named, until it has it")
    func keptForMember() async throws {
        let cluster = try TestCluster(2)
        let first = try await cluster.start(1, history: limits(keep: 0))
        try await first.insertNotes(10)
        // Between two saves it may be looked as well, and what is held said before the tenth.
        try await eventually("it is looked whether something may go") {
            guard case .notStable? = first.shared.history.report.hold else { return false }
            return first.shared.report.withLock { $0.stability.unstable } == 10
        }
        #expect(try transactions(first) == 10)
        let report = first.shared.report.withLock { $0.stability }
        #expect(report.members.map(\.hindranceName) == ["nothingHeard"])
        #expect(
            report.holders(now: MonotonicClock.milliseconds + StabilityWatch.patience)
                .map(\.status.node.rawValue) == [2])
        #expect(
            report.members.first?.reason(
                now: report.startedAt + 7_200_000, startedAt: report.startedAt)
                == "Node 2 has not been heard since this node started 2 h 0 min ago.")
        let second = try await cluster.start(2)
        try await eventually("the other has it, and it is purged") {
            try transactions(first) == 1
        }
        // Its own limits are others.
        #expect(try transactions(second) == 10)
        await first.stop()
        await second.stop()
    }

    @Test("Over its size a node purges only what one member has, and names who lacks it")
    func forced() async throws {
        let cluster = try TestCluster(3)
        let first = try await cluster.start(1, history: limits(bytes: 1))
        let second = try await cluster.start(2)
        try await first.insertNotes(20)
        try await eventually("what the one has goes, though the other lacks it") {
            try transactions(first) == 1 && first.shared.history.report.purgedUnstable == 19
                && first.counters.values.alarms >= 1 && transactions(second) == 20
        }
        let report = first.shared.history.report
        #expect(report.lastUnstable?.members.contains { $0.rawValue == 3 } == true)
        #expect(first.counters.values.alarms == 1)
        let lines = try await first.metricsText()
        #expect(lines.contains("tributary_history_purged_total{reason=\"unstable\"} 19\n"))
        #expect(try transactions(second) == 20)
        await second.stop()
        // What nobody else has stays.
        try await first.insertNotes(20)
        try await eventually("it is said why it stays") {
            if case .onlyHere? = first.shared.history.report.hold { true } else { false }
        }
        #expect(try transactions(first) >= 20)
        await first.stop()
    }

    @Test("Purging by hand leaves what a consumer has not read")
    func byHand() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        try await node.insertNotes(5)
        try node.coordinator.setConsumer("audit")
        try await node.insertNotes(5)
        let token = try node.coordinator.currentToken
        try await eventually("all is stable") {
            node.shared.report.withLock { $0.stability.stable }.covers(token.versionVector)
        }
        #expect(try await node.purgeHistory(before: token) == 5)
        try node.coordinator.setConsumer("audit")
        #expect(try await node.purgeHistory(before: token) == 4)
        await node.stop()
    }
}
