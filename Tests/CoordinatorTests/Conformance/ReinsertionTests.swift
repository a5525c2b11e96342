import Coordinator
import Merge
import Synchronization
import Testing

/// As in Core Data, an object whose delete is not saved is taken back by inserting it.
@Suite("Inserting what is deleted and not saved takes the delete back")
struct ReinsertionTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    @Test("An object of the store is as it was before its delete", arguments: [true, false])
    func saved(isChanged: Bool) throws {
        let item = try context.existing(try store.insert("Item", ["p": "a"]))
        try context.performAndWait {
            if isChanged { item["p"] = "b" }
            context.delete(item)
            context.insert(item)
            #expect(!item.isDeleted && !item.isInserted && item.isUpdated == isChanged)
            #expect(context.hasChanges == isChanged)
            #expect(item["p"] == (isChanged ? "b" : "a"))
            try context.save()
            #expect(try store.stored(item.objectID, "p") == (isChanged ? "b" : "a"))
        }
    }

    @Test("An insert is the same object, with its values")
    func inserted() throws {
        try context.performAndWait {
            let item = context.insert("Item")
            let id = item.objectID
            item["p"] = "a"
            context.delete(item)
            context.insert(item)
            #expect(item.objectID == id && item.isInserted)
            try context.save()
            #expect(try store.stored(item.objectID, "p") == "a")
        }
    }

    @Test("Nothing is taken along where the rules were not carried out yet, nor is it later")
    func rulesInEvent() throws {
        try context.performAndWait {
            let (ada, book, item) = (
                context.insert("Person"), context.insert("Book"), context.insert("Item")
            )
            ada["name"] = "Ada"
            book.setRelatedObject(ada, forKey: "author")
            item.setRelatedObject(ada, forKey: "owner")
            try context.save()
            context.delete(ada)
            context.insert(ada)
            try context.save()
            #expect(book.relatedObject(forKey: "author") === ada)
            #expect(item.relatedObject(forKey: "owner") === ada)
            // It can be deleted again.
            context.delete(ada)
            context.insert(ada)
            context.delete(ada)
            try context.save()
            #expect(try !store.isStored(ada.objectID))
            #expect(try !store.isStored(book.objectID))
        }
    }

    @Test("What rules did in an event before stays done, and is saved")
    func rulesBefore() throws {
        try context.performAndWait {
            let (ada, item, tag) = (
                context.insert("Person"), context.insert("Item"), context.insert("Tag")
            )
            ada["name"] = "Ada"
            item.setRelatedObject(ada, forKey: "owner")
            item.add(tag, toRelationship: "tags")
            try context.save()
            context.delete(ada)
            context.delete(tag)
            context.processPendingChanges()
            context.insert(ada)
            context.insert(tag)
            #expect(item.relatedObject(forKey: "owner") == nil)
            #expect(item.relatedObjects(forKey: "tags").isEmpty)
            try context.save()
            #expect(try store.isStored(ada.objectID))
            #expect(try store.storedMembers(item.objectID, "tags").isEmpty)
            #expect(try store.storedReference(item.objectID, "owner") == .null)
        }
    }

    @Test("Observers hear of it where they heard of the delete")
    func told() throws {
        let item = try context.existing(try store.insert("Item", ["p": "a"]))
        let told = Mutex<[[Int]]>([])
        context.observeObjectsDidChange { changes in
            told.withLock {
                $0.append([changes.inserted, changes.updated, changes.deleted].map(\.count))
            }
        }
        context.performAndWait {
            context.delete(item)
            context.insert(item)
        }
        #expect(told.withLock { $0 } == [])
        context.performAndWait { context.delete(item) }
        context.performAndWait { context.insert(item) }
        #expect(told.withLock { $0 } == [[0, 0, 1], [1, 0, 0]])
    }

    @Test("What is found deleted elsewhere is gone, and inserting it does nothing")
    func gone() throws {
        let id = try store.insert("Item", ["p": "a"])
        let item = try context.existing(id)
        try context.performAndWait {
            context.delete(item)
            try store.delete(id)
            context.mergeChanges(fromContextDidSave: ContextDidSave(deleted: [id]))
            context.insert(item)
            #expect(item.isDeleted && !context.hasChanges)
            try context.save()
        }
    }
}
