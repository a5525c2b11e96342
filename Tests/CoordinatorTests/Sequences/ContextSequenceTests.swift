import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

@Suite("What happens in a context as a sequence") struct ContextSequenceTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    /// How many observe the context.
    private var observers: Int {
        context.observers.withLock { $0.didSave.count + $0.didChange.count }
    }

    @discardableResult
    private func insert(_ count: Int) throws -> [ManagedObjectID] {
        try (0..<count).map { number in
            try context.performAndWait {
                let item = context.insert("Item", ["p": "\(number)"])
                try context.save()
                return item.objectID
            }
        }
    }

    @Test("It has each save, with permanent IDs and the state that contains it")
    func saves() async throws {
        var saves = context.didSaves.makeAsyncIterator()
        let id = try insert(1)[0]
        let inserted = try #require(await saves.next())
        #expect(inserted.inserted == [id] && inserted.missed == 0)
        #expect(inserted.token == (try store.coordinator.currentToken))
        try await context.perform { [context] in
            context.object(with: id)["p"] = "later"
            try context.save()
            context.delete(context.object(with: id))
            try context.save()
        }
        #expect(await saves.next()?.updated == [id])
        #expect(await saves.next()?.deleted == [id])
    }

    @Test("It has each event's changes, those of merges among them")
    func changes() async throws {
        let id = try insert(1)[0]
        context.automaticallyMergesChangesFromParent = true
        var changes = context.objectChanges.makeAsyncIterator()
        let item = await context.perform { [context] in
            context.insert("Item")["p"] = "a"
            return context.insertedObjects.map(\.objectID)
        }
        let inserted = try #require(await changes.next())
        #expect(inserted.inserted == Set(item) && inserted.updated.isEmpty)
        #expect(inserted.inserted.allSatisfy { $0.isTemporaryID })

        func keep() {
            context.performAndWait {
                context.retainsRegisteredObjects = true
                _ = context.object(with: id)["p"] as String?
            }
        }
        keep()
        try store.update(id, "p", "elsewhere")
        let merged = try #require(await changes.next())
        #expect(merged.refreshed == [id] && !merged.invalidatesAll)

        await context.perform { [context] in context.reset() }
        #expect(await changes.next()?.invalidatesAll == true)
    }

    @Test("A reader that is too slow holds no saver back, and learns how many saves it missed")
    func slow() async throws {
        var sequence = context.didSaves
        sequence.limit = 2
        var saves = sequence.makeAsyncIterator()
        let ids = try insert(5)
        let first = try #require(await saves.next())
        #expect(first.missed == 3 && first.inserted == [ids[3]])
        let second = try #require(await saves.next())
        #expect(second.missed == 0 && second.inserted == [ids[4]])
    }

    @Test("It ends when its task is cancelled, and nobody observes any more")
    func cancelled() async throws {
        let (saves, changes) = (context.didSaves, context.objectChanges)
        let saving = Task { for await _ in saves {} }
        let changing = Task { for await _ in changes {} }
        while observers < 2 { await Task.yield() }
        saving.cancel()
        changing.cancel()
        await saving.value
        await changing.value
        #expect(observers == 0)
    }

    @Test("Who drops the iterator observes no more")
    func dropped() async throws {
        do {
            var saves = context.didSaves.makeAsyncIterator()
            #expect(observers == 1)
            try insert(1)
            _ = await saves.next()
        }
        #expect(observers == 0)
    }

    @Test("It ends when nobody keeps the context alive, behind what waits")
    func contextGone() async throws {
        var short: ManagedObjectContext? = store.context()
        let sequence = (short ?? context).didSaves
        var saves = sequence.makeAsyncIterator()
        var changes = (short ?? context).objectChanges.makeAsyncIterator()
        func save() throws {
            try short?.performAndWait {
                short?.insert("Item")
                try short?.save()
            }
        }
        try save()
        short = nil
        #expect(await saves.next()?.inserted.count == 1)
        #expect(await saves.next() == nil)
        #expect(await changes.next()?.inserted.count == 1)
        while await changes.next() != nil {}
        for await _ in sequence { Issue.record("There was a save.") }
    }

    @Test("A save that somebody reads of ends as it does without a reader")
    func beside() async throws {
        let saves = context.didSaves
        let reader = Task { () -> Int in
            var count = 0
            for await save in saves {
                count += 1 + save.missed
                if count == 20 { break }
            }
            return count
        }
        while observers < 1 { await Task.yield() }
        let ids = try insert(20)
        #expect(await reader.value == 20)
        #expect(Set(ids).count == 20 && ids.allSatisfy { !$0.isTemporaryID })
        #expect(observers == 0)
    }
}
