import Merge
import Testing

@testable import Coordinator

@Suite("The journal of a store that was migrated")
struct MigratedJournalTests {
    private func model(
        _ name: String = "Item", _ property: String = "q",
        policy: MergePolicy = .mergeByPropertyObjectTrump
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                name, mergePolicy: policy,
                attributes: [
                    AttributeDescription("p", .string),
                    AttributeDescription(property, .string, renamingIdentifier: "q"),
                ], renamingIdentifier: "Item"),
            EntityDescription("Other", attributes: [AttributeDescription("x", .string)]),
        ])
    }

    @Test(
        "A closed conflict of an entity that has another name by now is not undone, and says why",
        arguments: [true, false])
    func renamed(isNamingSides: Bool) throws {
        let here = try EngineNode(model(), node: 1)
        let there = try EngineNode(model(), node: 2)
        let id = try here.insert("Item", ["p": .string("a")])
        try exchange(here, there)
        try here.delete(id)
        try there.update(id, ["p": .string("b")])
        try exchange(here, there)
        let open = try #require(try here.conflicts(kind: .delete).first)
        _ = try here.coordinator.resolve(open.id, .delete) as SaveResult
        let closed = try #require(try here.conflicts(kind: .delete, isOpen: false).first)
        try here.migrate(to: model("Thing"))
        let sides = isNamingSides ? closed.sides.compactMap(\.dot) : nil
        #expect(
            try here.code { _ = try here.coordinator.undo(closed.id, sides: sides) as SaveResult }
                == .conflictNotFound)
    }

    @Test("Two conflicts of one object go on to tell when each was opened")
    func openedAt() throws {
        let here = try EngineNode(model(policy: .error), node: 1)
        let there = try EngineNode(model(policy: .error), node: 2)
        let id = try here.insert("Item")
        try exchange(here, there)
        for name in ["p", "q"] {
            try here.update(id, [name: .string("here")])
            try there.update(id, [name: .string("there")])
            try exchange(here, there)
        }
        let before = try here.conflicts(.unresolved).map(\.openedAt)
        #expect(Set(before).count == 2)
        try here.migrate(to: model("Item", "r", policy: .error))
        #expect(try here.conflicts(.unresolved).map(\.openedAt).sorted() == before.sorted())
    }
}
