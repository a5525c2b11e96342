import Coordinator
import GRDB
import Merge
import Testing

/// CONFORMANCE.md, CD-113 to CD-117.
@Suite struct ModelConformanceTests {
    private func model(
        _ attribute: AttributeDescription = AttributeDescription("name", .string),
        relationship: RelationshipDescription = RelationshipDescription(
            "friends", to: "Person", isToMany: true),
        constraints: [[String]] = [], indexes: [IndexDescription] = []
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", attributes: [attribute, .init("age", .integer64)],
                relationships: [relationship], uniquenessConstraints: constraints, indexes: indexes)
        ])
    }

    @Test("CD-113: what is stored and how it merges is in the version hash, the rest is not")
    func versionHash() throws {
        let plain = try model()
        let same = [
            try model(indexes: [IndexDescription(name: "byAge", elements: ["age"])]),
            try model(AttributeDescription("name", .string, defaultValue: .string("x"))),
            try model(
                AttributeDescription("name", .string, validation: .init(maximum: .integer(3)))),
        ]
        for other in same {
            #expect(other == plain)
            #expect(ModelDifference.between(plain, other).isEmpty)
        }
        let others = [
            try model(AttributeDescription("name", .binary)),
            try model(AttributeDescription("name", .string, isOptional: false)),
            try model(AttributeDescription("title", .string)),
            try model(AttributeDescription("name", .string, hashModifier: "2")),
            try model(relationship: RelationshipDescription("friends", to: "Person")),
            try model(
                relationship: RelationshipDescription(
                    "friends", to: "Person", inverse: "friends", isToMany: true)),
            try model(constraints: [["name"]]),
        ]
        for other in others {
            #expect(other != plain)
            #expect(!ModelDifference.between(plain, other).isEmpty)
        }
    }

    @Test(
        "CD-114: another model without a migration is refused with 134100, by naming what differs")
    func mismatch() throws {
        let node = try EngineNode(try MigrationModels.first())
        let person = try node.insert("Person", ["name": .string("Ada")])
        let error = try #require(throws: CoordinatorError.self) {
            try node.migrate(to: try MigrationModels.second(), .none)
        }
        #expect(error.code.number == 134_100)
        #expect(error.message.contains("Person.note"))
        try node.open()
        #expect(try node.value(person, "name") == .string("Ada"))
    }

    @Test(
        "CD-115: every change that can be inferred migrates", arguments: MergePolicyChoice.allCases)
    func inferable(_ policy: MergePolicyChoice) throws {
        for target in [try MigrationModels.second(policy), try MigrationModels.third(policy)] {
            let node = try EngineNode(try MigrationModels.first(policy))
            let ada = try node.insert("Person", ["name": .string("Ada"), "age": .integer(36)])
            let nobody = try node.insert("Person", ["age": .integer(1)])
            try node.update(nobody, ["age": .integer(2)])
            try node.migrate(to: target, .inferred)
            let entity = target.entity(named: "Person") == nil ? "Human" : "Person"
            let (one, two) = (
                ManagedObjectID(entityName: entity, row: ada.row),
                ManagedObjectID(entityName: entity, row: nobody.row)
            )
            if entity == "Person" {
                #expect(try node.value(one, "name") == .string("Ada"))
                #expect(try node.value(one, "note") == .null)
                #expect(try node.value(two, "level") == .integer(3))
                #expect(try node.value(two, "age") == .integer(2))
                let pet = try node.insert("Pet", ["owner": .reference(ada.row)])
                #expect(try node.members(one, "pets") == [pet.row])
            } else {
                #expect(try node.value(one, "title") == .string("Ada"))
                #expect(try node.value(two, "title") == .string("nobody"))
                try node.update(two, ["title": .string("Bob")])
                #expect(try node.value(two, "title") == .string("Bob"))
            }
            let report = try node.coordinator.verify()
            #expect(report.isOK, "\(report.differences)")
            node.close()
            try node.migrate(to: target, .none)
        }
    }

    @Test("CD-115: what cannot be inferred is refused, and the store is as it was")
    func notInferable() throws {
        let name = AttributeDescription("name", .string)
        let age = AttributeDescription("age", .integer64)
        func person(_ parent: String? = nil, _ policy: MergePolicy? = nil) -> EntityDescription {
            EntityDescription(
                "Person", parent: parent, mergePolicy: policy, attributes: [name, age])
        }
        let other = EntityDescription("Company", attributes: [.init("tax", .string)])
        let node = try EngineNode(try ManagedObjectModel(entities: [person(), other]))
        let ada = try node.insert("Person", ["name": .string("Ada")])
        let before = try node.coordinator.currentDigest
        let refused: [(String, [EntityDescription])] = [
            // Two hierarchies become one.
            ("Person", [person("Company"), other]),
            (
                "Person.age",
                [EntityDescription("Person", attributes: [name, .init("age", .string)]), other]
            ),
            (
                "Person.rank",
                [
                    EntityDescription(
                        "Person",
                        attributes: [name, age, .init("rank", .integer64, isOptional: false)]),
                    other,
                ]
            ),
            ("granularity", [person(nil, .overwrite), other]),
        ]
        for (place, entities) in refused {
            let error = try #require(throws: CoordinatorError.self) {
                try node.migrate(to: try ManagedObjectModel(entities: entities), .inferred)
            }
            #expect(error.code == .mappingNotInferable)
            #expect(error.message.contains(place), "\(error.message)")
            try node.open()
            #expect(try node.value(ada, "name") == .string("Ada"))
            #expect(try node.coordinator.currentDigest == before)
            node.close()
        }
    }

    @Test("CD-116: renaming through identifiers goes over two versions in one step")
    func renaming() throws {
        func model(_ entity: String, _ property: String) throws -> ManagedObjectModel {
            try ManagedObjectModel(entities: [
                EntityDescription(
                    entity,
                    attributes: [
                        .init(property, .string, renamingIdentifier: property == "a" ? nil : "a")
                    ],
                    relationships: [
                        .init("next", to: entity, inverse: "last"),
                        .init("last", to: entity, inverse: "next", isToMany: true),
                        .init("friends", to: entity, isToMany: true),
                    ], renamingIdentifier: entity == "A" ? nil : "A")
            ])
        }
        let models = [try model("A", "a"), try model("B", "b"), try model("C", "c")]
        for steps in [[1, 2], [2]] {
            let node = try EngineNode(models[0])
            let one = try node.insert("A", ["a": .string("x")])
            let two = try node.insert("A", ["a": .string("y"), "next": .reference(one.row)])
            try node.update(one, [:], [.init(name: "friends", kind: .add, members: [two.row])])
            for step in steps { try node.migrate(to: models[step], .inferred) }
            let (first, second) = (
                ManagedObjectID(entityName: "C", row: one.row),
                ManagedObjectID(entityName: "C", row: two.row)
            )
            #expect(try node.value(first, "c") == .string("x"))
            #expect(try node.value(second, "next") == .reference(one.row))
            #expect(try node.members(first, "last") == [two.row])
            #expect(try node.members(first, "friends") == [two.row])
            #expect(try node.coordinator.verify().isOK)
        }
    }

    /// - Parameter isToMany: many-to-many, else one-to-one.
    @Test(
        "CD-116: renamed relationships keep their objects; names of another order are refused, with why",
        arguments: [true, false])
    func renamingBothSides(isToMany: Bool) throws {
        /// Cars come first.
        func model(_ car: String, _ engine: String) throws -> ManagedObjectModel {
            func entity(
                _ name: String, _ identity: String, to other: String, _ place: String,
                _ placeIdentity: String, inverse: String
            ) -> EntityDescription {
                EntityDescription(
                    name, attributes: [.init("name", .string)],
                    relationships: [
                        .init(
                            place, to: other, inverse: inverse, isToMany: isToMany,
                            renamingIdentifier: placeIdentity)
                    ], renamingIdentifier: identity)
            }
            let (first, second) = ("of" + engine, "of" + car)
            return try ManagedObjectModel(entities: [
                entity(car, "Car", to: engine, first, "ofEngine", inverse: second),
                entity(engine, "Engine", to: car, second, "ofCar", inverse: first),
            ])
        }
        let node = try EngineNode(try model("Car", "Engine"))
        let engine = try node.insert("Engine")
        let car =
            isToMany
            ? try node.insert(
                "Car", [:], [.init(name: "ofEngine", kind: .add, members: [engine.row])])
            : try node.insert("Car", ["ofEngine": .reference(engine.row)])
        let error = try #require(throws: CoordinatorError.self) {
            try node.migrate(to: try model("Vehicle", "Engine"), .inferred)
        }
        #expect(error.code == .mappingNotInferable)
        #expect(error.message.contains("Vehicle.ofEngine"), "\(error.message)")
        #expect(error.message.contains("names of the former order"), "\(error.message)")
        try node.open()
        #expect(try node.members(engine, "ofCar") == [car.row])
        try node.migrate(to: try model("Automobile", "Motor"), .inferred)
        let motor = ManagedObjectID(entityName: "Motor", row: engine.row)
        #expect(try node.members(motor, "ofAutomobile") == [car.row])
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("CD-117: a new constraint over duplicates fails migration and leaves the store readable")
    func duplicates() throws {
        let node = try EngineNode(try model())
        let one = try node.insert("Person", ["name": .string("Ada")])
        let two = try node.insert("Person", ["name": .string("Ada")])
        try node.insert("Person")
        try node.insert("Person")
        let error = try #require(throws: CoordinatorError.self) {
            try node.migrate(to: try model(constraints: [["name"]]), .inferred)
        }
        #expect(error.code.number == 134_111)
        try node.open()
        #expect(try node.value(one, "name") == .string("Ada"))
        try node.update(two, ["name": .string("Eve")])
        try node.migrate(to: try model(constraints: [["name"]]), .inferred)
        let found = try node.code { try node.insert("Person", ["name": .string("Ada")]) }
        #expect(found == .constraintConflict)
    }

    @Test("An added attribute that may be null rewrites no row")
    func noRowWritten() throws {
        let node = try EngineNode(try MigrationModels.first())
        for _ in 0..<20 {
            try node.save(
                try node.insertion(
                    "Person", -1, ["name": .string(String(repeating: "x", count: 400))]),
                try node.insertion(
                    "Person", -2, ["name": .string(String(repeating: "y", count: 400))]))
        }
        func bytes() throws -> [String] {
            node.close()
            let queue = try DatabaseQueue(path: node.path)
            defer { try? queue.close() }
            return try queue.read { database in
                let root = try Int.fetchOne(
                    database, sql: "SELECT rootpage FROM sqlite_master WHERE name = 'Person'")
                return [String(root ?? 0)]
                    + (try String.fetchAll(
                        database,
                        sql: "SELECT pageno || ' ' || pgoffset || ' ' || payload "
                            + "FROM dbstat WHERE name = 'Person' ORDER BY pageno"))
            }
        }
        let before = try bytes()
        #expect(before.count > 3)
        try node.migrate(to: try MigrationModels.second(), .inferred)
        #expect(try bytes() == before)
    }
}
