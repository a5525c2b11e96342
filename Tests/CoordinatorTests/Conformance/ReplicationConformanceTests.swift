import Coordinator
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, CD-149: what another node saved comes to local contexts as a sibling's save does.
@Suite struct ReplicationConformanceTests {
    private let store: TestStore
    private let remote: TestStore
    private let id: ManagedObjectID
    private let context: ManagedObjectContext

    init() throws {
        store = try TestStore()
        remote = try TestStore(node: 2)
        id = try store.insert("Item", ["p": "old", "q": "old"])
        try remote.take(from: store)
        context = store.context()
    }

    @Test("CD-149: a remote save is in the history, and in the commit notices")
    func history() throws {
        let told = Mutex<[(isLocal: Bool, updated: [ManagedObjectID])]>([])
        let observation = store.coordinator.observeCommits { notice in
            told.withLock { $0.append((notice.isLocal, notice.updated)) }
        }
        try remote.update(id, "p", "theirs")
        try store.take(from: remote)
        let last = try store.coordinator.read {
            try $0.history(afterPosition: 0, limit: 10).last?.encoded.dot
        }
        #expect(last?.actor == remote.coordinator.actor)
        let notices = told.withLock { $0 }
        #expect(notices.map(\.isLocal) == [false])
        #expect(notices.first?.updated == [id])
        withExtendedLifetime(observation) {}
    }

