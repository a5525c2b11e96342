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
                    RelationshipDescription(
                        "partner", to: "Person", inverse: "partner", isToMany: isToMany)
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
                EntityDescription(
                    "E", attributes: [AttributeDescription("x", type, validation: validation)]))
            #expect((error == nil) == isFit)
            #expect(error?.place ?? "E.x" == "E.x")
        }
    }

    @Test("Heirs' relationships of one name are relationships of their own")
    func oneNameOfTwoHeirs() throws {
        let heirs = ["C", "D"].map { name in
            EntityDescription(
                name, parent: "A",
                relationships: [
                    RelationshipDescription("s", to: "Z", inverse: name.lowercased())
                ])
        }
        let node = try EngineNode(
            try ManagedObjectModel(
                entities: heirs + [
                    EntityDescription("A"),
                    EntityDescription(
                        "Z",
                        relationships: [
                            RelationshipDescription("c", to: "C", inverse: "s"),
                            RelationshipDescription("d", to: "D", inverse: "s"),
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
}
