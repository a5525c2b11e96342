import Coordinator
import Merge
import Testing

/// What a context's save may say beside its changes.
@Suite struct SaveOptionsTests {
    private let store: TestStore
    private let remote: TestStore

    init() throws {
        store = try TestStore()
        remote = try TestStore(node: 2)
    }

    @Test(
        "A context's save that is repeated by its ID is done once, and its objects can be saved on")
    func repeated() throws {
        // As after an answer that was lost: the first context is gone with its client.
        let changes: (ManagedObjectContext) throws -> ManagedObject = { context in
            let item = context.insert("Item", ["p": "once"])
            return item
        }
        let first = store.context()
        let transaction = try first.performAndWait {
            _ = try changes(first)
            return try first.save(SaveOptions(saveID: "order-7"))
        }
        let again = store.context()
        try again.performAndWait {
            let item = try changes(again)
            let repeated = try again.save(SaveOptions(saveID: "order-7"))
            #expect(repeated != nil && repeated == transaction)
            #expect(!again.hasChanges && !item.objectID.isTemporaryID)
            #expect(item["p"] == "once")
            item["p"] = "then"
            try again.save()
            #expect(item["p"] == "then")
            #expect(try again.fetch(store.request("Item")) == [item])
            #expect(try again.save(SaveOptions(saveID: "nothing")) == nil)
        }
        let error = #expect(throws: CoordinatorError.self) {
            try again.performAndWait {
                _ = try changes(again)
                try again.save(SaveOptions(saveID: ""))
            }
        }
        #expect(error?.code == .malformed)
    }

    @Test("A context that repeats an update of what it fetched again gets the first answer")
    func repeatedUpdate() throws {
        let id = try store.insert("Item", ["p": "old", "q": "old"])
        func update(_ context: ManagedObjectContext) throws -> Dot? {
            try context.performAndWait {
                let item = try context.existingObject(with: id)
                item["p"] = "new"
                item["q"] = "then"
                return try context.save(SaveOptions(saveID: "update"))
            }
        }
        let first = try update(store.context())
        // Of what another has changed since it asks for more or less than the first did.
        try store.update(id, "q", "later")
        #expect(try update(store.context()) == first && first != nil)
        let context = store.context()
        #expect(try context.performAndWait { try context.existingObject(with: id)["q"] == "later" })
    }

    @Test("A context decides over an unresolved conflict where its save says so")
    func resolving() throws {
        let id = try store.insert("Item", ["p": "old", "q": "old"])
        try remote.take(from: store)
        try store.update(id, "p", "ours")
        try remote.update(id, "p", "theirs")
        try store.take(from: remote)
        let context = store.context()
        try context.performAndWait {
            try context.existingObject(with: id)["p"] = "decided"
            let refused = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(refused?.code == .unresolvedConflict)
            #expect(context.hasChanges)
            #expect(try context.save(SaveOptions(resolvesConflicts: true)) != nil)
        }
        try remote.take(from: store)
        for node in [store, remote] {
            #expect(
                try node.coordinator.read { try $0.conflicts(ConflictQuery(isOpen: true)) }.isEmpty)
            let other = node.context()
            #expect(
                try other.performAndWait { try other.existingObject(with: id)["p"] == "decided" })
        }
    }
}
