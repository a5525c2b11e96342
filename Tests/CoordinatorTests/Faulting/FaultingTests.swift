import Merge
import Testing

@testable import Coordinator

/// Faults, batches, prefetching and the row cache, counted in statements.
@Suite("Faulting")
struct FaultingTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    /// How many statements some work of a context runs to read.
    private func statements(
        _ context: ManagedObjectContext? = nil, _ work: () throws -> Void
    ) rethrows -> UInt64 {
        let context = context ?? self.context
        let before = context.counters.statements
        try work()
        return context.counters.statements - before
    }

    private func expectStatements(
        _ expected: UInt64, _ found: UInt64, at place: SourceLocation = #_sourceLocation
    ) {
        #expect(found == expected, sourceLocation: place)
    }

    private func items(_ count: Int) throws {
        try store.save { context in
            for number in 0..<count { context.insert("Item", ["p": "\(1_000 + number)"]) }
        }
    }

    @Test("A fetch gives faults, and what it has read serves them")
    func faults() throws {
        try items(20)
        try context.performAndWait {
            var request = try store.request("Item", sort: "p")
            var found: [ManagedObject] = []
            let fetching = try statements { found = try context.fetch(request) }
            #expect(fetching == 1)
            #expect(found.allSatisfy { $0.isFault })
            expectStatements(0, statements { #expect(found[7]["p"] == "1007") })
            #expect(!found[7].isFault)
            #expect(found[8].isFault)
            request.returnsObjectsAsFaults = false
            let realised = try context.fetch(request)
            #expect(realised.allSatisfy { !$0.isFault })
            #expect(context.counters.cacheHits == 1)
        }
    }

    @Test("A store's own fetch gives each object once, however many are read together")
    func chunks() throws {
        for count in [0, 1, 256, 257, 600] {
            let store = try TestStore()
            try store.save { context in
                for number in 0..<count { context.insert("Item", ["p": "\(10_000 + number)"]) }
            }
            let request = try store.request("Item", sort: "p")
            let found = try store.coordinator.read { try $0.fetch(request) }.map(\.objectID)
            let expected = try store.coordinator.read { try $0.objectIDs(request) }
            #expect(found == expected)
            #expect(found.count == count)
        }
    }

    @Test("CD-124: a batched fetch reads which objects there are, and a batch where it is touched")
    func batches() throws {
        try items(95)
        try context.performAndWait {
            var request = try store.request("Item", sort: "p")
            request.fetchBatchSize = 10
            var found: [ManagedObject] = []
            let fetching = try statements { found = try context.fetch(request) }
            #expect(fetching == 1)
            let touching = statements {
                for (number, object) in found.enumerated() {
                    #expect(object["p"] == "\(1_000 + number)")
                }
            }
            #expect(touching == 10)
        }
        let other = store.context()
        try other.performAndWait {
            let list = try other.fetch(store.request("Item", sort: "-p"), batchSize: 20)
            #expect(list.count == 95)
            store.coordinator.forgetCachedRows()
            let touching = statements(other) {
                for object in list { #expect(object["p"] as String? != nil) }
            }
            #expect(touching == 5)
            #expect(other.registeredObjects.count <= 60)
            #expect(list[94]["p"] == "1000")
        }
    }

    @Test("CD-124: a batched list has pending changes in their places, and deleted ones stay")
    func batchedList() throws {
        try items(30)
        try context.performAndWait {
            let all = try context.fetch(store.request("Item", sort: "p"))
            all[3]["p"] = "9"
            context.delete(all[4])
            let inserted = context.insert("Item", ["p": "10005"])
            let list = try context.fetch(store.request("Item", sort: "p"), batchSize: 7)
            #expect(list.count == 30)
            #expect(list[0] === all[0])
            #expect(list.contains(inserted))
            #expect(list.last === all[3])
            let pairs = zip(list, list.dropFirst()).map { left, right -> Bool in
                let values: (String?, String?) = (left["p"], right["p"])
                return values.0 ?? "" < values.1 ?? ""
            }
            #expect(pairs.allSatisfy { $0 })
            let objectID = all[20].objectID
            try store.save { $0.delete(try $0.existingObject(with: objectID)) }
            context.refreshAllObjects()
            let index = try #require(list.objectIDs.firstIndex(of: objectID))
            #expect(list.count == 30)
            #expect(list[index]["p"] as String? == nil)
            #expect(list[index].isDeleted)
        }
    }

    @Test("Refreshing all objects reads the members of faults again")
    func refreshedMembers() throws {
        let id = try store.insert("Person", ["name": "a"])
        let held = try context.performAndWait {
            let person = try #require(try context.fetch(store.request("Person")).first)
            #expect(person.relatedObjects(forKey: "books", as: ManagedObject.self).isEmpty)
            #expect(person.isFault)
            return person
        }
        try store.save { context in
            context.insert("Book").setRelatedObject(
                try context.existingObject(with: id), forKey: "author")
        }
        context.performAndWait {
            context.refreshAllObjects()
            let books = held.relatedObjects(forKey: "books", as: ManagedObject.self)
            #expect(books.count == 1)
        }
    }

    @Test("A batched list follows what was unsaved, and refuses wrong key paths at once")
    func batchedPending() throws {
        try items(3)
        try context.performAndWait {
            var request = try store.request("Item", sort: "p")
            let saved = context.insert("Item", ["p": "8"])
            let gone = context.insert("Item", ["p": "9"])
            let list = try context.fetch(request, batchSize: 2)
            context.delete(gone)
            try context.save()
            #expect(list.count == 5)
            #expect(list[3] === saved)
            #expect(!list.objectIDs[3].isTemporaryID)
            #expect(list[4] === gone)
            request.relationshipKeyPathsForPrefetching = ["ownr"]
            #expect(throws: CoordinatorError.self) {
                _ = try context.fetch(request, batchSize: 2)
            }
            #expect(context.faultingError == nil)
            request.relationshipKeyPathsForPrefetching = []
            request.fetchBatchSize = -1
            #expect(throws: CoordinatorError.self) { _ = try context.fetch(request) }
        }
    }

    @Test("Objects of a file that is open for reading have what the fetch read of them")
    func readingOnly() throws {
        try items(4)
        let reading = try PersistentStoreCoordinator(readingStoreAt: store.coordinator.storePath)
        defer { reading.close() }
        let context = reading.newBackgroundContext()
        try context.performAndWait {
            let found = try context.fetch(store.request("Item", sort: "p"))
            expectStatements(
                0,
                statements(context) {
                    for object in found { #expect(object["p"] as String? != nil) }
                })
        }
    }

    @Test("CD-125: without property values each fault asks the store once")
    func withoutValues() throws {
        try items(5)
        store.coordinator.forgetCachedRows()
        try context.performAndWait {
            var request = try store.request("Item", sort: "p")
            request.includesPropertyValues = false
            let found = try context.fetch(request)
            #expect(found.allSatisfy { $0.isFault })
            expectStatements(1, statements { #expect(found[0]["p"] == "1000") })
            expectStatements(0, statements { #expect(found[0]["q"] as String? == nil) })
            expectStatements(1, statements { #expect(found[1]["p"] == "1001") })
        }
    }

    @Test("CD-126: prefetching costs one statement an entity and step, and none when followed")
    func prefetching() throws {
        try store.save { context in
            for number in 0..<10 {
                let person = context.insert("Person", ["name": "\(number)"])
                for book in 0..<3 {
                    let object = context.insert("Book", ["title": "\(number).\(book)"])
                    person.add(object, toRelationship: "books")
                }
                let tag = context.insert("Tag", ["name": "t\(number)"])
                let item = context.insert("Item", ["p": "\(number)"])
                item.setRelatedObject(person, forKey: "owner")
                item.add(tag, toRelationship: "tags")
            }
        }
        store.coordinator.forgetCachedRows()
        try context.performAndWait {
            var request = try store.request("Item", sort: "p")
            request.relationshipKeyPathsForPrefetching = ["owner.books", "tags"]
            var found: [ManagedObject] = []
            let fetching = try statements { found = try context.fetch(request) }
            #expect(fetching == 4)
            let following = statements {
                for (number, item) in found.enumerated() {
                    let owner = item.relatedObject(forKey: "owner", as: ManagedObject.self)
                    let books = owner?.relatedObjects(forKey: "books", as: ManagedObject.self)
                    let titles = books?.compactMap { $0["title"] as String? }.sorted()
                    let expected = (0..<3).map { "\(number).\($0)" }
                    #expect(titles == expected)
                    let tags = item.relatedObjects(forKey: "tags", as: ManagedObject.self)
                    let names = tags.map { $0["name"] as String? }
                    #expect(names == ["t\(number)"])
                }
            }
            #expect(following == 0)
            request.relationshipKeyPathsForPrefetching = ["owner.nothing"]
            #expect(throws: CoordinatorError.self) { _ = try context.fetch(request) }
        }
    }

    @Test("What is prefetched there and back is in use until the context is reset")
    func prefetchedCycle() throws {
        try store.save { context in
            let person = context.insert("Person", ["name": "a"])
            for _ in 0..<3 {
                person.add(context.insert("Book"), toRelationship: "books")
            }
        }
        weak var book: ManagedObject?
        try context.performAndWait {
            var request = try store.request("Person")
            request.relationshipKeyPathsForPrefetching = ["books.author.books"]
            let person = try #require(try context.fetch(request).first)
            book = person.relatedObjects(forKey: "books", as: ManagedObject.self).first
            #expect(book != nil)
        }
        #expect(book != nil)
        context.performAndWait { context.reset() }
        #expect(book == nil)
    }

    @Test("CD-96: a row that was read serves other contexts' faults, as old as they bear it")
    func staleness() throws {
        let id = try store.insert("Item", ["p": "a"])
        let first = try context.existing(id)
        context.performAndWait { #expect(first["p"] == "a") }
        let other = store.context()
        other.performAndWait {
            let object = other.object(with: id)
            expectStatements(0, statements(other) { #expect(object["p"] == "a") })
            other.refresh(object, mergeChanges: false)
            other.stalenessInterval = 0
            expectStatements(1, statements(other) { #expect(object["p"] == "a") })
            other.stalenessInterval = 3_600
            other.refresh(object, mergeChanges: false)
            expectStatements(0, statements(other) { #expect(object["p"] == "a") })
            #expect(other.counters.faults == 3)
        }
    }

    @Test("The cache is never stale: what a commit has touched is read again, a pin reads its own")
    func neverStale() throws {
        let id = try store.insert("Item", ["p": "a"])
        let still = try store.insert("Item", ["p": "s"])
        let pinned = store.context()
        try pinned.performAndWait {
            pinned.setQueryGeneration(from: .current)
            _ = try pinned.fetch(store.request("Item"))
        }
        let found = try context.performAndWait { try context.fetch(store.request("Item")) }
        try store.update(id, "p", "b")
        try context.performAndWait {
            let object = try #require(found.first { $0.objectID == id })
            let other = try #require(found.first { $0.objectID == still })
            expectStatements(0, statements { #expect(other["p"] == "s") })
            expectStatements(1, statements { #expect(object["p"] == "b") })
        }
        try pinned.performAndWait { () throws in
            #expect(pinned.object(with: id)["p"] == "a")
            let same = try pinned.existingObject(with: still)
            #expect(same["p"] == "s")
        }
        try store.save { $0.delete(try $0.existingObject(with: id)) }
        let fresh = store.context()
        fresh.performAndWait { #expect(fresh.object(with: id)["p"] as String? == nil) }
        pinned.performAndWait { #expect(pinned.object(with: id)["p"] == "a") }
    }

    @Test("The cache stays within its bytes, and a cache of no bytes is none")
    func bound() throws {
        let model = try TestStore.standardModel()
        for limit in [0, 4_000] {
            var options = PersistentStoreCoordinator.Options()
            options.rowCacheBytes = limit
            let store = try TestStore(model, options: options)
            try store.save { context in
                for number in 0..<100 { context.insert("Item", ["p": "\(number)"]) }
            }
            let context = store.context()
            try context.performAndWait {
                for object in try context.fetch(store.request("Item")) {
                    let other = store.context()
                    _ = try other.performAndWait { try other.existingObject(with: object.objectID) }
                    #expect(store.coordinator.rowCacheGauge.bytes <= limit)
                }
            }
            #expect((store.coordinator.rowCacheGauge.rows > 0) == (limit > 0))
        }
    }

    @Test("Chosen properties are there without a statement, others fire the fault")
    func partialFaults() throws {
        try store.save { $0.insert("Item", ["p": "a", "q": "b"]) }
        store.coordinator.forgetCachedRows()
        try context.performAndWait {
            var request = try store.request("Item")
            request.propertiesToFetch = [.keyPath("p")]
            let object = try #require(try context.fetch(request).first)
            expectStatements(0, statements { #expect(object["p"] == "a") })
            #expect(object.isFault)
            expectStatements(1, statements { #expect(object["q"] == "b") })
            #expect(!object.isFault)
            try store.update(object.objectID, "p", "c")
            context.refresh(object, mergeChanges: false)
            _ = try context.fetch(request)
            try store.update(object.objectID, "p", "d")
            #expect(object["p"] == "d")
            request.propertiesToFetch = [.keyPath("owner.name")]
            #expect(throws: CoordinatorError.self) { _ = try context.fetch(request) }
        }
    }

    @Test("The identities behind a relationship are told without making objects")
    func relatedIDs() throws {
        let (person, books) = try context.performAndWait {
            let person = context.insert("Person", ["name": "a"])
            let books = (0..<3).map { _ in context.insert("Book") }
            for book in books { person.add(book, toRelationship: "books") }
            try context.save()
            return (person.objectID, books.map(\.objectID).sorted())
        }
        let other = store.context()
        try other.performAndWait {
            let object = try other.existingObject(with: person)
            #expect(object.objectIDs(forRelationshipNamed: "books") == books)
            #expect(other.registeredObjects.count == 1)
            let book = try other.existingObject(with: books[0])
            #expect(book.objectIDs(forRelationshipNamed: "author") == [person])
        }
    }
}
