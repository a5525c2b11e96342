import Merge
import TestSupport
import Testing

@testable import Coordinator

@Suite("Fetched results as a sequence of differences") struct FetchedDifferencesTests {
    private let store: TestStore
    private let context: ManagedObjectContext
    private let request = FetchRequest("Item", sortDescriptors: [SortDescriptor("p")])

    init() throws { (store, context) = try TestStore.withContext() }

    private func applied(
        _ difference: CollectionDifference<ManagedObjectID>?, to ids: [ManagedObjectID]
    ) throws -> [ManagedObjectID] {
        let difference = try #require(difference)
        return try #require(ids.applying(difference))
    }

    @Test("The first difference inserts all results, later ones lead to the newest")
    func following() async throws {
        let a = try store.insert("Item", ["p": "a"])
        let c = try store.insert("Item", ["p": "c"])
        var differences = context.differences(of: request).makeAsyncIterator()
        var ids = try await applied(differences.next(), to: [])
        #expect(ids == [a, c])

        await context.perform { [context] in context.insert("Item")["p"] = "b" }
        ids = try await applied(differences.next(), to: ids)
        #expect(ids.count == 3 && ids[1].isTemporaryID)

        try await context.perform { [context] in try context.save() }
        let saved = try #require(try await differences.next())
        #expect(saved.removals.count == 1 && saved.insertions.count == 1)
        ids = try #require(ids.applying(saved))
        #expect(!ids[1].isTemporaryID)

        await context.perform { [context] in context.object(with: a)["p"] = "z" }
        let moved = try #require(try await differences.next())
        #expect(
            Array(moved) == [
                .remove(offset: 0, element: a, associatedWith: 2),
                .insert(offset: 2, element: a, associatedWith: 0),
            ])
    }

    @Test("Of no results the first difference is empty")
    func empty() async throws {
        var differences = context.differences(of: request).makeAsyncIterator()
        #expect(try await differences.next()?.isEmpty == true)
    }

    @Test("With automatic merging, saves of other contexts and of other nodes are followed")
    func others() async throws {
        context.automaticallyMergesChangesFromParent = true
        let remote = try TestStore(node: 2)
        var differences = context.differences(of: request).makeAsyncIterator()
        _ = try await differences.next()
        let here = try store.insert("Item", ["p": "a"])
        #expect(
            try await differences.next().map(Array.init)
                == [.insert(offset: 0, element: here, associatedWith: nil)])
        try remote.take(from: store)
        let there = try remote.insert("Item", ["p": "b"])
        try store.take(from: remote)
        #expect(
            try await differences.next().map(Array.init)
                == [.insert(offset: 1, element: there, associatedWith: nil)])
    }

    @Test("A slow consumer gets all that happened meanwhile as one difference")
    func slow() async throws {
        var ids: [ManagedObjectID] = []
        var differences = context.differences(of: request).makeAsyncIterator()
        _ = try await differences.next()
        var random = SeededGenerator(seed: 3)
        for _ in 0..<20 {
            for _ in 0..<50 {
                let (kind, name) = (random.below(4), "\(random.below(1_000))")
                let choice = random.next()
                try await context.perform { [context, request] in
                    let objects = try context.fetch(request)
                    if kind < 2 || objects.isEmpty {
                        context.insert("Item")["p"] = name
                    } else {
                        let object = objects[Int(choice % UInt64(objects.count))]
                        if kind == 2 { object["p"] = name } else { context.delete(object) }
                    }
                }
            }
            ids = try await applied(differences.next(), to: ids)
            let fresh = try await context.perform { [context, request] in
                try context.fetchObjectIDs(request)
            }
            #expect(ids == fresh)
        }
    }

    @Test("What came and went before the consumer asks makes no difference")
    func comesAndGoes() async throws {
        var differences = context.differences(of: request).makeAsyncIterator()
        _ = try await differences.next()
        for name in ["a", "b"] {
            let id = await context.perform { [context] in
                let item = context.insert("Item")
                item["p"] = name
                return item.objectID
            }
            if name == "a" {
                await context.perform { [context] in context.delete(context.object(with: id)) }
            }
        }
        let difference = try #require(try await differences.next())
        #expect(difference.count == 1)
    }

    @Test("The sequence ends when its task is cancelled, and follows no more")
    func cancelled() async throws {
        let (context, request) = (context, request)
        let (started, continuation) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            var count = 0
            for try await _ in context.differences(of: request) {
                count += 1
                continuation.yield()
            }
            return count
        }
        for await _ in started { break }
        task.cancel()
        #expect(try await task.value == 1)
        #expect(await context.perform { !context.graph.live.isActive })
    }

    @Test("The sequence ends when nobody keeps the context alive")
    func contextGone() async throws {
        var short: ManagedObjectContext? = store.context()
        var iterator = (short ?? context).differences(of: request).makeAsyncIterator()
        _ = try await iterator.next()
        short = nil
        #expect(try await iterator.next() == nil)
        #expect(try await iterator.next() == nil)
    }

    @Test("A request that cannot be followed is an error, and the sequence ends with it")
    func refused() async throws {
        for request in [
            FetchRequest("Nothing"), FetchRequest("Item", resultType: .count),
            FetchRequest("Item", sortDescriptors: [SortDescriptor("nothing")]),
        ] {
            var iterator = context.differences(of: request).makeAsyncIterator()
            await #expect(throws: CoordinatorError.self) { try await iterator.next() }
            #expect(try await iterator.next() == nil)
        }
    }

    @Test("If the store cannot be read, the sequence throws and ends")
    func failure() async throws {
        var limited = request
        limited.fetchLimit = 2
        var iterator = context.differences(of: limited).makeAsyncIterator()
        _ = try await iterator.next()
        store.coordinator.close()
        await context.perform { [context] in context.insert("Item")["p"] = "a" }
        await #expect(throws: CoordinatorError.self) { try await iterator.next() }
        #expect(try await iterator.next() == nil)
    }

    @Test("Differences of lists lead from one to the other, and only what must move moves")
    func lists() throws {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<2_000 {
            let all = Array(0..<random.below(12)).shuffled(using: &random)
            let old = all.filter { _ in random.chance(70) }
            let new = all.shuffled(using: &random).filter { _ in random.chance(70) }
            let difference = try #require(ListDifference.between(old, new))
            #expect(old.applying(difference) == new)
        }
        let moved = try #require(ListDifference.between([1, 2, 3, 4, 5], [5, 1, 2, 3, 4]))
        #expect(moved.count == 2)
    }
}
