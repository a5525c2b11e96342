import Merge
import Testing

@testable import Coordinator

/// A property with an error policy of its own, of objects that a unique key unites while their entity's
/// policy combines them (DESIGN section 5.5).
@Suite("A property that errors, of united objects")
struct UnitedErrorPropertyTests {
    private let here: EngineNode
    private let there: EngineNode

    private static let latest = MergePolicy.mergeByPropertyObjectTrump

    init() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", mergePolicy: Self.latest,
                attributes: [
                    .init("email", .string), .init("name", .string),
                    .init("phone", .string, mergePolicy: .error),
                ], uniquenessConstraints: [["email"]])
        ])
        (here, there) = try EngineNode.pair(model)
    }

    private func insert(
        _ phone: String?, named name: String = "Ada", at node: EngineNode
    ) throws -> ManagedObjectID {
        var values: [String: PropertyValue] = ["email": .string("ada"), "name": .string(name)]
        values["phone"] = phone.map { .string($0) }
        return try node.insert("Person", values)
    }

    /// One e-mail inserted at two nodes with two numbers.
    private func unite() throws -> (shown: ManagedObjectID, eclipsed: ManagedObjectID) {
        let (first, second) = (try insert("111", at: here), try insert("222", at: there))
        try exchange(here, there)
        return (first, second)
    }

    private func expectConverged() throws {
        #expect(try here.coordinator.currentDigest == there.coordinator.currentDigest)
        for node in [here, there] { #expect(try node.coordinator.verify().isOK) }
    }

    @Test("Two numbers are an unresolved conflict of the object shown, and the earliest is shown")
    func unresolved() throws {
        let (shown, eclipsed) = try unite()
        for node in [here, there] {
            #expect(try node.value(shown, "phone") == .string("111"))
            #expect(try node.row(shown)?.isConflicted == true)
            let conflict = try #require(try node.conflicts(.unresolved).first)
            #expect(try node.conflicts(.unresolved).count == 1)
            #expect(conflict.id.description == "Person.\(shown.row).phone")
            #expect(conflict.kind == .update && conflict.property == "phone")
            #expect(conflict.sides.map(\.value) == [.string("111"), .string("222")])
            #expect(conflict.sides.map(\.object) == [shown, eclipsed])
            #expect(conflict.sides.map(\.isVisible) == [true, false])
        }
        try expectConverged()
    }

    @Test("Equal numbers are no conflict, and one that only one of them has is shown")
    func equal() throws {
        let shown = try insert(nil, at: here)
        _ = try insert("222", at: there)
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.value(shown, "phone") == .string("222"))
            #expect(try node.conflicts(.unresolved).isEmpty)
        }
        try expectConverged()
    }

    @Test(
        "Deciding writes to all of them, and closes the conflict at every node", arguments: [0, 1])
    func resolving(_ chosen: Int) throws {
        let (shown, eclipsed) = try unite()
        let conflict = try #require(try there.conflicts(.unresolved).first)
        let dots = conflict.sides.compactMap(\.dot)
        let result = try there.resolve(conflict.id, .side(dots[chosen]), sides: dots)
        #expect(result.transaction != nil)
        try exchange(here, there)
        let number = PropertyValue.string(chosen == 0 ? "111" : "222")
        for node in [here, there] {
            #expect(try node.value(shown, "phone") == number)
            #expect(try node.conflicts(.unresolved).isEmpty)
            #expect(try node.row(shown)?.isConflicted == false)
        }
        // Each of them has it, whichever is shown.
        let key = try #require(try here.conflicts(kind: .uniqueness).first)
        for side in key.sides { #expect(side.row.first { $0.name == "phone" }?.value == number) }
        #expect(key.sides.map(\.object) == [shown, eclipsed])
        try expectConverged()
    }

    @Test("A save over it is refused unless it says that it resolves")
    func saving() throws {
        let (shown, _) = try unite()
        #expect(
            try here.code { try here.update(shown, ["phone": .string("333")]) }
                == .unresolvedConflict)
        try here.update(shown, ["name": .string("Ada L.")])
        #expect(try here.conflicts(.unresolved).count == 1)
        try here.update(shown, ["phone": .string("333")], resolves: true)
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.value(shown, "phone") == .string("333"))
            #expect(try node.conflicts(.unresolved).isEmpty)
        }
        try expectConverged()
    }

    @Test("It closes when the group ends, and stability does not settle it")
    func ending() throws {
        let (shown, eclipsed) = try unite()
        for node in [here, there] {
            _ = try node.coordinator.collect(stable: node.coordinator.currentToken.versionVector)
            #expect(try node.conflicts(.unresolved).count == 1)
        }
        let key = try #require(try here.conflicts(kind: .uniqueness).first)
        try here.resolve(key.id, .change([eclipsed: ["email": .string("grace")]]))
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.conflicts(.unresolved).isEmpty)
            #expect(try node.value(shown, "phone") == .string("111"))
            #expect(try node.value(eclipsed, "phone") == .string("222"))
        }
        try expectConverged()
    }

    @Test(
        "A united object's side over its key is marked as visible where all of it is what fetches show",
        arguments: [("111", [false, true]), ("222", [false, false])])
    func visible(_ phone: String, _ marks: [Bool]) throws {
        let shown = try insert("111", named: "Ada", at: here)
        _ = try insert(phone, named: "Grace", at: there)
        try exchange(here, there)
        #expect(try here.value(shown, "name") == .string("Grace"))
        #expect(try here.value(shown, "phone") == .string("111"))
        let key = try #require(try here.conflicts(kind: .uniqueness).first)
        #expect(key.sides.map(\.isVisible) == marks)
    }

    @Test("No side of a united object's conflict is visible where another object's value is shown")
    func covered() throws {
        let first = try here.insert("Person", ["email": .string("ada")])
        let second = try here.insert("Person", ["email": .string("bob")])
        try exchange(here, there)
        try here.update(first, ["name": .string("x")])
        try there.update(first, ["name": .string("y")])
        try there.update(second, ["name": .string("z")])
        try exchange(here, there)
        func marks() throws -> [Bool] {
            try #require(try here.conflicts(kind: .update).first).sides.map(\.isVisible)
        }
        #expect(try marks() == [false, true])
        try there.update(second, ["email": .string("ada")], policy: Self.latest)
        try exchange(here, there)
        #expect(try here.value(first, "name") == .string("z"))
        #expect(try marks() == [false, false])
    }

    @Test(
        "The side that is shown is marked as visible, though the row's own policy chose another")
    func chosenByAnother() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Party", mergePolicy: Self.latest,
                attributes: [.init("email", .string), .init("name", .string)],
                uniquenessConstraints: [["email"]]),
            EntityDescription("Firm", parent: "Party", mergePolicy: .error),
        ])
        let (here, there) = (try EngineNode(model, node: 1), try EngineNode(model, node: 2))
        let party = try here.insert("Party", ["email": .string("ada")])
        let firm = try here.insert("Firm", ["email": .string("bob")])
        try exchange(here, there)
        try here.update(firm, ["name": .string("x")])
        try there.save(
            try there.change(party, ["name": .string("y")]),
            try there.change(firm, ["name": .string("y")]))
        try exchange(here, there)
        func marks() throws -> [Bool] {
            try #require(try here.conflicts(kind: .update).first).sides.map(\.isVisible)
        }
        // An error policy shows the earliest.
        #expect(try marks() == [true, false])
        try there.update(party, ["email": .string("eve")])
        try here.update(firm, ["email": .string("eve")])
        try exchange(here, there)
        #expect(try here.value(party, "name") == .string("y"))
        #expect(try marks() == [false, true])
    }
}
