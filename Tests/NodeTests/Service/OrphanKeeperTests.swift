import Coordinator
import Foundation
import Logging
import Merge
import Replication
import Synchronization
import Testing

@testable import Node

/// What can be applied no more goes to the store, and status tells of it.
@Suite("Keeping orphans")
struct OrphanKeeperTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private static func transaction(
        _ sequence: UInt64, bytes: Int = 10
    ) throws -> EncodedTransaction {
        let actor = ActorID(node: try #require(NodeID(7)), incarnation: 70)
        var seen = VersionVector()
        if sequence > 1 { seen.advance(actor, to: sequence - 1) }
        return EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: sequence), timestamp: .zero, seen: seen,
                modelHash: try TestCluster.model().modelHash,
                shapes: [ChangeShape(entity: "Note", assigned: ["body"])],
                changes: [
                    Change(
                        kind: .insert, shape: 0,
                        row: RowID(node: actor.node, block: 1, counter: UInt32(sequence)),
                        values: [.string(String(repeating: "x", count: bytes))])
                ]))
    }

    private static func withService(
        _ body: (NodeService) async throws -> Void
    ) async throws {
        let cluster = try TestCluster(1)
        let coordinator = try PersistentStoreCoordinator(
            storeAt: cluster.directory.appendingPathComponent("alone.sqlite").path,
            model: TestCluster.model(), cluster: "test", node: cluster.peers[0].node)
        let service = try NodeService(coordinator: coordinator)
        try await service.start()
        do { try await body(service) } catch {
            await service.stop()
            throw error
        }
        await service.stop()
        await service.waitUntilClosed()
    }

    @Test("What the loop gives is kept, a part at a time, and held as kept, also after a restart")
    func kept() async throws {
        try await Self.withService { service in
            let orphans = try (2...5).map { try Self.transaction($0, bytes: 600_000) }
            service.shared.orphans.take(orphans, logger: Self.logger)
            try await eventually("all are kept") {
                service.shared.orphans.notKept.isEmpty
            }
            #expect(try service.coordinator.orphans().map(\.encoded) == orphans)
            // As after a restart: the replicator knows of none.
            let held = await service.status().held
            #expect(held.map(\.transaction) == orphans.map(\.dot))
            #expect(held.allSatisfy { $0.reason.contains("is kept") })
            #expect(try await service.overview().orphans == 4)
            #expect(try await service.metricsText().contains("tributary_orphans 4"))
        }
    }

    @Test("What was discarded is held no more, nor what was left out and is applied after all")
    func discarded() async throws {
        try await Self.withService { service in
            let orphans = try [Self.transaction(2), Self.transaction(3)]
            try service.coordinator.keepOrphans(orphans)
            try service.coordinator.discardOrphan(orphans[0].dot)
            let saved = Dot(actor: service.actor, sequence: 1)
            service.shared.orphans.leaveOut([saved], logger: Self.logger)
            func held() async -> [Dot] { await service.status().held.map(\.transaction) }
            #expect(await held() == [saved, orphans[1].dot])
            try await service.insertNotes(1)
            #expect(await held() == [orphans[1].dot])
        }
    }

    @Test("What there is no room for is told of by name, and raises an alarm")
    func leftOut() throws {
        var bounds = OrphanedTransaction.Bounds()
        bounds.count = 1
        let counters = NodeCounters()
        let keeper = OrphanKeeper(bounds: bounds, counters: counters)
        let orphans = try [Self.transaction(2), Self.transaction(3), Self.transaction(4)]
        keeper.take(orphans, logger: Self.logger)
        // Names are bounded too.
        #expect(keeper.notKept == orphans.prefix(2).map(\.dot))
        #expect(counters.values.orphansLeftOut == 2)
        let alarms = counters.values.lastAlarms
        #expect(alarms.map(\.name) == ["orphaned", "orphansNotKept"])
        for (alarm, orphan) in zip(alarms, orphans) {
            #expect(alarm.text.contains("\(orphan.dot)"))
        }
    }

    @Test("Where the store cannot be written it is tried again, and nothing is lost meanwhile")
    func retried() async throws {
        let cluster = try TestCluster(1)
        func open() throws -> PersistentStoreCoordinator {
            try PersistentStoreCoordinator(
                storeAt: cluster.directory.appendingPathComponent("alone.sqlite").path,
                model: TestCluster.model(), cluster: "test", node: cluster.peers[0].node)
        }
        let closed = try open()
        closed.close()
        let keeper = OrphanKeeper(counters: NodeCounters())
        let orphan = try Self.transaction(2)
        keeper.take([orphan], logger: Self.logger)
        let now = MonotonicClock.milliseconds
        keeper.tend(closed, now: now, logger: Self.logger)
        #expect(keeper.notKept == [orphan.dot])
        let opened = try open()
        defer { opened.close() }
        keeper.tend(opened, now: now, logger: Self.logger)
        #expect(try opened.orphanedDots.isEmpty)
        keeper.tend(
            opened, now: MonotonicClock.milliseconds + OrphanKeeper.retryMilliseconds,
            logger: Self.logger)
        try await eventually("it is kept") { keeper.notKept.isEmpty }
        #expect(try opened.orphanedDots == [orphan.dot])
    }
}
