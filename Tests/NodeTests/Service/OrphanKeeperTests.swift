import Coordinator
import Foundation
import Merge
import NodeCore
import TestSupport
import Testing

@testable import Node

/// What can be applied no more goes to the store, and status tells of it.
@Suite("Keeping orphans")
struct OrphanKeeperTests {
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
                shapes: [ChangeShape(entity: "Note", assigned: ["text"])],
                changes: [
                    Change(
                        kind: .insert, shape: 0,
                        row: RowID(node: actor.node, block: 1, counter: UInt32(sequence)),
                        values: [.string(String(repeating: "x", count: bytes))])
                ]))
    }

    /// - Parameter book: what an earlier run could not write.
    private static func withService(
        _ book: OrphanBook = OrphanBook(), _ body: (NodeService) async throws -> Void
    ) async throws {
        let cluster = try TestCluster(1)
        let coordinator = try PersistentStoreCoordinator(
            storeAt: cluster.directory.appendingPathComponent("alone.sqlite").path,
            model: TestCluster.model(), cluster: "test", node: cluster.peers[0].node)
        var settings = NodeService.Settings()
        settings.orphans = OrphanKeeper(book)
        let service = try NodeService(coordinator: coordinator, settings: settings)
        try await service.start()
        do { try await body(service) } catch {
            await service.stop()
            throw error
        }
        await service.stop()
        await service.waitUntilClosed()
    }

    @Test("What an earlier run could not write is kept, and held as kept, also after a restart")
    func kept() async throws {
        let orphans = try (2...5).map { try Self.transaction($0, bytes: 600_000) }
        var book = OrphanBook()
        _ = book.take(orphans)
        try await Self.withService(book) { service in
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

    @Test("Saves that were discarded, or left out and applied after all, are not held any more")
    func discarded() async throws {
        let leftOut = try Self.transaction(1)
        var book = OrphanBook()
        book.leaveOut([leftOut.dot])
        try await Self.withService(book) { service in
            let orphans = try [Self.transaction(3), Self.transaction(5)]
            try service.coordinator.keepOrphans(orphans)
            try service.coordinator.discardOrphan(orphans[1].dot)
            func held() async -> [Dot] { await service.status().held.map(\.transaction) }
            #expect(await held() == [leftOut.dot, orphans[0].dot])
            #expect(try service.coordinator.apply([leftOut]).rejected.isEmpty)
            #expect(await held() == [orphans[0].dot])
        }
    }
}
