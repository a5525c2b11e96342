internal import Coordinator
internal import Merge
internal import Replication

/// The models of simulated clusters: every structure that merging knows, each once, under policies
/// drawn by chance.
///
/// Small on purpose, for opening a store costs by the table and a run opens many: ten tables.
enum SimulationModel {
    /// The drawn part of a model; its structure is always the same.
    struct Choices {
        /// The entities' policies, by the order of ``SimulationModel/roots``; repeated where there
        /// are fewer.
        var policies: [MergePolicy] = [.error]
        /// A policy of its own for dogs, which inherit from animals; nil for the animals'.
        var dogs: MergePolicy?
        /// Policies of single properties, taken in turn by those that may have one; a nil stands
        /// for a property without.
        var overrides: [MergePolicy?] = []
        /// Which attributes have the application's own policy instead, taken in turn like those.
        var named: [Bool] = []
        /// The effect of a folder's delete on its notes.
        var notes: DeleteRule = .nullify
        /// The effect of a person's delete on their passport.
        var passport: DeleteRule = .nullify
        /// Whether a ring's members have one predecessor each, or any number of them.
        var isRingOneToOne = true
        /// The entities with uniqueness constraints; nil for none.
        var unique: UniqueChoices?
        /// The least and the greatest count of to-manys, taken in turn by those there are; a nil
        /// stands for one without.
        var counts: [ClosedRange<Int>?] = []
        /// The to-ones that must lead to something, by their names.
        var demanded: Set<String> = []
        /// The differences of the next model; nil for the first.
        var next: NextChoices?
    }

    /// The entities at the roots of their hierarchies, in the order in which policies are given.
    static let roots = [
        "Item", "Member", "Folder", "Note", "Tag", "Person", "Passport", "Animal",
    ]

    /// Draws what there is of a model. All six policies occur in each, on entities that chance decides.
    ///
    /// - Parameter unique: the entities with uniqueness constraints, which are drawn apart, so that
    ///   the others are the same with them as without.
    static func draw(
        _ generator: inout SeededGenerator, unique: UniqueChoices? = nil
    ) -> Choices {
        var choices = Choices()
        choices.unique = unique
        choices.policies = generator.some(MergePolicy.allCases, most: MergePolicy.allCases.count)
        while choices.policies.count < roots.count {
            choices.policies.append(generator.choice(MergePolicy.allCases) ?? .error)
        }
        choices.policies = generator.some(choices.policies, most: choices.policies.count)
        if generator.chance(in: 3) { choices.dogs = generator.choice(MergePolicy.allCases) }
        let grained = MergePolicy.allCases.filter { $0.granularity == .property }
        choices.overrides = (0..<23).map { _ in
            generator.chance(in: 4) ? generator.choice(grained) : nil
        }
        choices.notes = generator.choice(DeleteRule.allCases) ?? .nullify
        choices.passport = generator.choice(DeleteRule.allCases) ?? .nullify
        choices.isRingOneToOne = generator.chance(in: 2)
        return choices
    }

    /// Draws what to-manys count; nothing in three of four cases.
    static func drawCounts(_ seed: UInt64) -> [ClosedRange<Int>?] {
        var generator = SeededGenerator(seed: seed &* 0xE703_7ED1_A0B4_28DB &+ 11)
        guard generator.chance(in: 4) else { return [] }
        return (0..<11).map { _ in
            guard generator.chance(in: 2) else { return nil }
            // Few have a least count: what is new has nothing that leads to it.
            let least = generator.chance(in: 5) ? 1 : 0
            return least...(1 + generator.number(below: 3))
        }
    }

    /// Draws which to-ones must lead to something; none in five of six cases.
    static func drawDemanded(_ seed: UInt64) -> Set<String> {
        var generator = SeededGenerator(seed: seed &* 0xE703_7ED1_A0B4_28DB &+ 41)
        guard generator.chance(in: 6) else { return [] }
        let drawn = ["folder", "holder"].filter { _ in generator.chance(2, in: 3) }
        return drawn.isEmpty ? ["folder"] : Set(drawn)
    }

