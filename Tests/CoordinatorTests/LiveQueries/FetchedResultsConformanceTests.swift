import Merge
import Synchronization
import Testing

@testable import Coordinator

/// CONFORMANCE.md, CD-139 to CD-144.
@Suite("Fetched results") struct FetchedResultsConformanceTests {
    private let store: TestStore
    private let context: ManagedObjectContext
    private let mirror = ResultsMirror()

    init() throws { (store, context) = try TestStore.withContext() }

    private func controller(
        _ entity: String = "Item", where format: String? = nil, sort: [String] = ["p"],
        sections: String? = nil, cache: String? = nil, limit: Int = 0,
        _ context: ManagedObjectContext? = nil
    ) throws -> FetchedResultsController<ManagedObject> {
        FetchedResultsController(
            fetchRequest: FetchRequest(
                entity, predicate: try format.map { try Predicate(format: $0) },
                sortDescriptors: sort.map { SortDescriptor(text: $0) }, fetchLimit: limit),
            managedObjectContext: context ?? self.context, sectionNameKeyPath: sections,
            cacheName: cache)
    }

    /// A controller of saved items, each named by its `p`, with the mirror as delegate.
    private func following(
        _ items: [String], sort: [String] = ["p"], sections: String? = nil,
        where format: String? = nil, limit: Int = 0
    ) throws -> FetchedResultsController<ManagedObject> {
        try store.save { context in
            for name in items { context.insert("Item", ["p": name, "q": "q"]) }
        }
        let controller = try controller(
            where: format, sort: sort, sections: sections, limit: limit)
        try context.performAndWait {
            controller.delegate = mirror
            try controller.performFetch()
            mirror.copy(controller)
        }
        return controller
    }

    private func event(_ body: () throws -> Void) throws -> [String] {
        try context.performAndWait(body)
        #expect(mirror.faults.isEmpty)
        return mirror.takeLog()
    }

