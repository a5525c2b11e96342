import Coordinator
import Merge
import Synchronization
import TestSupport
import Testing

/// Batch requests in several transactions, interrupted, repeated and refused.
@Suite("Batch requests")
struct BatchRequestTests {
    private static let count = 25_000
    private let store: TestStore

    init() throws { store = try TestStore() }

    private struct Stopped: Error {}

    private func rows(_ count: Int) -> BatchInsertRequest {
        let next = Mutex(0)
        return BatchInsertRequest("Item", resultType: .count) { row in
            let number = next.withLock { next in
                defer { next += 1 }
                return next
            }
            row["p"] = .string("\(number)")
            row["n"] = .integer(Int64(number))
            return number == count
        }
    }

    private func count(_ format: String? = nil) throws -> Int {
        try store.coordinator.read { try $0.count(store.request("Item", where: format)) }
    }

    @Test("A large request is several transactions, and an atomic one is one")
    func transactions() throws {
        let inserted = try store.coordinator.execute(rows(Self.count))
        #expect(inserted.count == Self.count)
        #expect(inserted.transactions == 3)
        #expect(inserted.token == (try store.coordinator.currentToken))
        var update = BatchUpdateRequest(
            "Item", predicate: try Predicate(format: "n >= 100"),
            propertiesToUpdate: ["q": .string("x")], resultType: .count)
        #expect(try store.coordinator.execute(update).transactions == 3)
        #expect(try count("q == 'x'") == Self.count - 100)
        update.options.isAtomic = true
        update.propertiesToUpdate = ["q": .string("y")]
        let atomic = try store.coordinator.execute(update)
        #expect(atomic.transactions == 1)
        #expect(atomic.count == Self.count - 100)
        let deleted = try store.coordinator.execute(
            BatchDeleteRequest(fetchRequest: FetchRequest("Item"), resultType: .count))
        #expect(deleted.count == Self.count)
        #expect(try count() == 0)
        #expect(try store.coordinator.verify().isOK)
    }

    @Test("Large values divide a request too")
    func largeValues() throws {
        var options = PersistentStoreCoordinator.Options()
        options.bytesInBatchTransaction = 1_000
        let store = try TestStore(options: options)
        let text = PropertyValue.string(String(repeating: "x", count: 300))
        let inserted = try store.coordinator.execute(
            BatchInsertRequest("Item", objects: (0..<9).map { _ in ["q": text] }))
        #expect(inserted.transactions == 3)
        let updated = try store.coordinator.execute(
            BatchUpdateRequest(
                "Item", predicate: nil, propertiesToUpdate: ["p": text], resultType: .count))
        #expect(updated.count == 9)
        #expect(updated.transactions == 5)
    }

    @Test("One transaction of too many bytes is refused, however few they are where it is kept")
    func tooLarge() throws {
        try store.coordinator.execute(
            BatchInsertRequest("Item", objects: (0..<300).map { ["n": .integer(Int64($0))] }))
        var update = BatchUpdateRequest(
            "Item", predicate: nil,
            propertiesToUpdate: ["q": .string(String(repeating: "x", count: 1 << 20))])
        update.options.isAtomic = true
        let error = #expect(throws: CoordinatorError.self) { try store.coordinator.execute(update) }
        #expect(error?.code == .limitExceeded)
        #expect(try count("q == nil") == 300)
    }

