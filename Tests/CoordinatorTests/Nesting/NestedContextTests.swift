import Coordinator
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, contexts with a parent: what a child sees, and what its save does.
@Suite struct NestedContextTests {
    let store: TestStore
    let root: ManagedObjectContext
    let child: ManagedObjectContext

    init() throws {
        (store, root) = try TestStore.withContext()
        child = ManagedObjectContext(parent: root)
    }

    private func names(
        _ context: ManagedObjectContext, _ entity: String = "Item", _ key: String = "p"
    ) throws -> [String] {
        try context.performAndWait {
            try context.fetch(try store.request(entity)).compactMap { $0[key] as String? }.sorted()
        }
    }

    // MARK: Reading

    @Test("CD-83: a child fetches the store with its parent's changes and its own laid over")
    func overlays() throws {
        let stored = try store.insert("Item", ["p": "stored"])
        let changed = try store.insert("Item", ["p": "to change"])
        let gone = try store.insert("Item", ["p": "to delete"])
        try root.performAndWait {
            root.insert("Item", ["p": "parent's"])
            try root.existingObject(with: changed)["p"] = "changed"
            root.delete(try root.existingObject(with: gone))
        }
        #expect(try names(child) == ["changed", "parent's", "stored"])
        try child.performAndWait {
            child.insert("Item", ["p": "child's"])
            try child.existingObject(with: stored)["p"] = "changed by the child"
            child.delete(try child.existingObject(with: changed))
            #expect(try child.count(for: try store.request("Item")) == 3)
            #expect(throws: CoordinatorError.self) { try child.existingObject(with: gone) }
        }
        #expect(try names(child) == ["changed by the child", "child's", "parent's"])
        #expect(try names(root) == ["changed", "parent's", "stored"])
    }

