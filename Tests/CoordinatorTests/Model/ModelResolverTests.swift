import Coordinator
import Merge
import Testing

@Suite struct ModelResolverTests {
    private func refusal(_ entities: EntityDescription...) -> ModelError? {
        do {
            _ = try ManagedObjectModel(entities: entities)
            return nil
        } catch { return error }
    }

    @Test("A to-one that is its own inverse is refused, a to-many is not")
    func ownInverse() throws {
        func person(_ isToMany: Bool) -> EntityDescription {
            EntityDescription(
                "Person",
                relationships: [
                    .init("partner", to: "Person", inverse: "partner", isToMany: isToMany)
                ])
        }
        #expect(refusal(person(true)) == nil)
        let error = try #require(refusal(person(false)))
        #expect(error.place == "Person.partner")
        #expect(error.reason.contains("its own inverse"))
    }

    @Test(
        "A bound that no value of the type can be compared with is refused",
        arguments: [
            (AttributeType.decimal, PropertyValue.integer(1), false),
            (.decimal, .decimal("1"), true), (.decimal, .decimal("1.0"), false),
            (.integer64, .decimal("1"), false), (.integer16, .integer(40_000), false),
            (.integer16, .integer(400), true), (.double, .integer(1), true),
            (.float, .double(0.1), true), (.double, .string("1"), false),
            (.string, .integer(3), true), (.string, .string("a"), false),
            (.binary, .integer(3), true), (.date, .integer(3), false), (.date, .date(3), true),
            (.boolean, .boolean(true), false), (.uuid, .uuid(1, 2), false),
        ])
    func bounds(_ type: AttributeType, _ bound: PropertyValue, _ isFit: Bool) {
        for validation in [
            AttributeValidation(minimum: bound), AttributeValidation(maximum: bound),
        ] {
            let error = refusal(
                EntityDescription("E", attributes: [.init("x", type, validation: validation)]))
            #expect((error == nil) == isFit)
            #expect(error?.place ?? "E.x" == "E.x")
        }
    }

    @Test("Names that SQLite takes for one are refused, and those that are its own")
    func namesOfTables() {
        #expect(refusal(EntityDescription("Note"), EntityDescription("note"))?.place == "note")
        #expect(refusal(EntityDescription("SQLite_x"))?.place == "SQLite_x")
        #expect(refusal(EntityDescription("sqlite")) == nil)
        func heir(_ name: String, _ attribute: String) -> EntityDescription {
            EntityDescription(name, parent: "A", attributes: [.init(attribute, .string)])
        }
        #expect(refusal(EntityDescription("A"), heir("B", "x"), heir("C", "x")) == nil)
        #expect(refusal(EntityDescription("A"), heir("B", "x"), heir("C", "X"))?.place == "C.X")
    }

    @Test("An index that SQLite would not make is refused")
    func indexes() {
        func entity(_ indexes: IndexDescription...) -> EntityDescription {
            EntityDescription(
                "E", attributes: [.init("x", .string)],
                relationships: [.init("others", to: "E", isToMany: true)], indexes: indexes)
        }
        let byX = IndexDescription(name: "byX", elements: ["x"])
        #expect(refusal(entity(byX, IndexDescription(name: "again", elements: ["x"]))) == nil)
        for (index, reason) in [
            (IndexDescription(name: "none", elements: []), "no elements"),
            (IndexDescription(name: "BYX", elements: ["x"]), "two indexes"),
            (IndexDescription(name: "Others", elements: ["x"]), "a relationship with a table"),
        ] {
            let error = refusal(entity(byX, index))
            #expect(error?.place == "E index \(index.name)")
            #expect(error?.reason.contains(reason) == true)
        }
    }

