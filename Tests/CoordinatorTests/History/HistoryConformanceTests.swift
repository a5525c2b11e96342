import Coordinator
import Foundation
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, "Persistent history": transactions and changes as values, filtered, resumed and purged.
@Suite struct HistoryConformanceTests {
    private let store: TestStore

    init() throws { store = try TestStore(Self.model()) }

    private static func model() throws -> ManagedObjectModel {
        var name = AttributeDescription("name", .string)
        name.preservesValueInHistoryOnDeletion = true
        return try ManagedObjectModel(entities: [
            EntityDescription(
                "Item", attributes: [name, .init("p", .string), .init("q", .string)],
                relationships: [
                    .init("tags", to: "Tag", inverse: "items", isToMany: true),
                    .init("owner", to: "Tag", inverse: "owned"),
                ]),
            EntityDescription(
                "Tag", attributes: [.init("name", .string)],
                relationships: [
                    .init("items", to: "Item", inverse: "tags", isToMany: true),
                    .init("owned", to: "Item", inverse: "owner", isToMany: true),
                ]),
        ])
    }

    private func transactions(
        after token: QueryGenerationToken? = nil, _ filter: HistoryFilter = HistoryFilter()
    ) throws -> [PersistentHistoryTransaction] {
        var request = PersistentHistoryChangeRequest.fetchHistory(after: token)
        request.filter = filter
        return try #require(store.coordinator.execute(request).transactions)
    }

    /// Saves as an author.
    private func save(
        as author: String?, name: String? = nil, _ change: (ManagedObjectContext) throws -> Void
    ) throws {
        let context = store.context()
        context.transactionAuthor = author
        context.name = name
        try context.performAndWait {
            try change(context)
            try context.save()
        }
    }

    @Test("CD-63: transaction numbers rise strictly, and each follows the one before")
    func numbers() throws {
        for number in 0..<5 { try store.insert("Item", ["p": "\(number)"]) }
        let numbers = try transactions().map(\.transactionNumber)
        #expect(numbers == [1, 2, 3, 4, 5])
    }

    @Test("CD-65: an update has every property that it changed, links too, and no other")
    func updatedProperties() throws {
        let (item, tag) = (try store.insert("Item", ["p": "a"]), try store.insert("Tag"))
        let token = try store.coordinator.currentPersistentHistoryToken
        try store.save { context in
            let object = try context.existingObject(with: item)
            object["p"] = "b"
            object["q"] = nil as String?
            object.add(try context.existingObject(with: tag), toRelationship: "tags")
            object.setRelatedObject(try context.existingObject(with: tag), forKey: "owner")
        }
        let changes = try #require(try transactions(after: token).first?.changes)
        #expect(changes.count == 2)
        let ofItem = try #require(changes.first { $0.changedObjectID == item })
        #expect(ofItem.changeType == .update)
        #expect(ofItem.updatedProperties == ["p", "tags", "owner"])
        #expect(ofItem.tombstone == nil)
        let ofTag = try #require(changes.first { $0.changedObjectID == tag })
        #expect(ofTag.updatedProperties == ["items"])
    }

    @Test("CD-66: a delete keeps what is to be preserved, and nothing else; others keep nothing")
    func tombstones() throws {
        let item = try store.insert("Item", ["name": "kept", "p": "lost"])
        let tag = try store.insert("Tag", ["name": "lost"])
        try store.update(item, "p", "x")
        try store.delete(item)
        try store.coordinator.execute(BatchDeleteRequest(objectIDs: [tag]))
        let all = try transactions().flatMap { $0.changes ?? [] }
        #expect(all.map(\.changeType) == [.insert, .insert, .update, .delete, .delete])
        #expect(all.map(\.tombstone) == [nil, nil, nil, ["name": .string("kept")], [:]])
        #expect(try store.coordinator.verify().isOK)
    }