    @Test("CD-83: pages and orders are those of what the child sees, at any depth")
    func pages() throws {
        for number in 0..<6 { try store.insert("Item", ["p": "s\(number)"]) }
        let grandchild = ManagedObjectContext(parent: child)
        try root.performAndWait {
            let items = try root.fetch(try store.request("Item"))
            for item in items where item["p"] == "s1" { item["p"] = "z" }
            root.insert("Item", ["p": "s25"])
        }
        try child.performAndWait {
            for item in try child.fetch(try store.request("Item")) where item["p"] == "s3" {
                child.delete(item)
            }
        }
        try grandchild.performAndWait {
            grandchild.insert("Item", ["p": "s05"])
            var request = try store.request("Item")
            request.sortDescriptors = [SortDescriptor("p")]
            #expect(
                try grandchild.fetch(request).map { $0["p"] as String? }
                    == ["s0", "s05", "s2", "s25", "s4", "s5", "z"])
            request.fetchOffset = 2
            request.fetchLimit = 3
            #expect(
                try grandchild.fetch(request).map { $0["p"] as String? } == ["s2", "s25", "s4"])
            request.predicate = try Predicate(format: "p BEGINSWITH 's2'")
            request.fetchOffset = 0
            #expect(try grandchild.fetchObjectIDs(request).count == 2)
            #expect(try grandchild.count(for: request) == 2)
        }
    }

    @Test("Members of relationships are those that the parent shows, with the child's own changes")
    func members() throws {
        let person = try store.insert("Person", ["name": "p"])
        let tag = try store.insert("Tag", ["name": "t"])
        root.performAndWait {
            let item = root.insert("Item", ["p": "parent's"])
            item.setRelatedObject(root.object(with: person), forKey: "owner")
            item.add(root.object(with: tag), toRelationship: "tags")
        }
        child.performAndWait {
            let owner = child.object(with: person)
            let items: [ManagedObject] = owner.relatedObjects(forKey: "items")
            #expect(items.map { $0["p"] as String? } == ["parent's"])
            #expect(items.first?.relatedObject(forKey: "owner") === owner)
            let tagged: [ManagedObject] = child.object(with: tag).relatedObjects(forKey: "items")
            #expect(tagged == items)
            let own = child.insert("Item", ["p": "child's"])
            owner.add(own, toRelationship: "items")
            #expect(owner.relatedObjects(forKey: "items", as: ManagedObject.self).count == 2)
        }
        root.performAndWait {
            let items: [ManagedObject] = root.object(with: person).relatedObjects(forKey: "items")
            #expect(items.count == 1)
        }
    }

    @Test(
        "A child knows what its parent has inserted by a permanent ID, and finds it by the old one")
    func identities() throws {
        let (item, temporary) = root.performAndWait {
            let item = root.insert("Item", ["p": "new"])
            return (item, item.objectID)
        }
        #expect(temporary.isTemporaryID)
        let seen = child.performAndWait { child.object(with: temporary).objectID }
        #expect(!seen.isTemporaryID)
        try root.performAndWait {
            #expect(item.objectID == seen)
            #expect(item.isInserted)
            #expect(root.registeredObject(for: seen) === item)
            try root.save()
            #expect(item.objectID == seen)
        }
        #expect(try store.stored(seen, "p") == "new")
    }

    @Test("CD-57: a child has no generation of its own and reads by its parent's pin")
    func generations() throws {
        let id = try store.insert("Item", ["p": "old"])
        try root.performAndWait { () throws in
            root.setQueryGeneration(from: .current)
            #expect(try root.count(for: try store.request("Item")) == 1)
        }
        try store.update(id, "p", "new")
        try store.insert("Item", ["p": "later"])
        try child.performAndWait { () throws in
            #expect(
                try child.fetch(try store.request("Item")).map { $0["p"] as String? } == ["old"])
            #expect(child.queryGenerationToken == nil)
            #expect(try child.fetchDictionaries(try store.request("Item")).count == 1)
        }
    }

    @Test("A fault of the child has what the parent shows when it is fired, and keeps it")
    func faults() throws {
        let id = try store.insert("Item", ["p": "stored"])
        let object = child.performAndWait { child.object(with: id) }
        try root.performAndWait { try root.existingObject(with: id)["p"] = "parent's" }
        child.performAndWait { #expect(object["p"] == "parent's") }
        try root.performAndWait { try root.existingObject(with: id)["p"] = "later" }
        child.performAndWait {
            #expect(object["p"] == "parent's")
            child.refresh(object, mergeChanges: true)
            #expect(object["p"] == "later")
        }
    }

    @Test("Prefetching, batches and lists work through a parent")
    func reading() throws {
        let person = try store.insert("Person", ["name": "p"])
        root.performAndWait {
            for number in 0..<7 {
                let item = root.insert("Item", ["p": "\(number)"])
                item.setRelatedObject(root.object(with: person), forKey: "owner")
            }
        }
        try child.performAndWait {
            var request = try store.request("Person")
            request.relationshipKeyPathsForPrefetching = ["items"]
            let people = try child.fetch(request)
            #expect(
                people.first?.relatedObjects(forKey: "items", as: ManagedObject.self).count == 7)
            var items = try store.request("Item")
            items.sortDescriptors = [SortDescriptor("p")]
            let list: FetchResultsCollection<ManagedObject> = try child.fetch(items, batchSize: 3)
            #expect(list.map { $0["p"] as String? } == (0..<7).map { "\($0)" })
            items.returnsObjectsAsFaults = false
            #expect(try child.fetch(items).allSatisfy { $0["p"] as String? != nil })
        }
    }

    @Test("An asynchronous fetch of a child gives what its parent shows")
    func asynchronous() async throws {
        root.performAndWait { _ = root.insert("Item", ["p": "parent's"]) }
        let names = try await child.fetch(try store.request("Item")) {
            $0.map { $0["p"] as String? }
        }
        #expect(names == ["parent's"])
    }

    @Test("A child has its parent's classes, and may have others")
    func classes() throws {
        final class Thing: ManagedObject {}
        final class Other: ManagedObject {}
        root.performAndWait { root.register(Thing.self, for: "Item") }
        let other = ManagedObjectContext(parent: child, classes: ["Item": Other.self])
        child.performAndWait {
            #expect(child.insert("Item") is Thing)
            #expect(!(child.insert("Tag") is Thing))
        }
        other.performAndWait { #expect(other.insert("Item") is Other) }
    }

    // MARK: Saving

    @Test("CD-82: a child's save changes the parent's memory alone; the root's save writes")
    func pushes() throws {
        let changed = try store.insert("Item", ["p": "before"])
        let gone = try store.insert("Item", ["p": "gone"])
        let token = try store.coordinator.currentToken
        let inserted = try child.performAndWait {
            let item = child.insert("Item", ["p": "new"])
            try child.existingObject(with: changed)["p"] = "after"
            child.delete(try child.existingObject(with: gone))
            try child.save()
            #expect(!child.hasChanges)
            #expect(!item.objectID.isTemporaryID)
            #expect(item.objectID.row != RowID(0))
            return item.objectID
        }
        #expect(try store.stored(changed, "p") == "before")
        #expect(try !store.isStored(inserted))
        #expect(
            try store.coordinator.currentToken.versionVector == token.versionVector)
        try root.performAndWait {
            #expect(root.insertedObjects.map(\.objectID) == [inserted])
            #expect(root.updatedObjects.map(\.objectID) == [changed])
            #expect(root.deletedObjects.map(\.objectID) == [gone])
            try root.save()
        }
        #expect(try store.stored(inserted, "p") == "new")
        #expect(try store.stored(changed, "p") == "after")
        #expect(try !store.isStored(gone))
    }

    @Test("CD-33: a child's save raises no conflict and replaces the parent's pending values")
    func replaces() throws {
        let id = try store.insert("Item", ["p": "p0", "q": "q0"])
        let object = try child.performAndWait {
            let object = try child.existingObject(with: id)
            object["p"] = "child's"
            return object
        }
        try root.performAndWait {
            let object = try root.existingObject(with: id)
            object["p"] = "parent's"
            object["q"] = "parent's"
        }
        try child.performAndWait {
            try child.save()
            #expect(object["q"] == "parent's")
        }
        try root.performAndWait {
            let object = try root.existingObject(with: id)
            #expect(object["p"] == "child's")
            #expect(object["q"] == "parent's")
            try root.save()
        }
        #expect(try store.stored(id, "p") == "child's")
    }

    @Test("CD-33: where others have saved, the conflict comes with the root's save")
    func conflictsAtRoot() throws {
        let id = try store.insert("Item", ["p": "p0"])
        try child.performAndWait {
            try child.existingObject(with: id)["p"] = "child's"
            try store.update(id, "p", "other")
            try child.save()
        }
        let error = root.performAndWait {
            #expect(throws: CoordinatorError.self) { try root.save() }
        }
        #expect(error?.code == .mergeConflict)
    }

    @Test("Relationships between objects of both contexts reach the store")
    func relationships() throws {
        let (person, tag) = try root.performAndWait {
            let person = root.insert("Person", ["name": "parent's"])
            let tag = root.insert("Tag", ["name": "parent's"])
            try root.obtainPermanentIDs(for: [person, tag])
            return (person.objectID, tag.objectID)
        }
        let (item, book) = try child.performAndWait {
            let item = child.insert("Item", ["p": "child's"])
            item.setRelatedObject(child.object(with: person), forKey: "owner")
            item.add(child.object(with: tag), toRelationship: "tags")
            let book = child.insert("Book", ["title": "child's"])
            let sequel = child.insert("Book", ["title": "sequel"])
            book.setRelatedObject(sequel, forKey: "sequel")
            child.object(with: person).add(book, toRelationship: "books")
            try child.save()
            return (item.objectID, book.objectID)
        }
        try root.performAndWait { try root.save() }
        #expect(try store.storedMembers(person, "items") == [item])
        #expect(try store.storedMembers(tag, "items") == [item])
        #expect(try store.storedMembers(person, "books") == [book])
        #expect(try store.storedReference(book, "sequel") != .null)
    }

    @Test("What the parent has deleted stays deleted, and the child hears of it at its save")
    func deletedInParent() throws {
        let id = try store.insert("Item", ["p": "p0"])
        let person = try store.insert("Person", ["name": "p"])
        let (object, item) = try child.performAndWait {
            let object = try child.existingObject(with: id)
            object["p"] = "child's"
            let item = child.insert("Item", ["p": "of a person"])
            item.setRelatedObject(try child.existingObject(with: person), forKey: "owner")
            return (object, item)
        }
        try root.performAndWait {
            root.delete(try root.existingObject(with: id))
            root.delete(try root.existingObject(with: person))
        }
        try child.performAndWait {
            try child.save()
            #expect(object.managedObjectContext == nil)
            #expect(item.relatedObject(forKey: "owner", as: ManagedObject.self) == nil)
        }
        try root.performAndWait { try root.save() }
        #expect(try !store.isStored(id))
        #expect(try store.storedReference(item.objectIDOnQueue(child), "owner") == .null)
    }

    @Test(
        "A child that keeps its object saves again and again without a conflict", arguments: [0, 1])
    func savesAgain(stored: Int) throws {
        let id = stored == 1 ? try store.insert("Item", ["p": "0"]) : nil
        let object = try child.performAndWait {
            try id.map { try child.existingObject(with: $0) } ?? child.insert("Item", ["p": "0"])
        }
        for number in 1...3 {
            try child.performAndWait {
                object["p"] = "\(number)"
                try child.save()
            }
            try root.performAndWait { try root.save() }
        }
        let saved = child.performAndWait { object.objectID }
        #expect(try store.stored(saved, "p") == "3")
        // The root's own save is none of others either.
        try root.performAndWait {
            try root.existingObject(with: saved)["q"] = "root's"
            try root.save()
        }
        try child.performAndWait {
            object["p"] = "4"
            try child.save()
        }
        try root.performAndWait { try root.save() }
        #expect(try store.stored(saved, "p") == "4")
        #expect(try store.stored(saved, "q") == "root's")
    }

    @Test("What the parent rolls back under a child's edit does not come back with it")
    func rolledBack() throws {
        let id = try store.insert("Item", ["p": "0"])
        try root.performAndWait { try root.existingObject(with: id)["p"] = "unsaved" }
        let object = try child.performAndWait { try child.existingObject(with: id) }
        root.performAndWait { root.rollback() }
        try child.performAndWait {
            object["q"] = "child's"
            try child.save()
        }
        try root.performAndWait {
            let object = try root.existingObject(with: id)
            #expect(object["p"] == "0")
            #expect(object.committedValues()["p"] == .string("0"))
            try root.save()
        }
        #expect(try store.stored(id, "p") == "0")
        #expect(try store.stored(id, "q") == "child's")
    }

    @Test("What the parent has dropped, or deleted and saved, is deleted in the child too")
    func droppedInParent() throws {
        let stored = try store.insert("Item", ["p": "0"])
        let new = root.performAndWait { root.insert("Item", ["p": "new"]) }
        let newID = root.performAndWait { new.objectID }
        let (first, second) = try child.performAndWait {
            let found = (
                child.object(with: newID), try child.existingObject(with: stored)
            )
            found.0["q"] = "child's"
            found.1["q"] = "child's"
            return found
        }
        try root.performAndWait {
            root.delete(new)
            root.delete(try root.existingObject(with: stored))
            try root.save()
        }
        try child.performAndWait {
            try child.save()
            #expect(first.managedObjectContext == nil)
            #expect(second.managedObjectContext == nil)
        }
        try root.performAndWait {
            #expect(!root.hasChanges)
            try root.save()
        }
        #expect(try !store.isStored(stored))
    }

    @Test("A parent that had a fault of an object uses it when the child saves the object")
    func oneInstance() throws {
        let id = try child.performAndWait {
            let item = child.insert("Item", ["p": "child's"])
            try child.obtainPermanentIDs(for: [item])
            return item.objectID
        }
        let early = root.performAndWait { root.object(with: id) }
        try child.performAndWait { try child.save() }
        root.performAndWait {
            #expect(root.object(with: id) === early)
            #expect(early["p"] == "child's")
        }
    }

    @Test("A temporary ID finds its object until it is saved, whoever gave the permanent one")
    func formerIDs() throws {
        let (item, temporary) = root.performAndWait {
            let item = root.insert("Item", ["p": "new"])
            return (item, item.objectID)
        }
        _ = try names(child)
        try root.performAndWait { () throws in
            #expect(root.object(with: temporary) === item)
            #expect(try root.existingObject(with: temporary) === item)
            #expect(root.registeredObject(for: temporary) === item)
        }
        child.performAndWait { #expect(child.object(with: temporary)["p"] == "new") }
        root.performAndWait {
            root.delete(item)
            root.insert(item)
        }
        #expect(try names(child) == ["new"])
    }

    @Test("Delete rules are carried out in the parent too, on what the child has not seen")
    func cascades() throws {
        let person = try store.insert("Person", ["name": "p"])
        try child.performAndWait { _ = try child.existingObject(with: person) }
        let book = root.performAndWait {
            let book = root.insert("Book", ["title": "t"])
            root.object(with: person).add(book, toRelationship: "books")
            return book
        }
        try child.performAndWait {
            child.delete(child.object(with: person))
            try child.save()
        }
        try root.performAndWait {
            #expect(book.managedObjectContext == nil)
            #expect(root.insertedObjects.isEmpty)
            try root.save()
        }
        #expect(try !store.isStored(person))
    }

    @Test("A dropped child leaves nothing behind, and takes nothing of the parent along")
    func dropped() throws {
        weak var gone: ManagedObjectContext?
        do {
            let scratch = ManagedObjectContext(parent: root)
            scratch.performAndWait { _ = scratch.insert("Item", ["p": "dropped"]) }
            gone = scratch
        }
        #expect(gone == nil)
        root.performAndWait { #expect(!root.hasChanges) }
    }

    @Test("Saves through four levels, started from outside one after the other, lose nothing")
    func asynchronousSaves() async throws {
        let middle = ManagedObjectContext(parent: child)
        let inner = ManagedObjectContext(parent: middle)
        @Sendable func saveLater(_ context: ManagedObjectContext) {
            let save: @Sendable () -> Void = {
                do { try context.save() } catch { Issue.record("\(error)") }
            }
            context.perform(save)
        }
        func insertLater(_ number: Int) {
            inner.perform { _ = inner.insert("Item", ["p": "\(number)"]) }
        }
        for number in 0..<20 {
            insertLater(number)
            for context in [inner, middle, child, root] { saveLater(context) }
        }
        for context in [inner, middle, child, root] {
            try await context.perform { try context.save() }
        }
        #expect(try names(store.context()).count == 20)
    }

    @Test("A parent may wait for its child inside its own block")
    func fromWithin() throws {
        try root.performAndWait {
            let item = root.insert("Item", ["p": "parent's"])
            try child.performAndWait {
                #expect(try child.fetch(try store.request("Item")).count == 1)
                child.insert("Item", ["p": "child's"])
                try child.save()
            }
            #expect(root.insertedObjects.count == 2)
            #expect(!item.objectID.isTemporaryID)
        }
    }

    @Test("CD-103: an object that a child saves does not awake from insert in the parent")
    func awakening() throws {
        final class Counted: ManagedObject {
            override func awakeFromInsert() { self["q"] = (self["q"] as String? ?? "") + "x" }
        }
        root.performAndWait { root.register(Counted.self, for: "Item") }
        let id = try child.performAndWait {
            let item = child.insert("Item", ["p": "p"])
            try child.save()
            return item.objectID
        }
        try root.performAndWait { () throws in
            #expect(try root.existingObject(with: id)["q"] == "x")
        }
    }

    // MARK: Merging

    @Test("A child that merges by itself hears of its siblings' saves and of its parent's")
    func merging() async throws {
        let id = try store.insert("Item", ["p": "p0"])
        root.automaticallyMergesChangesFromParent = true
        child.automaticallyMergesChangesFromParent = true
        let sibling = ManagedObjectContext(parent: root)
        let object = try child.performAndWait { try child.existingObject(with: id) }
        try sibling.performAndWait {
            try sibling.existingObject(with: id)["p"] = "sibling's"
            try sibling.save()
        }
        await child.perform {}
        child.performAndWait { #expect(object["p"] == "sibling's") }
        try root.performAndWait {
            try root.existingObject(with: id)["p"] = "parent's"
            try root.save()
        }
        await child.perform {}
        child.performAndWait { #expect(object["p"] == "parent's") }
        try store.update(id, "p", "other")
        for _ in 0..<200 where child.performAndWait({ object["p"] as String? != "other" }) {
            try await Task.sleep(for: .milliseconds(10))
        }
        child.performAndWait { #expect(object["p"] == "other") }
    }

    @Test("A live query of a child follows its own changes, and keeps them when they are saved")
    func liveQueries() throws {
        final class Listener: FetchedResultsControllerDelegate {
            var changes = 0
            func controllerDidChangeContent<Object>(
                _ controller: FetchedResultsController<Object>
            ) { changes += 1 }
        }
        let request = try store.request("Item", sort: "p")
        try child.performAndWait {
            let listener = Listener()
            let controller = FetchedResultsController(
                fetchRequest: request, managedObjectContext: child)
            controller.delegate = listener
            try controller.performFetch()
            child.insert("Item", ["p": "1"])
            child.processPendingChanges()
            #expect(controller.fetchedObjects?.count == 1)
            try child.save()
            #expect(controller.fetchedObjects?.first?.objectID.isTemporaryID == false)
            #expect(listener.changes == 1)
        }
    }

    // MARK: Identities

    @Test("CD-100: an object that obtained a permanent ID stays inserted until it is saved")
    func obtaining() throws {
        try root.performAndWait {
            let person = root.insert("Person", ["name": "n"])
            let items = (0..<3).map { root.insert("Item", ["p": "\($0)"]) }
            let tag = root.insert("Tag", ["name": "t"])
            for item in items {
                person.add(item, toRelationship: "items")
                item.add(tag, toRelationship: "tags")
            }
            try root.obtainPermanentIDs(for: [person, items[0], tag])
            #expect(!person.objectID.isTemporaryID)
            #expect(items[1].objectID.isTemporaryID)
            #expect(person.isInserted)
            #expect(root.registeredObject(for: person.objectID) === person)
            #expect(items[1].relatedObject(forKey: "owner") === person)
            #expect(person.relatedObjects(forKey: "items", as: ManagedObject.self).count == 3)
            #expect(tag.relatedObjects(forKey: "items", as: ManagedObject.self).count == 3)
            let ids = [person.objectID, items[0].objectID, tag.objectID]
            try root.save()
            #expect([person.objectID, items[0].objectID, tag.objectID] == ids)
            #expect(!items[1].objectID.isTemporaryID)
        }
        let fresh = store.context()
        try fresh.performAndWait {
            let people = try fresh.fetch(try store.request("Person"))
            #expect(
                people.first?.relatedObjects(forKey: "items", as: ManagedObject.self).count == 3)
        }
    }

    @Test("Temporary IDs are unique in the process")
    func temporaries() {
        let other = store.context()
        let ids = [root, child, other].map { context in
            context.performAndWait { context.insert("Item").objectID }
        }
        #expect(Set(ids).count == 3)
    }
}

extension ManagedObject {
    fileprivate func objectIDOnQueue(_ context: ManagedObjectContext) -> ManagedObjectID {
        context.performAndWait { objectID }
    }
}
