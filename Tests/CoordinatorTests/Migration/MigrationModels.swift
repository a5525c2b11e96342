import Coordinator
import Merge

/// Models that follow each other, made of one by small changes.
enum MigrationModels {
    static func person(
        _ policy: MergePolicyChoice = .objectTrump, named name: String = "Person",
        renaming: String? = nil, attributes: [AttributeDescription],
        relationships: [RelationshipDescription] = [], constraints: [[String]] = []
    ) -> EntityDescription {
        EntityDescription(
            name, mergePolicy: policy.policy, attributes: attributes, relationships: relationships,
            uniquenessConstraints: constraints, renamingIdentifier: renaming)
    }

    static func model(_ entities: EntityDescription...) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: entities)
    }

    /// A person with a name and an age.
    static func first(_ policy: MergePolicyChoice = .objectTrump) throws -> ManagedObjectModel {
        try model(person(policy, attributes: [.init("name", .string), .init("age", .integer64)]))
    }

    /// The same with a note, which may be empty, a level, which may not, and an entity for pets.
    static func second(_ policy: MergePolicyChoice = .objectTrump) throws -> ManagedObjectModel {
        try model(
            person(
                policy,
                attributes: [
                    .init("name", .string), .init("age", .integer64),
                    .init("note", .string),
                    .init("level", .integer64, isOptional: false, defaultValue: .integer(3)),
                ],
                relationships: [
                    .init("pets", to: "Pet", inverse: "owner", isToMany: true)
                ]),
            EntityDescription(
                "Pet", attributes: [.init("name", .string)],
                relationships: [.init("owner", to: "Person", inverse: "pets")]))
    }

    /// The first with another name of the entity and of a property, the age gone, and the name
    /// mandatory.
    static func third(_ policy: MergePolicyChoice = .objectTrump) throws -> ManagedObjectModel {
        try model(
            person(
                policy, named: "Human", renaming: "Person",
                attributes: [
                    .init(
                        "title", .string, isOptional: false, defaultValue: .string("nobody"),
                        renamingIdentifier: "name")
                ]))
    }
}

extension EngineNode {
    /// Why a migration is refused, after which the node is open as it was; nil where it is not, and
    /// the node has the other model.
    func obstacle(to other: ManagedObjectModel) throws -> String? {
        do {
            try migrate(to: other, .inferred)
            return nil
        } catch let error as CoordinatorError where error.code == .mappingNotInferable {
            try open()
            return error.message
        }
    }
}

/// Migrates the last node before it hears of what the others have, and these with that.
func migrateApart(_ nodes: [EngineNode], to model: ManagedObjectModel) throws {
    let last = nodes[nodes.count - 1]
    try last.migrate(to: model)
    try last.take(from: nodes[0])
    for node in nodes.dropLast() { try node.migrate(to: model) }
    try exchange(nodes)
}
