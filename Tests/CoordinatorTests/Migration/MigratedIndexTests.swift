import Coordinator
import Merge
import Testing

/// Indexes are no part of a model's hash, and follow it whenever a store is opened.
@Suite("Indexes of a model that follows another")
struct MigratedIndexTests {
    private func model(
        _ index: (name: String, element: String)?, _ friends: RelationshipDescription? = nil
    ) throws -> ManagedObjectModel {
        try MigrationModels.model(
            EntityDescription(
                "Person", attributes: [.init("name", .string), .init("mail", .string)],
                relationships: friends.map { [$0] } ?? [],
                indexes: index.map {
                    [IndexDescription(name: $0.name, elements: [.init($0.element)])]
                }
                    ?? []))
    }

    private func friends(
        _ name: String = "friends", renaming: String? = nil
    ) -> RelationshipDescription {
        RelationshipDescription(name, to: "Person", isToMany: true, renamingIdentifier: renaming)
    }

    @Test("A relationship may have the name that an index had", arguments: [true, false])
    func name(isRenamed: Bool) throws {
        let node = try EngineNode(try model(("friends", "name"), isRenamed ? friends("pals") : nil))
        let one = try node.insert("Person")
        try node.migrate(to: try model(nil, friends(renaming: isRenamed ? "pals" : nil)))
        let two = try node.insert("Person", [:], [.add(one.row, to: "friends")])
        #expect(try node.members(two, "friends") == [one.row])
    }

    @Test("An index may have the name that a relationship had")
    func nameOfRelationship() throws {
        let node = try EngineNode(try model(nil, friends()))
        try node.migrate(to: try model(("friends", "name")))
        node.close()
        #expect(try node.look("SELECT count(*) FROM pragma_index_info('Person.friends')") == 1)
    }

    @Test("An index follows its description and goes with it; one made by hand stays")
    func description() throws {
        let node = try EngineNode(try model(("byName", "name")))
        node.close()
        try node.tamper("CREATE INDEX own ON Person (mail)")
        try node.migrate(to: try model(("byName", "mail")))
        node.close()
        #expect(
            try node.look(
                "SELECT count(*) FROM pragma_index_info('Person.byName') WHERE name = 'mail'") == 1)
        try node.migrate(to: try model(nil))
        node.close()
        #expect(
            try node.look(
                "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'Person'")
                == 1)
    }
}