    /// Draws which attributes have the application's own policy; none in two of three cases.
    static func drawNamed(_ seed: UInt64) -> [Bool] {
        var generator = SeededGenerator(seed: seed &* 0xE703_7ED1_A0B4_28DB &+ 53)
        guard generator.chance(in: 3) else { return [] }
        return (0..<13).map { _ in generator.chance(2, in: 5) }
    }

    /// A policy of an application's own: the greatest value by its text, backwards, so that neither the
    /// first nor the last write is likelier; of equal ones the second, if there are two.
    static let named = NamedMergePolicy.register("backwards", version: 1) { writes in
        let texts = writes.map { Array("\($0.value)".utf8.reversed()) }
        var best = 0
        var ties = 0
        for place in texts.indices.dropFirst() {
            if texts[best].lexicographicallyPrecedes(texts[place]) {
                (best, ties) = (place, 0)
            } else if texts[best] == texts[place] {
                ties += 1
                if ties == 1 { best = place }
            }
        }
        return best
    }

    /// The model of choices that were drawn.
    static func made(_ choices: Choices) -> ManagedObjectModel {
        do {
            return try build(choices)
        } catch {
            // The structure is this file's own, and overrides are left out where a model may not
            // have them, so no choice can be refused.
            fatalError("The simulator's own model was refused: \(error)")
        }
    }

    /// A model in which all entities follow one policy.
    ///
    /// - Throws: ModelError, where this file is wrong.
    static func build(_ policy: MergePolicy) throws -> ManagedObjectModel {
        try build(Choices(policies: [policy]))
    }

    /// A model of given choices.
    ///
    /// - Throws: ModelError, where this file is wrong.
    static func build(_ choices: Choices) throws -> ManagedObjectModel {
        var entities =
            [item, member(choices)] + shelf(choices) + people(choices) + animals
        for place in entities.indices {
            let name = entities[place].name
            if let root = roots.firstIndex(of: name), !choices.policies.isEmpty {
                entities[place].mergePolicy = choices.policies[root % choices.policies.count]
            }
            if name == "Dog" { entities[place].mergePolicy = choices.dogs }
        }
        override(&entities, choices.overrides, named: choices.named)
        if let unique = choices.unique { entities += Self.unique(unique) }
        count(&entities, choices.counts)
        demand(&entities, choices.demanded)
        if let next = choices.next { advance(&entities, next) }
        return try ManagedObjectModel(entities: entities)
    }

    /// Gives properties policies of their own, where the policies of the entity and of those that
    /// inherit from it all settle property by property.
    private static func override(
        _ entities: inout [EntityDescription], _ overrides: [MergePolicy?], named: [Bool]
    ) {
        if overrides.isEmpty { return }
        let described = entities
        func isFine(_ entity: EntityDescription) -> Bool {
            let family = described.filter { $0.name == entity.name || $0.parent == entity.name }
            let above = described.filter { $0.name == entity.parent }
            let policies = (family + above).map { $0.mergePolicy ?? .mergeByPropertyStoreTrump }
            return policies.allSatisfy { $0.granularity == .property }
        }
        var next = 0
        func draw() -> MergePolicy? {
            defer { next += 1 }
            return overrides[next % overrides.count]
        }
        for place in entities.indices where isFine(entities[place]) {
            for attribute in entities[place].attributes.indices
            where entities[place].attributes[attribute].derivation == nil {
                entities[place].attributes[attribute].mergePolicy = draw()
                if !named.isEmpty, named[next % named.count] {
                    entities[place].attributes[attribute].mergePolicy = Self.named
                }
            }
            for relationship in entities[place].relationships.indices
            where !entities[place].relationships[relationship].isToMany {
                entities[place].relationships[relationship].mergePolicy = draw()
            }
        }
    }

    private static func count(
        _ entities: inout [EntityDescription], _ counts: [ClosedRange<Int>?]
    ) {
        if counts.isEmpty { return }
        var next = 0
        for place in entities.indices {
            for number in entities[place].relationships.indices
            where entities[place].relationships[number].isToMany {
                if let bounds = counts[next % counts.count] {
                    entities[place].relationships[number].minimumCount = bounds.lowerBound
                    entities[place].relationships[number].maximumCount = bounds.upperBound
                }
                next += 1
            }
        }
    }

