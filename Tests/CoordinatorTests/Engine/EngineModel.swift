import Coordinator
import Merge

/// Models that have a bit of everything the engine must keep apart.
enum EngineModel {
    /// An entity a policy, a property with a policy of its own, a hierarchy, and relationships of
    /// every cardinality under every delete rule.
    static func everything() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [note, folder, tag, person, passport, sheet] + animals)
    }

    private static let note = EntityDescription(
        "Note", mergePolicy: .error,
        attributes: [
            AttributeDescription("p", .string), AttributeDescription("q", .integer64),
            AttributeDescription("r", .string, mergePolicy: .mergeByPropertyObjectTrump),
        ],
        relationships: [
            RelationshipDescription("folder", to: "Folder", inverse: "notes"),
            RelationshipDescription("tags", to: "Tag", inverse: "notes", isToMany: true),
        ])

    private static let folder = EntityDescription(
        "Folder", mergePolicy: .mergeByPropertyStoreTrump,
        attributes: [
            AttributeDescription("name", .string),
            AttributeDescription("size", .integer64, defaultValue: .integer(3)),
        ],
        relationships: [
            RelationshipDescription(
                "notes", to: "Note", inverse: "folder", isToMany: true, deleteRule: .cascade),
            RelationshipDescription("owner", to: "Person", inverse: "folders"),
        ])

    private static let tag = EntityDescription(
        "Tag", mergePolicy: .mergeByPropertyObjectTrump,
        attributes: [
            AttributeDescription("name", .string), AttributeDescription("color", .string),
        ],
        relationships: [
            RelationshipDescription("notes", to: "Note", inverse: "tags", isToMany: true),
            RelationshipDescription("alike", to: "Tag", inverse: "alike", isToMany: true),
        ])

    private static let person = EntityDescription(
        "Person", mergePolicy: .rollback,
        attributes: [
            AttributeDescription("name", .string), AttributeDescription("age", .integer64),
        ],
        relationships: [
            RelationshipDescription(
                "folders", to: "Folder", inverse: "owner", isToMany: true, deleteRule: .nullify),
            RelationshipDescription(
                "animals", to: "Animal", inverse: "keeper", isToMany: true, deleteRule: .deny),
            RelationshipDescription(
                "sheets", to: "Sheet", inverse: "writer", isToMany: true, deleteRule: .noAction),
            RelationshipDescription("passport", to: "Passport", inverse: "holder"),
        ])

    private static let passport = EntityDescription(
        "Passport", mergePolicy: .overwrite,
        attributes: [AttributeDescription("number", .string)],
        relationships: [RelationshipDescription("holder", to: "Person", inverse: "passport")])

    private static let sheet = EntityDescription(
        "Sheet", mergePolicy: .errorByRow,
        attributes: [AttributeDescription("x", .string), AttributeDescription("y", .integer64)],
        relationships: [RelationshipDescription("writer", to: "Person", inverse: "sheets")])

    // "bark" sorts before "name" and "keeper", so that a property of an animal has another
    // position in a dog.
    private static let animals = [
        EntityDescription(
            "Animal", mergePolicy: .mergeByPropertyObjectTrump,
            attributes: [AttributeDescription("name", .string)],
            relationships: [RelationshipDescription("keeper", to: "Person", inverse: "animals")]),
        EntityDescription(
            "Dog", parent: "Animal",
            attributes: [AttributeDescription("bark", .integer64)],
            relationships: [
                RelationshipDescription(
                    "enemies", to: "Cat", inverse: "enemies", isToMany: true)
            ]),
        EntityDescription(
            "Cat", parent: "Animal",
            attributes: [AttributeDescription("asleep", .boolean)],
            relationships: [
                RelationshipDescription(
                    "enemies", to: "Dog", inverse: "enemies", isToMany: true)
            ]),
    ]
}
