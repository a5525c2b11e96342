@testable import Coordinator
@testable import Merge

/// Fills a store by saves and by transactions of other nodes, so that there are conflicts, deleted
/// objects and dangling references in it. The same every time.
enum SampleRows {
    static let node: NodeID = {
        guard let node = NodeID(1) else { preconditionFailure("1 is a node") }
        return node
    }()

    /// The other nodes' names.
    static let strangers: [ActorID] = [2, 3, 4].map { number in
        guard let node = NodeID(number) else { preconditionFailure("\(number) is a node") }
        return ActorID(node: node, incarnation: UInt64(number) << 32 | 5)
    }

    /// A clock and chance that are the same in every run.
    static var environment: StoreSession.Environment {
        StoreSession.Environment(
            wallMilliseconds: { 1_800_000_000_000 }, random: { 0x1234_5678_9ABC_DEF0 })
    }

    private static let names = [
        "Ada", "ada", "\u{C4}d\u{E4}", "Bob", "", "stra\u{DF}e", "STRASSE", "x\u{0}y", "50%",
        "a\\b", "e\u{301}", "\u{10FFFF}",
    ]

    private static func operation(
        _ entityName: String, _ number: Int, _ values: [String: PropertyValue],
        _ relationships: [RelationshipOperation] = []
    ) -> SaveOperation {
        guard let entity = SampleModel.model.entity(named: entityName) else {
            preconditionFailure("\(entityName) is in the model")
        }
        return SaveOperation(
            kind: .insert, entity: entity, row: RowID(Int64(-number)),
            values: values.sorted { $0.key < $1.key }.compactMap { name, value in
                entity.position(of: name).map { ($0, value) }
            }, relationships: relationships)
    }

    /// Everything that is inserted, by numbers below 0.
    static func inserts() -> [SaveOperation] {
        var random = Random(seed: 7)
        var result: [SaveOperation] = []
        for number in 1...10 {
            var values: [String: PropertyValue] = [
                "name": .string(names[number]),
                "age": .integer(random.pick([0, 1, 17, 40, -3, .max, .min])),
                "weight": .double(
                    random.pick([0, -0.0, 1.5, .nan, .infinity, .leastNonzeroMagnitude])),
                "ratio": .double(Double(random.pick([Float(0.1), 0.5, .nan]))),
                "balance": .decimal(random.pick(["0", "-9.5", "12345678901234567890.1"])),
                "born": .date(random.pick([0, -1, 1_769_860_800_000])),
                "isMember": .boolean(random.chance(50)), "token": .uuid(random.next(), 1),
                "home": .uri(random.pick(["http://a", "HTTP://A", ""])),
                "photo": .binary(random.pick([[], [0], [1, 2, 255]])),
            ]
            for name in values.keys.sorted() where random.chance(20) { values[name] = .null }
            if number > 1, random.chance(70) {
                values["manager"] = .reference(RowID(-Int64(1 + random.below(number - 1))))
            }
            result.append(operation(number > 7 ? "Employee" : "Person", number, values))
        }
        for number in 11...13 {
            result.append(
                operation(
                    "Animal", number,
                    ["owner": .reference(RowID(Int64(11 - number) - 1)), "age": .integer(5)]))
            let members = (1...3).map { RowID(Int64(-$0 - random.below(6))) }
            result.append(
                operation(
                    "Group", number + 10, ["label": .string("group \(number)")],
                    [RelationshipOperation(name: "members", kind: .add, members: members)]))
        }
        result.append(operation("Desk", 31, ["user": .reference(RowID(-4))]))
        result.append(operation("Debt", 32, ["debtor": .reference(RowID(-2))]))
        result.append(operation("Note", 33, ["text": .string("first"), "size": .integer(3)]))
        result.append(operation("Note", 34, ["previous": .reference(RowID(-33))]))
        result.append(operation("Key", 35, ["word": .string("k"), "number": .integer(1)]))
        return result
    }

