internal import Coordinator
internal import Merge
internal import Replication

/// The model that nodes of a run are opened with later, one after the other: renamed attributes, more
/// of them and one more entity, other policies and counts, and a constraint. Nothing is taken away, and
/// no entity is renamed, made optional or mandatory, or given another relationship.
extension SimulationModel {
    /// What the next model has otherwise.
    struct NextChoices {
        /// Whether it has more attributes, and one more entity. A model without them is that of
        /// before, with the names of after: so the oracle reads what was written by it.
        var hasAdditions = true
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

    /// Two models, and what came before the second one in its own words.
    struct Succession {
        /// The first model.
        let first: ManagedObjectModel
        /// The next one.
        let next: ManagedObjectModel
        /// The first, with the names of the next.
        let translated: ManagedObjectModel

        /// The next model of choices that were drawn.
        init(_ choices: Choices, _ generator: inout SeededGenerator) {
            first = SimulationModel.made(choices)
            var later = choices
            var change = NextChoices.draw(&generator, for: choices)
            later.next = change
            // What broke a count may keep the next one, and the other way round.
            later.counts = Array(choices.counts.reversed())
            later.unique?.areLabelsHeld = true
            next = SimulationModel.made(later)
            change.hasAdditions = false
            change.policies = [:]
            later.unique = choices.unique
            later.next = change
            translated = SimulationModel.made(later)
        }

        /// A transaction of the first model as one who reads by the next has it.
        func translate(_ transaction: Transaction) -> Transaction {
            guard transaction.modelHash == first.modelHash else { return transaction }
            var result = transaction
            for place in result.shapes.indices {
                guard let names = SimulationModel.renamed[result.shapes[place].entity] else {
                    continue
                }
                let shape = result.shapes[place]
                result.shapes[place] = ChangeShape(
                    entity: shape.entity, assigned: shape.assigned.map { names[$0] ?? $0 },
                    carried: shape.carried.map { names[$0] ?? $0 })
            }
            return result
        }
    }

    /// By entity: the names of attributes in the next model, by those before.
    static let renamed: [String: [String: String]] = [
        "Note": ["text": "body"], "Animal": ["text": "label"], "Dog": ["text": "label"],
        "Cat": ["text": "label"],
    ]

    /// A conflict that closed before its node took the next model up, in the names of that one: what
    /// is closed keeps the names of its time. Nil where it has none of those that changed.
    static func inNextNames(_ conflict: Conflict) -> Conflict? {
        guard !conflict.isOpen, let names = renamed[conflict.id.entity] else { return nil }
        var result = conflict
        result.property = conflict.property.map { names[$0] ?? $0 }
        for place in result.sides.indices {
            result.sides[place].row = result.sides[place].row.map { entry in
                ConflictSide.RowValue(
                    name: names[entry.name] ?? entry.name, value: entry.value, stamp: entry.stamp)
            }
        }
        return result
    }

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
            if next.hasAdditions { entities[place].attributes += additions[name] ?? [] }
        }
        if next.hasAdditions { entities.append(extra) }
    }
}