    @Test("A hierarchy has at most as many columns as SQLite makes")
    func columns() throws {
        func hierarchy(_ count: Int) -> [EntityDescription] {
            [
                EntityDescription("A", attributes: [.init("x", .string)]),
                EntityDescription(
                    "B", parent: "A",
                    attributes: (1..<count).map { AttributeDescription("a\($0)", .integer64) }),
            ]
        }
        let node = try EngineNode(try ManagedObjectModel(entities: hierarchy(1995)))
        let row = try node.insert("B", ["x": .string("y"), "a1994": .integer(5)])
        #expect(try node.value(row, "a1994") == .integer(5))
        #expect { try ManagedObjectModel(entities: hierarchy(1996)) } throws: {
            ($0 as? ModelError)?.place == "A"
        }
    }

    @Test("Heirs' relationships of one name are relationships of their own")
    func oneNameOfTwoHeirs() throws {
        let heirs = ["C", "D"].map { name in
            EntityDescription(
                name, parent: "A", relationships: [.init("s", to: "Z", inverse: name.lowercased())])
        }
        let node = try EngineNode(
            try ManagedObjectModel(
                entities: heirs + [
                    EntityDescription("A"),
                    EntityDescription(
                        "Z",
                        relationships: [
                            .init("c", to: "C", inverse: "s"), .init("d", to: "D", inverse: "s"),
                        ]),
                ]))
        let target = try node.insert("Z")
        let first = try node.insert("C", ["s": .reference(target.row)])
        let second = try node.insert("D", ["s": .reference(target.row)])
        #expect(try node.value(first, "s") == .reference(target.row))
        #expect(try node.value(second, "s") == .reference(target.row))
        #expect(try node.members(target, "c") == [first.row])
        #expect(try node.members(target, "d") == [second.row])
    }

    /// A store keeps its model as JSON, and must be able to read it back.
    @Test("What a model in JSON may not say is refused of one that is described, too")
    func strict() {
        func attribute(
            _ type: AttributeType, _ validation: AttributeValidation
        ) -> EntityDescription {
            EntityDescription("E", attributes: [.init("x", type, validation: validation)])
        }
        let range = AttributeValidation(minimum: .integer(10), maximum: .integer(1))
        for faulty in [
            attribute(.integer64, AttributeValidation(pattern: "[0-9]+")),
            attribute(.integer64, range), attribute(.string, range),
            attribute(.string, AttributeValidation(pattern: "(")),
        ] {
            #expect(refusal(faulty)?.place == "E.x.validation")
        }
        #expect(refusal(attribute(.string, AttributeValidation(pattern: "[0-9]+"))) == nil)
        for (isToMany, least, most) in [
            (false, 0, 3), (false, 2, 0), (true, 3, 2), (true, -1, 0), (true, 0, -1),
            (true, 0, 1_000_000_001),
        ] {
            let faulty = RelationshipDescription(
                "x", to: "E", isToMany: isToMany, minimumCount: least, maximumCount: most)
            #expect(refusal(EntityDescription("E", relationships: [faulty]))?.place == "E.x")
        }
        let counted = RelationshipDescription(
            "x", to: "E", isToMany: true, minimumCount: 2, maximumCount: 3)
        #expect(refusal(EntityDescription("E", relationships: [counted])) == nil)
    }

    @Test("What heirs inherit all together is bounded: a small text could describe very much")
    func inherited() {
        func heirs(_ count: Int) -> [EntityDescription] {
            let attributes = (0..<1_000).map { AttributeDescription("a\($0)", .date) }
            return [EntityDescription("A", attributes: attributes)]
                + (0..<count).map { EntityDescription("B\($0)", parent: "A") }
        }
        #expect((try? ManagedObjectModel(entities: heirs(20)))?.entities.count == 21)
        do {
            _ = try ManagedObjectModel(entities: heirs(201))
            Issue.record("It was resolved.")
        } catch { #expect(error.reason.contains("inherit 201000 properties")) }
    }

    @Test("A model of a thousand entities is resolved, and one too deep is refused")
    func large() throws {
        let flat = try ManagedObjectModel(entities: (0..<1_000).map { EntityDescription("E\($0)") })
        #expect(flat.entities.count == 1_000)
        func chain(_ count: Int) -> [EntityDescription] {
            (0..<count).map { EntityDescription("E\($0)", parent: $0 == 0 ? nil : "E\($0 - 1)") }
        }
        let deep = try ManagedObjectModel(entities: chain(100))
        #expect(deep.entity(named: "E0")?.familyNames.count == 100)
        #expect(throws: ModelError.self) { try ManagedObjectModel(entities: chain(101)) }
        let circle = [EntityDescription("A", parent: "B"), EntityDescription("B", parent: "A")]
        #expect(throws: ModelError.self) { try ManagedObjectModel(entities: circle) }
    }
}
