import Merge
import Testing

@Suite("Members are what all transactions tell, in any order")
struct MembershipTests {
    private static func node(_ number: Int) -> NodeID {
        guard let node = NodeID(number) else { fatalError("test nodes are 1 and up") }
        return node
    }

    private static func stamp(_ milliseconds: UInt64, by writer: Int) -> Stamp {
        Stamp(
            timestamp: HybridTimestamp(milliseconds: milliseconds, counter: 0) ?? .zero,
            dot: Dot(actor: ActorID(node: node(writer), incarnation: 1), sequence: milliseconds))
    }

    private static func address(_ port: Int) -> MemberAddress {
        MemberAddress(publish: "tcp://h:\(port)", exchange: "tcp://h:\(port + 1)")
    }

    private static let changes: [(MembershipChange, Stamp)] = [
        (.join(node(1), address(1)), stamp(1, by: 1)),
        (.join(node(2), address(3)), stamp(1, by: 1)),
        (.join(node(2), address(5)), stamp(2, by: 2)),
        (.depart(node(2), isRetired: true), stamp(3, by: 1)),
        (.depart(node(2), isRetired: false), stamp(4, by: 2)),
        (.join(node(2), address(7)), stamp(5, by: 3)),
    ]

    @Test("Every order of applying gives the same members, and no departure is undone")
    func everyOrder() {
        var orders: [[Int]] = [[]]
        for count in Self.changes.indices {
            orders = orders.flatMap { order in
                (0...count).map { place in
                    var longer = order
                    longer.insert(count, at: place)
                    return longer
                }
            }
        }
        #expect(orders.count == 720)
        var expected = Membership()
        for (change, stamp) in Self.changes { expected.apply(change, stamp: stamp) }
        for order in orders {
            var membership = Membership()
            for index in order {
                membership.apply(Self.changes[index].0, stamp: Self.changes[index].1)
                // Twice is once.
                membership.apply(Self.changes[index].0, stamp: Self.changes[index].1)
            }
            #expect(membership == expected)
        }
        #expect(expected.current == [Self.node(1)])
        #expect(expected[Self.node(2)]?.address == Self.address(7))
        // Of two departures the earlier stands.
        #expect(expected.departed.map(\.departure?.isRetired) == [true])
    }

    @Test("A change comes out of a transaction's bytes as it went in")
    func coding() throws {
        var keyed = Self.address(9)
        keyed.publicKeys = ["one", "two"]
        let changes: [MembershipChange] = [
            .join(Self.node(32_767), keyed), .join(Self.node(1), Self.address(1)),
            .depart(Self.node(2), isRetired: true), .depart(Self.node(3), isRetired: false),
        ]
        let actor = ActorID(node: Self.node(1), incarnation: 1)
        let transaction = Transaction(
            dot: Dot(actor: actor, sequence: 1), timestamp: .zero, seen: VersionVector(),
            modelHash: [UInt8](repeating: 1, count: 32), shapes: MembershipChange.shapes,
            changes: changes.map(\.change))
        let decoded = try Transaction.decode(transaction.encoded())
        #expect(
            decoded.changes.compactMap {
                MembershipChange($0, shape: decoded.shapes[$0.shape])
            } == changes)
    }

    @Test("What is no change of membership is read as none")
    func refused() {
        let shapes = MembershipChange.shapes
        let row = RowID(1)
        let texts: [PropertyValue] = [.string("a"), .string("b"), .string("c")]
        let wrong: [(Change, ChangeShape)] = [
            (Change(kind: .update, shape: 0, row: row, values: texts), shapes[0]),
            (Change(kind: .insert, shape: 0, row: RowID(32_768), values: texts), shapes[0]),
            (Change(kind: .insert, shape: 0, row: row, values: [.null, .null, .null]), shapes[0]),
            (Change(kind: .insert, shape: 1, row: row, values: [.boolean(true)]), shapes[1]),
            (Change(kind: .delete, shape: 1, row: row, values: [.integer(1)]), shapes[1]),
            (
                Change(kind: .delete, shape: 0, row: row),
                ChangeShape(entity: MembershipChange.entity, assigned: [])
            ),
            (
                Change(kind: .insert, shape: 0, row: row, values: texts),
                ChangeShape(entity: "Person", assigned: ["publish", "exchange", "publicKeys"])
            ),
        ]
        for (change, shape) in wrong { #expect(MembershipChange(change, shape: shape) == nil) }
    }
}
