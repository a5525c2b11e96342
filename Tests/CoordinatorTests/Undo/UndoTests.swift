import Coordinator
import Merge
import Synchronization
import TestSupport
import Testing

/// Undoing changes of a context, and doing them again.
@Suite struct UndoTests {
    let store: TestStore
    let context: ManagedObjectContext
    let manager = UndoManager()

    init() throws {
        (store, context) = try TestStore.withContext()
        let (context, manager) = (context, manager)
        context.performAndWait { context.undoManager = manager }
    }

    @Test(
        "CD-106: undo reverts the last event and redo restores it; without a manager neither does")
    func events() throws {
        let id = try store.insert("Item", ["p": "p0"])
        try context.performAndWait {
            let item = try context.existingObject(with: id)
            item["p"] = "p1"
            item["q"] = "q1"
            context.processPendingChanges()
            item["p"] = "p2"
            context.processPendingChanges()
            context.undo()
            #expect(item["p"] == "p1")
            context.undo()
            #expect(item["p"] == "p0")
            #expect(item["q"] as String? == nil)
            #expect(!item.hasPersistentChangedValues)
            context.undo()
            context.redo()
            #expect(item["p"] == "p1")
            context.redo()
            #expect(item["p"] == "p2")
            context.redo()
            context.undoManager = nil
            context.undo()
            #expect(item["p"] == "p2")
        }
    }

    @Test("CD-103: redo of an insert brings the same object back and does not awake it from insert")
    func inserts() throws {
        final class Counted: ManagedObject {
            var awakenings = 0
            override func awakeFromInsert() { awakenings += 1 }
        }
        try context.performAndWait {
            context.register(Counted.self, for: "Item")
            let item = context.insert(Counted.self)
            item["p"] = "p"
            context.undo()
            #expect(try context.fetch(FetchRequest("Item")).isEmpty)
            #expect(!context.hasChanges)
            context.redo()
            #expect(item.managedObjectContext === context)
            #expect(item["p"] == "p")
            #expect(item.awakenings == 1)
            try context.save()
        }
        #expect(try store.context().countItems() == 1)
    }

    @Test("An undone delete brings back what its rules took along and took out of relationships")
    func deletes() throws {
        let (author, book, item) = try context.performAndWait {
            let author = context.insert("Person", ["name": "author"])
            let book = context.insert("Book", ["title": "book"])
            author.add(book, toRelationship: "books")
            let item = context.insert("Item", ["p": "item"])
            item.setRelatedObject(author, forKey: "owner")
            let tag = context.insert("Tag", ["name": "tag"])
            item.add(tag, toRelationship: "tags")
            try context.save()
            return (author, book, item)
        }
        context.performAndWait {
            context.delete(author)
            context.delete(item)
            context.processPendingChanges()
            #expect(book.isDeleted)
            context.undo()
            #expect(!author.isDeleted && !book.isDeleted && !item.isDeleted)
            #expect(book.relatedObject(forKey: "author") === author)
            #expect(item.relatedObject(forKey: "owner") === author)
            #expect(item.relatedObjects(forKey: "tags", as: ManagedObject.self).count == 1)
            #expect(!item.hasPersistentChangedValues && !book.hasPersistentChangedValues)
            context.redo()
            #expect(author.isDeleted && book.isDeleted && item.isDeleted)
        }
    }

    @Test(
        "A save leaves what can be undone: a saved insert is deleted, a saved delete inserted again"
    )
    func acrossSaves() throws {
        let person = try context.performAndWait {
            let person = context.insert("Person", ["name": "p"])
            let item = context.insert("Item", ["p": "item"])
            item.setRelatedObject(person, forKey: "owner")
            try context.save()
            context.delete(person)
            try context.save()
            return person
        }
        #expect(try !store.isStored(person.idOnQueue(context)))
        try context.performAndWait {
            context.undo()
            #expect(person.isInserted)
            #expect(person["name"] == "p")
            let items: [ManagedObject] = person.relatedObjects(forKey: "items")
            #expect(items.count == 1)
            try context.save()
            context.undo()
            #expect(try context.fetch(FetchRequest("Item")).isEmpty)
            try context.save()
        }
        #expect(try store.context().countItems() == 0)
    }

    @Test("What others deleted stays deleted, and a change of it has nothing to undo")
    func deletedElsewhere() throws {
        let (first, second) = (
            try store.insert("Item", ["p": "1"]), try store.insert("Item", ["p": "2"])
        )
        try context.performAndWait {
            let one = try context.existingObject(with: first)
            let two = try context.existingObject(with: second)
            one["p"] = "changed"
            two["p"] = "changed"
            context.processPendingChanges()
            try store.delete(first)
            context.mergeChanges(fromContextDidSave: ContextDidSave(deleted: [first]))
            context.undo()
            #expect(one.isDeleted)
            #expect(two["p"] == "2")
            try context.save()
        }
        #expect(try !store.isStored(first))
    }

    @Test("What others have saved is not undone")
    func mergedMeanwhile() throws {
        let id = try store.insert("Item", ["p": "p0", "q": "q0"])
        try context.performAndWait {
            let item = try context.existingObject(with: id)
            item["p"] = "mine"
            try store.update(id, "q", "theirs")
            context.mergeChanges(fromContextDidSave: ContextDidSave(updated: [id]))
            context.undo()
            #expect(item["p"] == "p0")
            #expect(item["q"] == "theirs")
            item["p"] = "mine"
            try store.update(id, "q", "again")
            context.refresh(item, mergeChanges: true)
            context.undo()
            #expect(item["q"] == "again")
            try context.save()
        }
        #expect(try store.stored(id, "q") == "again")
    }