    /// What other nodes did without having seen each other's work, given the rows by the numbers
    /// of ``inserts()``.
    static func foreign(_ rows: [Int: RowID], seen: VersionVector) -> [Transaction] {
        func row(_ number: Int) -> RowID { rows[number] ?? RowID(1) }
        func transaction(_ index: Int, _ shape: ChangeShape, _ change: Change) -> Transaction {
            Transaction(
                dot: Dot(actor: strangers[index], sequence: 1),
                timestamp: HybridTimestamp(
                    milliseconds: 1_700_000_000_000 + UInt64(index), counter: 3) ?? .zero,
                seen: seen, author: "stranger", modelHash: SampleModel.model.modelHash,
                shapes: [
                    shape, ChangeShape(entity: "Animal", assigned: ["owner"]),
                    ChangeShape(entity: "Note", assigned: [], carried: ["next", "size", "text"]),
                    ChangeShape(entity: "Key", assigned: ["number"], carried: ["word"]),
                ], changes: [change])
        }
        let name = ChangeShape(entity: "Person", assigned: ["name"])
        var first = transaction(
            0, name, Change(kind: .update, shape: 0, row: row(3), values: [.string("one")]))
        var second = transaction(
            1, name, Change(kind: .update, shape: 0, row: row(3), values: [.string("two")]))
        let third = transaction(
            2, ChangeShape(entity: "Person", assigned: []),
            Change(kind: .delete, shape: 0, row: row(5)))
        first.changes.append(
            Change(kind: .update, shape: 1, row: row(11), values: [.reference(row(5))]))
        second.changes.append(
            Change(kind: .update, shape: 0, row: row(5), values: [.string("kept")]))
        return [first, second, third]
    }

    /// What the same nodes did next, still without having seen each other's work: with it there are
    /// conflicts of every kind but those that a save leaves.
    static func disputes(_ rows: [Int: RowID], seen: VersionVector) -> [Transaction] {
        func row(_ number: Int) -> RowID { rows[number] ?? RowID(1) }
        func update(_ shape: Int, _ number: Int, _ values: [PropertyValue]) -> Change {
            Change(kind: .update, shape: shape, row: row(number), values: values)
        }
        func link(_ kind: Change.Kind, _ group: Int, _ person: Int) -> Change {
            Change(kind: kind, shape: 3, row: row(group), target: row(person))
        }
        let shapes = [
            ChangeShape(entity: "Employee", assigned: ["name"]),
            ChangeShape(entity: "Note", assigned: ["text"], carried: ["next", "size"]),
            ChangeShape(entity: "Key", assigned: ["number", "word"]),
            ChangeShape(entity: "Group.members", assigned: []),
            ChangeShape(entity: "Animal", assigned: ["owner"]),
            ChangeShape(entity: "Person", assigned: []),
        ]
        let key = RowID(node: strangers[0].node, block: 1, counter: 1)
        let changes: [[Change]] = [
            [
                update(0, 8, [.string("one")]), update(1, 33, [.string("one"), .null, .null]),
                Change(kind: .insert, shape: 2, row: key, values: [.integer(2), .string("k")]),
                link(.unlink, 21, 9), link(.link, 22, 1), link(.link, 22, 2), link(.link, 22, 9),
            ],
            [
                update(0, 8, [.string("two")]), update(1, 33, [.string("two"), .null, .null]),
                update(4, 12, [.reference(row(6))]), link(.link, 21, 9), link(.link, 22, 4),
                link(.link, 22, 7), link(.link, 22, 10),
            ],
            [Change(kind: .delete, shape: 5, row: row(6))],
        ]
        return zip(strangers, changes).map { actor, changes in
            var seen = seen
            seen.advance(actor, to: 1)
            return Transaction(
                dot: Dot(actor: actor, sequence: 2),
                timestamp: HybridTimestamp(
                    milliseconds: 1_700_000_001_000 + UInt64(actor.node.rawValue), counter: 0)
                    ?? .zero,
                seen: seen, author: "stranger", contextName: "dispute",
                modelHash: SampleModel.model.modelHash, shapes: shapes, changes: changes)
        }
    }
}
