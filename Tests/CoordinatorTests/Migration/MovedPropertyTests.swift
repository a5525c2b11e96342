import Coordinator
import Merge
import Testing

/// Properties that go to another entity of their hierarchy: pulled up, or pushed down.
@Suite("Properties that are pulled up or pushed down")
struct MovedPropertyTests {
    /// - Parameters:
    ///   - person: what the entity at the root has, beside a name.
    ///   - student: what the heir has; nil for no such heir.
    ///   - teacher: what another heir has; nil for no such heir.
    ///   - others: entities that have no properties.
    private func model(
        _ person: [RelationshipDescription] = [], student: [RelationshipDescription]? = [],
        teacher: [RelationshipDescription]? = nil, others: EntityDescription...
    ) throws -> ManagedObjectModel {
        let name = AttributeDescription("name", .string)
        var entities = others
        entities.append(MigrationModels.person(attributes: [name], relationships: person))
        for (heir, relationships) in [("Student", student), ("Teacher", teacher)] {
            guard let relationships else { continue }
            entities.append(EntityDescription(heir, parent: "Person", relationships: relationships))
        }
        return try ManagedObjectModel(entities: entities)
    }

    private let clubs = RelationshipDescription("clubs", to: "Club", isToMany: true)
    private let club = EntityDescription("Club")

    private func join(_ club: ManagedObjectID, _ name: String = "clubs") -> [RelationshipOperation]
    {
        [.add(club.row, to: name)]
    }

    /// Expects that a model is refused and known to no node of the other, so that nothing of it is
    /// applied that would not fit.
    private func expect(
        _ first: ManagedObjectModel, _ second: ManagedObjectModel, isRefusedFor place: String
    ) throws {
        let node = try EngineNode(first)
        let message = try #require(try node.obstacle(to: second))
        #expect(message.contains(place), "\(message)")
        let other = try EngineNode(second, node: 2)
        #expect(try other.coordinator.learn([first]).isEmpty)
    }

    // MARK: What cannot change on the way

    @Test(
        "An attribute keeps its type when it is pulled up or pushed down",
        arguments: [
            (AttributeType.string, AttributeType.uuid), (.integer64, .date),
            (.integer64, .integer16),
        ], [true, false])
    func type(_ types: (AttributeType, AttributeType), isPulledUp: Bool) throws {
        func people(_ type: AttributeType, atRoot: Bool) throws -> ManagedObjectModel {
            let attributes = [AttributeDescription("x", type)]
            return try MigrationModels.model(
                MigrationModels.person(attributes: atRoot ? attributes : []),
                EntityDescription("Student", parent: "Person", attributes: atRoot ? [] : attributes)
            )
        }
        try expect(
            people(types.0, atRoot: !isPulledUp), people(types.1, atRoot: isPulledUp),
            isRefusedFor: "Student.x")
        let node = try EngineNode(people(types.0, atRoot: !isPulledUp))
        #expect(try node.obstacle(to: people(types.0, atRoot: isPulledUp)) == nil)
    }

