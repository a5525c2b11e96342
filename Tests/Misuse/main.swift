// A program whose author errs in the way that its argument names. Tests/Misuse/check runs it in release
// mode and reads what it prints.

import Coordinator
import Glibc
import Merge

let model = try ManagedObjectModel(entities: [
    EntityDescription(
        "Note",
        attributes: [
            AttributeDescription("title", .string),
            AttributeDescription("search", .string, derivation: .canonical("title")),
        ],
        relationships: [RelationshipDescription("folder", to: "Folder", inverse: "notes")]),
    EntityDescription(
        "Folder",
        relationships: [
            RelationshipDescription("notes", to: "Note", inverse: "folder", isToMany: true)
        ]),
])

guard CommandLine.arguments.count == 3, let node = NodeID(1) else {
    print("usage: tributary-misuse KIND DIRECTORY")
    exit(2)
}

let coordinator = try PersistentStoreCoordinator(
    storeAt: "\(CommandLine.arguments[2])/store.sqlite", model: model, cluster: "misuse", node: node
)
let context = ManagedObjectContext(coordinator)
let note = context.performAndWait { context.insert("Note") }

switch CommandLine.arguments[1] {
case "entity": _ = context.performAndWait { context.insert("Nota") }
case "key": context.performAndWait { note["titel"] = "x" }
case "type":
    context.performAndWait {
        note["title"] = "x"
        let number: Int? = note["title"]
        print(number as Any)
    }
case "relationship":
    context.performAndWait { note.setRelatedObject(note, forKey: "folder") }
case "derived": context.performAndWait { note["search"] = "x" }
case "queue": note["title"] = "x"
case "generation":
    let child = ManagedObjectContext(parent: context)
    child.performAndWait { child.setQueryGeneration(from: .current) }
case "option":
    let child = ManagedObjectContext(parent: context)
    try child.performAndWait { _ = try child.save(SaveOptions(saveID: "x")) }
case "foreign":
    let other = ManagedObjectContext(coordinator)
    let id = context.performAndWait { note.objectID }
    _ = other.performAndWait { other.object(with: id) }
case "group": context.performAndWait { UndoManager().endUndoGrouping() }
default: exit(2)
}
