import Coordinator
import Merge
import Testing

/// Changes that look like one of the same thing and are not, so that they are refused by name.
@Suite("What a migration refuses")
struct MigrationObstacleTests {
    private let name = AttributeDescription("name", .string)

    private func person(
        _ attributes: [AttributeDescription] = [], _ relationships: [RelationshipDescription] = []
    ) throws -> ManagedObjectModel {
        try MigrationModels.model(
            MigrationModels.person(attributes: [name] + attributes, relationships: relationships))
    }

    @Test("An attribute does not become a to-one of its name, nor the other way round")
    func kind() throws {
        let attribute = try person([.init("boss", .integer64)])
        let reference = try person([], [.init("boss", to: "Person")])
        for (first, second) in [(attribute, reference), (reference, attribute)] {
            let node = try EngineNode(first)
            let message = try #require(try node.obstacle(to: second))
            #expect(message.contains("Person.boss"), "\(message)")
            let other = try EngineNode(second, node: 2)
            #expect(try other.coordinator.learn([first]).isEmpty)
        }
        // With a name of its own it is another property.
        let own = try person([], [.init("chief", to: "Person")])
        let nodes = try (1...2).map { try EngineNode(attribute, node: $0) }
        let one = try nodes[0].insert("Person", ["boss": .integer(7)])
        for node in nodes { try node.migrate(to: own) }
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.value(one, "chief") == .null) }
    }

    @Test("An attribute that gave way to a to-many of its name does not come back")
    func kindAgain() throws {
        let attribute = try person([.init("friends", .string)])
        let node = try EngineNode(attribute)
        try node.insert("Person", ["friends": .string("x")])
        try node.migrate(to: try person([], [.init("friends", to: "Person", isToMany: true)]))
        let message = try #require(
            try node.obstacle(
                to: try person([
                    .init("friends", .string), .init("x", .string),
                ])))
        #expect(message.contains("Person.friends"), "\(message)")
    }

    @Test(
        "A to-many neither becomes its own inverse nor stops being it", arguments: [true, false])
    func ownInverse(before: Bool) throws {
        func friends(_ isOwnInverse: Bool) throws -> ManagedObjectModel {
            try person(
                [],
                [
                    .init(
                        "friends", to: "Person", inverse: isOwnInverse ? "friends" : nil,
                        isToMany: true)
                ])
        }
        let node = try EngineNode(try friends(before))
        let one = try node.insert("Person")
        let two = try node.insert("Person", [:], [.add(one.row, to: "friends")])
        let message = try #require(try node.obstacle(to: try friends(!before)))
        #expect(message.contains("Person.friends"), "\(message)")
        #expect(try node.members(two, "friends") == [one.row])
    }

    @Test("A renaming identifier stays, whether the store knows a model that had the name or not")
    func identifier() throws {
        func titled(_ identifier: String?) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    attributes: [
                        .init("title", .string, renamingIdentifier: identifier)
                    ]))
        }
        let node = try EngineNode(try person())
        let id = try node.insert("Person", ["name": .string("a")])
        try node.migrate(to: try titled("name"))
        node.close()
        let error = try #require(throws: CoordinatorError.self) {
            try node.migrate(to: try titled(nil))
        }
        #expect(error.code == .mappingNotInferable)
        #expect(error.message.contains("Person.title"), "\(error.message)")
        try node.open()
        #expect(try node.value(id, "title") == .string("a"))
        node.close()
        #expect(try node.code { try node.migrate(to: try titled(nil), .none) } == .modelMismatch)
        let plain = try EngineNode(try titled("name"), node: 2)
        #expect(try plain.obstacle(to: try titled(nil))?.contains("Person.title") == true)
    }
}
