import Coordinator
import Merge
import Testing

/// What rows show that were there before what a model adds, or no longer leaves null: the same as
/// those do that are heard of later.
@Suite("What stands for values that there were not")
struct MigrationDefaultsTests {
    private func text(_ name: String, _ value: String? = nil) -> AttributeDescription {
        AttributeDescription(name, .string, defaultValue: value.map { .string($0) } ?? .null)
    }

    private func people(
        _ policy: MergePolicyChoice = .objectTrump, _ attributes: AttributeDescription...,
        constraints: [[String]] = []
    ) throws -> ManagedObjectModel {
        try MigrationModels.model(
            MigrationModels.person(
                policy, attributes: [text("name")] + attributes, constraints: constraints))
    }

    @Test("An heir that is new does not give its default to rows of one that was there")
    func newHeir() throws {
        func animals(_ heirs: EntityDescription...) throws -> ManagedObjectModel {
            try ManagedObjectModel(
                entities: [EntityDescription("Animal", attributes: [text("name")])] + heirs)
        }
        let first = try animals(EntityDescription("Zebra", parent: "Animal"))
        let second = try animals(
            EntityDescription("Ape", parent: "Animal", attributes: [text("legs", "two")]),
            EntityDescription("Zebra", parent: "Animal", attributes: [text("legs", "four")]))
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let zebra = try nodes[0].insert("Zebra")
        for node in nodes { try node.migrate(to: second) }
        let ape = try nodes[0].insert("Ape")
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.value(zebra, "legs") == .string("four"))
            #expect(try node.value(ape, "legs") == .string("two"))
        }
    }

    @Test(
        "A default is the same, bit by bit, to rows there are and to those that come",
        arguments: [
            (AttributeType.string, PropertyValue.string("a\u{0}b")), (.string, .string("a'b")),
            (.uri, .uri("a\u{0}b")), (.double, .double(-0.0)), (.double, .double(5)),
            (.float, .double(-0.0)), (.double, .double(1e300)), (.double, .double(.infinity)),
            (.integer64, .integer(.min)), (.binary, .binary([0, 255])), (.decimal, .decimal("1.5")),
        ])
    func exact(_ type: AttributeType, _ value: PropertyValue) throws {
        let second = try people(.objectTrump, .init("x", type, defaultValue: value))
        let nodes = try (1...2).map { try EngineNode(try people(), node: $0) }
        let person = try nodes[0].insert("Person")
        for node in nodes { try node.migrate(to: second) }
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.value(person, "x") == value) }
    }

    @Test(
        "What was added as optional may become mandatory", arguments: MergePolicyChoice.allCases)
    func laterMandatory(_ policy: MergePolicyChoice) throws {
        let first = try people(policy)
        let second = try people(policy, text("note"))
        let third = try people(
            policy,
            .init("note", .string, isOptional: false, defaultValue: .string("d")))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let person = try nodes[0].insert("Person", ["name": .string("a")])
        let other = try nodes[0].insert("Person")
        try exchange(nodes[0], nodes[1], nodes[2])
        try nodes[0].migrate(to: second)
        let between = try nodes[0].insert("Person", ["name": .string("b")])
        try nodes[0].update(person, ["name": .string("c")])
        try nodes[0].update(other, ["note": .string("own")])
        try nodes[1].update(other, ["name": .string("e")])
        // In two steps, in one, and in one before anything of the model between is heard of.
        try nodes[2].migrate(to: third)
        #expect(try nodes[2].coordinator.learn([second]).count == 1)
        try nodes[2].take(from: nodes[1])
        for node in nodes[..<2] { try node.migrate(to: third) }
        #expect(try nodes[1].coordinator.learn([second]).count == 1)
        let fresh = try EngineNode(third, node: 4)
        #expect(try fresh.coordinator.learn([first, second]).count == 2)
        try exchange(nodes[0], nodes[1], nodes[2], fresh)
        for node in nodes + [fresh] {
            for id in [person, between] { #expect(try node.value(id, "note") == .string("d")) }
        }
        // It is settled from then on.
        let fourth = try people(
            policy,
            .init("note", .string, isOptional: false, defaultValue: .string("e")),
            text("more"))
        #expect(try nodes[0].obstacle(to: fourth)?.contains("Person.note") ?? false)
    }

    @Test(
        "Keys that a default in the place of null would make equal are refused",
        arguments: [[], [["name"]], [["name", "mail"]]])
    func equalKeys(_ before: [[String]]) throws {
        let mail = text("mail")
        let mandatory = AttributeDescription(
            "name", .string, isOptional: false, defaultValue: .string("nobody"))
        let second = try MigrationModels.model(
            MigrationModels.person(attributes: [mandatory, mail], constraints: [["name"]]))
        let node = try EngineNode(try people(.objectTrump, mail, constraints: before))
        let one = try node.insert("Person", ["mail": .string("a")])
        try node.insert("Person", ["mail": .string("b"), "name": .string("nobody")])
        let code = try node.code { try node.migrate(to: second, .inferred) }
        #expect(code == .constraintMigration)
        try node.open()
        #expect(try node.value(one, "name") == .null)
        try node.update(one, ["name": .string("somebody")])
        try node.migrate(to: second, .inferred)
        #expect(try node.coordinator.verify().isOK)
    }
}