    @Test("Rows lose what is pushed down to others, and their open conflicts over it")
    func lost() throws {
        func people(atRoot: Bool) throws -> ManagedObjectModel {
            let attributes = [AttributeDescription("x", .string)]
            return try MigrationModels.model(
                MigrationModels.person(.error, attributes: atRoot ? attributes : []),
                EntityDescription(
                    "Student", parent: "Person", attributes: atRoot ? [] : attributes))
        }
        let nodes = try (1...3).map { try EngineNode(try people(atRoot: true), node: $0) }
        let ids = try ["Person", "Student"].map { try nodes[0].insert($0, ["x": .string("a")]) }
        try exchange(nodes[0], nodes[1])
        for (node, value) in zip(nodes, ["b", "c"]) {
            for id in ids { try node.update(id, ["x": .string(value)]) }
        }
        try exchange(nodes[0], nodes[1])
        let second = try people(atRoot: false)
        try migrateApart(nodes, to: second)
        for node in nodes { #expect(try node.onlyConflict().object == ids[1]) }
    }

    @Test("A to-one that is pulled up leads to what it led to")
    func destination() throws {
        func tutor(_ destination: String) -> [RelationshipDescription] {
            [.init("tutor", to: destination)]
        }
        let others = [EntityDescription("Book"), EntityDescription("Guide")]
        try expect(
            model(student: tutor("Guide"), others: others[0], others[1]),
            model(tutor("Book"), others: others[0], others[1]), isRefusedFor: "Student.tutor")
    }

    @Test("A to-one that is pulled up does not become a one-to-one", arguments: ["seat", "adesk"])
    func exclusivity(_ name: String) throws {
        let first = try model(
            student: [.init("seat", to: "Seat")],
            others: EntityDescription("Seat"))
        let second = try model(
            [.init(name, to: "Seat", inverse: "xowner", renamingIdentifier: "seat")],
            others: EntityDescription(
                "Seat",
                relationships: [.init("xowner", to: "Person", inverse: name)]))
        try expect(first, second, isRefusedFor: "Student.\(name)")
    }

    @Test("A to-one that is pulled up may get another inverse, as the former led to the heir")
    func inverse() throws {
        func guide(_ name: String, to entity: String) -> EntityDescription {
            EntityDescription(
                "Guide", relationships: [.init(name, to: entity, inverse: "tutor", isToMany: true)])
        }
        func tutor(_ inverse: String) -> [RelationshipDescription] {
            [.init("tutor", to: "Guide", inverse: inverse)]
        }
        let first = try model(student: tutor("pupils"), others: guide("pupils", to: "Student"))
        let second = try model(tutor("people"), others: guide("people", to: "Person"))
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let tutor = try nodes[0].insert("Guide")
        let student = try nodes[0].insert("Student", ["tutor": .reference(tutor.row)])
        for node in nodes { try node.migrate(to: second) }
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.members(tutor, "people") == [student.row]) }
    }

    // MARK: Links

    @Test("Links are not pushed down, for some may be of objects that lose them")
    func pushedDown() throws {
        let friends = RelationshipDescription("friends", to: "Person", isToMany: true)
        let boss = RelationshipDescription("boss", to: "Person")
        let node = try EngineNode(try model([friends, boss]))
        let one = try node.insert("Person")
        let two = try node.insert("Student", ["boss": .reference(one.row)], join(one, "friends"))
        let message = try #require(try node.obstacle(to: try model(student: [friends, boss])))
        #expect(message.contains("Student.friends"), "\(message)")
        #expect(!message.contains("boss"), "\(message)")
        #expect(try node.members(two, "friends") == [one.row])
        // Another relationship starts empty.
        let others = RelationshipDescription("others", to: "Person", isToMany: true)
        #expect(try node.obstacle(to: try model(student: [others, boss])) == nil)
        #expect(try node.value(two, "boss") == .reference(one.row))
        #expect(try node.members(two, "others").isEmpty)
    }

    @Test("Links of several heirs are pulled up into one relationship")
    func joined() throws {
        let first = try model(student: [clubs], teacher: [clubs], others: club)
        let second = try model([clubs], teacher: [], others: club)
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let place = try nodes[0].insert("Club")
        let members = try ["Student", "Teacher"].map { try nodes[0].insert($0, [:], join(place)) }
        try nodes[0].migrate(to: second)
        try nodes[1].migrate(to: second)
        // One has migrated its links, the other hears of them after its migration.
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            for member in members { #expect(try node.members(member, "clubs") == [place.row]) }
        }
    }

    @Test("Links that were pulled up stay when the heir goes, whether in one step or in two")
    func heirGoesLater() throws {
        let first = try model(student: [clubs], others: club)
        let second = try model([clubs], others: club)
        let third = try model([clubs], student: nil, others: club)
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let place = try nodes[0].insert("Club")
        try nodes[0].insert("Student", [:], join(place))
        try exchange(nodes[0], nodes[1])
        try nodes[0].migrate(to: second)
        try nodes[0].insert("Student", [:], join(place))
        for node in nodes { try node.migrate(to: third) }
        #expect(try nodes[1].coordinator.learn([second]).count == 1)
        let fresh = try EngineNode(third, node: 3)
        #expect(try fresh.coordinator.learn([first, second]).count == 2)
        try exchange(nodes[0], nodes[1], fresh)
    }

    @Test("Links that went with an heir do not come back in what it inherited from")
    func heirWent() throws {
        let nodes = try (1...2).map {
            try EngineNode(try model(student: [clubs], others: club), node: $0)
        }
        try nodes[0].migrate(to: try model(student: nil, others: club))
        // A node that came directly would still have them.
        let message = try #require(
            try nodes[0].obstacle(to: try model([clubs], student: nil, others: club)))
        #expect(message.contains("Person.clubs"), "\(message)")
        var others = clubs
        others.renamingIdentifier = "others"
        let third = try model([others], student: nil, others: club)
        for node in nodes { try node.migrate(to: third) }
        try exchange(nodes[0], nodes[1])
    }
}
