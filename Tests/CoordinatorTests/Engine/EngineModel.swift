import Coordinator
import Merge

/// Models that have a bit of everything the engine must keep apart.
enum EngineModel {
    /// An entity a policy, a property with a policy of its own, a hierarchy, and relationships of
    /// every cardinality under every delete rule. Derived attributes of every kind hang on them, which
    /// each verification computes once more.
    static func everything() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [note, folder, tag, person, passport, sheet] + animals)
    }

    /// The same with an application's own policies for some attributes.
    static func everything(texts: MergePolicy, numbers: MergePolicy) throws -> ManagedObjectModel {
        var entities = [note, folder, tag, person, passport, sheet] + animals
        for entity in entities.indices
        where (entities[entity].mergePolicy ?? .error).granularity == .property {
            for place in entities[entity].attributes.indices
            where entities[entity].attributes[place].derivation == nil
                && entities[entity].parent == nil
            {
                let isText = entities[entity].attributes[place].type == .string
                entities[entity].attributes[place].mergePolicy = isText ? texts : numbers
            }
        }
        return try ManagedObjectModel(entities: entities)
    }

    private static let note = EntityDescription(
        "Note", mergePolicy: .error,
        attributes: [
            .init("p", .string), .init("q", .integer64),
            .init("r", .string, mergePolicy: .mergeByPropertyObjectTrump),
            .init("saved", .date, derivation: .now),
        ],
        relationships: [
            .init("folder", to: "Folder", inverse: "notes"),
            .init("tags", to: "Tag", inverse: "notes", isToMany: true),
        ])

    private static let folder = EntityDescription(
        "Folder", mergePolicy: .mergeByPropertyStoreTrump,
        attributes: [
            .init("name", .string), .init("size", .integer64, defaultValue: .integer(3)),
            .init("canonicalName", .string, derivation: .canonical("name")),
            .init("noteCount", .integer64, derivation: .count(relationship: "notes")),
            .init("total", .integer64, derivation: .sum(relationship: "notes", attribute: "q")),
        ],
        relationships: [
            .init("notes", to: "Note", inverse: "folder", isToMany: true, deleteRule: .cascade),
            .init("owner", to: "Person", inverse: "folders"),
        ])

    private static let tag = EntityDescription(
        "Tag", mergePolicy: .mergeByPropertyObjectTrump,
        attributes: [
            .init("name", .string), .init("color", .string),
            .init("noteCount", .integer64, derivation: .count(relationship: "notes")),
            .init("total", .integer64, derivation: .sum(relationship: "notes", attribute: "q")),
            .init("likes", .integer64, derivation: .count(relationship: "alike")),
        ],
        relationships: [
            .init("notes", to: "Note", inverse: "tags", isToMany: true),
            .init("alike", to: "Tag", inverse: "alike", isToMany: true),
        ])

    private static let person = EntityDescription(
        "Person", mergePolicy: .rollback,
        attributes: [
            .init("name", .string), .init("age", .integer64),
            .init("animalCount", .integer64, derivation: .count(relationship: "animals")),
        ],
        relationships: [
            .init("folders", to: "Folder", inverse: "owner", isToMany: true, deleteRule: .nullify),
            .init("animals", to: "Animal", inverse: "keeper", isToMany: true, deleteRule: .deny),
            .init("sheets", to: "Sheet", inverse: "writer", isToMany: true, deleteRule: .noAction),
            .init("passport", to: "Passport", inverse: "holder"),
        ])

    private static let passport = EntityDescription(
        "Passport", mergePolicy: .overwrite,
        attributes: [.init("number", .string)],
        relationships: [.init("holder", to: "Person", inverse: "passport")])

    private static let sheet = EntityDescription(
        "Sheet", mergePolicy: .errorByRow,
        attributes: [
            .init("x", .string), .init("y", .integer64),
            .init("saved", .date, derivation: .now),
            .init("upper", .string, derivation: .uppercase("x")),
        ],
        relationships: [.init("writer", to: "Person", inverse: "sheets")])

    // "bark" sorts before "name" and "keeper", so that a property of an animal has another
    // position in a dog.
    private static let animals = [
        EntityDescription(
            "Animal", mergePolicy: .mergeByPropertyObjectTrump,
            attributes: [
                .init("name", .string), .init("lower", .string, derivation: .lowercase("name")),
            ],
            relationships: [.init("keeper", to: "Person", inverse: "animals")]),
        EntityDescription(
            "Dog", parent: "Animal",
            attributes: [
                .init("bark", .integer64),
                .init("enemyCount", .integer64, derivation: .count(relationship: "enemies")),
            ],
            relationships: [.init("enemies", to: "Cat", inverse: "enemies", isToMany: true)]),
        EntityDescription(
            "Cat", parent: "Animal", attributes: [.init("asleep", .boolean)],
            relationships: [.init("enemies", to: "Dog", inverse: "enemies", isToMany: true)]),
    ]
}
