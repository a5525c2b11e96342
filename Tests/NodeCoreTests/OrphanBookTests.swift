import Coordinator
import Merge
import Testing

@testable import NodeCore

@Suite("Orphans wait until the store has taken them")
struct OrphanBookTests {
    private static func orphan(_ sequence: UInt64, bytes: Int = 10) throws -> EncodedTransaction {
        let actor = ActorID(node: try #require(NodeID(7)), incarnation: 70)
        return EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: sequence), timestamp: .zero,
                seen: VersionVector(), modelHash: [UInt8](repeating: 1, count: 32),
                shapes: [ChangeShape(entity: "Note", assigned: ["text"])],
                changes: [
                    Change(
                        kind: .insert, shape: 0,
                        row: RowID(node: actor.node, block: 1, counter: UInt32(sequence)),
                        values: [.string(String(repeating: "x", count: bytes))])
                ]))
    }

    @Test("The store is given a part at a time, and what it has taken goes")
    func parts() throws {
        var book = OrphanBook()
        let orphans = try (2...5).map { try Self.orphan($0, bytes: 600_000) }
        let (taken, leftOut) = book.take(orphans)
        #expect(taken == orphans.map(\.dot))
        #expect(leftOut.isEmpty)
        #expect(book.next == [orphans[0]])
        book.letGo(first: 1)
        #expect(book.next == [orphans[1]])
        #expect(book.notKept == orphans.dropFirst().map(\.dot))
        book.letGo(first: 3)
        #expect(book.next.isEmpty)
        #expect(book.notKept.isEmpty)
    }

    @Test("A single one that is longer than a part is written by itself")
    func long() throws {
        var book = OrphanBook()
        let orphans = [try Self.orphan(2, bytes: 2 << 20), try Self.orphan(3)]
        _ = book.take(orphans)
        #expect(book.next == [orphans[0]])
    }

    @Test("What there is no room for is remembered by name, and names are bounded too")
    func leftOut() throws {
        var bounds = OrphanedTransaction.Bounds()
        bounds.count = 1
        var book = OrphanBook(bounds: bounds)
        let orphans = try [Self.orphan(2), Self.orphan(3), Self.orphan(4)]
        let (taken, leftOut) = book.take(orphans)
        #expect(taken == [orphans[0].dot])
        #expect(leftOut == [orphans[1].dot, orphans[2].dot])
        book.leaveOut(leftOut)
        #expect(book.notKept == orphans.prefix(2).map(\.dot))
    }
}
