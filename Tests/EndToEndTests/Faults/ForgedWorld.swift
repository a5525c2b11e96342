import Coordinator
import Merge

/// Three saves, and what nodes must answer of them: written by hand from the design, so that judge
/// and oracle have something to be compared with.
struct ForgedWorld {
    typealias Forgery = EndToEnd.OracleJudgeTests.Forgery

    let model: ManagedObjectModel
    let first: ActorID
    let second: ActorID
    let transactions: [Transaction]
    /// With the inserts alone.
    let early: VersionVector
    let all: VersionVector

    var judge: OracleJudge { OracleJudge(model, transactions) }

    init() throws {
        guard let one = NodeID(1), let two = NodeID(2) else { throw EndToEndError("no nodes") }
        model = try ManagedObjectModel(json: Array(TestModel.json.utf8))
        first = ActorID(node: one, startedAtSeconds: 1_700_000_000, random: 1)
        second = ActorID(node: two, startedAtSeconds: 1_700_000_000, random: 2)
        early = VersionVector([.init(actor: first, sequence: 1)])
        all = VersionVector([.init(actor: first, sequence: 2), .init(actor: second, sequence: 1)])
        let hash = model.modelHash
        func save(
            _ dot: Dot, at milliseconds: UInt64, seen: VersionVector, _ shapes: [ChangeShape],
            _ changes: [Change]
        ) -> Transaction {
            Transaction(
                dot: dot,
                timestamp: HybridTimestamp(
                    milliseconds: 1_700_000_000_000 + milliseconds, counter: 0) ?? .zero,
                seen: seen, author: nil, modelHash: hash, shapes: shapes, changes: changes)
        }
        let update = [ChangeShape(entity: "Errors", assigned: ["a"])]
        transactions = [
            save(
                Dot(actor: first, sequence: 1), at: 1, seen: VersionVector(),
                [
                    ChangeShape(entity: "Errors", assigned: ["name", "a", "parent"]),
                    ChangeShape(entity: "Errors.friendOf", assigned: []),
                ],
                [
                    Change(
                        kind: .insert, shape: 0, row: RowID(1),
                        values: [.string("one"), .string("1"), .null]),
                    Change(
                        kind: .insert, shape: 0, row: RowID(2),
                        values: [.string("two"), .string("1"), .reference(RowID(1))]),
                    Change(kind: .link, shape: 1, row: RowID(1), target: RowID(2)),
                ]),
            save(
                Dot(actor: first, sequence: 2), at: 3, seen: early, update,
                [Change(kind: .update, shape: 0, row: RowID(1), values: [.string("2")])]),
            save(
                Dot(actor: second, sequence: 1), at: 2, seen: early, update,
                [Change(kind: .update, shape: 0, row: RowID(1), values: [.string("3")])]),
        ]
    }

    // MARK: - What is true

    /// The second node's save is the earlier one by its time, so under `.error` it stands, flagged.
    var objects: [JSONObject] {
        [parent("\(first)-2+\(second)-1", isConflicted: true, a: "3"), child]
    }

    /// The same with the inserts alone.
    var before: [JSONObject] { [parent("\(first)-1", isConflicted: false, a: "1"), child] }

    /// What is left to be decided.
    var conflict: JSONObject {
        let sides = ["\(first)-2", "\(second)-1"].map { JSONValue.object(["dot": .string($0)]) }
        return ["id": "Errors.p1.a", "sides": .array(sides)]
    }

    private func parent(_ version: String, isConflicted: Bool, a: JSONValue) -> JSONObject {
        let values: JSONObject = [
            "name": "one", "a": a, "b": .null, "number": .null, "parent": .null,
            "children": .array([uri(2)]), "friends": .array([]), "friendOf": .array([uri(2)]),
        ]
        return [
            "id": uri(1), "entity": "Errors", "version": .string(version),
            "conflicted": .boolean(isConflicted), "values": .object(values),
        ]
    }

    private var child: JSONObject {
        let values: JSONObject = [
            "name": "two", "a": "1", "b": .null, "number": .null, "parent": uri(1),
            "children": .array([]), "friends": .array([uri(1)]), "friendOf": .array([]),
        ]
        return [
            "id": uri(2), "entity": "Errors", "version": "\(first)-1",
            "conflicted": .boolean(false), "values": .object(values),
        ]
    }

    private func uri(_ number: Int) -> JSONValue {
        "x-tributary://test/Errors/p\(number)"
    }

    // MARK: - Answers

    func reading(_ objects: [JSONObject], at vector: VersionVector? = nil) -> Reading {
        Reading(node: 1, entity: "Errors", vector: vector ?? all, content: .objects(objects))
    }

    func counted(_ count: Int64, at vector: VersionVector? = nil) -> Reading {
        Reading(node: 1, entity: "Errors", vector: vector ?? all, content: .count(count))
    }

    func pin(
        _ before: [JSONObject], _ after: [JSONObject], _ vector: VersionVector? = nil
    ) -> PinnedReading {
        PinnedReading(
            vector: vector ?? all, first: reading(before, at: vector),
            second: reading(after, at: vector))
    }

    /// All objects, with one thing wrong.
    func objects(with forgery: Forgery) -> [JSONObject] {
        var (parent, child) = (objects[0], objects[1])
        func change(_ key: String, _ value: JSONValue?) {
            var values = parent["values"]?.object ?? [:]
            values[key] = value
            parent["values"] = .object(values)
        }
        switch forgery {
        case .value: change("a", "2")
        case .null: change("name", .null)
        case .toOne: change("parent", uri(2))
        case .member: change("friends", .array([uri(2)]))
        case .memberTwice: change("children", .array([uri(2), uri(2)]))
        case .noMember: change("friendOf", .array([]))
        case .property: change("other", .null)
        case .noProperty: change("number", nil)
        case .version: parent["version"] = "\(first)-1"
        case .dot: parent["version"] = "\(first)-2"
        case .flag: parent["conflicted"] = .boolean(false)
        case .entity: child["entity"] = "Latest"
        case .gone: return [parent]
        case .stranger: return [parent, child, ["id": uri(3)]]
        case .twice: return [parent, child, child]
        case .older: return before
        }
        return [parent, child]
    }
}
