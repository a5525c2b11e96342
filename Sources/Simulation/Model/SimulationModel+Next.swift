internal import Coordinator
internal import Merge
internal import Replication

/// The model that nodes of a run are opened with later, one after the other: renamed attributes, more
/// of them and one more entity, other policies and counts, and a constraint. Nothing is taken away, and
/// no entity is renamed, made optional or mandatory, or given another relationship.
extension SimulationModel {
    /// The differences of the next model.
    struct NextChoices {
        /// Entities with another policy of the same granularity.
        var policies: [String: MergePolicy] = [:]

        /// Draws them for a model.
        static func draw(
            _ generator: inout SeededGenerator, for choices: Choices
        ) -> NextChoices {
            var next = NextChoices()
            for (place, root) in roots.enumerated() where generator.chance(in: 3) {
                let policy = choices.policies[place % choices.policies.count]
                let others = MergePolicy.allCases.filter {
                    $0.granularity == policy.granularity && $0 != policy
                }
                next.policies[root] = generator.choice(others)
            }
            guard let unique = choices.unique, unique.agents == nil else { return next }
            let held = [
                ("Contact", unique.contacts), ("Label", unique.labels), ("Letter", unique.letters),
            ]
            for (name, policy) in held where generator.chance(in: 3) {
                let others = MergePolicy.allCases.filter {
                    $0.granularity == policy.granularity && $0 != policy
                }
                next.policies[name] = generator.choice(others)
            }
            return next
        }
    }

    /// A model of choices that were drawn, and the next one.
    static func succession(
        _ choices: Choices, _ generator: inout SeededGenerator
    ) -> Editions {
        var later = choices
        later.next = NextChoices.draw(&generator, for: choices)
        // What broke a count may keep the next one, and the other way round.
        later.counts = Array(choices.counts.reversed())
        later.unique?.areLabelsHeld = true
        return Editions(models: [made(choices), made(later)], beacons: [[], []])
    }

    /// By entity: the names of attributes in the next model, by those before.
    private static let renamed: [String: [String: String]] = [
        "Note": ["text": "body"], "Animal": ["text": "label"], "Dog": ["text": "label"],
        "Cat": ["text": "label"],
    ]

    /// Attributes that the next model adds: some stand for a default in the objects there are.
    private static let additions: [String: [AttributeDescription]] = [
        "Item": [
            AttributeDescription("remark", .string),
            AttributeDescription("stars", .integer64, defaultValue: .integer(5)),
        ],
        "Note": [AttributeDescription("stars", .integer64, defaultValue: .integer(5))],
        "Tag": [AttributeDescription("alias", .string, defaultValue: .string("none"))],
        "Person": [AttributeDescription("remark", .string)],
        "Animal": [AttributeDescription("age", .integer64, defaultValue: .integer(1))],
    ]

    private static let extra = EntityDescription(
        "Extra", mergePolicy: .mergeByPropertyObjectTrump,
        attributes: [AttributeDescription("text", .string)])

    private static func rename(_ entity: inout EntityDescription) {
        guard let names = renamed[entity.name] else { return }
        for place in entity.attributes.indices {
            let name = entity.attributes[place].name
            guard let other = names[name] else { continue }
            entity.attributes[place].name = other
            entity.attributes[place].renamingIdentifier = name
        }
    }

    static func advance(_ entities: inout [EntityDescription], _ next: NextChoices) {
        for place in entities.indices {
            rename(&entities[place])
            let name = entities[place].name
            if let policy = next.policies[name] { entities[place].mergePolicy = policy }
            entities[place].attributes += additions[name] ?? []
        }
        for place in entities.indices { follow(&entities[place]) }
        entities.append(extra)
    }

    /// Derived attributes follow the new names of what they are made of.
    private static func follow(_ entity: inout EntityDescription) {
        for place in entity.attributes.indices {
            switch entity.attributes[place].derivation {
            case .canonical(let key):
                entity.attributes[place].derivation = .canonical(
                    renamed[entity.name]?[key] ?? key)
            case .lowercase(let key):
                entity.attributes[place].derivation = .lowercase(
                    renamed[entity.name]?[key] ?? key)
            case .uppercase(let key):
                entity.attributes[place].derivation = .uppercase(
                    renamed[entity.name]?[key] ?? key)
            case .sum(let relationship, let key):
                guard
                    let owner = entity.relationships.first(where: { $0.name == relationship })
                else { continue }
                entity.attributes[place].derivation = .sum(
                    relationship: relationship, attribute: renamed[owner.destination]?[key] ?? key)
            default: continue
            }
        }
    }
}