    private static func demand(_ entities: inout [EntityDescription], _ names: Set<String>) {
        if names.isEmpty { return }
        for place in entities.indices {
            for number in entities[place].relationships.indices
            where names.contains(entities[place].relationships[number].name) {
                entities[place].relationships[number].isOptional = false
            }
        }
    }

    // MARK: The structures

    /// Values of several types, and nothing else.
    private static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("text", .string),
            AttributeDescription("count", .integer64, defaultValue: .integer(3)),
            AttributeDescription("isDone", .boolean),
            AttributeDescription("weight", .double),
        ])

    /// Members of rings.
    private static func member(_ choices: Choices) -> EntityDescription {
        EntityDescription(
            "Member", attributes: [AttributeDescription("text", .string)],
            relationships: [
                RelationshipDescription("next", to: "Member", inverse: "previous"),
                RelationshipDescription(
                    "previous", to: "Member", inverse: "next", isToMany: !choices.isRingOneToOne),
            ])
    }

    /// A to-many with its delete rule, and many-to-manys between two entities and within one. Derived
    /// attributes look into all of them.
    private static func shelf(_ choices: Choices) -> [EntityDescription] {
        [
            EntityDescription(
                "Folder",
                attributes: [
                    AttributeDescription("text", .string),
                    AttributeDescription(
                        "noteCount", .integer64, derivation: .count(relationship: "notes")),
                    AttributeDescription(
                        "total", .integer64,
                        derivation: .sum(relationship: "notes", attribute: "count")),
                    AttributeDescription("canonical", .string, derivation: .canonical("text")),
                ],
                relationships: [
                    RelationshipDescription(
                        "notes", to: "Note", inverse: "folder", isToMany: true,
                        deleteRule: choices.notes)
                ]),
            EntityDescription(
                "Note",
                attributes: [
                    AttributeDescription("text", .string),
                    AttributeDescription("count", .integer64),
                    AttributeDescription("saved", .date, derivation: .now),
                ],
                relationships: [
                    RelationshipDescription("folder", to: "Folder", inverse: "notes"),
                    RelationshipDescription("tags", to: "Tag", inverse: "notes", isToMany: true),
                ]),
            EntityDescription(
                "Tag",
                attributes: [
                    AttributeDescription("text", .string),
                    AttributeDescription(
                        "total", .integer64,
                        derivation: .sum(relationship: "notes", attribute: "count")),
                    AttributeDescription(
                        "likes", .integer64, derivation: .count(relationship: "alike")),
                ],
                relationships: [
                    RelationshipDescription("notes", to: "Note", inverse: "tags", isToMany: true),
                    RelationshipDescription("alike", to: "Tag", inverse: "alike", isToMany: true),
                ]),
        ]
    }

    /// A one-to-one.
    private static func people(_ choices: Choices) -> [EntityDescription] {
        [
            EntityDescription(
                "Person", attributes: [AttributeDescription("text", .string)],
                relationships: [
                    RelationshipDescription(
                        "passport", to: "Passport", inverse: "holder",
                        deleteRule: choices.passport)
                ]),
            EntityDescription(
                "Passport", attributes: [AttributeDescription("text", .string)],
                relationships: [
                    RelationshipDescription("holder", to: "Person", inverse: "passport")
                ]),
        ]
    }

    /// A hierarchy. "bark" and "asleep" sort before "text", so that an animal's property has
    /// another position in a dog.
    private static let animals = [
        EntityDescription("Animal", attributes: [AttributeDescription("text", .string)]),
        EntityDescription(
            "Dog", parent: "Animal",
            attributes: [
                AttributeDescription("bark", .integer64),
                AttributeDescription("lower", .string, derivation: .lowercase("text")),
            ]),
        EntityDescription(
            "Cat", parent: "Animal", attributes: [AttributeDescription("asleep", .boolean)]),
    ]
}
