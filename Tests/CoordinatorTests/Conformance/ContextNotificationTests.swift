import Coordinator
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, CD-80 and CD-101: what observers of a context hear, with objects that were
/// inserted before or meanwhile.
@Suite("What a context tells its observers of inserted objects")
struct ContextNotificationTests {
    /// The notified changes, by the objects' names.
    private struct Told: Equatable {
        var inserted: Set<PropertyValue> = []
        var updated: Set<PropertyValue> = []
        var deleted: Set<PropertyValue> = []
        var refreshed: Set<PropertyValue> = []

        init(
            inserted: Set<PropertyValue> = [], updated: Set<PropertyValue> = [],
            deleted: Set<PropertyValue> = [],
            refreshed: Set<PropertyValue> = []
        ) {
            self.inserted = inserted
            self.updated = updated
            self.deleted = deleted
            self.refreshed = refreshed
        }

        init(_ changes: ContextChanges) {
            func names(_ objects: Set<ManagedObject>) -> Set<PropertyValue> {
                Set(objects.map { $0.primitiveValue(forKey: "p") })
            }
            inserted = names(changes.inserted)
            updated = names(changes.updated)
            deleted = names(changes.deleted)
            refreshed = names(changes.refreshed)
        }
    }

    private let store: TestStore
    private let context: ManagedObjectContext
    private let changes: Changes

    private final class Changes: Sendable {
        let told = Mutex<[Told]>([])
    }

    init() throws {
        store = try TestStore()
        context = store.context()
        changes = Changes()
        context.observeObjectsDidChange { [changes] told in
            changes.told.withLock { $0.append(Told(told)) }
        }
    }

    /// The changes notified of an event, and those before it.
    private func told(_ event: () throws -> Void) rethrows -> [Told] {
        try context.performAndWait(event)
        return changes.told.withLock { told in
            defer { told = [] }
            return told
        }
    }

    @Test("CD-64: history has the author and the name of the context that saved")
    func author() throws {
        let store = try TestStore()
        let context = store.context()
        context.performAndWait {
            context.transactionAuthor = "before"
            context.name = "importer"
            context.insert("Item")["p"] = "1"
            context.transactionAuthor = "Ada"
        }
        try context.performAndWait { try context.save() }
        context.transactionAuthor = "after"
        let history = try store.coordinator.read { try $0.history(afterPosition: 0, limit: 10) }
        let transaction = try #require(history.last).encoded.transaction
        #expect(transaction.author == "Ada")
        #expect(transaction.contextName == "importer")
    }

    @Test("CD-80: an object inserted and changed in one event counts as inserted only")
    func insertedAndChanged() {
        let told = told {
            context.insert("Item", ["p": "a", "q": "changed"])
        }
        #expect(told == [Told(inserted: [.string("a")])])
    }

    @Test("CD-80: an object notified as inserted that changes later is updated, saved or not")
    func changedLater() throws {
        let item = context.performAndWait { context.insert("Item", ["p": "a"]) }
        _ = told {}
        #expect(told { item["q"] = "changed" } == [Told(updated: [.string("a")])])
        #expect(context.performAndWait { item.isInserted && !item.isUpdated })
        let saved = Mutex<[Told]>([])
        context.observeDidSave { changes, _ in saved.withLock { $0.append(Told(changes)) } }
        try context.performAndWait { try context.save() }
        #expect(saved.withLock { $0 } == [Told(inserted: [.string("a")])])
    }

    @Test("CD-92: of what is inserted and rolled back in one event nobody hears")
    func rolledBackAtOnce() {
        let told = told {
            context.insert("Item")["p"] = "a"
            context.rollback()
        }
        #expect(told.isEmpty)
    }

    @Test("CD-92: an object notified as inserted is notified as deleted once it is rolled back")
    func rolledBackLater() throws {
        let item = try context.existing(try store.insert("Item", ["p": "kept"]))
        let inserted = context.performAndWait {
            let inserted = context.insert("Item", ["p": "a"])
            item["q"] = "changed"
            return inserted
        }
        _ = told {}
        let told = told { context.rollback() }
        #expect(told == [Told(deleted: [.string("a")], refreshed: [.string("kept")])])
        #expect(context.performAndWait { inserted.managedObjectContext } == nil)
    }

    @Test("CD-92, CD-94: a rollback takes nothing back of what merges of the event have told")
    func mergedAndRolledBack() throws {
        let (id, doomed) = (try store.insert("Item", ["p": "a"]), try store.insert("Item"))
        let gone = try context.existing(doomed)
        _ = told {}
        let told = try told {
            try store.delete(doomed)
            context.mergeChanges(
                fromContextDidSave: ContextDidSave(inserted: [id], deleted: [doomed]))
            context.object(with: id)["q"] = "changed"
            context.rollback()
        }
        #expect(told == [Told(inserted: [.string("a")], deleted: [.null])])
        #expect(context.performAndWait { gone.isDeleted })
    }

    @Test("CD-94: what a merge tells as inserted, and changes here in the same event, is inserted")
    func mergedAndChanged() throws {
        let id = try store.insert("Item", ["p": "a"])
        let told = told {
            context.mergeChanges(fromContextDidSave: ContextDidSave(inserted: [id]))
            context.object(with: id)["q"] = "changed"
        }
        #expect(told == [Told(inserted: [.string("a")])])
    }

    @Test("CD-94: an object that comes and goes by merges of one event is notified as neither")
    func mergedAndGone() throws {
        let id = try store.insert("Item", ["p": "a"])
        let told = try told {
            context.mergeChanges(fromContextDidSave: ContextDidSave(inserted: [id]))
            try store.delete(id)
            context.mergeChanges(fromContextDidSave: ContextDidSave(deleted: [id]))
        }
        #expect(told.isEmpty)
    }
}
