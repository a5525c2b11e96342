import Merge
import Testing

@testable import Coordinator

@Suite("Names, identities and defaults of models that follow each other")
struct IdentityTests {
    private func text(_ name: String, _ identifier: String? = nil) -> AttributeDescription {
        AttributeDescription(name, .string, renamingIdentifier: identifier)
    }

    private func number(_ name: String, _ value: Int64) -> AttributeDescription {
        AttributeDescription(name, .integer64, defaultValue: .integer(value))
    }

    private func item(_ attributes: AttributeDescription...) throws -> ManagedObjectModel {
        try MigrationModels.model(EntityDescription("Item", attributes: attributes))
    }

    private func thing(_ name: String, _ identifier: String?, isMore: Bool = false) throws
        -> ManagedObjectModel
    {
        try MigrationModels.model(
            EntityDescription(
                name, attributes: [text("x")] + (isMore ? [text("z")] : []),
                renamingIdentifier: identifier))
    }

    /// Takes a store through models. The last is refused. Then looks whether the store is as it
    /// was.
    private func expect(
        _ models: [ManagedObjectModel], areRefusedFor place: String, _ former: String,
        _ now: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let node = try EngineNode(models[0])
        let entity = try #require(models[0].entities.first?.name)
        let property = try #require(models[0].entities.first?.properties.first?.name)
        _ = try node.insert(entity, [property: .string("X")])
        for model in models[1..<(models.count - 1)] { try node.migrate(to: model) }
        let digest = try node.coordinator.currentDigest
        let last = models[models.count - 1]
        node.close()
        #expect(throws: CoordinatorError.self, sourceLocation: sourceLocation) {
            _ = try PersistentStoreCoordinator.migration(
                ofStoreAt: node.path, to: last, cluster: "test", node: node.node)
        }
        try node.open()
        let message = try #require(try node.obstacle(to: last), sourceLocation: sourceLocation)
        for part in [place + ": ", "\"\(former)\"", "\"\(now)\""] {
            #expect(message.contains(part), "\(message)", sourceLocation: sourceLocation)
        }
        #expect(try node.coordinator.currentDigest == digest, sourceLocation: sourceLocation)
        // Nor may a store of the last one learn of what would be read wrongly by it.
        let other = try EngineNode(last, node: 2)
        let learnt = try other.coordinator.learn(Array(models.dropLast()))
        #expect(learnt.count < models.count - 1, sourceLocation: sourceLocation)
    }

    @Test("A property whose name stays keeps its identity")
    func property() throws {
        let x = try item(text("x"))
        try expect([x, item(text("x", "w"))], areRefusedFor: "Item.x", "x", "w")
        try expect([x, item(text("x", "w"), text("z"))], areRefusedFor: "Item.x", "x", "w")
        try expect([item(text("b", "x")), item(text("b"))], areRefusedFor: "Item.b", "x", "b")
        try expect(
            [x, item(text("b", "x")), item(text("b"), text("z"))], areRefusedFor: "Item.b", "x", "b"
        )
        try expect(
            [item(text("a"), text("b")), item(text("a", "b"), text("b", "a"))],
            areRefusedFor: "Item.a", "a", "b")
    }

    @Test("An entity whose name stays keeps its identity, also where more changes")
    func entity() throws {
        let a = try thing("A", nil)
        for isMore in [false, true] {
            try expect([a, thing("A", "B", isMore: isMore)], areRefusedFor: "A", "A", "B")
            try expect(
                [a, thing("B", "A"), thing("B", nil, isMore: isMore)], areRefusedFor: "B", "A", "B")
        }
    }

    @Test("A property keeps its identity where its entity gets another name, and where it is moved")
    func moved() throws {
        let second = try MigrationModels.model(
            EntityDescription("B", attributes: [text("x", "w")], renamingIdentifier: "A"))
        try expect([thing("A", nil), second], areRefusedFor: "B.x", "x", "w")
        let apart = try MigrationModels.model(
            EntityDescription("A"),
            EntityDescription("Heir", parent: "A", attributes: [text("x", "w")]))
        try expect(
            [thing("A", nil).adding(heir: "Heir"), apart], areRefusedFor: "Heir.x", "x", "w")
    }

    @Test("A relationship whose name stays keeps its identity")
    func relationship() throws {
        func model(_ identifier: String?, isToMany: Bool) throws -> ManagedObjectModel {
            try MigrationModels.model(
                EntityDescription(
                    "A", attributes: [text("a")],
                    relationships: [
                        .init("next", to: "A", isToMany: isToMany, renamingIdentifier: identifier)
                    ]))
        }
        for isToMany in [false, true] {
            try expect(
                [model(nil, isToMany: isToMany), model("last", isToMany: isToMany)],
                areRefusedFor: "A.next", "next", "last")
        }
    }

    @Test("A name that any known model had is not given to something else")
    func former() throws {
        try expect(
            [item(text("x")), item(text("b", "x")), item(text("b", "x"), text("x", "new"))],
            areRefusedFor: "Item.x", "x", "new")
        try expect(
            [
                item(text("x"), text("y")), item(text("y")), item(text("y"), text("x", "new")),
            ], areRefusedFor: "Item.x", "x", "new")
    }

    @Test("A renaming identifier that is the name, and one that names nothing, change nothing")
    func idle() throws {
        #expect(try item(text("x", "x")).modelHash == item(text("x")).modelHash)
        let node = try EngineNode(try item(text("x")))
        let row = try node.insert("Item", ["x": .string("X")])
        try node.migrate(to: try item(text("x", "x"), text("y", "never")))
        #expect(try node.value(row, "x") == .string("X"))
    }

    @Test("What was renamed may get its former name back, and keeps its values")
    func back() throws {
        let node = try EngineNode(try item(text("x")))
        let row = try node.insert("Item", ["x": .string("X")])
        try node.migrate(to: try item(text("b", "x")))
        #expect(try node.value(row, "b") == .string("X"))
        try node.migrate(to: try item(text("x")))
        #expect(try node.value(row, "x") == .string("X"))
    }

    // MARK: The hash

    @Test("Identities and defaults are in the model hash, and in no version hash")
    func hashes() throws {
        let plain = try item(text("x"))
        #expect(plain.modelHash == plain.versionHash)
        let default1 = AttributeDescription("x", .string, defaultValue: .string("1"))
        let default2 = AttributeDescription("x", .string, defaultValue: .string("2"))
        let unstored = AttributeDescription(
            "t", .string, defaultValue: .string("1"), isTransient: true)
        let others = try [
            plain, item(text("x", "w")), item(text("x", "v")), item(default1), item(default2),
        ]
        #expect(Set(others.map(\.versionHash)).count == 1)
        #expect(Set(others.map(\.modelHash)).count == others.count)
        let bare = AttributeDescription("t", .string, isTransient: true)
        #expect(try item(text("x"), unstored).modelHash == item(text("x"), bare).modelHash)
        for other in others.dropFirst() {
            let difference = ModelDifference.summary(ModelDifference.betweenPeers(plain, other))
            #expect(difference.contains("Item.x"), "\(difference)")
            let again = try ManagedObjectModel(
                json: Array(JSONWriter.text(of: other.jsonValue()).utf8))
            #expect(again.modelHash == other.modelHash)
        }
    }

    // MARK: Defaults

    @Test("A default that stands for nothing may change, at one node before the other")
    func defaults() throws {
        let (first, second) = (
            try item(text("x"), number("z", 1)), try item(text("x"), number("z", 2))
        )
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let old = try nodes[0].insert("Item", ["x": .string("a")])
        try nodes[1].migrate(to: second, .none)
        #expect(try nodes[1].coordinator.formerModels.map(\.modelHash) == [first.modelHash])
        let late = try nodes[0].insert("Item", ["x": .string("b")])
        let new = try nodes[1].insert("Item", ["x": .string("c")])
        try nodes[1].take(from: nodes[0])
        try nodes[0].migrate(to: second)
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(
                try [old, late, new].map { try node.value($0, "z") }
                    == [1, 1, 2].map { .integer($0) })
        }
        let third = try item(text("x"), number("z", 2), number("y", 3))
        for node in nodes { try node.migrate(to: third) }
        try exchange(nodes[0], nodes[1])
    }

    @Test("A default that stands for missing values stays, and both are named")
    func settled() throws {
        let node = try EngineNode(try item(text("x")))
        let row = try node.insert("Item", ["x": .string("X")])
        try node.migrate(to: try item(text("x"), number("z", 1)))
        let message = try #require(try node.obstacle(to: try item(text("x"), number("z", 2))))
        #expect(message.contains("Item.z: its default 2"), "\(message)")
        #expect(message.contains("must be 1"), "\(message)")
        #expect(try node.value(row, "z") == .integer(1))
    }

    @Test(
        "With the former default kept another is no other model, whichever way a node comes to it")
    func formerDefault() throws {
        for (was, becomes) in [(PropertyValue.integer(1), Int64(2)), (.null, 2)] {
            let other = try item(
                text("x"),
                .init(
                    "z", .integer64, defaultValue: .integer(becomes), formerDefault: was))
            let added = try item(text("x"), .init("z", .integer64, defaultValue: was))
            #expect(other.modelHash == added.modelHash)
            #expect(ModelDifference.betweenPeers(added, other).isEmpty)
            let again = try ManagedObjectModel(
                json: Array(JSONWriter.text(of: other.jsonValue()).utf8))
            #expect(again.descriptions == other.descriptions)
            let nodes = try (1...3).map { try EngineNode(try item(text("x")), node: $0) }
            let old = try nodes[0].insert("Item", ["x": .string("a")])
            for node in nodes[..<2] { try node.migrate(to: added) }
            for node in nodes[1...] { try node.migrate(to: other) }
            let new = try nodes[2].insert("Item", ["x": .string("b")])
            try exchange(nodes[0], nodes[1], nodes[2])
            for node in nodes {
                #expect(try node.value(old, "z") == was)
                #expect(try node.value(new, "z") == .integer(becomes))
            }
        }
        #expect(throws: ModelError.self) {
            _ = try item(AttributeDescription("x", .integer64, formerDefault: .string("no number")))
        }
    }

    @Test("Two nodes that give an added attribute two defaults learn nothing of each other's model")
    func added() throws {
        let first = try item(text("x"))
        let (one, two) = (try item(text("x"), number("z", 1)), try item(text("x"), number("z", 2)))
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        try nodes[0].migrate(to: one)
        try nodes[1].migrate(to: two)
        #expect(nodes[0].model.modelHash != nodes[1].model.modelHash)
        for (node, other) in [(nodes[0], two), (nodes[1], one)] {
            let former = try node.coordinator.formerModels.map(\.modelHash)
            #expect(!former.contains(other.modelHash))
        }
        let difference = ModelDifference.summary(ModelDifference.betweenPeers(one, two))
        #expect(difference == "Item.z default: 1 / 2")
    }
}

extension ManagedObjectModel {
    /// The same with an entity that inherits from its first one and adds nothing.
    fileprivate func adding(heir name: String) throws -> ManagedObjectModel {
        try ManagedObjectModel(
            entities: descriptions + [EntityDescription(name, parent: descriptions.first?.name)])
    }
}
