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
                    .init("p", .string), .init(property, .string, renamingIdentifier: "q"),
                ], renamingIdentifier: "Item"),
            EntityDescription("Other", attributes: [.init("x", .string)]),
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
        try here.resolve(open.id, .delete)
        let closed = try #require(try here.conflicts(kind: .delete, isOpen: false).first)
        try here.migrate(to: model("Thing"))
        let sides = isNamingSides ? closed.sides.compactMap(\.dot) : nil
        #expect(try here.code { try here.undo(closed.id, sides: sides) } == .conflictNotFound)
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

    @Test(
        "A closed conflict about what is gone is not undone, and says why",
        arguments: [true, false])
    func gone(isLink: Bool) throws {
        func people(_ attributes: [AttributeDescription]) throws -> ManagedObjectModel {
            let tags = RelationshipDescription("tags", to: "Tag", isToMany: true)
            return try MigrationModels.model(
                MigrationModels.person(
                    attributes: [.init("name", .string)] + attributes,
                    relationships: attributes.isEmpty ? [] : [tags]), EntityDescription("Tag"))
        }
        let first = try people([.init("age", .string)])
        let (here, there) = (try EngineNode(first, node: 1), try EngineNode(first, node: 2))
        let tag = try here.insert("Tag")
        let person = try here.insert("Person", ["age": .string("1")])
        try exchange(here, there)
        func change(_ kind: RelationshipOperation.Kind, at node: EngineNode) throws {
            let operation = RelationshipOperation(name: "tags", kind: kind, members: [tag.row])
            try node.update(person, [:], [operation])
        }
        if isLink {
            try change(.add, at: here)
            try change(.add, at: there)
            try change(.remove, at: there)
        } else {
            try here.update(person, ["age": .string("2")])
            try there.update(person, ["age": .string("3")])
        }
        try exchange(here, there)
        let open = try here.onlyConflict()
        let side = try #require(open.sides.first { !$0.isVisible }?.dot)
        try here.resolve(open.id, .side(side))
        try here.migrate(to: people([]))
        let closed = try #require(try here.conflicts(isOpen: false).first)
        #expect(try here.code { try here.undo(closed.id) } == .conflictNotFound)
    }

    @Test("A delete that was decided is repeated, though a property of the object is gone")
    func goneOfDeleted() throws {
        func people(_ names: String...) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(attributes: names.map { AttributeDescription($0, .string) }))
        }
        let first = try people("name", "age")
        let (here, there) = (try EngineNode(first, node: 1), try EngineNode(first, node: 2))
        let person = try here.insert("Person", ["name": .string("a"), "age": .string("1")])
        try exchange(here, there)
        try here.delete(person)
        try there.update(person, ["name": .string("b"), "age": .string("2")])
        try exchange(here, there)
        let open = try here.onlyConflict()
        try here.resolve(open.id, .delete)
        try here.migrate(to: people("name"))
        let closed = try #require(try here.conflicts(kind: .delete, isOpen: false).first)
        try here.undo(closed.id)
    }

    /// Notes that refer to a topic and to a second one, under names that change.
    private func notes(_ entity: String?, _ first: String, _ second: String) throws
        -> ManagedObjectModel
    {
        let topic = EntityDescription("Topic", attributes: [AttributeDescription("t", .string)])
        guard let entity else { return try ManagedObjectModel(entities: [topic]) }
        return try ManagedObjectModel(entities: [
            topic,
            EntityDescription(
                entity,
                relationships: [
                    RelationshipDescription(first, to: "Topic", renamingIdentifier: "first"),
                    RelationshipDescription(second, to: "Topic", renamingIdentifier: "second"),
                ], renamingIdentifier: "Note"),
        ])
    }

    @Test("What a delete did to references is told by the names of now, and not of what is gone")
    func derived() throws {
        let node = try EngineNode(notes("Note", "first", "second"))
        let topics = try (0..<2).map { _ in try node.insert("Topic") }
        let note = try node.insert(
            "Note", ["first": .reference(topics[0].row), "second": .reference(topics[1].row)])
        let deletion = try #require(try node.delete(topics[0]).transaction)
        func derived() throws -> [DerivedChange] {
            try node.coordinator.read { try $0.derivedChanges(of: deletion) }
        }
        #expect(try derived() == [DerivedChange(object: note, property: "first", target: nil)])
        try node.migrate(to: notes("Memo", "topic", "other"))
        let memo = ManagedObjectID(entityName: "Memo", row: note.row)
        #expect(try derived() == [DerivedChange(object: memo, property: "topic", target: nil)])
        try node.migrate(to: notes(nil, "", ""))
        #expect(try derived().isEmpty)
    }
}
