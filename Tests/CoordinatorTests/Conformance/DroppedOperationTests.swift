import Coordinator
import Merge
import Testing

/// What is left of a save where the policy dropped an operation of it.
@Suite("Operations that a policy drops")
struct DroppedOperationTests {
    private let store: TestStore
    private let context: ManagedObjectContext
    private let other: ManagedObjectContext

    init() throws {
        store = try TestStore()
        context = store.context(.rollback)
        other = store.context()
    }

    private func save(
        _ context: ManagedObjectContext, _ body: () throws -> Void
    ) throws {
        try context.performAndWait {
            try body()
            try context.save()
        }
    }

    @Test("Another operation on the same object keeps its changes of to-manys")
    func relationshipsOfAnother() throws {
        let item = try store.insert("Item", ["p": "1"])
        let tag = try store.insert("Tag")
        let entity = try #require(store.coordinator.model.entity(named: "Item"))
        let first = try store.coordinator.read { try $0.row(entity, item.row) }?.version
        try save(other) { try other.existingObject(with: item)["p"] = "2" }
        let (p, q) = (entity.position(of: "p") ?? 0, entity.position(of: "q") ?? 0)
        let result = try store.coordinator.save(
            SaveRequest(
                operations: [
                    SaveOperation(
                        kind: .update, entity: entity, row: item.row,
                        values: [(p, .string("stale"))], version: first),
                    SaveOperation(
                        kind: .update, entity: entity, row: item.row,
                        values: [(q, .string("new"))],
                        relationships: [.init(name: "tags", kind: .add, members: [tag.row])]),
                ], mergePolicy: .rollback))
        #expect(result.conflicts.count == 1)
        try other.performAndWait {
            other.refreshAllObjects()
            let found = try other.existingObject(with: item)
            #expect(found["p"] == "2" && found["q"] == "new")
            #expect(found.relatedObjects(forKey: "tags").map(\.objectID) == [tag])
        }
    }

    @Test("The object that it would have belonged to does not show it", arguments: [true, false])
    func members(isDeleted: Bool) throws {
        let (person, book) = (try store.insert("Person", ["name": "P"]), try store.insert("Book"))
        let (item, tag) = (try store.insert("Item", ["p": "1"]), try store.insert("Tag"))
        var objects: [ManagedObjectID: ManagedObject] = [:]
        try context.performAndWait {
            for id in [person, book, item, tag] {
                objects[id] = try context.existingObject(with: id)
            }
            #expect(objects[person]?.relatedObjects(forKey: "books") == [])
            #expect(objects[item]?.relatedObjects(forKey: "tags") == [])
            #expect(objects[tag]?.relatedObjects(forKey: "items") == [])
        }
        try save(other) {
            if isDeleted {
                other.delete(try other.existingObject(with: book))
            } else {
                // There and back, so that it only has another version.
                try other.existingObject(with: item)["p"] = "2"
            }
        }
        if !isDeleted { try save(other) { try other.existingObject(with: item)["p"] = "1" } }
        try save(context) {
            if isDeleted {
                objects[book]?.setRelatedObject(objects[person], forKey: "author")
            } else {
                try #require(objects[item]).add(#require(objects[tag]), toRelationship: "tags")
            }
        }
        try context.performAndWait {
            #expect(objects[person]?.relatedObjects(forKey: "books") == [])
            let isLinked = try other.performAndWait {
                other.refreshAllObjects()
                return try !other.existingObject(with: item).relatedObjects(forKey: "tags").isEmpty
            }
            #expect(objects[item]?.relatedObjects(forKey: "tags").isEmpty == !isLinked)
            #expect(objects[tag]?.relatedObjects(forKey: "items").isEmpty == !isLinked)
        }
    }
}
