import Coordinator
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, "Contexts": blocks, uniquing, faults, refreshing, merging, notifications.
@Suite struct ContextConformanceTests {
    let store: TestStore
    let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    // MARK: Blocks

    @Test("CD-79: perform inside perform runs after it; performAndWait inside runs inline")
    func nesting() async {
        let order = Mutex<[String]>([])
        await context.perform { [context] in
            context.perform { order.withLock { $0.append("later") } }
            context.performAndWait { order.withLock { $0.append("inline") } }
            order.withLock { $0.append("outer") }
        }
        await context.perform {}
        #expect(order.withLock { $0 } == ["inline", "outer", "later"])
    }

    @Test("CD-80: perform ends with processing of changes; observers hear once")
    func oneNotification() async {
        let counts = Mutex<[Int]>([])
        context.observeObjectsDidChange { changes in
            counts.withLock { $0.append(changes.inserted.count) }
        }
        await context.perform { [context] in
            context.insert("Item")["p"] = "1"
            context.insert("Item")["p"] = "2"
        }
        #expect(counts.withLock { $0 } == [2])
    }

    @Test("CD-81: performAndWait gives the block's value and rethrows")
    func performAndWait() async throws {
        #expect(context.performAndWait { 42 } == 42)
        struct Failure: Error {}
        #expect(throws: Failure.self) { try context.performAndWait { throw Failure() } }
        await #expect(throws: Failure.self) { try await context.perform { throw Failure() } }
    }

    // MARK: Uniquing

