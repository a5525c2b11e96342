import Coordinator
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, "Fetching and batch": requests that change many objects in the store.
@Suite struct BatchConformanceTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private func update(
        _ format: String?, _ values: [String: PropertyValue],
        _ resultType: BatchRequestResultType = .objectIDs
    ) throws -> BatchUpdateRequest {
        BatchUpdateRequest(
            "Item", predicate: try format.map { try Predicate(format: $0) },
            propertiesToUpdate: values, resultType: resultType)
    }

    /// The p of every item, in order.
    private func names() throws -> [String?] {
        let context = store.context()
        return try context.performAndWait {
            try context.fetch(store.request("Item", sort: "p")).map { $0["p"] }
        }
    }

    private func changes() throws -> [[String]] {
        try store.coordinator.read { reader in
            try reader.history(afterPosition: 0, limit: 100).map { entry in
                entry.encoded.transaction.changes.map { "\($0.kind) \($0.row)" }
            }
        }
    }

    @Test("CD-34: a stale object that is saved after a batch update conflicts under error")
    func staleConflicts() throws {
        let id = try store.insert("Item", ["p": "old"])
        let context = store.context()
        try context.performAndWait {
            let item = try context.existingObject(with: id)
            #expect(item["p"] == "old")
            try context.execute(update(nil, ["p": .string("batch")]))
            item["q"] = "mine"
            let error = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(error?.code == .mergeConflict)
        }
        #expect(try names() == ["batch"])
    }

    @Test("CD-55: a batch request through a pinned context does not move its pin")
    func pinStays() throws {
        try store.insert("Item", ["p": "a"])
        try store.insert("Item", ["p": "b"])
        let context = store.context()
        try store.pin(context)
        let token = context.performAndWait { context.queryGenerationToken }
        let seen: [String?] = try context.performAndWait {
            try context.execute(update("p == 'a'", ["p": .string("c")]))
            try context.execute(
                BatchDeleteRequest(fetchRequest: store.request("Item", where: "p == 'b'")))
            return try context.fetch(store.request("Item", sort: "p")).map { $0["p"] }
        }
        #expect(seen == ["a", "b"])
        #expect(context.performAndWait { context.queryGenerationToken } == token)
        #expect(try names() == ["c"])
    }

    @Test(
        "CD-67: a batch insert, update and delete are a transaction each, with each object's change"
    )
    func history() throws {
        let inserted = try store.coordinator.execute(
            BatchInsertRequest(
                "Item", objects: [["p": .string("a")], ["p": .string("b")]],
                resultType: .objectIDs))
        let ids = try #require(inserted.objectIDs)
        let updated = try store.coordinator.execute(update(nil, ["q": .string("x")]))
        let deleted = try store.coordinator.execute(
            BatchDeleteRequest(objectIDs: ids, resultType: .objectIDs))
        let rows = ids.map(\.row)
        #expect(
            try changes() == [
                rows.map { "insert \($0)" }, rows.map { "update \($0)" },
                rows.map { "delete \($0)" },
            ])
        for result in [inserted, updated, deleted] {
            #expect(result.transactions == 1)
            #expect(result.count == 2)
            #expect(result.objectIDs == ids)
        }
    }

    @Test(
        "CD-133: a batch update validates nothing, calls nobody and leaves objects stale until merged"
    )
    func staleUntilMerged() throws {
        let id = try store.insert("Person", ["name": "Ada"])
        let context = store.context()
        let calls = Mutex(0)
        let observations = [
            context.observeWillSave { _ in calls.withLock { $0 += 1 } },
            context.observeDidSave { _, _ in calls.withLock { $0 += 1 } },
        ]
        let notices = Mutex<[CommitNotice]>([])
        let observation = store.coordinator.observeCommits { notice in
            notices.withLock { $0.append(notice) }
        }
        try context.performAndWait {
            let person = try context.existingObject(with: id)
            #expect(person["name"] == "Ada")
            // The name is mandatory.
            let result = try context.execute(
                BatchUpdateRequest("Person", propertiesToUpdate: ["name": .null]))
            #expect(result.resultType == .statusOnly)
            #expect(result.objectIDs == nil)
            #expect(person["name"] == "Ada")
            #expect(!context.hasChanges)
            let told = notices.withLock { $0 }
            #expect(told.map(\.updated) == [[id]])
            try context.mergeChanges(fromContextDidSave: ContextDidSave(#require(told.first)))
            let name: String? = person["name"]
            #expect(name == nil)
        }
        #expect(calls.withLock { $0 } == 0)
        observation.cancel()
        for observation in observations { observation.cancel() }
    }

    @Test("CD-134: a batch delete by IDs of two entities is refused")
    func twoEntities() throws {
        let item = try store.insert("Item", ["p": "a"])
        let tag = try store.insert("Tag", ["name": "t"])
        let error = #expect(throws: CoordinatorError.self) {
            try store.coordinator.execute(BatchDeleteRequest(objectIDs: [item, tag]))
        }
        #expect(error?.code == .malformed)
        #expect(error?.message.contains("\(tag)") == true)
        #expect(try store.isStored(item))
    }

    @Test("CD-134: a batch delete cascades and nullifies, and is refused where a rule denies")
    func deleteRules() throws {
        let context = store.context()
        let (book, sequel, item, tag) = try context.performAndWait {
            let book = context.insert("Book", ["title": "one"])
            let sequel = context.insert("Book", ["title": "two"])
            book.setRelatedObject(sequel, forKey: "sequel")
            let item = context.insert("Item", ["p": "a"])
            let tag = context.insert("Tag", ["name": "t"])
            item.add(tag, toRelationship: "tags")
            try context.save()
            return (book.objectID, sequel.objectID, item.objectID, tag.objectID)
        }
        let result = try store.coordinator.execute(
            BatchDeleteRequest(
                fetchRequest: store.request("Book", where: "title == 'one'"), resultType: .objectIDs
            ))
        #expect(result.objectIDs == [book])
        #expect(result.count == 1)
        #expect(try !store.isStored(sequel))
        try store.coordinator.execute(BatchDeleteRequest(objectIDs: [tag]))
        #expect(try store.storedMembers(item, "tags") == [])

        let person = try context.performAndWait {
            let person = context.insert("Person", ["name": "Ada"])
            context.insert("Debt", ["sum": 1]).setRelatedObject(person, forKey: "debtor")
            try context.save()
            return person.objectID
        }
        let error = #expect(throws: CoordinatorError.self) {
            try store.coordinator.execute(BatchDeleteRequest(objectIDs: [person]))
        }
        #expect(error?.code == .deleteDenied)
        #expect(error?.conflicts.map(\.object) == [person])
        #expect(try store.isStored(person))
    }

    @Test("CD-135: a batch delete takes what its request's order, offset and limit give")
    func page() throws {
        for name in ["c", "a", "e", "b", "d"] { try store.insert("Item", ["p": name]) }
        try store.coordinator.execute(
            BatchDeleteRequest(fetchRequest: store.request("Item", sort: "-p", limit: 2, offset: 1))
        )
        #expect(try names() == ["a", "b", "e"])
    }

    @Test(
        "CD-136: a batch insert of a unique key updates that object, and keeps what it does not give"
    )
    func upsert() throws {
        let store = try TestStore(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Person",
                    attributes: [
                        .init("code", .string), .init("name", .string),
                        .init("age", .integer64, defaultValue: .integer(1)),
                    ],
                    relationships: [
                        .init("boss", to: "Person", inverse: "staff"),
                        .init("staff", to: "Person", inverse: "boss", isToMany: true),
                    ], uniquenessConstraints: [["code"]])
            ]))
        let context = store.context()
        let (ada, boss) = try context.performAndWait {
            let ada = context.insert("Person", ["code": "a", "name": "Ada", "age": 36])
            let boss = context.insert("Person", ["code": "b", "name": "Bob"])
            ada.setRelatedObject(boss, forKey: "boss")
            try context.save()
            return (ada.objectID, boss.objectID)
        }
        let result = try store.coordinator.execute(
            BatchInsertRequest(
                "Person",
                objects: [
                    ["code": .string("a"), "name": .string("Augusta")],
                    ["code": .string("c"), "name": .string("Cyd")],
                ], resultType: .objectIDs))
        #expect(result.count == 2)
        #expect(result.objectIDs?.first == ada)
        let after = store.context()
        try after.performAndWait {
            let person = try after.existingObject(with: ada)
            #expect(person["name"] == "Augusta")
            #expect(person["age"] == 36)
            #expect(person.relatedObject(forKey: "boss")?.objectID == boss)
            #expect(try after.count(for: FetchRequest("Person")) == 3)
        }
    }

    @Test("CD-137: a save is no request that can be executed")
    func saveRequest() {
        #expect(!((SaveRequest(operations: []) as Any) is any BatchRequest))
    }
}
