import Coordinator
import Merge
import Testing

/// CONFORMANCE.md, relationships in memory and delete rules (CD-107 to CD-110).
@Suite struct RelationshipConformanceTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    private func person(_ name: String) -> ManagedObject {
        context.insert("Person", ["name": name])
    }

    @Test("CD-107: setting a to-one changes the old and the new owner's to-many at once")
    func toOneToMany() throws {
        try context.performAndWait {
            let (ada, bob) = (person("Ada"), person("Bob"))
            let item = context.insert("Item")
            item.setRelatedObject(ada, forKey: "owner")
            try context.save()
            #expect(ada.relatedObjects(forKey: "items") == [item])
            item.setRelatedObject(bob, forKey: "owner")
            #expect(ada.relatedObjects(forKey: "items") == [])
            #expect(bob.relatedObjects(forKey: "items") == [item])
            ada.add(item, toRelationship: "items")
            #expect(item.relatedObject(forKey: "owner") === ada)
            #expect(bob.relatedObjects(forKey: "items") == [])
            ada.remove(item, fromRelationship: "items")
            #expect(item.relatedObject(forKey: "owner") == nil)
            #expect(ada.relatedObjects(forKey: "items") == [])
        }
    }

    @Test("CD-107: a to-many that is first read after the change shows it too")
    func unreadToMany() throws {
        let ada = try store.insert("Person", ["name": "Ada"])
        let items = try ["a", "b"].map { try store.insert("Item", ["p": $0]) }
        try context.performAndWait {
            for item in items {
                try context.existingObject(with: item)
                    .setRelatedObject(context.object(with: ada), forKey: "owner")
            }
            #expect(
                context.object(with: ada).relatedObjects(forKey: "items").map(\.objectID)
                    == items.sorted())
            context.rollback()
            #expect(context.object(with: ada).relatedObjects(forKey: "items").isEmpty)
        }
    }

    @Test("CD-107: the sides of a one-to-one follow each other, and the former partners let go")
    func oneToOne() throws {
        try context.performAndWait {
            let (ada, bob) = (person("Ada"), person("Bob"))
            let (one, two) = (context.insert("Passport"), context.insert("Passport"))
            ada.setRelatedObject(one, forKey: "passport")
            two.setRelatedObject(bob, forKey: "holder")
            #expect(one.relatedObject(forKey: "holder") === ada)
            #expect(bob.relatedObject(forKey: "passport") === two)
            try context.save()
            bob.setRelatedObject(one, forKey: "passport")
            #expect(one.relatedObject(forKey: "holder") === bob)
            #expect(ada.relatedObject(forKey: "passport") == nil)
            #expect(two.relatedObject(forKey: "holder") == nil)
            try context.save()
            let fresh = store.context()
            try fresh.performAndWait {
                let stored = try fresh.existingObject(with: bob.objectID)
                #expect(stored.relatedObject(forKey: "passport")?.objectID == one.objectID)
                let former = try fresh.existingObject(with: ada.objectID)
                #expect(former.relatedObject(forKey: "passport") == nil)
                let left = try fresh.existingObject(with: two.objectID)
                #expect(left.relatedObject(forKey: "holder") == nil)
            }
        }
    }

    @Test("CD-107: both sides of a many-to-many show a link, and its end, at once")
    func manyToMany() throws {
        try context.performAndWait {
            let item = context.insert("Item")
            let tags = [context.insert("Tag"), context.insert("Tag")]
            item.setRelatedObjects(tags, forKey: "tags")
            #expect(tags.allSatisfy { $0.relatedObjects(forKey: "items") == [item] })
            try context.save()
            tags[0].remove(item, fromRelationship: "items")
            #expect(item.relatedObjects(forKey: "tags") == [tags[1]])
            #expect(item.hasPersistentChangedValues)
            try context.save()
            #expect(try store.storedMembers(item.objectID, "tags") == [tags[1].objectID])
            #expect(try store.storedMembers(tags[0].objectID, "items").isEmpty)
        }
    }

    @Test("A save that only makes a link leaves both objects good for the next save")
    func savingAfterLinking() throws {
        try context.performAndWait {
            let item = context.insert("Item")
            let tag = context.insert("Tag")
            try context.save()
            item.add(tag, toRelationship: "tags")
            try context.save()
            item["p"] = "afterwards"
            tag["name"] = "afterwards"
            try context.save()
            #expect(try store.stored(item.objectID, "p") == "afterwards")
        }
    }

    @Test("CD-108: deletes propagate at the end of the event, or at the save where told so")
    func propagation() throws {
        let ada = try store.insert("Person", ["name": "Ada"])
        let book = try store.insert("Book", ["title": "One"])
        try context.performAndWait {
            try context.existingObject(with: book)
                .setRelatedObject(context.object(with: ada), forKey: "author")
            try context.save()
        }
        for atEnd in [true, false] {
            let context = store.context()
            context.propagatesDeletesAtEndOfEvent = atEnd
            let object = try context.performAndWait {
                let object = try context.existingObject(with: book)
                context.delete(try context.existingObject(with: ada))
                #expect(!object.isDeleted)
                return object
            }
            #expect(context.performAndWait { object.isDeleted } == atEnd)
            if atEnd { continue }
            try context.performAndWait { try context.save() }
            #expect(try !store.isStored(book))
        }
    }

    @Test("CD-109: nullify clears the inverses in memory and in the store")
    func nullify() throws {
        try context.performAndWait {
            let ada = person("Ada")
            let (item, tag) = (context.insert("Item"), context.insert("Tag"))
            item.setRelatedObject(ada, forKey: "owner")
            item.add(tag, toRelationship: "tags")
            try context.save()
            context.delete(ada)
            context.delete(tag)
            context.processPendingChanges()
            #expect(item.relatedObject(forKey: "owner") == nil)
            #expect(item.relatedObjects(forKey: "tags").isEmpty)
            try context.save()
            #expect(!context.hasChanges)
            #expect(item.relatedObject(forKey: "owner") == nil)
            // The object is good for another save: it did not fall behind the store.
            item["p"] = "afterwards"
            try context.save()
            #expect(try store.stored(item.objectID, "p") == "afterwards")
            #expect(try store.storedMembers(item.objectID, "tags").isEmpty)
        }
    }

    @Test("CD-109: cascade deletes what hangs on it, through a cycle, in memory and in the store")
    func cascade() throws {
        try context.performAndWait {
            let ada = person("Ada")
            let books = (0..<3).map { _ in context.insert("Book") }
            books[0].setRelatedObject(ada, forKey: "author")
            for index in 0..<3 {
                books[index].setRelatedObject(books[(index + 1) % 3], forKey: "sequel")
            }
            try context.save()
            let ids = books.map(\.objectID)
            context.delete(ada)
            context.processPendingChanges()
            #expect(books.allSatisfy { $0.isDeleted })
            try context.save()
            for id in ids { #expect(try !store.isStored(id)) }
            #expect(books.allSatisfy { $0.managedObjectContext == nil })
        }
    }

    @Test("CD-109: deny fails the save with 1600, until what stands in the way is deleted too")
    func deny() throws {
        try context.performAndWait {
            let ada = person("Ada")
            let debt = context.insert("Debt")
            debt.setRelatedObject(ada, forKey: "debtor")
            try context.save()
            context.delete(ada)
            let error = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(error?.code.number == 1600)
            #expect(try store.isStored(ada.objectID))
            #expect(ada.isDeleted)
            context.delete(debt)
            try context.save()
            #expect(try !store.isStored(debt.objectID))
        }
    }

    @Test("CD-110: nullify into a mandatory inverse fails validation at the save")
    func mandatoryInverse() throws {
        try context.performAndWait {
            let ada = person("Ada")
            let pet = context.insert("Pet")
            pet.setRelatedObject(ada, forKey: "keeper")
            try context.save()
            context.delete(ada)
            let error = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(error?.code == .validationFailed)
            #expect(error?.failures.map(\.property) == ["keeper"])
            context.rollback()
            #expect(pet.relatedObject(forKey: "keeper") === ada)
        }
    }

    @Test("Deleting an insert that was never saved leaves nothing, and unlinks it")
    func deletedInsert() throws {
        try context.performAndWait {
            let ada = person("Ada")
            try context.save()
            let item = context.insert("Item")
            item.setRelatedObject(ada, forKey: "owner")
            context.delete(item)
            #expect(ada.relatedObjects(forKey: "items").isEmpty)
            context.processPendingChanges()
            #expect(context.insertedObjects.isEmpty)
            #expect(context.deletedObjects.isEmpty)
            #expect(item.managedObjectContext == nil)
            try context.save()
            #expect(try store.storedMembers(ada.objectID, "items").isEmpty)
        }
    }
}