    @Test("CD-149: a context that merges by itself shows a remote save; another once it merges")
    func merging() async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        let (automatic, other) = (store.context(), context)
        // Held, for a context forgets whom nobody holds.
        let shown = try automatic.performAndWait { try automatic.existingObject(with: id) }
        let kept = try other.performAndWait { try other.existingObject(with: id) }
        #expect(automatic.performAndWait { shown["p"] == "old" })
        #expect(other.performAndWait { kept["p"] == "old" })
        automatic.automaticallyMergesChangesFromParent = true
        automatic.observeObjectsDidChange { changes in
            if !changes.refreshed.isEmpty { continuation.yield() }
        }
        try remote.update(id, "p", "theirs")
        try store.take(from: remote)
        for await _ in stream { break }
        #expect(automatic.performAndWait { shown["p"] == "theirs" })
        #expect(other.performAndWait { kept["p"] == "old" })
        other.performAndWait {
            other.mergeChanges(fromContextDidSave: ContextDidSave(updated: [id]))
        }
        #expect(other.performAndWait { kept["p"] == "theirs" })
    }

    @Test(
        "CD-149: a pinned context sees no remote save, and fires the fault of a row deleted there")
    func pinned() throws {
        try store.pin(context)
        _ = try remote.insert("Item", ["p": "new"])
        try remote.delete(id)
        try store.take(from: remote)
        #expect(try context.performAndWait { try context.count(for: store.request("Item")) } == 1)
        #expect(context.performAndWait { context.object(with: id)["p"] == "old" })
        let fresh = store.context()
        #expect(try fresh.performAndWait { try fresh.count(for: store.request("Item")) } == 1)
        #expect(try !store.isStored(id))
        // A save moves the pin, past what came from there.
        try context.performAndWait {
            context.insert("Item")["p"] = "mine"
            try context.save()
        }
        #expect(try context.performAndWait { try context.count(for: store.request("Item")) } == 2)
    }

    @Test("CD-149: a save over a remote one that was not seen is a conflict, by the policy")
    func stale() throws {
        try store.pin(context)
        let object = try context.performAndWait { try context.existingObject(with: id) }
        try remote.update(id, "q", "theirs")
        try store.take(from: remote)
        let error = #expect(throws: CoordinatorError.self) {
            try context.performAndWait {
                object["p"] = "mine"
                try context.save()
            }
        }
        #expect(error?.code == .mergeConflict)
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.performAndWait { try context.save() }
        #expect(try store.stored(id, "p") == "mine")
        #expect(try store.stored(id, "q") == "theirs")
    }

    // MARK: The pin, CD-51 to CD-56 (but for CD-55: there are no batch requests)

    /// The p of every item that the context fetches, in order.
    private func fetched() throws -> [String?] {
        try context.performAndWait {
            try context.fetch(store.request("Item", sort: "p")).map { $0["p"] }
        }
    }

    /// Pins the context, and has another node change p and insert an item; it sees neither.
    ///
    /// - Returns: what commits told of that.
    private func pinBeforeRemoteSaves() throws -> [CommitNotice] {
        let told = Mutex<[CommitNotice]>([])
        try store.pin(context)
        let observation = store.coordinator.observeCommits { notice in
            told.withLock { $0.append(notice) }
        }
        try remote.update(id, "p", "theirs")
        _ = try remote.insert("Item", ["p": "zebra"])
        try store.take(from: remote)
        observation.cancel()
        #expect(try fetched() == ["old"])
        return told.withLock { $0 }
    }

    @Test("CD-149, CD-51: a pinned context's save meets a remote one, and its pin moves, once")
    func savingMovesPin() throws {
        context.mergePolicy = .mergeByPropertyObjectTrump
        let object = try context.performAndWait { try context.existingObject(with: id) }
        _ = try pinBeforeRemoteSaves()
        let before = try #require(context.performAndWait { context.queryGenerationToken })
        try context.performAndWait {
            object["q"] = "mine"
            try context.save()
        }
        #expect(try store.stored(id, "p") == "theirs")
        #expect(try store.stored(id, "q") == "mine")
        let after = try #require(context.performAndWait { context.queryGenerationToken })
        #expect(after.generation > before.generation)
        #expect(try fetched() == ["theirs", "zebra"])
        // Pinned again: nothing that comes now.
        _ = try remote.insert("Item", ["p": "zulu"])
        try store.take(from: remote)
        #expect(try fetched() == ["theirs", "zebra"])
    }

    @Test("CD-149, CD-52: merging what a commit of remote saves told of moves the pin past them")
    func mergingMovesPin() throws {
        let object = try context.performAndWait { try context.existingObject(with: id) }
        let notices = try pinBeforeRemoteSaves()
        #expect(!notices.isEmpty)
        context.performAndWait {
            for notice in notices {
                context.mergeChanges(fromContextDidSave: ContextDidSave(notice))
            }
        }
        #expect(context.performAndWait { object["p"] } == "theirs")
        #expect(try fetched() == ["theirs", "zebra"])
    }

    @Test("CD-149, CD-53: resetting moves the pin past remote saves")
    func resettingMovesPin() throws {
        _ = try pinBeforeRemoteSaves()
        context.performAndWait { context.reset() }
        #expect(try fetched() == ["theirs", "zebra"])
        try remote.update(id, "p", "again")
        try store.take(from: remote)
        #expect(try fetched() == ["theirs", "zebra"])
    }

    @Test("CD-149, CD-54: refreshing all objects does not show remote saves to a pinned context")
    func refreshingKeepsPin() throws {
        let object = try context.performAndWait { try context.existingObject(with: id) }
        _ = try pinBeforeRemoteSaves()
        let before = context.performAndWait { context.queryGenerationToken }
        context.performAndWait { context.refreshAllObjects() }
        #expect(context.performAndWait { object["p"] } == "old")
        #expect(try fetched() == ["old"])
        #expect(context.performAndWait { context.queryGenerationToken } == before)
    }

    @Test("CD-149, CD-56: moving the pin past a remote save leaves values until they are refreshed")
    func movingKeepsValues() throws {
        let object = try context.performAndWait { try context.existingObject(with: id) }
        #expect(context.performAndWait { object["p"] } == "old")
        _ = try pinBeforeRemoteSaves()
        try store.pin(context)
        #expect(try context.performAndWait { try context.count(for: store.request("Item")) } == 2)
        #expect(context.performAndWait { object["p"] } == "old")
        context.performAndWait { context.refresh(object, mergeChanges: true) }
        #expect(context.performAndWait { object["p"] } == "theirs")
    }
}