    private func item(_ name: String, _ context: ManagedObjectContext? = nil) throws
        -> ManagedObject
    {
        try #require(
            (context ?? self.context).fetch(store.request("Item", where: "p == '\(name)'")).first)
    }

    private func names(_ controller: FetchedResultsController<ManagedObject>) -> [String] {
        context.performAndWait { (controller.fetchedObjects ?? []).map(ResultsMirror.name) }
    }

    // MARK: CD-139

    @Test("CD-139: a controller without a sort descriptor does not fetch")
    func noOrder() throws {
        let controller = try controller(sort: [])
        let error = try #require(throws: CoordinatorError.self) {
            try context.performAndWait { try controller.performFetch() }
        }
        #expect(error.code == .malformed)
        #expect(error.message.contains("Item"))
        #expect(context.performAndWait { controller.fetchedObjects } == nil)
    }

    @Test("CD-139: a section key that is not first in the order is an error")
    func sectionKeyNotFirst() throws {
        for sort in [["q", "p"], ["q"]] {
            let controller = try controller(sort: sort, sections: "p")
            let error = try #require(throws: CoordinatorError.self) {
                try context.performAndWait { try controller.performFetch() }
            }
            #expect(error.code == .malformed)
        }
        let descending = try controller(sort: ["-p"], sections: "p")
        try context.performAndWait { try descending.performFetch() }
    }

    @Test("A controller refuses other results than objects with pending changes")
    func refused() throws {
        let controller = try controller()
        context.performAndWait {
            controller.fetchRequest.resultType = .dictionary
            #expect(throws: CoordinatorError.self) { try controller.performFetch() }
            controller.fetchRequest.resultType = .objects
            controller.fetchRequest.includesPendingChanges = false
            #expect(throws: CoordinatorError.self) { try controller.performFetch() }
            controller.fetchRequest = FetchRequest(
                "Item", sortDescriptors: [SortDescriptor("tags.name")])
            let error = #expect(throws: CoordinatorError.self) { try controller.performFetch() }
            #expect(error?.code == .invalidPredicate)
        }
    }

    // MARK: CD-140

    @Test("CD-140: changing a sort key reports a move and no update, another property an update")
    func moveOrUpdate() throws {
        let controller = try following(["a", "b", "c"])
        let moved = try event { try item("a")["p"] = "d" }
        #expect(moved == ["will", "move d 0.0 > 0.2", "did"])
        let both = try event {
            let item = try item("d")
            item["q"] = "changed"
            item["p"] = "a"
        }
        #expect(both == ["will", "move a 0.2 > 0.0", "did"])
        let updated = try event { try item("b")["q"] = "changed" }
        #expect(updated == ["will", "update b 0.1 > 0.1", "did"])
        let nothing = try event { _ = context.insert("Tag") }
        #expect(nothing.isEmpty)
        #expect(names(controller) == ["a", "b", "c"])
    }

    @Test("CD-140: a sort key that changes without another place is a move to the same place")
    func moveInPlace() throws {
        let controller = try following(["a", "c"])
        let log = try event { try item("a")["p"] = "b" }
        #expect(log == ["will", "move b 0.0 > 0.0", "did"])
        #expect(names(controller) == ["b", "c"])
    }

    @Test("Inserts, deletes and objects that begin or cease to match are inserts and deletes")
    func comingAndGoing() throws {
        let controller = try following(["a", "b", "x"], where: "p < 'm'")
        #expect(
            try event { context.insert("Item", ["p": "aa"]) }
                == ["will", "insert aa - > 0.1", "did"])
        #expect(
            try event { context.delete(try item("a")) } == ["will", "delete - 0.0 > -", "did"])
        #expect(try event { try item("b")["p"] = "z" } == ["will", "delete z 0.1 > -", "did"])
        #expect(try event { try item("x")["p"] = "0" } == ["will", "insert 0 - > 0.0", "did"])
        #expect(
            try event { context.rollback() }
                == [
                    "will", "delete x 0.0 > -", "delete aa 0.1 > -", "insert a - > 0.0",
                    "insert b - > 0.1", "did",
                ])
        #expect(names(controller) == ["a", "b"])
    }

    @Test("Objects with new IDs after a save move only if their order is another one")
    func savedObjects() throws {
        let controller = try following(["a"], sort: ["q"])
        _ = try event {
            for name in ["b", "c", "d"] { context.insert("Item", ["p": name, "q": "q"]) }
        }
        let log = try event { try context.save() }
        let fresh = try context.performAndWait {
            try context.fetch(controller.fetchRequest).map(ResultsMirror.name)
        }
        #expect(names(controller) == fresh)
        #expect(log.isEmpty == (fresh == ["a", "b", "c", "d"]))
        #expect(mirror.sections.flatMap(\.objects).map(\.objectID.isTemporaryID).allSatisfy { !$0 })
        // A commit that comes back to its context says nothing new.
        let again = try event {
            let ids = mirror.sections.flatMap(\.objects).map(\.objectID)
            context.mergeChanges(fromContextDidSave: ContextDidSave(inserted: Set(ids)))
        }
        #expect(!again.contains { $0.hasPrefix("move") || $0.hasPrefix("delete") })
    }

    // MARK: CD-141

    @Test("CD-141: sections come before objects; old paths are of before, new ones of after")
    func sectionChanges() throws {
        let controller = try following(["a", "b", "b", "d"], sections: "p")
        let log = try event {
            context.delete(try item("a"))
            try item("d")["p"] = "c"
            context.insert("Item", ["p": "e"])
        }
        #expect(
            log == [
                "will", "section delete a 0", "section delete d 2", "section insert c 1",
                "section insert e 2", "delete - 0.0 > -", "insert e - > 2.0", "move c 2.0 > 1.0",
                "did",
            ])
        context.performAndWait {
            #expect(controller.sections?.map(\.name) == ["b", "c", "e"])
            #expect(controller.sections?.map(\.numberOfObjects) == [2, 1, 1])
            #expect(controller.sectionIndexTitles == ["B", "C", "E"])
            #expect(controller.section(forSectionIndexTitle: "C", at: 1) == 1)
        }
        let moved = try event { try item("c")["p"] = "b" }
        #expect(moved.prefix(2) == ["will", "section delete c 1"])
        #expect(moved.count == 4)
    }

    @Test("A nil and an empty section key are one section; names are told apart by their bytes")
    func sectionNames() throws {
        let controller = try following(["", "e\u{301}", "\u{E9}"], sections: "p")
        let log = try event { context.insert("Item", ["q": "q"]) }
        #expect(log == ["will", "insert - - > 0.0", "did"])
        context.performAndWait {
            #expect(controller.sections?.map(\.numberOfObjects) == [2, 1, 1])
        }
    }

    @Test("Without a section key path there is one section, also of no objects")
    func oneSection() throws {
        let controller = try following([])
        context.performAndWait {
            #expect(controller.sections?.map(\.numberOfObjects) == [0])
            #expect(controller.sections?.first?.indexTitle == nil)
        }
        #expect(
            try event { context.insert("Item", ["p": "a"]) }
                == ["will", "insert a - > 0.0", "did"])
        context.performAndWait {
            let path = FetchedResultsIndexPath(section: 0, item: 0)
            #expect(controller.indexPath(for: controller.object(at: path)) == path)
            #expect(controller.indexPath(for: context.insert("Item")) == nil)
        }
    }

    // MARK: CD-142

    @Test("CD-142: without a delegate the contents never change after performFetch")
    func noDelegate() throws {
        let controller = try following(["a", "b"])
        context.performAndWait { controller.delegate = nil }
        let kept = context.performAndWait { controller.fetchedObjects ?? [] }
        try context.performAndWait {
            context.delete(try item("a"))
            context.insert("Item", ["p": "c"])
            try context.save()
        }
        try store.insert("Item", ["p": "d"])
        context.performAndWait { context.refreshAllObjects() }
        #expect(context.performAndWait { controller.fetchedObjects } == kept)
        // A delegate that comes later hears of all of it with the next event.
        context.performAndWait { controller.delegate = mirror }
        let log = try event { context.insert("Item", ["p": "e"]) }
        #expect(log.filter { $0.hasPrefix("insert") }.count == 3)
        #expect(names(controller) == ["b", "c", "d", "e"])
    }

    // MARK: CD-143

    @Test("CD-143: a merge gives the same calls as a local edit, of faults too")
    func merged() throws {
        for isFault in [false, true] {
            let controller = try following([isFault ? "a1" : "a", isFault ? "b1" : "b"])
            let name = isFault ? "b1" : "b"
            let object = try context.performAndWait { try item(name) }
            func merge(_ body: (ManagedObjectContext) throws -> Void) throws -> [String] {
                if isFault { context.performAndWait { context.refreshAllObjects() } }
                _ = mirror.takeLog()
                let didSave = try saved(body)
                return try event { context.mergeChanges(fromContextDidSave: didSave) }
            }
            if isFault {
                context.performAndWait { context.refresh(object, mergeChanges: false) }
                _ = mirror.takeLog()
            }
            let last = names(controller).count - 1
            #expect(
                try merge { try item(name, $0)["q"] = "changed" }
                    == ["will", "update \(name) 0.\(last) > 0.\(last)", "did"])
            #expect(
                try merge { try item(name, $0)["p"] = "0" }
                    == ["will", "move 0 0.\(last) > 0.0", "did"])
            #expect(
                try merge { $0.delete(try item("0", $0)) } == ["will", "delete - 0.0 > -", "did"])
        }
    }

    /// The changes of a save by another context.
    private func saved(_ body: (ManagedObjectContext) throws -> Void) throws -> ContextDidSave {
        let box = DidSaveBox()
        try store.save { context in
            context.observeDidSave { _, changes in box.changes.withLock { $0 = changes } }
            try body(context)
        }
        return box.changes.withLock { $0 }
    }

    @Test("CD-143: objects that the context never met come in by a merge")
    func mergedUnknown() throws {
        let controller = try following(["a", "x"], where: "p < 'm'")
        let inserted = try saved { $0.insert("Item", ["p": "b"]) }
        #expect(
            try event { context.mergeChanges(fromContextDidSave: inserted) }
                == ["will", "insert b - > 0.1", "did"])
        // It matches by a change elsewhere, and no object of it was at hand.
        let changed = try saved { try item("x", $0)["p"] = "0" }
        #expect(
            try event { context.mergeChanges(fromContextDidSave: changed) }
                == ["will", "insert 0 - > 0.0", "did"])
        #expect(names(controller) == ["0", "a", "b"])
    }

    @Test("CD-143: an object that a fault showed to be gone is deleted by the merge")
    func mergedGone() throws {
        let controller = try following(["a"])
        let object = try context.performAndWait { try item("a") }
        context.performAndWait { context.refresh(object, mergeChanges: false) }
        _ = mirror.takeLog()
        context.performAndWait { context.refresh(object, mergeChanges: false) }
        let changes = try saved { $0.delete(try item("a", $0)) }
        _ = try event {
            context.refresh(object, mergeChanges: false)
            #expect(object["p"] == nil as String?)
        }
        _ = try event { context.mergeChanges(fromContextDidSave: changes) }
        #expect(names(controller).isEmpty)
    }

    @Test("CD-143: a renamed owner moves and admits objects, by a local save and by a merge")
    func throughRelationships() throws {
        try store.save { context in
            for name in ["k", "x"] {
                let person = context.insert("Person", ["name": name])
                context.insert("Item", ["p": "of \(name)"]).setRelatedObject(
                    person, forKey: "owner")
            }
        }
        let controller = try controller(
            where: "owner.name < 'm'", sort: ["owner.name"], sections: "owner.name")
        try context.performAndWait {
            controller.delegate = mirror
            try controller.performFetch()
            mirror.copy(controller)
        }
        let changes = try saved { context in
            for person in try context.fetch(store.request("Person", where: "name == 'x'")) {
                person["name"] = "a"
            }
        }
        #expect(
            try event { context.mergeChanges(fromContextDidSave: changes) }
                == ["will", "section insert a 0", "insert of x - > 0.0", "did"])
        let log = try event {
            for person in try context.fetch(store.request("Person", where: "name == 'k'")) {
                person["name"] = "b"
            }
            try context.save()
        }
        #expect(log.contains("move of k 1.0 > 1.0"))
        #expect(context.performAndWait { controller.sections?.map(\.name) } == ["a", "b"])
    }

    @Test("An owner's unsaved name decides of an object only where a fetch says so")
    func unsavedOwner() throws {
        try store.save { context in
            let person = context.insert("Person", ["name": "k"])
            context.insert("Item", ["p": "a"]).setRelatedObject(person, forKey: "owner")
        }
        let controller = try controller(where: "owner.name == 'k'")
        try context.performAndWait {
            controller.delegate = mirror
            try controller.performFetch()
            mirror.copy(controller)
        }
        func isFound() throws -> Bool {
            try context.performAndWait { try !context.fetch(controller.fetchRequest).isEmpty }
        }
        let owner = try context.performAndWait { try context.fetch(FetchRequest("Person")).first }
        let object = try context.performAndWait { try item("a") }
        _ = try event { owner?["name"] = "x" }
        _ = try event { context.refresh(object, mergeChanges: false) }
        #expect(try isFound())
        #expect(names(controller) == ["a"])
        _ = try event { object["q"] = "changed" }
        #expect(try !isFound())
        #expect(names(controller).isEmpty)
    }

    // MARK: CD-144

    @Test("CD-144: sections of a stale cache are found again, not shown")
    func cache() throws {
        let name = "cd-144"
        defer { FetchedResultsController<ManagedObject>.deleteCache(withName: name) }
        try store.save { context in
            for name in ["a", "a", "b"] { context.insert("Item", ["p": name]) }
        }
        func counts(_ format: String? = nil) throws -> [String] {
            let context = store.context()
            let controller = try controller(
                where: format, sections: "p", cache: name, context)
            return try context.performAndWait {
                try controller.performFetch()
                return (controller.sections ?? []).map { "\($0.name)\($0.numberOfObjects)" }
            }
        }
        #expect(try counts() == ["a2", "b1"])
        #expect(try counts() == ["a2", "b1"])
        #expect(try counts("p == 'a'") == ["a2"])
        #expect(try counts() == ["a2", "b1"])
        try store.insert("Item", ["p": "b"])
        #expect(try counts() == ["a2", "b2"])
    }

    @Test("CD-144: the cache keeps 64 names, and gives up the one that was not used for longest")
    func cacheBound() throws {
        let cache = FetchedResultsCache()
        let state = try store.coordinator.currentToken
        let key = FetchedResultsCache.Key(
            request: FetchRequest("Item"), sectionNameKeyPath: "p", model: [], state: state)
        for number in 0..<100 {
            cache.keep([LiveSection("a", start: 0, count: 1)], "\(number)", key)
            #expect(cache.sections("0", key) != nil)
        }
        #expect(cache.count == FetchedResultsCache.capacity)
        #expect(cache.sections("1", key) == nil)
        #expect(cache.sections("99", key)?.count == 1)
        let many = (0...FetchedResultsCache.sectionLimit).map {
            LiveSection("\($0)", start: $0, count: 1)
        }
        cache.keep(many, "99", key)
        #expect(cache.sections("99", key) == nil)
    }

    // MARK: Ours

    @Test("A delegate that changes objects hears of it in a round of its own")
    func changesInDelegate() throws {
        let controller = try following(["a"])
        mirror.onChange = { [context] in context.insert("Item", ["p": "z"]) }
        let log = try event { context.insert("Item", ["p": "b"]) }
        #expect(
            log == [
                "will", "insert b - > 0.1", "did", "will", "insert z - > 0.2", "did",
            ])
        #expect(names(controller) == ["a", "b", "z"])
    }

    @Test("A delegate that saves hears of it in a round of its own")
    func savesInDelegate() throws {
        let controller = try following(["a"])
        mirror.onChange = { [context] in
            context.insert("Item", ["p": "z"])
            try? context.save()
        }
        _ = try event { context.insert("Item", ["p": "b"]) }
        #expect(names(controller) == ["a", "b", "z"])
        #expect(context.performAndWait { !context.hasChanges })
    }

    @Test("If the store cannot be read, the results stay, and the delegate hears of it")
    func failure() throws {
        let controller = try following(["a", "b", "c"], limit: 2)
        store.coordinator.close()
        let log = try event { context.insert("Item", ["p": "0"]) }
        #expect(log.count == 1 && log.first?.hasPrefix("failed") == true)
        #expect(context.performAndWait { controller.followingError } != nil)
        #expect(context.performAndWait { controller.fetchedObjects?.count } == 2)
    }

    @Test("With 10,000 results a change evaluates the objects that it touches")
    func cost() throws {
        try store.save { context in
            for number in 0..<10_000 {
                context.insert("Item", ["p": "\(number % 10)", "n": Int64(number)])
            }
        }
        let controller = try controller(sort: ["p", "n"], sections: "p")
        try context.performAndWait {
            mirror.isLogging = false
            try controller.performFetch()
            controller.delegate = mirror
            mirror.copy(controller)
        }
        func cost(_ body: () throws -> Void) throws -> Int {
            let before = controller.evaluationCount
            _ = try event(body)
            return controller.evaluationCount - before
        }
        let object = context.performAndWait { controller.fetchedObjects?[5_000] }
        #expect(try cost { object?["q"] = "changed" } == 1)
        #expect(try cost { object?["p"] = "0" } == 1)
        #expect(try cost { context.insert("Item", ["p": "5"]) } == 1)
        #expect(try cost { try context.save() } <= 2)
        let id = try #require(object?.objectID)
        let didSave = try saved { try $0.existingObject(with: id)["p"] = "7" }
        #expect(try cost { context.mergeChanges(fromContextDidSave: didSave) } == 1)
        #expect(try cost { _ = context.insert("Tag") } == 0)
        let sizes = context.performAndWait { controller.sections?.map(\.numberOfObjects) }
        #expect(sizes?.max() == 1_001)
    }
}

/// What a save told.
private final class DidSaveBox: Sendable {
    let changes = Mutex(ContextDidSave())
}
