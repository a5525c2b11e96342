internal import Coordinator
internal import Merge
internal import Replication

/// The part of simulated models that has uniqueness constraints: simple, compound and inherited
/// ones, with every kind of relationship to and from other entities.
///
/// Entities of its own, so that the rest of a model is the same with it as without.
extension SimulationModel {
    /// The drawn part of it.
    struct UniqueChoices {
        /// The policy of contacts, which two constraints hold.
        var contacts: MergePolicy = .error
        /// A policy of its own for agents, which inherit from contacts; nil for the contacts'.
        var agents: MergePolicy?
        /// The policy of labels, which contacts lead to, and which one constraint holds.
        var labels: MergePolicy = .error
        /// Whether that constraint is in the model; the next one always has it.
        var areLabelsHeld = true
        /// The policy of letters, which lead to contacts and which none holds.
        var letters: MergePolicy = .error
        /// Policies of a contact's single properties, where it may have such.
        var override: MergePolicy?
        /// The effect of a contact's delete on its letters.
        var onDelete: DeleteRule = .nullify

        /// Draws them; nil in half of the cases.
        static func draw(_ generator: inout SeededGenerator) -> UniqueChoices? {
            guard generator.chance(in: 2) else { return nil }
            var choices = UniqueChoices()
            func policy() -> MergePolicy { generator.choice(MergePolicy.allCases) ?? .error }
            choices.contacts = policy()
            choices.labels = policy()
            choices.letters = policy()
            if generator.chance(in: 4) { choices.agents = policy() }
            let family = [choices.contacts, choices.agents ?? choices.contacts]
            let grained = MergePolicy.allCases.filter { $0.granularity == .property }
            if family.allSatisfy(grained.contains), generator.chance(in: 3) {
                choices.override = generator.choice(grained)
            }
            choices.onDelete = generator.choice(DeleteRule.allCases) ?? .nullify
            return choices
        }
    }

    static func unique(_ choices: UniqueChoices) -> [EntityDescription] {
        [contact(choices), agent(choices), label(choices), letter(choices)]
    }

    private static func contact(_ choices: UniqueChoices) -> EntityDescription {
        EntityDescription(
            "Contact", mergePolicy: choices.contacts,
            attributes: [
                AttributeDescription("address", .string),
                AttributeDescription("area", .integer64),
                AttributeDescription("extent", .double),
                // Where one property asks somebody, so does another without a default.
                AttributeDescription(
                    "text", .string, mergePolicy: choices.override == .error ? .error : nil),
                AttributeDescription(
                    "count", .integer64, defaultValue: .integer(7), mergePolicy: choices.override),
                AttributeDescription(
                    "letterCount", .integer64, derivation: .count(relationship: "letters")),
                AttributeDescription("saved", .date, derivation: .now),
                AttributeDescription("upper", .string, derivation: .uppercase("text")),
            ],
            relationships: [
                RelationshipDescription("label", to: "Label", inverse: "contacts"),
                RelationshipDescription("seal", to: "Label", inverse: "sealed"),
                RelationshipDescription("labels", to: "Label", inverse: "marked", isToMany: true),
                RelationshipDescription(
                    "letters", to: "Letter", inverse: "recipient", isToMany: true,
                    deleteRule: choices.onDelete),
                RelationshipDescription(
                    "copied", to: "Letter", inverse: "copies", isToMany: true),
            ], uniquenessConstraints: [["address"], ["area", "extent"]])
    }

    /// Holds itself to a constraint of its own besides those it inherits.
    private static func agent(_ choices: UniqueChoices) -> EntityDescription {
        EntityDescription(
            "Agent", parent: "Contact", mergePolicy: choices.agents,
            attributes: [
                AttributeDescription("agency", .string),
                AttributeDescription("badge", .string),
            ], uniquenessConstraints: [["badge"]])
    }

    private static func label(_ choices: UniqueChoices) -> EntityDescription {
        EntityDescription(
            "Label", mergePolicy: choices.labels,
            attributes: [
                AttributeDescription("name", .string),
                AttributeDescription("text", .string),
                AttributeDescription(
                    "total", .integer64,
                    derivation: .sum(relationship: "contacts", attribute: "count")),
                AttributeDescription(
                    "markedCount", .integer64, derivation: .count(relationship: "marked")),
            ],
            relationships: [
                RelationshipDescription(
                    "contacts", to: "Contact", inverse: "label", isToMany: true),
                RelationshipDescription("sealed", to: "Contact", inverse: "seal"),
                RelationshipDescription("marked", to: "Contact", inverse: "labels", isToMany: true),
            ], uniquenessConstraints: choices.areLabelsHeld ? [["name"]] : [])
    }

    private static func letter(_ choices: UniqueChoices) -> EntityDescription {
        EntityDescription(
            "Letter", mergePolicy: choices.letters,
            attributes: [AttributeDescription("text", .string)],
            relationships: [
                RelationshipDescription("recipient", to: "Contact", inverse: "letters"),
                RelationshipDescription("copies", to: "Contact", inverse: "copied", isToMany: true),
            ])
    }
}
