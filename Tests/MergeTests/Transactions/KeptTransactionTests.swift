import Merge
import TestSupport
import Testing

/// Transactions of format 1 as they are kept in the repository (``Fixtures``).
@Suite("Kept transactions of format 1") struct KeptTransactionTests {
    private static let file = "transactions-1.txt"
    private static let samples: [(name: String, transaction: Transaction)] = [
        (
            "insert",
            sample(
                [ChangeShape(entity: "E", assigned: ["a", "b"], carried: ["c"])],
                [
                    Change(
                        kind: .insert, shape: 0, row: RowID(9),
                        values: [.integer(-1), .string("é"), .null])
                ])
        ),
        (
            "update",
            sample(
                [ChangeShape(entity: "E", assigned: ["a"])],
                [
                    PropertyValue.null, .boolean(true), .integer(.max), .double(0.1), .double(-0),
                    .decimal("1.5"), .string(""), .date(-1), .binary([0, 255]),
                    .uuid(1, .max), .uri("http://a"), .reference(RowID(10)),
                ].map { Change(kind: .update, shape: 0, row: RowID(9), values: [$0]) })
        ),
        (
            "delete",
            sample(
                [ChangeShape(entity: "E", assigned: [])],
                [Change(kind: .delete, shape: 0, row: RowID(9), values: [])])
        ),
        (
            "revival",
            sample(
                [ChangeShape(entity: "E", assigned: ["a"])],
                [Change(kind: .revival, shape: 0, row: RowID(9), values: [.integer(1)])])
        ),
        (
            "link",
            sample(
                [ChangeShape(entity: "E.r", assigned: [])],
                [
                    Change(kind: .link, shape: 0, row: RowID(9), target: RowID(10), values: []),
                    Change(kind: .unlink, shape: 0, row: RowID(9), target: RowID(11), values: []),
                ])
        ),
        (
            "membership",
            sample(
                MembershipChange.shapes,
                [
                    MembershipChange.join(
                        node(4),
                        MemberAddress(
                            publish: "tcp://a:1", exchange: "tcp://a:2", publicKeys: ["k"])),
                    .depart(node(5), isRetired: true),
                ].map(\.change))
        ),
    ]

    private static func sample(_ shapes: [ChangeShape], _ changes: [Change]) -> Transaction {
        Transaction(
            dot: dot(2, 3), timestamp: timestamp(5, counter: 1), seen: vector([1: 4, 2: 2]),
            author: "a", contextName: "c", saveID: "s",
            modelHash: [UInt8](repeating: 7, count: 32), shapes: shapes, changes: changes)
    }

    init() throws {
        guard Fixtures.areMade else { return }
        try Fixtures.keep(
            Self.samples.map { "\($0.name) \(hexadecimal($0.transaction.encoded()))" },
            as: Self.file)
    }

    @Test("They are read as what they were, and written as they are")
    func kept() throws {
        let lines = try Fixtures.lines(Self.file).map { $0.split(separator: " ") }
        #expect(lines.map { String($0[0]) } == Self.samples.map(\.name))
        for (line, sample) in zip(lines, Self.samples) {
            let kept = bytes(String(line[1]))
            #expect(try Transaction.decode(kept) == sample.transaction, "\(sample.name)")
            #expect(sample.transaction.encoded() == kept, "\(sample.name)")
        }
    }
}
