import Coordinator
import Merge
import Testing

/// CONFORMANCE.md, "Contexts" and "Fetching and batch": what a context's fetch gives.
@Suite struct FetchingConformanceTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    @Test("CD-84: a fetch has unsaved inserts, no unsaved deletes, values in memory, sorted")
    func fetchOverlay() throws {
        let ids = try ["a", "c", "e", "g"].map { try store.insert("Item", ["p": $0]) }
        try context.performAndWait {
            let objects = try ids.map { try context.existingObject(with: $0) }
            context.insert("Item")["p"] = "d"
            context.insert("Item")["p"] = "zz"
            context.delete(objects[0])
            objects[1]["p"] = "f"
            objects[3]["p"] = "zzz"
            let found = try context.fetch(store.request("Item", where: "p < 'z'", sort: "p"))
            #expect(found.map { $0["p"] } == ["d", "e", "f"])
            let page = try context.fetch(
                store.request("Item", where: "p < 'z'", sort: "-p", limit: 1, offset: 1))
            #expect(page.map { $0["p"] } == ["e"])
        }
    }

    @Test("CD-85: fetching a dirty object again gives the same instance with its changes")
    func refetchDirty() throws {
        let id = try store.insert("Item", ["p": "old"])
        let object = try context.existing(id)
        try context.performAndWait {
            object["p"] = "mine"
            let found = try context.fetch(store.request("Item"))
            #expect(found.count == 1)
            #expect(found.first === object)
            #expect(object["p"] == "mine")
        }
    }

    @Test("CD-122: count equals what a fetch gives, pending changes included")
    func count() throws {
        let id = try store.insert("Item", ["p": "a"])
        _ = try store.insert("Item", ["p": "b"])
        let object = try context.existing(id)
        try context.performAndWait { () throws in
            #expect(try context.count(for: store.request("Item")) == 2)
            context.delete(object)
            context.insert("Item")["p"] = "x"
            context.insert("Item")["p"] = "y"
            #expect(try context.count(for: store.request("Item")) == 3)
            #expect(try context.count(for: store.request("Item", where: "p > 'b'")) == 2)
        }
    }

    @Test("CD-86: refetched clean objects take the store's values only where asked for")
    func refreshRefetched() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        try pair.b.performAndWait {
            var request = try pair.store.request("Item")
            #expect(try pair.b.fetch(request) == [pair.xB])
            #expect(pair.xB["p"] == "p0")
            request.shouldRefreshRefetchedObjects = true
            #expect(try pair.b.fetch(request) == [pair.xB])
            #expect(pair.xB["p"] == "pA")
        }
    }

    @Test("CD-84, CD-86: what a fetch refreshes is sorted by the values that it has then")
    func refreshedAndSorted() throws {
        let pair = try Siblings()
        let second = try pair.store.insert("Item", ["p": "p1"])
        try pair.b.performAndWait {
            let other = try pair.b.existingObject(with: second)
            let pending = pair.b.insert("Item", ["p": "z"])
            try pair.aSaves(["p": "p2"])
            var request = try pair.store.request("Item", sort: "p")
            request.shouldRefreshRefetchedObjects = true
            #expect(try pair.b.fetch(request) == [other, pair.xB, pending])
            #expect(pair.xB["p"] == "p2")
        }
    }

    @Test("CD-121: dictionary results ignore pending changes")
    func dictionaries() throws {
        let object = try context.existing(try store.insert("Item", ["p": "stored"]))
        try context.performAndWait {
            object["p"] = "pending"
            var request = try store.request("Item")
            request.resultType = .dictionary
            request.propertiesToFetch = [.keyPath("p")]
            let rows = try context.fetchDictionaries(request)
            #expect(rows.map { $0.map(\.1) } == [[.string("stored")]])
        }
    }

    @Test("CD-123: an offset past the end gives nothing, limit 0 is no limit")
    func paging() throws {
        for text in ["a", "b"] { try store.insert("Item", ["p": text]) }
        for isDirty in [false, true] {
            try context.performAndWait { () throws in
                if isDirty { context.insert("Item")["p"] = "c" }
                let all = isDirty ? 3 : 2
                #expect(try context.fetch(store.request("Item", limit: 0)).count == all)
                #expect(try context.fetch(store.request("Item", offset: 5)).isEmpty)
                #expect(
                    try context.fetchObjectIDs(store.request("Item", offset: 1)).count == all - 1)
            }
        }
    }

    @Test("CD-127: what is neither grouped by nor an aggregate is refused, and having by itself")
    func grouping() throws {
        var request = try store.request("Item")
        request.resultType = .dictionary
        request.propertiesToFetch = [
            .keyPath("p"), .aggregate(name: "count", function: .count, keyPath: ""),
        ]
        request.propertiesToGroupBy = ["q"]
        var alone = try store.request("Item")
        alone.resultType = .dictionary
        alone.propertiesToFetch = [.keyPath("p")]
        alone.havingPredicate = try Predicate(format: "p == 'a'")
        for refused in [request, alone] {
            let error = #expect(throws: CoordinatorError.self) {
                try context.performAndWait { _ = try context.fetchDictionaries(refused) }
            }
            #expect(error?.code == .malformed || error?.code == .invalidPredicate)
        }
        request.propertiesToGroupBy = ["p"]
        #expect(try context.performAndWait { try context.fetchDictionaries(request) }.isEmpty)
    }

    @Test(
        "CD-130: [cd] takes é for e, in the store and among pending changes",
        arguments: [
            "==[cd] 'CAFE'", "BEGINSWITH[cd] 'CAF'", "CONTAINS[cd] 'AFÉ'", "LIKE[cd] 'c?fe'",
        ])
    func folding(condition: String) throws {
        try store.insert("Item", ["p": "Café"])
        let folded = try store.request("Item", where: "p \(condition)")
        let exact = try store.request(
            "Item", where: "p \(condition.replacing("[cd]", with: ""))")
        try context.performAndWait { () throws in
            context.insert("Item", ["p": "cafe\u{301}"])
            #expect(try context.fetch(folded).count == 2)
            #expect(try context.fetch(exact).isEmpty)
        }
    }

    @Test("CD-132: an OR across two to-manys gives each object once")
    func eachOnce() throws {
        try store.save { context in
            let boss = context.insert("Person", ["name": "boss"])
            for number in 0..<3 {
                let book = context.insert("Book", ["title": "t\(number)"])
                boss.add(book, toRelationship: "books")
                let report = context.insert("Person", ["name": "r\(number)"])
                boss.add(report, toRelationship: "reports")
            }
        }
        let format = "ANY books.title BEGINSWITH 't' OR ANY reports.name BEGINSWITH 'r'"
        try context.performAndWait {
            let found = try context.fetch(store.request("Person", where: format))
            #expect(found.map { $0["name"] as String? } == ["boss"])
            #expect(try context.count(for: store.request("Person", where: format)) == 1)
        }
    }

    @Test("A predicate the model does not know is refused, pending changes or not")
    func invalidPredicate() throws {
        for isDirty in [false, true] {
            let error = #expect(throws: CoordinatorError.self) {
                try context.performAndWait {
                    if isDirty { context.insert("Item") }
                    _ = try context.fetch(store.request("Item", where: "nothing == 1"))
                }
            }
            #expect(error?.code == .invalidPredicate)
        }
    }
}
