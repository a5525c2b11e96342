import Coordinator
import Merge
import Synchronization
import Testing

/// An actor that has a context's queue for its executor.
@Suite struct ModelActorTests {
    private actor Items: ModelActor {
        nonisolated let modelExecutor: ContextExecutor
        private var kept: [ManagedObject] = []

        init(_ context: ManagedObjectContext) { modelExecutor = ContextExecutor(context) }

        func add(_ value: String) async throws -> ManagedObjectID {
            let item = managedObjectContext.insert("Item")
            item["p"] = value
            kept.append(item)
            await Task.yield()
            item["q"] = "after a suspension"
            try managedObjectContext.save()
            return item.objectID
        }

        func values() throws -> [String] {
            try managedObjectContext.fetch(FetchRequest("Item")).compactMap { $0["p"] as String? }
                .sorted()
        }

        func keptValues() -> [String] { kept.compactMap { $0["p"] as String? }.sorted() }
    }

    @Test("An actor uses its context and keeps objects, from many tasks and over suspensions")
    func works() async throws {
        let store = try TestStore()
        let context = store.context()
        let events = Mutex(0)
        context.observeObjectsDidChange { _ in events.withLock { $0 += 1 } }
        let items = Items(context)
        try await withThrowingTaskGroup(of: ManagedObjectID.self) { group in
            for number in 0..<20 { group.addTask { try await items.add("\(100 + number)") } }
            var ids = Set<ManagedObjectID>()
            for try await id in group { ids.insert(id) }
            #expect(ids.count == 20)
            #expect(ids.allSatisfy { !$0.isTemporaryID })
        }
        let expected = (100..<120).map { "\($0)" }
        let (values, kept) = (try await items.values(), await items.keptValues())
        #expect(values == expected)
        #expect(kept == expected)
        #expect(events.withLock { $0 } > 0)
        // Others may use the context beside the actor.
        let count = try await context.perform { try context.count(for: FetchRequest("Item")) }
        #expect(count == 20)
    }
}
