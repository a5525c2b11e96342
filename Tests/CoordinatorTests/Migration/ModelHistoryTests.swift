import Coordinator
import Merge
import Testing

/// Models that follow each other: what one of them settles holds for all that come after.
@Suite("Models after models")
struct ModelHistoryTests {
    private func text(_ name: String, _ value: String? = nil) -> AttributeDescription {
        AttributeDescription(
            name, .string, isOptional: value == nil,
            defaultValue: value.map { .string($0) } ?? .null)
    }

    private func people(
        _ person: [AttributeDescription] = [], employee: [AttributeDescription] = [],
        student: [AttributeDescription] = []
    ) throws -> ManagedObjectModel {
        try MigrationModels.model(
            MigrationModels.person(attributes: [text("name")] + person),
            EntityDescription("Employee", parent: "Person", attributes: employee),
            EntityDescription("Student", parent: "Person", attributes: student))
    }

    // MARK: Heirs that share a column

    @Test("An heir that gains what another has gets its default", arguments: [false, true])
    func heir(isPulledUp: Bool) throws {
        let first = try people(employee: [text("title", "boss")])
        let second =
            isPulledUp
            ? try people([text("title", "none")])
            : try people(employee: [text("title", "boss")], student: [text("title", "none")])
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let employee = try nodes[0].insert("Employee", ["title": .string("x")])
        let students = try (0..<2).map { _ in try nodes[0].insert("Student") }
        try nodes[0].update(students[1], ["name": .string("s")])
        let person = try nodes[0].insert("Person")
        try exchange(nodes[0], nodes[1])
        try migrateApart(nodes, to: second)
        for node in nodes {
            #expect(try node.value(employee, "title") == .string("x"))
            for student in students { #expect(try node.value(student, "title") == .string("none")) }
            if isPulledUp { #expect(try node.value(person, "title") == .string("none")) }
        }
    }

    @Test("One default stands for what entities of one table lack, whenever they come by it")
    func defaults() throws {
        let first = try people()
        let other = try people(employee: [text("title", "x")], student: [text("title", "y")])
        let node = try EngineNode(first)
        #expect(try node.code { try node.migrate(to: other) } == .mappingNotInferable)
        try node.open()
        try node.migrate(to: try people(employee: [text("title", "x")]))
        let student = try node.insert("Student")
        #expect(try node.code { try node.migrate(to: other) } == .mappingNotInferable)
        let same = try people(employee: [text("title", "x")], student: [text("title", "x")])
        try node.migrate(to: same)
        #expect(try node.value(student, "title") == .string("x"))
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("What one heir was given for its lack is no reason to keep another from its own default")
    func ownDefault() throws {
        let node = try EngineNode(try people(employee: [text("title", "boss")]))
        try node.migrate(
            to: try people(employee: [text("title", "boss")], student: [text("title", "none")]))
        try node.migrate(
            to: try people(
                [text("note")], employee: [text("title", "boss")], student: [text("title", "none")]
            ))
    }

    // MARK: What a model between has settled

    @Test("What was mandatory cannot be optional again where it was optional before")
    func optionalAgain() throws {
        func model(isOptional: Bool, _ more: AttributeDescription...) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    attributes: [
                        .init("note", .string, isOptional: isOptional, defaultValue: .string(""))
                    ] + more))
        }
        let node = try EngineNode(try model(isOptional: true))
        try node.migrate(to: try model(isOptional: false))
        let third = try model(isOptional: true, text("name"))
        let error = try #require(throws: CoordinatorError.self) {
            try node.migrate(to: third)
        }
        #expect(error.code == .mappingNotInferable)
        #expect(error.message.contains("Person.note"))
        // Without the one between there is nothing to settle, and from mandatory it may be.
        for isOptional in [true, false] {
            let other = try EngineNode(try model(isOptional: isOptional))
            try other.migrate(to: third)
        }
    }

    @Test("What is not stored any more was taken away, though its name stays")
    func transient() throws {
        func model(isTransient: Bool) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    attributes: [
                        text("name"),
                        .init("x", .string, isTransient: isTransient),
                    ]))
        }
        let node = try EngineNode(try model(isTransient: false))
        try node.migrate(to: try model(isTransient: true))
        let again = try model(isTransient: false)
        #expect(try node.code { try node.migrate(to: again) } == .mappingNotInferable)
    }

    // MARK: Names of former models

    @Test("A conflict that was closed by a name that went and came back is not undone")
    func undone() throws {
        func model(_ names: [(String, String?)]) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    attributes: [text("name")]
                        + names.map { AttributeDescription($0, .string, renamingIdentifier: $1) }))
        }
        let first = try model([("a", nil), ("b", nil)])
        let second = try model([("a", nil), ("c", "b")])
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let person = try nodes[0].insert("Person", ["b": .string("own")])
        try exchange(nodes[0], nodes[1])
        for (node, value) in zip(nodes, ["x", "y"]) {
            try node.update(person, ["name": .string(value), "b": .string(value)])
        }
        try exchange(nodes[0], nodes[1])
        for conflict in try nodes[0].conflicts() {
            let side = try #require(conflict.sides.first { !$0.isVisible }?.dot)
            try nodes[0].resolve(conflict.id, .side(side))
        }
        try exchange(nodes[0], nodes[1])
        for node in nodes { try node.migrate(to: second) }
        // It stays so, whatever comes after.
        let third = try model([("a", nil), ("b", nil), ("d", nil)])
        for node in nodes { try node.migrate(to: third) }
        let closed = try nodes[0].conflicts(isOpen: false)
        #expect(Set(closed.compactMap(\.property)) == ["name", "b"])
        let other = try #require(closed.first { $0.property == "b" })
        let code = try nodes[0].code { try nodes[0].undo(other.id) }
        #expect(code == .conflictNotFound)
        let name = try #require(closed.first { $0.property == "name" })
        let shown = try nodes[0].value(person, "name")
        try nodes[0].undo(name.id)
        #expect(try nodes[0].value(person, "name") != shown)
        try exchange(nodes[0], nodes[1])
    }
}
