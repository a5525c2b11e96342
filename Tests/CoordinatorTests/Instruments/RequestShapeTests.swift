import Coordinator
import Merge
import Synchronization
import Testing

/// What a coordinator remembers of the requests that were made.
@Suite("Observed requests")
struct RequestShapeTests {
    private static func counted(
        _ store: TestStore, _ requests: [FetchRequest]
    ) throws -> [String: ObservedRequest] {
        let context = store.context()
        try context.performAndWait {
            for request in requests { _ = try context.fetchObjectIDs(request) }
        }
        let observed = store.coordinator.observedRequests.requests.map {
            ("\($0.shape.entity): \($0.shape)", $0)
        }
        return Dictionary(uniqueKeysWithValues: observed)
    }

    @Test("Requests that differ in constants, order of conditions or limits have one shape")
    func constants() throws {
        let store = try TestStore()
        for name in ["a", "b", "c"] { try store.insert("Item", ["p": name, "q": "x"]) }
        var limited = try store.request("Item", where: "q == 'x' AND p == 'c'", sort: "n")
        limited.fetchLimit = 1
        let seen = try Self.counted(
            store,
            [
                try store.request("Item", where: "p == 'a' AND q == 'x'", sort: "n"),
                try store.request("Item", where: "q == 'y' AND p == 'b'", sort: "n"), limited,
            ])
        #expect(seen.keys.sorted() == ["Item: p = ?, q = ?, sorted by n"])
        let one = try #require(seen.values.first)
        #expect(one.count == 3 && one.rows == 2)
    }

    @Test(
        "A shape has the comparisons that an index can serve, and no others",
        arguments: [
            ("p == 'a'", "p = ?"), ("p IN {'a', 'b'}", "p = ?"), ("p == nil", "p = ?"),
            ("n > 3", "n in a range"), ("n BETWEEN {1, 2}", "n in a range"),
            ("p BEGINSWITH 'a'", "p in a range"), ("owner == nil", "owner = ?"),
            ("p == 'a' AND n < 3 AND q CONTAINS 'x'", "p = ?, n in a range"),
            ("p == 'a' OR q == 'a'", "nothing that an index could help"),
            ("p ==[c] 'a'", "nothing that an index could help"),
            ("NOT p == 'a'", "nothing that an index could help"),
            ("p != 'a'", "nothing that an index could help"),
            ("p == q", "nothing that an index could help"),
            ("owner.name == 'a'", "nothing that an index could help"),
            ("ANY tags.name == 'a'", "nothing that an index could help"),
        ])
    func comparisons(predicate: String, shape: String) throws {
        let store = try TestStore()
        let seen = try Self.counted(store, [try store.request("Item", where: predicate)])
        #expect(seen.keys.sorted() == ["Item: \(shape)"])
    }

    @Test("Sort keys count up to the first that is reached through a relationship")
    func sortKeys() throws {
        let store = try TestStore()
        var request = FetchRequest("Item")
        request.sortDescriptors = [
            SortDescriptor("p"), SortDescriptor("n", ascending: false),
            SortDescriptor("owner.name"), SortDescriptor("q"),
        ]
        let seen = try Self.counted(store, [request])
        #expect(seen.keys.sorted() == ["Item: sorted by p, -n"])
    }

    @Test("Counts, dictionaries and reads beside contexts are observed too, with their rows")
    func otherKinds() throws {
        let store = try TestStore()
        for name in ["a", "a", "b"] { try store.insert("Item", ["p": name]) }
        var groups = FetchRequest("Item")
        groups.resultType = .dictionary
        groups.propertiesToGroupBy = ["p"]
        groups.propertiesToFetch = [.keyPath("p")]
        let context = store.context()
        try context.performAndWait {
            _ = try context.count(for: store.request("Item", where: "p == 'a'"))
            _ = try context.fetchDictionaries(groups)
        }
        _ = try store.coordinator.read { try $0.fetch(store.request("Item", where: "q == nil")) }
        let observed = store.coordinator.observedRequests.requests
        let rows = Dictionary(
            uniqueKeysWithValues: observed.map { ($0.shape.description, $0.rows) })
        #expect(rows == ["p = ?": 0, "sorted by p": 2, "q = ?": 3])
    }