    @Test("A relationship outlives that its object gets a permanent ID within an event")
    func identities() throws {
        try context.performAndWait {
            let person = context.insert("Person", ["name": "p"])
            let item = context.insert("Item", ["p": "0"])
            item.setRelatedObject(person, forKey: "owner")
            context.processPendingChanges()
            item["p"] = "1"
            try context.obtainPermanentIDs(for: [person])
            #expect(item.changedValuesForCurrentEvent() == ["p": .string("0")])
            context.undo()
            #expect(item["p"] == "0")
            #expect(item.relatedObject(forKey: "owner") === person)
        }
    }

    @Test("A delete is one group, where its rules wait for the save too")
    func lateRules() throws {
        context.propagatesDeletesAtEndOfEvent = false
        try context.performAndWait {
            let person = context.insert("Person", ["name": "p"])
            let item = context.insert("Item", ["p": "0"])
            item.setRelatedObject(person, forKey: "owner")
            try context.save()
            manager.removeAllActions()
            context.delete(person)
            try context.save()
            #expect(manager.undoCount == 1)
            context.undo()
            #expect(item.relatedObject(forKey: "owner") === person)
        }
    }

    @Test("Undo ends a single group that is open")
    func openGroup() throws {
        try context.performAndWait {
            let item = context.insert("Item", ["p": "0"])
            try context.save()
            manager.removeAllActions()
            manager.beginUndoGrouping()
            item["p"] = "1"
            context.undo()
            #expect(item["p"] == "0")
            #expect(manager.groupingLevel == 0)
        }
    }

    @Test(
        "Registration can be off, groups be made by hand, and no more levels are kept than asked for"
    )
    func groups() throws {
        try context.performAndWait {
            let item = context.insert("Item", ["p": "0"])
            try context.save()
            manager.removeAllActions()
            manager.disableUndoRegistration()
            item["p"] = "silent"
            context.processPendingChanges()
            manager.enableUndoRegistration()
            #expect(!manager.canUndo)
            manager.beginUndoGrouping()
            item["p"] = "1"
            context.processPendingChanges()
            item["q"] = "1"
            context.processPendingChanges()
            manager.endUndoGrouping()
            #expect(manager.undoCount == 1)
            context.undo()
            #expect(item["p"] == "silent")
            #expect(item["q"] as String? == nil)
            manager.levelsOfUndo = 3
            for number in 0..<10 {
                item["p"] = "\(number)"
                context.processPendingChanges()
            }
            #expect(manager.undoCount == 3)
            #expect(!manager.canRedo)
            for _ in 0..<5 { context.undo() }
            #expect(item["p"] == "6")
        }
    }

    @Test("Changes that observers make belong to the event that they hear of")
    func observers() throws {
        context.observeObjectsDidChange { changes in
            for object in changes.updated where object["q"] as String? == nil {
                object["q"] = "seen"
            }
        }
        try context.performAndWait {
            let item = context.insert("Item", ["p": "0"])
            item["q"] = "before"
            try context.save()
            item["q"] = PropertyValue.null
            context.processPendingChanges()
            #expect(item["q"] == "seen")
            context.undo()
            #expect(item["q"] == "before")
        }
    }

    @Test("Rollback and reset forget what could be undone; undone objects awake")
    func forgetting() throws {
        final class Noted: ManagedObject {
            static let seen = Mutex<[UInt]>([])
            override func awake(fromSnapshotEvents events: SnapshotEventType) {
                Self.seen.withLock { $0.append(events.rawValue) }
            }
        }
        let id = try store.insert("Item", ["p": "p0"])
        try context.performAndWait {
            context.register(Noted.self, for: "Item")
            let item = try context.existingObject(with: id)
            item["p"] = "p1"
            context.undo()
            context.rollback()
            #expect(!manager.canUndo && !manager.canRedo)
            item["p"] = "p2"
            context.processPendingChanges()
            #expect(manager.canUndo)
            context.reset()
            #expect(!manager.canUndo)
        }
        #expect(Noted.seen.withLock { $0.first } == SnapshotEventType.undoUpdate.rawValue)
    }

    @Test(
        "Random changes undone and redone show what was there, saves between or not",
        arguments: 1...12)
    func random(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let side = GraphSide(context)
        manager.levelsOfUndo = 1_000
        var names: [String] = []
        var pictures = [try side.picture()]
        for step in 0..<40 {
            let change = GraphChange.random(step, names, &random)
            let count = context.performAndWait { manager.undoCount }
            side.make(change)
            if context.performAndWait({ manager.undoCount }) > count {
                pictures.append(try side.picture())
            }
            if case .insert(_, let name) = change { names.append(name) }
            if seed % 2 == 0, step % 7 == 6 { try context.performAndWait { try context.save() } }
        }
        let last = pictures.count - 1
        for place in (0..<last).reversed() {
            context.performAndWait { context.undo() }
            let found = try side.picture()
            #expect(found == pictures[place], "seed \(seed), undo to \(place)")
            if seed % 4 == 0, place % 5 == 0 {
                try context.performAndWait { try context.save() }
            }
        }
        for place in 1...last {
            context.performAndWait { context.redo() }
            let found = try side.picture()
            #expect(found == pictures[place], "seed \(seed), redo to \(place)")
        }
        try context.performAndWait { try context.save() }
        let stored = try GraphSide(store.context()).picture()
        #expect(stored == pictures[last])
    }
}

extension ManagedObject {
    fileprivate func idOnQueue(_ context: ManagedObjectContext) -> ManagedObjectID {
        context.performAndWait { objectID }
    }
}

extension ManagedObjectContext {
    fileprivate func countItems() throws -> Int {
        try performAndWait { try count(for: FetchRequest("Item")) }
    }
}
