import Coordinator
import Merge
import Testing

/// One-to-ones of objects that become one with what the store has, for they have its unique key.
@Suite("Claims and unique keys")
struct ClaimedKeysTests {
    private let node: EngineNode
    private let other: EngineNode
    private let badge: ManagedObjectID
    private let person: ManagedObjectID

    init() throws {
        let model = try ManagedObjectModel(entities: [
            // The claim is kept in its column: its name comes first.
            EntityDescription(
                "Badge", attributes: [.init("number", .string)],
                relationships: [.init("person", to: "Person", inverse: "badge")],
                uniquenessConstraints: [["number"]]),
            EntityDescription(
                "Person", attributes: [.init("code", .string)],
                relationships: [.init("badge", to: "Badge", inverse: "person")],
                uniquenessConstraints: [["code"]]),
        ])
        (node, other) = (try EngineNode(model), try EngineNode(model, node: 2))
        person = try node.insert("Person", ["code": .string("1")])
        badge = try node.insert(
            "Badge", ["number": .string("1"), "person": .reference(person.row)])
    }

    @Test(
        "What is dropped for what the store has takes no claim from it, nor from others",
        arguments: [MergePolicy.mergeByPropertyStoreTrump, .rollback], ["1", "2"])
    func dropped(_ policy: MergePolicy, number: String) throws {
        if number == "2" { try node.insert("Badge", ["number": .string("2")]) }
        try node.save(
            try node.insertion(
                "Badge", -1, ["number": .string(number), "person": .reference(person.row)]),
            policy: policy)
        #expect(try node.value(badge, "person") == .reference(person.row))
        #expect(try node.members(person, "badge") == [badge.row])
        #expect(try node.coordinator.verify().isOK)
    }

    @Test(
        "The owner of a new object that becomes one with an object of the store has it alone",
        arguments: [MergePolicy.mergeByPropertyObjectTrump, .overwrite, .mergeByPropertyStoreTrump])
    func united(_ policy: MergePolicy) throws {
        let other = try node.insert("Badge", ["number": .string("2")])
        try node.save(
            try node.insertion("Person", -1, ["code": .string("1")]),
            try node.change(other, ["person": .reference(RowID(-1))]), policy: policy)
        #expect(try node.value(other, "person") == .reference(person.row))
        #expect(try node.value(badge, "person") == .null)
        #expect(try node.members(person, "badge") == [other.row])
        #expect(try node.conflicts().isEmpty)
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("What is written over an object of the store takes the claims that it has")
    func writtenOver() throws {
        let other = try node.insert("Person", ["code": .string("2")])
        let third = try node.insert(
            "Badge", ["number": .string("2"), "person": .reference(other.row)])
        try node.save(
            try node.insertion(
                "Badge", -1, ["number": .string("1"), "person": .reference(other.row)]),
            policy: .overwrite)
        #expect(try node.value(badge, "person") == .reference(other.row))
        #expect(try node.value(third, "person") == .null)
        #expect(try node.members(person, "badge").isEmpty)
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("The object that had the one shown has the one kept of two objects of one key")
    func kept() throws {
        let otherPerson = try other.insert("Person", ["code": .string("1")])
        let otherBadge = try other.insert(
            "Badge", ["number": .string("2"), "person": .reference(otherPerson.row)])
        try node.take(from: other)
        let conflict = try #require(
            try node.conflicts(kind: .uniqueness).first { $0.object.entityName == "Person" })
        let shown = conflict.object
        let (kept, had) = shown == person ? (otherPerson, badge) : (person, otherBadge)
        let lost = had == badge ? otherBadge : badge
        #expect(try node.value(had, "person") == .reference(shown.row))
        let dots = conflict.sides.compactMap(\.dot)
        let side = try #require(conflict.sides.first { $0.object == kept }?.dot)
        try node.resolve(conflict.id, .side(side), sides: dots)
        #expect(try node.value(had, "person") == .reference(kept.row))
        #expect(try node.value(lost, "person") == .null)
        #expect(try node.conflicts().isEmpty)
        try exchange(node, other)
    }

    @Test("An object that takes a claim over from a deleted one keeps its target alive")
    func takenFromDeleted() throws {
        let folder = try ManagedObjectModel(entities: [
            EntityDescription(
                "Holder", attributes: [.init("text", .string)],
                relationships: [.init("item", to: "Item", inverse: "holder", deleteRule: .cascade)]),
            EntityDescription(
                "Item", attributes: [.init("text", .string)],
                relationships: [.init("holder", to: "Holder", inverse: "item")]),
        ])
        for isFirst in [true, false] {
            let node = try EngineNode(folder)
            let item = try node.insert("Item", ["text": .string("item")])
            let holders = try (0..<2).map { try node.insert("Holder", ["text": .string("\($0)")]) }
            let owned = try node.entity("Holder").position(of: "item") != nil
            func hold(_ holder: ManagedObjectID) throws -> SaveOperation {
                owned
                    ? try node.change(holder, ["item": .reference(item.row)])
                    : try node.change(item, ["holder": .reference(holder.row)])
            }
            try node.save(try hold(holders[0]))
            let operations = [try node.deletion(holders[0]), try hold(holders[1])]
            try node.save(SaveRequest(operations: isFirst ? operations : operations.reversed()))
            #expect(try node.members(item, "holder") == [holders[1].row])
            #expect(try node.coordinator.verify().isOK)
        }
    }
}