    @Test("A request that stops tells what was done, and repeated goes on from there")
    func resumes() throws {
        try store.coordinator.execute(rows(Self.count))
        var request = BatchUpdateRequest(
            "Item", predicate: try Predicate(format: "n >= 0"),
            propertiesToUpdate: ["n": .integer(1)], resultType: .count)
        request.options.saveID = "once"
        let error = #expect(throws: BatchError.self) {
            try store.coordinator.execute(request, progress: { _ in throw Stopped() })
        }
        #expect(error?.done.count == 10_000)
        #expect(error?.done.transactions == 1)
        #expect(error?.reason is Stopped)
        let done = try #require(
            try store.coordinator.read { try $0.objectIDs(store.request("Item", where: "n == 1")) }
                .first)
        // It is done with this one, whatever becomes of it.
        let context = store.context()
        try context.performAndWait {
            try context.existingObject(with: done)["n"] = 7
            try context.save()
        }
        let whole = try store.coordinator.execute(request)
        #expect(whole.count == Self.count)
        #expect(whole.transactions == 3)
        #expect(try count("n == 1") == Self.count - 1)
        // Repeated after its end it does nothing.
        let token = try store.coordinator.currentToken
        #expect(try store.coordinator.execute(request).count == Self.count)
        #expect(try store.coordinator.currentToken == token)
        // And something else is not done under its name.
        request.propertiesToUpdate = ["n": .integer(2)]
        let reused = #expect(throws: CoordinatorError.self) {
            try store.coordinator.execute(request)
        }
        #expect(reused?.code == .saveIDReused)
    }

    @Test("What is left of a request with a limit cannot be told, so it does not go on")
    func limitedDoesNotGoOn() throws {
        try store.coordinator.execute(rows(Self.count))
        let request = BatchDeleteRequest(
            fetchRequest: try store.request("Item", sort: "n", limit: 15_000),
            options: BatchOptions(saveID: "oldest"))
        #expect(throws: BatchError.self) {
            try store.coordinator.execute(request, progress: { _ in throw Stopped() })
        }
        let error = #expect(throws: CoordinatorError.self) {
            try store.coordinator.execute(request)
        }
        #expect(error?.code == .saveIDReused)
        #expect(error?.message.contains("10000 objects") == true)
        #expect(try count() == Self.count - 10_000)
        // One that stops behind its last transaction has not stopped.
        let whole = BatchDeleteRequest(
            fetchRequest: try store.request("Item", where: "n < 11000"),
            options: BatchOptions(saveID: "rest"))
        #expect(
            try store.coordinator.execute(whole, progress: { _ in throw Stopped() }).count == 1_000)
    }

    @Test("A repeated insert leaves out what it has inserted")
    func insertResumes() throws {
        let objects = (0..<Self.count).map { ["n": PropertyValue.integer(Int64($0))] }
        let request = BatchInsertRequest(
            "Item", objects: objects, options: BatchOptions(saveID: "import"))
        #expect(throws: BatchError.self) {
            try store.coordinator.execute(request, progress: { _ in throw Stopped() })
        }
        #expect(try store.coordinator.execute(request).count == Self.count)
        #expect(try store.coordinator.execute(request).count == Self.count)
        #expect(try count() == Self.count)
        #expect(try count("n == 24999") == 1)
    }

    @Test("What does not meet the predicate any more is left alone")
    func looksAgain() throws {
        try store.coordinator.execute(rows(Self.count))
        let coordinator = store.coordinator
        let last = try #require(
            try coordinator.read { try $0.objectIDs(FetchRequest("Item")) }.max())
        let result = try coordinator.execute(
            BatchDeleteRequest(
                fetchRequest: store.request("Item", where: "q == nil"), resultType: .count)
        ) { [store] done in
            if done.transactions == 1 { try store.update(last, "q", "kept") }
        }
        #expect(result.count == Self.count - 1)
        #expect(try store.stored(last, "q") == "kept")
    }

    @Test("A predicate over relationships holds though the request itself changes them")
    func relationships() throws {
        let context = store.context()
        try context.performAndWait {
            let boss = context.insert("Tag", ["name": "boss"])
            for number in 0..<10_100 {
                let item = context.insert("Item", ["n": number])
                item.add(boss, toRelationship: "tags")
            }
            try context.save(SaveOptions(isBulk: true))
        }
        // The first transaction leaves the others' tags.
        let request = BatchDeleteRequest(
            fetchRequest: try store.request("Item", where: "ANY tags.items.n == 0"))
        #expect(try store.coordinator.execute(request).transactions == 2)
        #expect(try count() == 0)
    }

    @Test("A task that is cancelled ends its request, and hears what was done")
    func cancelled() async throws {
        let request = rows(Self.count)
        let coordinator = store.coordinator
        let task = Task {
            try await coordinator.execute(
                request, progress: { _ in withUnsafeCurrentTask { $0?.cancel() } })
        }
        let error = await #expect(throws: BatchError.self) { try await task.value }
        #expect(error?.reason is CancellationError)
        #expect(error?.done.count == 10_000)
        #expect(try count() == 10_000)
    }

    @Test("What cannot be done is refused before anything is done")
    func refused() throws {
        let id = try store.insert("Item", ["p": "a"])
        let coordinator = store.coordinator
        func code(_ request: some BatchRequest) -> CoordinatorError.Code? {
            #expect(throws: CoordinatorError.self) { try coordinator.execute(request) }?.code
        }
        func update(_ values: [String: PropertyValue], _ id: String? = nil) -> BatchUpdateRequest {
            BatchUpdateRequest(
                "Item", propertiesToUpdate: values, options: BatchOptions(saveID: id))
        }
        #expect(code(update([:])) == .malformed)
        #expect(code(update(["x": .null])) == .malformed)
        #expect(code(update(["tags": .null])) == .malformed)
        #expect(code(update(["note": .string("transient")])) == .malformed)
        #expect(code(update(["p": .integer(1)])) == .validationFailed)
        #expect(code(update(["owner": .reference(RowID(99))])) == .validationFailed)
        #expect(code(update(["p": .null], "")) == .malformed)
        #expect(code(update(["p": .null], String(repeating: "x", count: 181))) == .malformed)
        #expect(code(BatchUpdateRequest("X", propertiesToUpdate: ["p": .null])) == .malformed)
        #expect(code(BatchDeleteRequest(objectIDs: [])) == .malformed)
        #expect(
            code(BatchDeleteRequest(fetchRequest: try store.request("Item", where: "x == 1")))
                == .invalidPredicate)
        #expect(
            code(BatchInsertRequest("Item", objects: [["p": .integer(1)]])) == .validationFailed)
        #expect(try store.stored(id, "p") == "a")
        #expect(try changesCount() == 1)
    }

    private func changesCount() throws -> Int {
        try store.coordinator.read { try $0.history(afterPosition: 0, limit: 100).count }
    }

    @Test("A part that wrote nothing does not hide what others have written")
    func othersBetween() throws {
        var options = PersistentStoreCoordinator.Options()
        options.objectsInBatchTransaction = 3
        let store = try TestStore(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Item", attributes: [.init("p", .string), .init("q", .string)])
            ]), options: options)
        let ids = try (0..<9).map {
            try store.insert("Item", ["p": (3..<6).contains($0) ? "x" : "", "q": "a"])
        }
        let update = BatchUpdateRequest(
            "Item", predicate: try Predicate(format: "q == 'a'"),
            propertiesToUpdate: ["p": .string("x")], resultType: .count)
        // Behind the first part somebody else takes an object of the last one out; the second has nothing
        // to write.
        let steps = Mutex(0)
        let coordinator = store.coordinator
        let context = store.context()
        let result = try coordinator.execute(update) { _ in
            let step = steps.withLock { steps in
                steps += 1
                return steps
            }
            guard step == 1 else { return }
            try context.performAndWait {
                try context.existingObject(with: ids[7])["q"] = "b"
                try context.save()
            }
        }
        #expect(result.count == 8)
        #expect(try store.stored(ids[7], "p") == "")
        #expect(try store.stored(ids[8], "p") == "x")
    }

    @Test("What a delete keeps and what a row carries divides a request too")
    func keptValues() throws {
        var options = PersistentStoreCoordinator.Options()
        options.bytesInBatchTransaction = 1_000
        var text = AttributeDescription("text", .string)
        text.preservesValueInHistoryOnDeletion = true
        let store = try TestStore(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Item", mergePolicy: .overwrite, attributes: [text, .init("n", .integer64)])
            ]), options: options)
        for number in 0..<10 {
            try store.insert(
                "Item", number == 4 ? [:] : ["text": String(repeating: "ä", count: 150)])
        }
        let updated = try store.coordinator.execute(
            BatchUpdateRequest("Item", propertiesToUpdate: ["n": .integer(1)], resultType: .count))
        #expect(updated.count == 10)
        #expect(updated.transactions == 3)
        let deleted = try store.coordinator.execute(
            BatchDeleteRequest(fetchRequest: FetchRequest("Item"), resultType: .count))
        #expect(deleted.count == 10)
        #expect(deleted.transactions == 3)
        #expect(try store.coordinator.verify().isOK)
    }

    @Test("A request that found nothing has been done, and one of another kind is another")
    func nothing() throws {
        var delete = BatchDeleteRequest(
            fetchRequest: try store.request("Item", where: "p == 'a'"), resultType: .count,
            options: BatchOptions(saveID: "none"))
        #expect(try store.coordinator.execute(delete).count == 0)
        try store.insert("Item", ["p": "a"])
        let again = try store.coordinator.execute(delete)
        #expect(again.count == 0)
        #expect(again.transactions == 0)
        #expect(try count() == 1)
        let empty = BatchInsertRequest(
            "Item", objects: [], options: BatchOptions(saveID: "empty"))
        try store.coordinator.execute(empty)
        let other = BatchInsertRequest(
            "Item", objects: [["p": .null]], options: BatchOptions(saveID: "empty"))
        #expect(try store.coordinator.execute(other).transactions == 0)
        #expect(try count() == 1)
        delete.options.isAtomic = true
        let error = #expect(throws: CoordinatorError.self) { try store.coordinator.execute(delete) }
        #expect(error?.code == .saveIDReused)
    }

    @Test("Objects of heirs are updated too, or left out")
    func heirs() throws {
        let store = try TestStore(
            ManagedObjectModel(entities: [
                EntityDescription("Animal", attributes: [.init("name", .string)]),
                EntityDescription("Bird", parent: "Animal", attributes: [.init("age", .integer64)]),
            ]))
        let animal = try store.insert("Animal", ["name": "a"])
        let bird = try store.insert("Bird", ["name": "b"])
        var request = BatchUpdateRequest("Animal", propertiesToUpdate: ["name": .string("x")])
        request.includesSubentities = false
        try store.coordinator.execute(request)
        #expect(try store.stored(animal, "name") == "x")
        #expect(try store.stored(bird, "name") == "b")
        request.includesSubentities = true
        request.resultType = .objectIDs
        #expect(try store.coordinator.execute(request).objectIDs == [animal, bird].sorted())
        #expect(try store.stored(bird, "name") == "x")
        #expect(try store.coordinator.verify().isOK)
    }
}