    @Test("256 shapes are kept; the one that was not seen for longest goes, and that is counted")
    func bounded() throws {
        let names = (0..<9).map { "a\($0)" }
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription("Wide", attributes: names.map { .init($0, .integer64) })
            ]))
        let context = store.context()
        func fetch(_ number: Int) throws {
            let used = names.enumerated().filter { number & (1 << $0.offset) != 0 }
            let parts = used.map { "\($0.element) == 1" }
            try context.performAndWait {
                _ = try context.fetchObjectIDs(
                    store.request("Wide", where: parts.joined(separator: " AND ")))
            }
        }
        for number in 1...256 { try fetch(number) }
        #expect(store.coordinator.observedRequests.requests.count == 256)
        #expect(store.coordinator.observedRequests.dropped == 0)
        // Seen again, so that the second is now the oldest.
        try fetch(1)
        try fetch(257)
        let observed = store.coordinator.observedRequests
        let kept = Set(observed.requests.map(\.shape.description))
        #expect(observed.requests.count == 256 && observed.dropped == 1)
        #expect(kept.contains("a0 = ?") && !kept.contains("a1 = ?"))
        #expect(kept.contains("a0 = ?, a8 = ?"))
    }

    @Test("Time is taken from the coordinator's clock, and those that took longest come first")
    func time() throws {
        let clock = SteppingClock()
        var options = PersistentStoreCoordinator.Options()
        options.monotonicMilliseconds = { clock.next() }
        let store = try TestStore(options: options)
        try store.insert("Item", ["p": "a"])
        clock.step(by: 0)
        let seen = try Self.counted(store, [try store.request("Item", where: "q == 'a'")])
        #expect(seen["Item: q = ?"]?.milliseconds == 0)
        clock.step(by: 5)
        let later = try Self.counted(store, [try store.request("Item", where: "p == 'a'")])
        let taken = try #require(later["Item: p = ?"]?.milliseconds)
        #expect(taken >= 5)
        #expect(store.coordinator.observedRequests.requests.map(\.shape.equal) == [["p"], ["q"]])
    }

    @Test("A coordinator counts what contexts and all others read; contexts count their own")
    func counters() throws {
        let store = try TestStore()
        for name in ["a", "b"] { try store.insert("Item", ["p": name]) }
        let before = (store.coordinator.counters, store.coordinator.contextCounters)
        let context = store.context()
        let all = FetchRequest("Item")
        let count = try context.performAndWait { try context.fetch(all).count }
        #expect(count == 2)
        let between = (store.coordinator.counters, store.coordinator.contextCounters)
        #expect(between.0.fetches == before.0.fetches + 1)
        #expect(between.0.rows == before.0.rows + 2)
        #expect(between.1.fetches == before.1.fetches + 1)
        _ = try store.coordinator.read { try $0.fetch(all).count }
        let after = (store.coordinator.counters, store.coordinator.contextCounters)
        #expect(after.0.fetches == between.0.fetches + 1)
        #expect(after.0.rows == between.0.rows + 2)
        #expect(after.0.statements > between.0.statements)
        #expect(after.1 == between.1)
        #expect(after.0.saves == 2)
    }
}

/// A clock that goes on by a step each time it is looked at.
private final class SteppingClock: Sendable {
    private let state = Mutex<(now: UInt64, step: UInt64)>((1, 0))

    func next() -> UInt64 {
        state.withLock { state in
            state.now += state.step
            return state.now
        }
    }

    func step(by step: UInt64) { state.withLock { $0.step = step } }
}