    @Test("The mark that history keeps a value is in a model's JSON, and in none of its hashes")
    func marked() throws {
        let model = try Self.model()
        let json = JSONWriter.text(of: model.jsonValue())
        #expect(json.contains(#""preservedOnDeletion":true"#))
        let read = try ManagedObjectModel(json: Array(json.utf8))
        #expect(
            read.entity(named: "Item")?.attribute(named: "name")?
                .preservesValueInHistoryOnDeletion == true)
        let plain = try ManagedObjectModel(
            json: Array(json.replacing(#","preservedOnDeletion":true"#, with: "").utf8))
        #expect(plain.modelHash == model.modelHash)
        #expect(plain.versionHash == model.versionHash)
    }

    @Test("CD-68: a save that fails and one that is rolled back record nothing")
    func failures() throws {
        let id = try store.insert("Item", ["p": "a"])
        let context = store.context()
        try context.performAndWait {
            let item = try context.existingObject(with: id)
            item["p"] = "mine"
            try store.update(id, "p", "theirs")
            #expect(throws: CoordinatorError.self) { try context.save() }
            context.rollback()
            #expect(try transactions().count == 2)
        }
    }

    @Test("CD-69: after a token comes exactly what is later, oldest first; nil is for all")
    func afterToken() throws {
        let ids = try (0..<4).map { try store.insert("Item", ["p": "\($0)"]) }
        let all = try transactions()
        #expect(all.flatMap { $0.changes ?? [] }.map(\.changedObjectID) == ids)
        for (place, transaction) in all.enumerated() {
            let later = try transactions(after: transaction.token)
            #expect(later == Array(all[(place + 1)...]))
        }
        let date = try #require(all.first?.timestamp)
        let request = PersistentHistoryChangeRequest.fetchHistory(
            after: date.addingTimeInterval(-1))
        #expect(try store.coordinator.execute(request).transactions == all)
        let none = PersistentHistoryChangeRequest.fetchHistory(after: Date.distantFuture)
        #expect(try store.coordinator.execute(none).transactions == [])
    }

    @Test("CD-70: a token older than what was deleted fails with 134301")
    func expired() throws {
        for number in 0..<4 { try store.insert("Item", ["p": "\(number)"]) }
        let all = try transactions()
        let deleted = try store.coordinator.execute(.deleteHistory(before: all[1]))
        #expect(deleted == .count(2))
        let error = #expect(throws: CoordinatorError.self) {
            try transactions(after: all[0].token)
        }
        #expect(error?.code.number == 134_301)
        #expect(try transactions(after: all[1].token) == Array(all[2...]))
        #expect(try transactions().map(\.dot) == all[2...].map(\.dot))
        let rest = try store.coordinator.execute(.deleteHistory(before: Date.distantFuture))
        // The newest one stays, so that there is a place to go on from.
        #expect(rest == .count(1))
        #expect(
            try store.coordinator.execute(.deleteHistory(before: Date.distantPast)) == .count(0))
    }

