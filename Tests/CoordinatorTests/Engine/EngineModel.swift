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
            .init("p", .string), .init("q", .integer64),
            .init("r", .string, mergePolicy: .mergeByPropertyObjectTrump),
        ],
        relationships: [
            .init("folder", to: "Folder", inverse: "notes"),
            .init("tags", to: "Tag", inverse: "notes", isToMany: true),
        ])

    private static let folder = EntityDescription(
        "Folder", mergePolicy: .mergeByPropertyStoreTrump,
        attributes: [.init("name", .string), .init("size", .integer64, defaultValue: .integer(3))],
        relationships: [
            .init("notes", to: "Note", inverse: "folder", isToMany: true, deleteRule: .cascade),
            .init("owner", to: "Person", inverse: "folders"),
        ])

    private static let tag = EntityDescription(
        "Tag", mergePolicy: .mergeByPropertyObjectTrump,
        attributes: [.init("name", .string), .init("color", .string)],
        relationships: [
            .init("notes", to: "Note", inverse: "tags", isToMany: true),
            .init("alike", to: "Tag", inverse: "alike", isToMany: true),
        ])

    private static let person = EntityDescription(
        "Person", mergePolicy: .rollback,
        attributes: [.init("name", .string), .init("age", .integer64)],
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
        attributes: [.init("x", .string), .init("y", .integer64)],
        relationships: [.init("writer", to: "Person", inverse: "sheets")])

    // "bark" sorts before "name" and "keeper", so that a property of an animal has another
    // position in a dog.
    private static let animals = [
        EntityDescription(
            "Animal", mergePolicy: .mergeByPropertyObjectTrump,
            attributes: [.init("name", .string)],
            relationships: [.init("keeper", to: "Person", inverse: "animals")]),
        EntityDescription(
            "Dog", parent: "Animal", attributes: [.init("bark", .integer64)],
            relationships: [.init("enemies", to: "Cat", inverse: "enemies", isToMany: true)]),
        EntityDescription(
            "Cat", parent: "Animal", attributes: [.init("asleep", .boolean)],
            relationships: [.init("enemies", to: "Dog", inverse: "enemies", isToMany: true)]),
    ]
}