    @Test("CD-87: existingObject throws for a missing row, object(with:) is a fault")
    func lookUp() throws {
        let id = try store.insert("Item", ["p": "a"])
        let missing = ManagedObjectID(entityName: "Item", row: RowID(12345))
        context.performAndWait {
            #expect(context.registeredObject(for: id) == nil)
            let object = context.object(with: id)
            #expect(object.isFault)
            #expect(context.registeredObject(for: id) === object)
            #expect(object["p"] == "a")
            #expect(!object.isFault)
            let error = #expect(throws: CoordinatorError.self) {
                try context.existingObject(with: missing)
            }
            #expect(error?.code == .objectNotFound)
            #expect(context.object(with: missing).isFault)
        }
    }

    @Test("CD-88: one row is one instance in a context, another in another with an equal ID")
    func uniquing() throws {
        let pair = try Siblings()
        #expect(pair.xA !== pair.xB)
        #expect(pair.xA.objectID == pair.xB.objectID)
        try pair.a.performAndWait { () throws in
            #expect(try pair.a.existingObject(with: pair.id) === pair.xA)
            #expect(try pair.a.fetch(pair.store.request("Item")).first === pair.xA)
        }
    }

    // MARK: Refreshing

    @Test("CD-89: refreshing with merge keeps unsaved changes over new values of the store")
    func refreshMerging() throws {
        let pair = try Siblings()
        pair.b.performAndWait { pair.xB["p"] = "pB" }
        try pair.aSaves(["p": "pA", "q": "qA"])
        pair.b.performAndWait { pair.b.refresh(pair.xB, mergeChanges: true) }
        #expect(pair.inB("p") == "pB")
        #expect(pair.inB("q") == "qA")
        #expect(
            pair.b.performAndWait { pair.xB.committedValues(forKeys: ["p"]) }
                == ["p": .string("pA")])
    }

    @Test("CD-90: refreshing without merge discards the changes and makes a fault")
    func refreshDiscarding() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        pair.b.performAndWait {
            pair.xB["p"] = "pB"
            pair.b.refresh(pair.xB, mergeChanges: false)
            #expect(pair.xB.isFault)
            #expect(!pair.b.hasChanges)
            #expect(pair.xB["p"] == "pA")
        }
    }

    @Test("CD-91: after refreshing with merge the save does not conflict any more")
    func refreshThenSave() throws {
        let pair = try Siblings()
        pair.b.performAndWait { pair.xB["p"] = "pB" }
        try pair.aSaves(["p": "pA", "q": "qA"])
        pair.b.performAndWait { pair.b.refresh(pair.xB, mergeChanges: true) }
        try pair.bSaves([:])
        #expect(try pair.stored("p") == "pB")
        #expect(try pair.stored("q") == "qA")
    }

    @Test("CD-92: rollback drops inserts and deletes and restores values without reading")
    func rollback() throws {
        let pair = try Siblings()
        let second = try pair.store.insert("Item", ["p": "second"])
        try pair.b.performAndWait {
            let other = try pair.b.existingObject(with: second)
            let inserted = pair.b.insert("Item")
            pair.xB["p"] = "pB"
            pair.b.delete(other)
            try pair.aSaves(["p": "pA"])
            pair.b.rollback()
            #expect(!pair.b.hasChanges)
            #expect(pair.xB["p"] == "p0")
            #expect(!other.isDeleted)
            #expect(other["p"] == "second")
            #expect(inserted.managedObjectContext == nil)
        }
        #expect(try pair.store.isStored(second))
    }

    @Test("CD-93: reset forgets all objects, and earlier ones are cut off")
    func reset() throws {
        let object = try context.existing(try store.insert("Item", ["p": "a"]))
        context.performAndWait {
            object["p"] = "b"
            context.reset()
            #expect(context.registeredObjects.isEmpty)
            #expect(!context.hasChanges)
            #expect(object.managedObjectContext == nil)
            let value: PropertyValue = object["p"]
            #expect(value.isNull)
        }
    }

    // MARK: Merging

    @Test("CD-94: merging updates clean objects, keeps unsaved properties, follows deletes")
    func mergeChanges() throws {
        let pair = try Siblings()
        let clean = try pair.store.insert("Item", ["p": "clean"])
        let doomed = try pair.store.insert("Item", ["p": "doomed"])
        let objects = try pair.b.performAndWait {
            try [clean, doomed].map { try pair.b.existingObject(with: $0) }
        }
        let saved = Mutex<ContextDidSave?>(nil)
        pair.a.observeDidSave { _, changes in saved.withLock { $0 = changes } }
        pair.b.performAndWait {
            pair.xB["p"] = "pB"
            objects[1]["p"] = "dirty"
        }
        try pair.a.performAndWait {
            pair.xA["p"] = "pA"
            pair.xA["q"] = "qA"
            try pair.a.existingObject(with: clean)["p"] = "news"
            pair.a.delete(try pair.a.existingObject(with: doomed))
            try pair.a.save()
        }
        let changes = try #require(saved.withLock { $0 })
        #expect(changes.updated == [pair.id, clean])
        try pair.b.performAndWait {
            pair.b.mergeChanges(fromContextDidSave: changes)
            #expect(objects[0]["p"] == "news")
            #expect(pair.xB["p"] == "pB")
            #expect(pair.xB["q"] == "qA")
            #expect(objects[1].isDeleted)
            #expect(pair.b.updatedObjects == [pair.xB])
            try pair.b.save()
        }
        #expect(try pair.stored("p") == "pB")
    }

    @Test("CD-94: merging tells observers of objects that have other members by what was saved")
    func mergingMembers() throws {
        let ids = try [
            store.insert("Person", ["name": "Ada"]), store.insert("Person", ["name": "Bob"]),
            store.insert("Item"), store.insert("Tag"), store.insert("Tag"),
        ]
        let objects = try ids.map { try context.existing($0) }
        let refreshed = Mutex<[Set<ManagedObjectID>]>([])
        context.observeObjectsDidChange { changes in
            refreshed.withLock { $0.append(Set(changes.refreshed.map(\.objectID))) }
        }
        let other = store.context()
        func merged(
            reading keys: [(Int, String)], _ change: ([ManagedObject]) -> Void
        ) throws -> Set<ManagedObjectID> {
            refreshed.withLock { $0 = [] }
            context.performAndWait {
                for (index, key) in keys {
                    _ = objects[index].relatedObjects(forKey: key, as: ManagedObject.self)
                }
            }
            let saved = Mutex<ContextDidSave?>(nil)
            let observation = other.observeDidSave { _, ids in saved.withLock { $0 = ids } }
            defer { observation.cancel() }
            try other.performAndWait {
                change(try ids.map { try other.existingObject(with: $0) })
                try other.save()
            }
            let ids = try #require(saved.withLock { $0 })
            context.performAndWait { context.mergeChanges(fromContextDidSave: ids) }
            return refreshed.withLock { $0.reduce(into: []) { $0.formUnion($1) } }
        }
        let items = [(0, "items"), (1, "items")]
        let tags = [(2, "tags"), (3, "items"), (4, "items")]
        #expect(
            try merged(reading: items) { $0[2].setRelatedObject($0[0], forKey: "owner") }
                == [ids[0], ids[2]])
        #expect(
            try merged(reading: items) { $0[2].setRelatedObject($0[1], forKey: "owner") }
                == [ids[0], ids[1], ids[2]])
        #expect(
            try merged(reading: tags) { $0[2].add($0[3], toRelationship: "tags") }
                == [ids[2], ids[3]])
        #expect(
            try merged(reading: tags) { $0[2].remove($0[3], fromRelationship: "tags") }
                == [ids[2], ids[3]])
        // One that is not at hand.
        var inserted: ManagedObject?
        #expect(
            try merged(reading: items) {
                inserted = other.insert("Item")
                inserted?.setRelatedObject($0[0], forKey: "owner")
            } == [ids[0]])
        #expect(
            try merged(reading: items) { _ in if let inserted { other.delete(inserted) } }
                == [ids[0]])
        // What a context merges of its own is known to it.
        refreshed.withLock { $0 = [] }
        try context.performAndWait {
            objects[2].setRelatedObject(objects[0], forKey: "owner")
            objects[2].add(objects[4], toRelationship: "tags")
            try context.save()
            context.mergeChanges(fromContextDidSave: ContextDidSave(updated: Set(ids)))
        }
        #expect(refreshed.withLock { $0.allSatisfy(\.isEmpty) })
    }

    @Test("CD-94, CD-149: a link of an heir's object that a commit tells of is merged, and told of")
    func mergingLinksOfHeirs() async throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "Place",
                    relationships: [.init("signs", to: "Sign", inverse: "places", isToMany: true)]),
                EntityDescription("Town", parent: "Place"),
                EntityDescription(
                    "Sign",
                    relationships: [.init("places", to: "Place", inverse: "signs", isToMany: true)]),
            ]))
        let (town, sign) = (try store.insert("Town"), try store.insert("Sign"))
        let context = store.context()
        let object = try context.existing(town)
        context.performAndWait {
            #expect(object.relatedObjects(forKey: "signs", as: ManagedObject.self).isEmpty)
        }
        let refreshed = Mutex<Set<ManagedObjectID>>([])
        context.observeObjectsDidChange { changes in
            refreshed.withLock { $0.formUnion(changes.refreshed.map(\.objectID)) }
        }
        let (notices, continuation) = AsyncStream.makeStream(of: CommitNotice.self)
        let observation = store.coordinator.observeCommits { continuation.yield($0) }
        defer { observation.cancel() }
        try store.save { other in
            try other.existingObject(with: town)
                .add(try other.existingObject(with: sign), toRelationship: "signs")
        }
        for await notice in notices {
            context.performAndWait {
                context.mergeChanges(fromContextDidSave: ContextDidSave(notice))
            }
            break
        }
        #expect(refreshed.withLock { $0 } == [town])
    }

    @Test("CD-95: a sibling's save is merged by itself where asked for")
    func automaticMerge() async throws {
        let pair = try Siblings()
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        pair.b.automaticallyMergesChangesFromParent = true
        pair.b.observeObjectsDidChange { changes in
            if !changes.refreshed.isEmpty { continuation.yield() }
        }
        try pair.aSaves(["p": "pA"])
        for await _ in stream { break }
        #expect(pair.inB("p") == "pA")
        pair.b.automaticallyMergesChangesFromParent = false
        #expect(!pair.b.automaticallyMergesChangesFromParent)
    }

    // MARK: Saving

    private final class Heard: Sendable { let saves = Mutex<[ContextDidSave]>([]) }

    /// What the context tells its observers of saves; the objects are those of the IDs.
    private func heardSaves() -> Heard {
        let heard = Heard()
        context.observeDidSave { changes, ids in
            #expect(Set(changes.inserted.map(\.objectID)) == ids.inserted)
            #expect(Set(changes.updated.map(\.objectID)) == ids.updated)
            #expect(Set(changes.deleted.map(\.objectID)) == ids.deleted)
            heard.saves.withLock { $0.append(ids) }
        }
        return heard
    }

    @Test("CD-101: didSave comes before save returns, with the three sets and their IDs")
    func didSave() throws {
        let changed = try store.insert("Item", ["p": "a"])
        let doomed = try store.insert("Item", ["p": "b"])
        let heard = heardSaves()
        try context.performAndWait {
            let inserted = context.insert("Item")
            try context.existingObject(with: changed)["p"] = "c"
            context.delete(try context.existingObject(with: doomed))
            try context.save()
            let ids = try #require(heard.saves.withLock { $0.first })
            #expect(ids.inserted == [inserted.objectID])
            #expect(ids.updated == [changed])
            #expect(ids.deleted == [doomed])
            #expect(ids.token != nil)
        }
        #expect(heard.saves.withLock { $0.count } == 1)
    }

    @Test("CD-101: didSave lists what delete rules took along, and nothing that was not saved")
    func didSaveBesides() throws {
        let ada = try store.insert("Person", ["name": "Ada"])
        let gone = try store.insert("Item", ["p": "a"])
        let heard = heardSaves()
        context.mergePolicy = .mergeByPropertyObjectTrump
        let item = try context.existing(gone)
        let author = try context.existing(ada)
        context.performAndWait {
            // So it does not know of any.
            #expect(author.relatedObjects(forKey: "books", as: ManagedObject.self).isEmpty)
        }
        let other = store.context()
        let novel = try other.performAndWait {
            let novel = other.insert("Book")
            novel.setRelatedObject(other.object(with: ada), forKey: "author")
            try other.save()
            return novel.objectID
        }
        try store.delete(gone)
        try context.performAndWait {
            item["p"] = "b"
            context.delete(author)
            try context.save()
        }
        let ids = try #require(heard.saves.withLock { $0.first })
        #expect(ids.inserted == [])
        #expect(ids.updated == [])
        #expect(ids.deleted == [ada, novel])
    }

    // MARK: Hooks

    private final class Hooked: ManagedObject {
        var inserts = 0
        var fetches = 0
        var willSaves = 0
        var didSaves = 0

        override func awakeFromInsert() {
            inserts += 1
            self["q"] = "awake"
        }

        override func awakeFromFetch() {
            fetches += 1
            self["note"] = "fetched"
        }

        override func willSave() {
            willSaves += 1
            let p: String? = self["p"]
            if p == "change me" { self["p"] = "changed by willSave" }
        }

        override func didSave() { didSaves += 1 }
    }

    @Test("CD-102: willSave may change values and is called again")
    func willSave() throws {
        try context.performAndWait {
            context.register(Hooked.self, for: "Item")
            let object = context.insert(Hooked.self)
            object["p"] = "change me"
            try context.save()
            #expect(object.willSaves == 2)
            #expect(object.didSaves == 1)
            #expect(try store.stored(object.objectID, "p") == "changed by willSave")
            object.setPrimitiveValue(.string("untracked"), forKey: "p")
            #expect(!context.hasChanges)
        }
    }

    @Test("CD-103: awakeFromInsert runs once, awakeFromFetch each time and dirties nothing")
    func awakening() throws {
        try context.performAndWait {
            context.register(Hooked.self, for: "Item")
            let object = context.insert(Hooked.self)
            #expect(object.inserts == 1)
            try context.save()
            #expect(try store.stored(object.objectID, "q") == "awake")
            #expect(object.fetches == 0)
            context.refresh(object, mergeChanges: false)
            #expect(object["note"] == "fetched")
            context.refresh(object, mergeChanges: false)
            #expect(object["q"] == "awake")
            #expect(object.fetches == 2)
            #expect(object.inserts == 1)
            #expect(!context.hasChanges)
        }
    }

    @Test("CD-112: transient values are not stored; refresh keeps them with merge, else not")
    func transient() throws {
        let object = try context.existing(try store.insert("Item", ["p": "a"]))
        try context.performAndWait {
            object["note"] = "mine"
            try context.save()
            context.refresh(object, mergeChanges: true)
            #expect(object["note"] == "mine")
            context.refresh(object, mergeChanges: false)
            let value: PropertyValue = object["note"]
            #expect(value.isNull)
        }
    }

    // MARK: Confinement

    @Test("CD-146: using an object or a context off its queue traps, every time")
    func confinement() async {
        await #expect(processExitsWith: .failure) {
            guard let context = try? TestStore().context() else { return }
            _ = context.hasChanges
        }
        await #expect(processExitsWith: .failure) {
            guard let context = try? TestStore().context() else { return }
            let object = context.performAndWait { context.insert("Item") }
            object["p"] = "elsewhere"
        }
    }

    // MARK: Validation

    @Test("CD-104, CD-105: missing mandatory values fail as one 1560 that lists each as 1570")
    func validation() throws {
        let error = try #require(throws: CoordinatorError.self) {
            try context.performAndWait {
                context.insert("Person")
                context.insert("Person")
                context.insert("Item")["p"] = "innocent"
                try context.save()
            }
        }
        #expect(error.code.number == 1560)
        #expect(error.failures.map(\.code.rawValue) == [1570, 1570])
        #expect(error.failures.map(\.property) == ["name", "name"])
        #expect(error.number == 1560)
        try context.performAndWait { () throws in
            #expect(context.insertedObjects.count == 3)
            #expect(try store.context().storedCount(store.request("Item")) == 0)
        }
    }

    @Test("CD-105: one missing mandatory value fails with 1570")
    func oneMissingValue() throws {
        let error = try #require(throws: CoordinatorError.self) {
            try context.performAndWait {
                context.insert("Person")
                try context.save()
            }
        }
        #expect(error.code == .validationFailed)
        #expect(error.number == 1570)
        #expect(try store.context().storedCount(store.request("Person")) == 0)
    }
}

extension ManagedObjectContext {
    /// A count from outside the context's queue.
    func storedCount(_ request: FetchRequest) throws -> Int {
        try performAndWait { try count(for: request) }
    }
}
