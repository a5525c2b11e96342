import Coordinator
import Merge
import Testing

/// Groups of rows with one unique key when a migration takes the constraint, or some of them, away.
@Suite("Groups when a model loses what made them")
struct MigratedGroupTests {
    /// What a model loses besides its constraint.
    enum Loss: CaseIterable {
        case key, name, note, null, heir
    }

    private func users(
        _ attributes: [AttributeDescription], isUnique: Bool, hasRobots: Bool = true
    ) throws -> ManagedObjectModel {
        var entities = [
            EntityDescription(
                "User", mergePolicy: .mergeByPropertyObjectTrump, attributes: attributes,
                relationships: [.init("tasks", to: "Task", inverse: "user", isToMany: true)],
                uniquenessConstraints: isUnique ? [["mail"]] : []),
            EntityDescription("Task", relationships: [.init("user", to: "User", inverse: "tasks")]),
        ]
        if hasRobots { entities.append(EntityDescription("Robot", parent: "User")) }
        return try ManagedObjectModel(entities: entities)
    }

    private func without(_ loss: Loss) throws -> ManagedObjectModel {
        let mail = AttributeDescription("mail", .string)
        let note = AttributeDescription("note", .string)
        return switch loss {
        case .key: try users([note], isUnique: false)
        case .name:
            try users([mail, .init("title", .string, renamingIdentifier: "note")], isUnique: false)
        case .note: try users([mail], isUnique: false)
        case .null:
            try users(
                [
                    mail,
                    .init("note", .string, isOptional: false, defaultValue: .string("none")),
                ], isUnique: false)
        case .heir: try users([mail, note], isUnique: false, hasRobots: false)
        }
    }

    private func all(_ entity: String, at node: EngineNode) throws -> Set<ManagedObjectID> {
        try Set(node.coordinator.read { try $0.objectIDs(FetchRequest(entity)) })
    }

    @Test(
        "A constraint that goes together with something else leaves no row eclipsed",
        arguments: Loss.allCases)
    func lost(_ loss: Loss) throws {
        let first = try users([.init("mail", .string), .init("note", .string)], isUnique: true)
        let second = try without(loss)
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let one = try nodes[0].insert("User", ["mail": .string("a")])
        let two = try nodes[1].insert("User", ["mail": .string("a")])
        let task = try nodes[1].insert("Task", ["user": .reference(two.row)])
        try exchange(nodes[0], nodes[1])
        #expect(try all("User", at: nodes[0]).count == 1)
        // One node has migrated before it hears of them.
        try nodes[2].migrate(to: second)
        try nodes[2].take(from: nodes[0])
        try nodes[0].migrate(to: second)
        #expect(try all("User", at: nodes[0]) == [one, two])
        #expect(try nodes[0].value(task, "user") == .reference(two.row))
        if loss == .null {
            for user in [one, two] { #expect(try nodes[0].value(user, "note") == .string("none")) }
        }
        #expect(try nodes[0].conflicts().isEmpty)
        #expect(try nodes[0].conflicts(kind: .dangling, isOpen: false).isEmpty)
        #expect(try nodes[0].coordinator.verify().isOK)
        // What somebody writes to both of them arrives.
        let shown = try #require(try all("User", at: nodes[1]).first)
        try nodes[1].update(shown, ["note": .string("later")])
        try nodes[0].take(from: nodes[1])
        try nodes[1].migrate(to: second)
        try exchange(nodes[0], nodes[1], nodes[2])
        for node in nodes {
            #expect(try all("User", at: node) == [one, two])
            #expect(try node.value(task, "user") == .reference(two.row))
        }
        try nodes[0].reopen()
        #expect(try all("User", at: nodes[0]) == [one, two])
    }

    @Test(
        "A group of two entities is dissolved when its constraint goes alone, or with a property",
        arguments: [false, true])
    func heir(losesProperty: Bool) throws {
        let mail = AttributeDescription("mail", .string)
        let note = AttributeDescription("note", .string)
        let first = try users([mail, note], isUnique: true)
        let second = try users(losesProperty ? [mail] : [mail, note], isUnique: false)
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let user = try nodes[0].insert("User", ["mail": .string("a"), "note": .string("u")])
        let robot = try nodes[1].insert("Robot", ["mail": .string("a"), "note": .string("r")])
        try exchange(nodes[0], nodes[1])
        #expect(try all("User", at: nodes[0]).count == 1)
        try migrateApart(nodes, to: second)
        for node in nodes {
            #expect(try Set(all("User", at: node).map(\.row)) == [user.row, robot.row])
            #expect(try node.conflicts().isEmpty)
            if losesProperty { continue }
            #expect(try node.value(user, "note") == .string("u"))
            #expect(try node.value(robot, "note") == .string("r"))
        }
    }

    // MARK: Abstract entities

    private func parties(isUnique: Bool) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Party", isAbstract: true, mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("email", .string)],
                uniquenessConstraints: isUnique ? [["email"]] : []),
            EntityDescription("Person", parent: "Party"),
            EntityDescription("Company", parent: "Party"),
        ])
    }

    @Test("An abstract entity that gains a constraint groups its heirs' rows")
    func abstract() throws {
        let (first, second) = (try parties(isUnique: false), try parties(isUnique: true))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let person = try nodes[0].insert("Person", ["email": .string("e")])
        let company = try nodes[0].insert("Company", ["email": .string("e")])
        let other = try nodes[0].insert("Company", ["email": .string("f")])
        try exchange(nodes[0], nodes[1])
        try migrateApart(nodes, to: second)
        for node in nodes {
            let shown = try all("Party", at: node)
            #expect(shown.count == 2)
            #expect(shown.isSubset(of: [person, company, other]) && shown.contains(other))
            #expect(try node.onlyConflict().kind == .uniqueness)
            try node.reopen()
            #expect(try all("Party", at: node) == shown)
        }
    }

    @Test("Heirs of an abstract entity that are saved with one key at two nodes become a group")
    func abstractConcurrently() throws {
        let model = try parties(isUnique: true)
        let nodes = try (1...2).map { try EngineNode(model, node: $0) }
        try nodes[0].insert("Person", ["email": .string("e")])
        try nodes[1].insert("Company", ["email": .string("e")])
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try all("Party", at: node).count == 1)
            #expect(try node.onlyConflict().kind == .uniqueness)
            try node.reopen()
            #expect(try all("Party", at: node).count == 1)
        }
    }
}