    @Test("CD-72: filters by author, context, entity, property and node, and predicates over all")
    func filters() throws {
        let tag = try store.insert("Tag", ["name": "t"])
        try save(as: "ann", name: "shop") { $0.insert("Item", ["p": "a"]) }
        try save(as: "bob") { context in
            context.insert("Item", ["p": "b"])
            try context.existingObject(with: tag)["name"] = "u"
        }
        try save(as: nil) { context in
            for item in try context.fetch(FetchRequest("Item")) { item["q"] = "x" }
        }
        func count(_ filter: HistoryFilter) throws -> [Int] {
            try transactions(filter).map { $0.changes?.count ?? -1 }
        }
        #expect(try count(HistoryFilter(author: "ann")) == [1])
        #expect(try count(HistoryFilter(contextName: "shop")) == [1])
        #expect(try count(HistoryFilter(author: "ann", contextName: "x")) == [])
        #expect(try count(HistoryFilter(entityName: "Item")) == [1, 1, 2])
        #expect(try count(HistoryFilter(entityName: "Tag")) == [1, 1])
        #expect(try count(HistoryFilter(entityName: "Item", property: "p")) == [1, 1])
        #expect(try count(HistoryFilter(property: "q")) == [1, 1, 2])
        #expect(try count(HistoryFilter(node: NodeID(1))).count == 4)
        #expect(try count(HistoryFilter(node: NodeID(2))) == [])
        func predicate(_ text: String) throws -> [Int] {
            try count(HistoryFilter(predicate: Predicate(format: text)))
        }
        #expect(try predicate("author == 'bob' AND ANY changes.entityName == 'Tag'") == [2])
        #expect(try predicate("author == nil AND ANY changes.properties.name == 'q'") == [2])
        #expect(try predicate("changes.@count > 1") == [2, 2])
        #expect(try predicate("node == 1 AND timestamp > '2000-01-01T00:00:00Z'").count == 4)
        #expect(
            try predicate("ANY changes.uri == 'x-tributary://test/Tag/\(tag.row)'") == [1, 2])
        for filter in [
            HistoryFilter(entityName: "X"), HistoryFilter(entityName: "Tag", property: "q"),
            HistoryFilter(predicate: try Predicate(format: "x == 1")),
        ] {
            #expect(throws: CoordinatorError.self) { try transactions(filter) }
        }
    }

    private func transactions(
        _ filter: HistoryFilter
    ) throws -> [PersistentHistoryTransaction] { try transactions(after: nil, filter) }

    @Test("CD-73: each type of result has its shape")
    func resultTypes() throws {
        let id = try store.insert("Item", ["p": "a"])
        try store.update(id, "p", "b")
        func result(
            _ type: PersistentHistoryChangeRequest.ResultType
        ) throws -> PersistentHistoryResult {
            var request = PersistentHistoryChangeRequest.fetchHistory(
                after: nil as QueryGenerationToken?)
            request.resultType = type
            return try store.coordinator.execute(request)
        }
        let all = try transactions()
        #expect(try result(.statusOnly) == .status(true))
        #expect(try result(.count) == .count(2))
        #expect(try result(.objectIDs) == .objectIDs([id]))
        #expect(try result(.transactionsAndChanges) == .transactions(all))
        #expect(try result(.changesOnly) == .changes(all.flatMap { $0.changes ?? [] }))
        let bare = try #require(try result(.transactionsOnly).transactions)
        #expect(bare.map(\.dot) == all.map(\.dot))
        #expect(bare.allSatisfy { $0.changes == nil && $0.objectIDNotification() == nil })
        var limited = PersistentHistoryChangeRequest.fetchHistory(
            after: nil as QueryGenerationToken?)
        limited.fetchLimit = 1
        #expect(try store.coordinator.execute(limited).transactions == [all[0]])
    }

    @Test("CD-74: a transaction's notification merges as the save itself would")
    func notification() throws {
        let (kept, doomed) = (try store.insert("Item", ["p": "a"]), try store.insert("Item"))
        let tag = try store.insert("Tag", ["name": "t"])
        let contexts = [store.context(), store.context()]
        for context in contexts {
            try context.performAndWait {
                let item = try context.existingObject(with: kept)
                #expect(item["p"] == "a")
                #expect(item.relatedObjects(forKey: "tags", as: ManagedObject.self).isEmpty)
                _ = try context.existingObject(with: doomed)
            }
        }
        let saved = Mutex<ContextDidSave?>(nil)
        let context = store.context()
        let observation = context.observeDidSave { _, ids in saved.withLock { $0 = ids } }
        let token = try store.coordinator.currentPersistentHistoryToken
        try context.performAndWait {
            let item = try context.existingObject(with: kept)
            item["p"] = "b"
            item.add(try context.existingObject(with: tag), toRelationship: "tags")
            context.delete(try context.existingObject(with: doomed))
            context.insert("Item", ["p": "new"])
            try context.save()
        }
        observation.cancel()
        let told = try #require(try transactions(after: token).first?.objectIDNotification())
        let live = try #require(saved.withLock { $0 })
        for (context, changes) in zip(contexts, [told, live]) {
            try context.performAndWait {
                context.mergeChanges(fromContextDidSave: changes)
                let item = try context.existingObject(with: kept)
                #expect(item["p"] == "b")
                #expect(
                    item.relatedObjects(forKey: "tags", as: ManagedObject.self).map(\.objectID)
                        == [tag])
                #expect(context.registeredObject(for: doomed) == nil)
            }
        }
    }

    @Test("CD-75: with the option on, commits are told of with the store and the newest token")
    func remoteChanges() async throws {
        var options = PersistentStoreCoordinator.Options()
        options.postsRemoteChangeNotifications = true
        let store = try TestStore(options: options)
        let told = AsyncStream.makeStream(of: (URL?, QueryGenerationToken?).self)
        let observer = NotificationCenter.default.addObserver(
            forName: .persistentStoreRemoteChange, object: store.coordinator, queue: nil
        ) { notification in
            let info = notification.userInfo
            told.continuation.yield(
                (
                    info?[PersistentStoreCoordinator.persistentStoreURLKey] as? URL,
                    info?[PersistentStoreCoordinator.persistentHistoryTokenKey]
                        as? QueryGenerationToken
                ))
        }
        for _ in 0..<20 { try store.insert("Item") }
        let last = try store.coordinator.currentPersistentHistoryToken
        var count = 0
        for await (url, token) in told.stream {
            count += 1
            #expect(url?.path == store.coordinator.storePath)
            if token == last { break }
        }
        #expect((1...20).contains(count))
        NotificationCenter.default.removeObserver(observer)
    }

    @Test("CD-76: the current token is that of the newest transaction")
    func currentToken() throws {
        try store.insert("Item")
        try store.insert("Item")
        let last = try #require(try transactions().last)
        #expect(try store.coordinator.currentPersistentHistoryToken == last.token)
    }

    @Test("CD-77: a token as text means the same after a restart")
    func archived() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let node = try #require(NodeID(1))
        func open() throws -> PersistentStoreCoordinator {
            try PersistentStoreCoordinator(
                storeAt: folder.appendingPathComponent("s.sqlite").path, model: Self.model(),
                cluster: "test", node: node)
        }
        let first = try open()
        try first.execute(BatchInsertRequest("Item", objects: [["p": .string("a")]]))
        let text = try first.currentPersistentHistoryToken.text
        first.close()
        let second = try open()
        try second.execute(BatchInsertRequest("Item", objects: [["p": .string("b")]]))
        let token = try #require(QueryGenerationToken(text: text))
        let later = try second.execute(.fetchHistory(after: token)).transactions
        #expect(later?.count == 1)
        second.close()
    }

    @Test("A sequence gives what there is and what comes, and goes on from a token")
    func sequence() async throws {
        try save(as: "ann") { $0.insert("Item", ["p": "a"]) }
        try save(as: "bob") { $0.insert("Item", ["p": "b"]) }
        let coordinator = store.coordinator
        var iterator = coordinator.history(after: nil, HistoryFilter(author: "ann"))
            .makeAsyncIterator()
        let first = try await iterator.next()
        #expect(first?.author == "ann")
        async let next = { [store] in
            try await Task.sleep(for: .milliseconds(50))
            try store.save { $0.insert("Item", ["p": "none"]) }
            let context = store.context()
            context.transactionAuthor = "ann"
            try await context.perform {
                context.insert("Item", ["p": "c"])
                try context.save()
            }
        }()
        let second = try await iterator.next()
        try await next
        #expect(second?.transactionNumber == 4)
        #expect(iterator.lastToken == second?.token)
        let token = try #require(first?.token)
        var resumed = coordinator.history(after: token, HistoryFilter(author: "ann"))
            .makeAsyncIterator()
        #expect(try await resumed.next() == second)
        coordinator.close()
        #expect(try await resumed.next() == nil)
    }

    @Test("A sequence that lets little through tells how far it has read")
    func readPlace() async throws {
        for number in 1...30 {
            try save(as: number == 21 ? "ann" : "bob") { $0.insert("Item", ["p": "b"]) }
        }
        var iterator = store.coordinator.history(after: nil, HistoryFilter(author: "ann"))
            .makeAsyncIterator()
        #expect(iterator.lastToken == nil)
        let found = try #require(try await iterator.next())
        #expect(found.token.position == 21)
        // The page of the log that it was in is read to its end.
        let place = try #require(iterator.lastToken)
        #expect(place.position == 24)
        #expect(try transactions(after: place).count == 6)
    }
}
