import Coordinator
import Foundation
import Merge
import Synchronization
import Testing

/// A container: a model, its store and contexts, without a cluster.
@Suite struct PersistentContainerTests {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "tributary-\(UUID().uuidString)")
    }

    private func container(
        _ model: ManagedObjectModel? = nil,
        _ change: (inout PersistentStoreDescription) -> Void = { _ in }
    ) throws -> PersistentContainer {
        let container = PersistentContainer(
            name: "Notes", managedObjectModel: try model ?? TestStore.standardModel())
        container.persistentStoreDescription.path =
            folder.appendingPathComponent("deep/notes.sqlite").path
        var description = container.persistentStoreDescription
        change(&description)
        container.persistentStoreDescription = description
        return container
    }

    private func countNow(_ context: ManagedObjectContext) throws -> Int {
        try context.performAndWait { try context.count(for: FetchRequest("Item")) }
    }

    private func insertNow(_ context: ManagedObjectContext) {
        context.performAndWait { _ = context.insert("Item") }
    }

    private func remove() { try? FileManager.default.removeItem(at: folder) }

    @Test("A store is made with its folder, and its objects are there the next time")
    func opens() async throws {
        defer { remove() }
        let first = try container()
        try await first.loadPersistentStores()
        try await first.loadPersistentStores()
        try await first.performBackgroundTask { context in
            context.insert("Item")["p"] = "kept"
            try context.save()
        }
        first.close()
        let second = try container()
        try await second.loadPersistentStores()
        let values = try await second.performBackgroundTask { context in
            try context.fetch(FetchRequest("Item")).map { $0["p"] as String? }
        }
        #expect(values == ["kept"])
        second.close()
    }

    @Test("Tasks that load at the same time wait for one that does it")
    func loadsTogether() async throws {
        defer { remove() }
        let container = try container()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { try await container.loadPersistentStores() } }
            try await group.waitForAll()
        }
        container.close()
    }

    @Test("Its name is that of the file, in the folder for data")
    func names() throws {
        let model = try TestStore.standardModel()
        let container = PersistentContainer(name: "Notes", managedObjectModel: model)
        #expect(
            container.persistentStoreDescription.path
                == PersistentContainer.defaultDirectory + "/Notes.sqlite")
        #expect(PersistentContainer.defaultDirectory.hasSuffix("/tributary"))
        #expect(throws: CoordinatorError.self) { try PersistentContainer(name: "no such model") }
    }

    @Test("A store of another model is migrated; or refused, and the error says what differs")
    func migrates() throws {
        defer { remove() }
        func model(_ attributes: [AttributeDescription]) throws -> ManagedObjectModel {
            try ManagedObjectModel(entities: [EntityDescription("Note", attributes: attributes)])
        }
        let old = try container(try model([.init("text", .string)]))
        try old.loadPersistentStores()
        old.close()
        let wider = try model([.init("text", .string), .init("stars", .integer64)])
        let strict = try container(wider) { $0.shouldMigrateStoreAutomatically = false }
        let error = #expect(throws: CoordinatorError.self) { try strict.loadPersistentStores() }
        #expect(error?.code == .modelMismatch)
        #expect(error?.message.contains("stars") == true)
        let reading = try container(wider) { $0.isReadOnly = true }
        #expect(throws: CoordinatorError.self) { try reading.loadPersistentStores() }
        let new = try container(wider)
        try new.loadPersistentStores()
        new.close()
    }

    @Test("A store that is only read is read, and not written")
    func readOnly() throws {
        defer { remove() }
        let first = try container()
        #expect(throws: CoordinatorError.self) {
            try container { $0.isReadOnly = true }.loadPersistentStores()
        }
        try first.loadPersistentStores()
        let context = first.newBackgroundContext()
        try context.performAndWait {
            context.insert("Item")["p"] = "shipped"
            try context.save()
        }
        first.close()
        let second = try container { $0.isReadOnly = true }
        try second.loadPersistentStores()
        let reader = second.newBackgroundContext()
        #expect(try reader.performAndWait { try reader.fetch(FetchRequest("Item")).count } == 1)
        reader.performAndWait {
            reader.insert("Item")
            let error = #expect(throws: CoordinatorError.self) { try reader.save() }
            #expect(error?.code == .notWritable)
        }
    }

    @Test("The view context is used on the main thread without perform, and is one and the same")
    @MainActor func viewContext() async throws {
        defer { remove() }
        final class Item: ManagedObject {}
        let container = try container()
        container.register(Item.self, for: "Item")
        try await container.loadPersistentStores()
        let context = container.viewContext
        #expect(container.viewContext === context)
        let heard = Mutex(0)
        context.observeObjectsDidChange { changes in
            heard.withLock { $0 += changes.inserted.count }
        }
        context.insert(Item.self)["p"] = "1"
        context.insert("Item")["p"] = "2"
        #expect(heard.withLock { $0 } == 0)
        await context.perform {}
        #expect(heard.withLock { $0 } == 2)
        try context.save()
        #expect(try context.count(for: FetchRequest("Item")) == 2)
        context.automaticallyMergesChangesFromParent = true
        let background = container.newBackgroundContext()
        try await background.perform {
            let items = try background.fetch(FetchRequest("Item"), as: Item.self)
            for item in items { item["q"] = "background" }
            try background.save()
        }
        let items = try context.fetch(FetchRequest("Item"), as: Item.self)
        for _ in 0..<200 where items.contains(where: { $0["q"] as String? == nil }) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(items.allSatisfy { $0["q"] as String? == "background" })
        let child = ManagedObjectContext(parent: context)
        context.insert("Item")
        let together = try countNow(child)
        #expect(together == 3)
        let before = heard.withLock { $0 }
        insertNow(context)
        #expect(heard.withLock { $0 } > before)
        context.rollback()
        let count = try await child.perform { try child.count(for: FetchRequest("Item")) }
        #expect(count == 2)
        container.close()
    }
}
