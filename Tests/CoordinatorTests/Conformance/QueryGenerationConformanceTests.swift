import Coordinator
import Merge
import Testing

/// CONFORMANCE.md, "Query generations": what a context sees, pinned and not.
@Suite struct QueryGenerationConformanceTests {
    private let store: TestStore
    private let id: ManagedObjectID
    private let context: ManagedObjectContext

    init() throws {
        store = try TestStore()
        id = try store.insert("Item", ["p": "old"])
        context = store.context()
    }

    /// The p of every item that the context fetches, in order.
    private func fetched(_ context: ManagedObjectContext) throws -> [String?] {
        try context.performAndWait {
            try context.fetch(store.request("Item", sort: "p")).map { $0["p"] }
        }
    }

    @Test("CD-46: a new context has no token, and each fetch sees the newest commit")
    func unpinned() throws {
        #expect(context.performAndWait { context.queryGenerationToken } == nil)
        #expect(try fetched(context) == ["old"])
        _ = try store.insert("Item", ["p": "second"])
        #expect(try fetched(context) == ["old", "second"])
        #expect(context.performAndWait { context.queryGenerationToken } == nil)
    }

    @Test("CD-47: pinning to current happens at the next read, so a commit before it is seen")
    func pinnedAtNextRead() throws {
        context.performAndWait { context.setQueryGeneration(from: .current) }
        #expect(context.performAndWait { context.queryGenerationToken } == nil)
        _ = try store.insert("Item", ["p": "second"])
        #expect(try fetched(context) == ["old", "second"])
        #expect(context.performAndWait { context.queryGenerationToken } != nil)
        _ = try store.insert("Item", ["p": "third"])
        #expect(try fetched(context) == ["old", "second"])
    }

    @Test("CD-48: a pinned context sees no insert, update or delete made afterwards")
    func pinned() throws {
        let doomed = try store.insert("Item", ["p": "doomed"])
        try store.pin(context)
        _ = try store.insert("Item", ["p": "new"])
        try store.update(id, "p", "changed")
        try store.delete(doomed)
        #expect(try fetched(context) == ["doomed", "old"])
        #expect(try context.performAndWait { try context.count(for: store.request("Item")) } == 2)
        #expect(try fetched(store.context()) == ["changed", "new"])
    }

    @Test("CD-49: a pinned context fires the fault of a row deleted since, with the old values")
    func faultOfDeleted() throws {
        try store.pin(context)
        try store.delete(id)
        let value: String? = context.performAndWait { context.object(with: id)["p"] }
        #expect(value == "old")
    }

    @Test("CD-50: two contexts with one token fetch the same")
    func sharedToken() throws {
        try store.pin(context)
        let other = store.context()
        try other.performAndWait {
            try other.setQueryGeneration(
                from: context.performAndWait { context.queryGenerationToken })
        }
        _ = try store.insert("Item", ["p": "new"])
        try store.update(id, "p", "changed")
        #expect(try fetched(other) == ["old"])
        #expect(try fetched(other) == fetched(context))
    }

    @Test("CD-51: a pinned context's save meets the newest store, and its pin moves")
    func saveMovesPin() throws {
        context.mergePolicy = .mergeByPropertyObjectTrump
        try store.pin(context)
        let before = context.performAndWait { context.queryGenerationToken }
        let object = try context.performAndWait { try context.existingObject(with: id) }
        try store.update(id, "q", "theirs")
        _ = try store.insert("Item", ["p": "theirs"])
        try context.performAndWait {
            object["p"] = "mine"
            try context.save()
        }
        #expect(try store.stored(id, "q") == "theirs")
        #expect(try store.stored(id, "p") == "mine")
        let after = context.performAndWait { context.queryGenerationToken }
        #expect(try #require(after).generation > #require(before).generation)
        #expect(try fetched(context) == ["mine", "theirs"])
        // Pinned again: nothing newer.
        _ = try store.insert("Item", ["p": "z"])
        #expect(try fetched(context) == ["mine", "theirs"])
    }

    @Test("CD-51: with error, a pinned context's stale save conflicts")
    func staleSaveConflicts() throws {
        try store.pin(context)
        try store.update(id, "p", "theirs")
        let error = #expect(throws: CoordinatorError.self) {
            try context.performAndWait {
                context.object(with: id)["q"] = "mine"
                try context.save()
            }
        }
        #expect(error?.code == .mergeConflict)
    }

    @Test("CD-52: mergeChanges moves the pin to the newest generation")
    func mergeMovesPin() throws {
        try store.pin(context)
        try store.update(id, "p", "changed")
        context.performAndWait {
            context.mergeChanges(fromContextDidSave: ContextDidSave(updated: [id]))
        }
        #expect(try fetched(context) == ["changed"])
    }

    @Test("CD-52: mergeChanges into several contexts moves their pins too")
    func remoteMergeMovesPin() throws {
        try store.pin(context)
        try store.update(id, "p", "changed")
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: ContextDidSave(updated: [id]), into: [context])
        #expect(try fetched(context) == ["changed"])
    }

    @Test("CD-53: reset moves the pin")
    func resetMovesPin() throws {
        try store.pin(context)
        try store.update(id, "p", "changed")
        context.performAndWait { context.reset() }
        #expect(try fetched(context) == ["changed"])
        try store.update(id, "p", "again")
        context.performAndWait { context.refreshAllObjects() }
        #expect(try fetched(context) == ["changed"])
    }

    @Test("CD-54: refreshing all objects does not move the pin")
    func refreshKeepsPin() throws {
        try store.pin(context)
        try store.update(id, "p", "changed")
        context.performAndWait { context.refreshAllObjects() }
        #expect(try fetched(context) == ["old"])
    }

    @Test("CD-56: moving the pin leaves the objects' values until they are refreshed")
    func movingKeepsValues() throws {
        try store.pin(context)
        let object = try context.performAndWait { try context.existingObject(with: id) }
        try store.update(id, "p", "changed")
        context.performAndWait { context.setQueryGeneration(from: .current) }
        #expect(context.performAndWait { object["p"] } == "old")
        context.performAndWait { context.refresh(object, mergeChanges: true) }
        #expect(context.performAndWait { object["p"] } == "changed")
    }

    @Test("CD-61: a generation is given up with the last context that refers to it")
    func givenUp() throws {
        var first: ManagedObjectContext? = store.context()
        var second: ManagedObjectContext? = store.context()
        let token = try #require(
            try first?.performAndWait { () -> QueryGenerationToken? in
                first?.setQueryGeneration(from: .current)
                _ = try first?.count(for: store.request("Item"))
                return first?.queryGenerationToken
            })
        try second?.performAndWait { try second?.setQueryGeneration(from: token) }
        try store.update(id, "p", "changed")
        first = nil
        // The second still holds it, so it can be had.
        _ = try store.coordinator.pin(token)
        second?.performAndWait { second?.setQueryGeneration(from: .current) }
        second = nil
        let error = #expect(throws: CoordinatorError.self) { _ = try store.coordinator.pin(token) }
        #expect(error?.code == .queryGenerationExpired)
    }
}
