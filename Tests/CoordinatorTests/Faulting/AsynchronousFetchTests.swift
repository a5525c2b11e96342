import Foundation
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

/// Fetches that are read beside their context's queue.
@Suite("Asynchronous fetches")
struct AsynchronousFetchTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    /// Items of one owner, so that ``slow`` compares each with all.
    private func items(_ count: Int, in store: TestStore? = nil) throws {
        try (store ?? self.store).save { context in
            let owner = context.insert("Person", ["name": "a"])
            for number in 0..<count {
                let item = context.insert("Item", ["p": "\(10_000 + number)"])
                item["n"] = number
                item.setRelatedObject(owner, forKey: "owner")
            }
        }
    }

    /// A request that SQLite works on for many minutes, if 3,000 items have one owner.
    private func slow() throws -> FetchRequest {
        try store.request(
            "Item",
            where: "SUBQUERY(owner.items, $x, "
                + "SUBQUERY($x.owner.items, $y, $y.n + $x.n > n + 100000).@count > 0).@count > 0")
    }

    /// Lets SQLite work for a while. It keeps its thread: beside all other tests a task that slept would
    /// go on after minutes, in which the reading would keep a core busy.
    private static func pause() { Thread.sleep(forTimeInterval: 0.03) }

    private func waitForEvents(of context: ManagedObjectContext? = nil) async {
        await (context ?? self.context).perform {}
    }

    @Test("CD-138: it returns before its results, which come on the context's queue")
    func delivery() async throws {
        try items(2_500)
        let request = try store.request("Item", sort: "p")
        let steps = Mutex<[Int]>([])
        let isDelivered = Mutex(false)
        let isEarly = Mutex(false)
        let context = context
        let count = try await withCheckedThrowingContinuation { continuation in
            context.performAndWait {
                context.fetchAsynchronously(
                    request, progress: { count in steps.withLock { $0.append(count) } },
                    completion: { result in
                        isDelivered.withLock { $0 = true }
                        let all = result.map { objects in
                            context.isOnQueue && objects.allSatisfy(\.isFault) ? objects.count : -1
                        }
                        continuation.resume(with: all)
                    })
                let now = isDelivered.withLock { $0 }
                isEarly.withLock { $0 = now }
            }
        }
        #expect(count == 2_500)
        let (wasEarly, counts) = (isEarly.withLock { $0 }, steps.withLock { $0 })
        #expect(!wasEarly)
        #expect(counts == [1_000, 2_000, 2_500])
        #expect(context.counters.fetches == 1)
        #expect(context.counters.rows == 2_500)
    }

    @Test("CD-138: what it has read serves the objects, in the order of the request")
    func objects() async throws {
        try items(300)
        let request = try store.request("Item", sort: "-p", limit: 20, offset: 10)
        let context = context
        let values = try await context.fetch(request) { objects in
            let before = context.counters.statements
            let values = objects.compactMap { $0["p"] as String? }
            return context.counters.statements == before ? values : []
        }
        #expect(values == (0..<20).map { "\(10_289 - $0)" })
    }

    @Test("CD-138: cancelling stops SQLite, and the fetch fails")
    func cancelling() async throws {
        try items(3_000)
        let (request, context) = (try slow(), context)
        let error = await withCheckedContinuation { continuation in
            let fetch = context.fetchAsynchronously(request) { result in
                continuation.resume(returning: Self.error(of: result))
            }
            Self.pause()
            fetch.cancel()
        }
        #expect(error is CancellationError)
        let fetches = store.coordinator.asynchronousFetches
        try await eventually("the reader has stopped") { fetches.isIdle }
    }

    private static func error(of result: Result<[ManagedObject], any Error>) -> (any Error)? {
        if case .failure(let error) = result { error } else { nil }
    }

    @Test("CD-138: a cancelled task's fetch throws, and the context is as it was")
    func cancelledTask() async throws {
        try items(3_000)
        let (request, context) = (try slow(), context)
        await context.perform { _ = context.insert("Item", ["p": "unsaved"]) }
        let task = Task { try await context.fetch(request) { $0.count } }
        Self.pause()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        await context.perform {
            #expect(context.insertedObjects.count == 1)
            #expect(context.updatedObjects.isEmpty)
            #expect(context.registeredObjects.isEmpty == false)
            #expect(context.faultingError == nil)
        }
        let all = try await context.fetch(store.request("Item")) { $0.count }
        #expect(all == 3_001)
        // One that was cancelled before it began.
        let none = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await context.fetch(request) { $0.count }
        }
        await #expect(throws: CancellationError.self) { try await none.value }
    }

    @Test("The queue is free while SQLite works, and half of the readers are")
    func turns() async throws {
        var options = PersistentStoreCoordinator.Options()
        options.readers = 2
        let store = try TestStore(options: options)
        try items(3_000, in: store)
        let (request, context) = (try slow(), store.context())
        let outcomes = Mutex<[Int]>([])
        func begin(_ number: Int) -> AsynchronousFetch {
            context.fetchAsynchronously(request) { result in
                if Self.error(of: result) is CancellationError {
                    outcomes.withLock { $0.append(number) }
                }
            }
        }
        let fetches = (0..<3).map(begin)
        Self.pause()
        // The first reads, the others wait, and the context can be used.
        let people = try context.performAndWait { try context.count(for: store.request("Person")) }
        #expect(people == 1)
        fetches[1].cancel()
        for _ in 0..<1_000 where outcomes.withLock({ $0.isEmpty }) { Self.pause() }
        let first = outcomes.withLock { $0 }
        #expect(first == [1])
        fetches[0].cancel()
        fetches[2].cancel()
        try await eventually("all have ended") { outcomes.withLock { $0.count == 3 } }
        let all = outcomes.withLock { Set($0) }
        #expect(all == [0, 1, 2])
    }

    @Test("As many wait as may, and one more is refused")
    func full() async throws {
        let turns = ReadingTurns(ofReaders: 2, mostWaiting: 2)
        let count = Mutex(0)
        let isOpen = Mutex(false)
        let keys = (0..<4).map { _ in AsynchronousFetch() }
        let taken = keys.map { key in
            turns.run(for: key) {
                for _ in 0..<1_000 where !isOpen.withLock({ $0 }) { Self.pause() }
                count.withLock { $0 += 1 }
            }
        }
        #expect(taken == [true, true, true, false])
        #expect(turns.gauge == AsynchronousFetchGauge(running: 1, waiting: 2, limit: 2))
        isOpen.withLock { $0 = true }
        try await eventually("all have run") { turns.isIdle }
        let done = count.withLock { $0 }
        #expect(done == 3)
    }

    @Test("A pinned context's fetch reads its pin")
    func pinned() async throws {
        try items(10)
        let context = context
        try store.pin(context)
        try store.insert("Item", ["p": "later"])
        let request = try store.request("Item")
        #expect(try await context.fetch(request) { $0.count } == 10)
        // A context that moves on while it is read gets what it moved to.
        let moved = try await withCheckedThrowingContinuation { continuation in
            context.perform {
                context.fetchAsynchronously(request) { continuation.resume(with: $0.map(\.count)) }
                // After its beginning, and before its delivery.
                context.perform { context.reset() }
            }
        }
        #expect(moved == 11)
    }

    @Test("Neither the context nor the fetch is kept once it is over")
    func released() async throws {
        try items(3)
        weak var kept: ManagedObjectContext?
        weak var handle: AsynchronousFetch?
        for _ in 0..<2 {
            let request = try store.request("Item")
            let context = store.context()
            kept = context
            await withCheckedContinuation { continuation in
                handle = context.fetchAsynchronously(request) { _ in continuation.resume() }
            }
        }
        // The last block of the queue may still be ending.
        for _ in 0..<5_000 where kept != nil || handle != nil {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(kept == nil)
        #expect(handle == nil)
    }

    @Test("Wrong requests are errors of the fetch")
    func errors() async throws {
        let context = context
        let wrong = FetchRequest("Nothing")
        await #expect(throws: CoordinatorError.self) { try await context.fetch(wrong) { $0.count } }
        let key = try store.request("Item", where: "nothing == 1")
        await #expect(throws: CoordinatorError.self) { try await context.fetch(key) { $0.count } }
    }

    @Test("It gives what a fetch would at its delivery, whatever was done meanwhile")
    func equalsFetch() async throws {
        var choices = SeededGenerator(seed: 138)
        let keys = ["a", "b", "B", "c", "d"]
        try store.save { context in
            let people = keys.map { context.insert("Person", ["name": $0]) }
            for _ in 0..<60 {
                let item = context.insert("Item", ["p": choices.pick(keys)])
                item.setRelatedObject(choices.pick(people), forKey: "owner")
            }
        }
        let predicates = [nil, "p == 'b'", "n == 4 OR p ==[c] 'b'", "p IN {'a', 'c'}"]
        for step in 0..<200 {
            var request = try store.request(
                "Item", where: choices.pick(predicates),
                sort: choices.pick([nil, "p", "-p", "n", "owner.name"]),
                limit: choices.pick([0, 0, 3, 20]), offset: choices.pick([0, 0, 2, 30]))
            request.includesPropertyValues = choices.pick([true, false])
            request.returnsObjectsAsFaults = choices.pick([true, true, false])
            let (asked, context) = (request, context)
            let seeds = (0..<2).map { _ in choices.next() }
            let difference = await withCheckedContinuation { continuation in
                context.perform { Self.change(context, seeds[0], keys) }
                context.fetchAsynchronously(asked) { result in
                    let found = try? result.get().map(\.objectID)
                    let expected = try? context.fetchObjectIDs(asked)
                    continuation.resume(returning: found == expected ? "" : "\(result)")
                }
                // Between its beginning and its delivery.
                context.perform { Self.change(context, seeds[1], keys) }
            }
            #expect(difference.isEmpty, "step \(step): \(asked)")
        }
        await waitForEvents()
        #expect(context.faultingError == nil)
    }

    private static func change(_ context: ManagedObjectContext, _ seed: UInt64, _ keys: [String]) {
        var choices = SeededGenerator(seed: seed)
        guard let items = try? context.fetch(FetchRequest("Item")),
            let people = try? context.fetch(FetchRequest("Person"))
        else { return }
        for _ in 0..<choices.pick([0, 1, 3]) {
            switch choices.pick([0, 1, 1, 2, 3]) {
            case 0: context.insert("Item", ["p": choices.pick(keys)])
            case 1: choices.pick(items)["p"] = choices.pick(keys)
            case 2: if items.count > 30 { context.delete(choices.pick(items)) }
            default: choices.pick(people)["name"] = choices.pick(keys)
            }
        }
        switch choices.pick([0, 1, 2, 3, 4, 5]) {
        case 0: try? context.save()
        case 1: context.rollback()
        default: break
        }
    }

    @Test("Values that were overtaken by a commit do not take an object a step back")
    func overtaken() async throws {
        let id = try store.insert("Item", ["p": "a"])
        let (store, context) = (store, context)
        let object = try context.existing(id)
        var request = try store.request("Item")
        request.shouldRefreshRefetchedObjects = true
        let asked = request
        let value = try await withCheckedThrowingContinuation { continuation in
            context.perform {
                let fetch = context.fetchAsynchronously(asked) { result in
                    continuation.resume(with: result.map { $0.first?["p"] as String? })
                }
                // It has begun and has read the row, and its delivery waits behind this.
                context.perform {
                    for _ in 0..<60_000 where fetch.foundCount < 1 {
                        Thread.sleep(forTimeInterval: 0.001)
                    }
                    try? store.update(id, "p", "b")
                    context.refresh(context.object(with: id), mergeChanges: false)
                }
            }
        }
        #expect(value == "b")
        context.performAndWait { #expect(object["p"] == "b") }
    }
}
