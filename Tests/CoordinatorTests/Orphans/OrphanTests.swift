import Foundation
import GRDB
import Merge
import Synchronization
import Testing

@testable import Coordinator

/// Saves of others that can be applied no more are kept until somebody has seen to them.
@Suite("Orphans")
struct OrphanTests {
    private let x: EngineNode
    private let y: EngineNode

    init() throws { (x, y) = try EngineNode.pair() }

    /// Saves at the second node. The first has none of them.
    private func saves(_ count: Int, bytes: Int = 1) throws -> [EncodedTransaction] {
        for number in 0..<count {
            let name = "\(number)" + String(repeating: "x", count: bytes)
            try y.insert("Tag", ["name": .string(name)])
        }
        return y.transactions.suffix(count)
    }

    @Test("They outlive a restart as they came, with the time, and are listed by dot")
    func restart() throws {
        let orphans = Array(try saves(3).dropFirst())
        let keeping = try x.coordinator.keepOrphans(orphans.reversed())
        #expect(keeping == OrphanKeeping(kept: orphans.map(\.dot)))
        let digest = try x.coordinator.currentDigest
        try x.reopen()
        #expect(try x.coordinator.orphanedDots == orphans.map(\.dot))
        let found = try x.coordinator.orphans()
        #expect(found.map(\.encoded) == orphans && found.map(\.dot) == orphans.map(\.dot))
        let now = UInt64(Date().timeIntervalSince1970 * 1000)
        for orphan in found { #expect(now - 600_000...now ~= orphan.keptAtMilliseconds) }
        #expect(try x.coordinator.currentDigest == digest && x.vector.entries.isEmpty)
        // Once is enough.
        #expect(try x.coordinator.keepOrphans(orphans) == OrphanKeeping())
        #expect(try x.coordinator.orphans() == found)
        let reader = try PersistentStoreCoordinator(readingStoreAt: x.path)
        #expect(try reader.orphanedDots == orphans.map(\.dot))
        reader.close()
    }

    @Test("When there is no more room the newest are left out and named, and no other is touched")
    func bounds() throws {
        let orphans = try saves(6, bytes: 100)
        var bounds = OrphanedTransaction.Bounds()
        bounds.count = 3
        func keep(_ range: Range<Int>) throws -> OrphanKeeping {
            try x.coordinator.keepOrphans(Array(orphans[range]), within: bounds)
        }
        #expect(try keep(2..<4).kept.count == 2)
        let second = try keep(0..<3)
        #expect(second.kept == [orphans[0].dot] && second.leftOut == [orphans[1].dot])
        bounds.count = 10
        bounds.bytes = orphans[0].bytes.count + orphans[2].bytes.count + orphans[3].bytes.count
        #expect(try keep(4..<6).leftOut == [orphans[4].dot, orphans[5].dot])
        #expect(try x.coordinator.orphanedDots == [0, 2, 3].map { orphans[$0].dot })
        bounds.bytes += orphans[4].bytes.count
        #expect(try keep(4..<6).leftOut == [orphans[5].dot])
    }

    @Test("One that is applied after all is no orphan any more, whichever way it came")
    func applied() throws {
        let orphans = try saves(3)
        try x.coordinator.keepOrphans(Array(orphans.dropFirst()))
        _ = try x.coordinator.apply(Array(orphans[0..<2]))
        #expect(try x.coordinator.orphanedDots == [orphans[2].dot])
        // What is applied is none.
        #expect(try x.coordinator.keepOrphans(Array(orphans[0..<2])) == OrphanKeeping())
        x.close()
        // As one that took its rows over would leave it.
        try x.tamper(
            """
            INSERT INTO _orphan (node, incarnation, sequence, kept, checksum, bytes)
                SELECT node, incarnation, 1, kept, checksum, bytes FROM _orphan
            """)
        try x.open()
        #expect(try x.coordinator.orphanedDots == [orphans[2].dot])
        try exchange(x, y)
        #expect(try x.coordinator.orphanedDots.isEmpty)
        #expect(try x.look("SELECT count(*) FROM _orphan") == 0)
    }

    @Test("An apply that comes to nothing leaves them as they are")
    func rolledBack() throws {
        let orphans = try saves(2)
        try x.coordinator.keepOrphans(Array(orphans.dropFirst()))
        #expect(try x.coordinator.apply([orphans[1]]).rejected.count == 1)
        #expect(try x.coordinator.orphans().map(\.encoded) == [orphans[1]])
    }

    @Test("One that somebody has seen to is discarded, and no other can be")
    func discarded() throws {
        let orphans = try saves(2)
        try x.coordinator.keepOrphans(orphans)
        try x.coordinator.discardOrphan(orphans[0].dot)
        #expect(try x.coordinator.orphanedDots == [orphans[1].dot])
        let again = try x.code { try x.coordinator.discardOrphan(orphans[0].dot) }
        #expect(again == .orphanUnknown)
        try x.reopen()
        #expect(try x.coordinator.orphans().map(\.encoded) == [orphans[1]])
    }

    @Test("Damage is reported, and keeps nobody from the others, nor from discarding it")
    func damaged() throws {
        let orphans = try saves(2)
        try x.coordinator.keepOrphans(orphans)
        #expect(try x.coordinator.verify().isOK)
        x.close()
        try x.tamper("UPDATE _orphan SET bytes = zeroblob(length(bytes)) WHERE position = 1")
        try x.open()
        let found = try x.coordinator.orphans()
        #expect(found.map(\.dot) == orphans.map(\.dot))
        #expect(found.map(\.encoded) == [nil, orphans[1]])
        let report = try x.coordinator.verify()
        #expect(!report.isOK)
        #expect(report.differences.first?.contains("the orphan \(orphans[0].dot)") == true)
        try x.coordinator.discardOrphan(orphans[0].dot)
        #expect(try x.coordinator.verify().isOK)
    }

    @Test("Where they cannot be written, nothing that is applied meanwhile fails")
    func alone() throws {
        let orphans = try saves(3)
        let refusal = CoordinatorError(.diskFull, "The disk is full.")
        let writer = try #require(x.coordinator.writer)
        let outcomes = Mutex<[Bool]>([])
        // Together they would be one group, of other nodes' transactions and upkeep.
        writer.runBlocking([
            .apply([orphans[0]]) { result in
                outcomes.withLock { $0.append((try? result.get()) != nil) }
            },
            .maintain({ _ in throw refusal }, isAlone: true) { result in
                outcomes.withLock { $0.append((try? result.get()) != nil) }
            },
            .apply([orphans[1]]) { result in
                outcomes.withLock { $0.append((try? result.get()) != nil) }
            },
        ])
        #expect(outcomes.withLock { $0 } == [true, false, true])
    }

    @Test("A backup has them, and who restores it has them again")
    func backup() throws {
        let orphans = try saves(2)
        try x.coordinator.vouch()
        try x.coordinator.keepOrphans(orphans)
        let backup = x.path + "-backup"
        _ = try x.coordinator.backUp(to: backup)
        try x.coordinator.discardOrphan(orphans[0].dot)
        x.close()
        _ = try StoreBackup.restore(
            backup, to: x.path, cluster: "test", node: x.node, isReplacing: true)
        try x.open()
        #expect(try x.coordinator.orphans().map(\.encoded) == orphans)
    }

    // MARK: Copies

    /// Has the first node take the second's store over as a copy.
    private func transfer() throws {
        let outgoing = OutgoingTransfer(y.coordinator) { 0 }
        let incoming = IncomingTransfer(for: x.coordinator)
        var (number, offset): (UInt64, UInt64) = (0, 0)
        while true {
            let part = try outgoing.read(number, from: offset, byteLimit: 1 << 20, for: x.node)
            if part.bytes.isEmpty { break }
            number = part.offer.number
            offset = try incoming.write(part.bytes, of: part.offer, at: part.offset)
        }
        _ = try incoming.check(cluster: "test", model: x.model)
        x.close()
        _ = try TransferInstaller.install(at: x.path, model: x.model, cluster: "test", node: x.node)
        try x.open()
    }

    /// Saves of a third node that is lost.
    private func lost(_ count: Int) throws -> [EncodedTransaction] {
        let z = try EngineNode(node: 3)
        for _ in 0..<count { try z.insert("Tag") }
        return z.transactions
    }

    @Test("A copy that takes a store's place keeps the donor's and the store's own")
    func copied() throws {
        let orphans = try lost(4)
        try y.insert("Tag")
        try x.coordinator.keepOrphans(Array(orphans[1..<3]))
        try y.coordinator.keepOrphans(Array(orphans[2..<4]))
        try transfer()
        #expect(try x.coordinator.orphans().map(\.encoded) == Array(orphans[1..<4]))
        #expect(try x.look("SELECT count(*) FROM _transaction") == 1)
    }

    @Test("Of a copy's those go that are beyond the bounds: the donor's that it kept last")
    func copiedBeyond() throws {
        let orphans = try lost(3)
        try y.insert("Tag")
        try x.coordinator.keepOrphans([orphans[2]])
        try y.coordinator.keepOrphans([orphans[0]])
        let most = OrphanedTransaction.Bounds().count
        let actor = orphans[0].dot.actor
        let others = (10..<10 + UInt64(most)).map { sequence in
            var transaction = orphans[0].transaction
            transaction.dot = Dot(actor: actor, sequence: sequence)
            transaction.seen.advance(actor, to: sequence - 1)
            return EncodedTransaction(transaction)
        }
        var bounds = OrphanedTransaction.Bounds()
        bounds.count = .max
        #expect(try y.coordinator.keepOrphans(others, within: bounds).kept.count == most)
        try transfer()
        let dots = try x.coordinator.orphanedDots
        #expect(dots.count == most && dots.contains(orphans[2].dot))
        #expect(dots.contains(orphans[0].dot))
        #expect(dots.last?.sequence == UInt64(most) + 7)
    }
}
