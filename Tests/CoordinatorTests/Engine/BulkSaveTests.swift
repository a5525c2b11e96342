import Coordinator
import Dispatch
import Merge
import Testing

/// Saves with very many operations, and the limit that the others have.
@Suite("Bulk saves")
struct BulkSaveTests {
    private static let limit = SaveRequest.Bounds.operations

    private let model: ManagedObjectModel
    private let node: EngineNode
    private let other: EngineNode

    init() throws {
        model = try ManagedObjectModel(entities: [
            EntityDescription("Item", attributes: [.init("name", .string)]),
            EntityDescription(
                "Order", attributes: [.init("name", .string)],
                relationships: [
                    .init(
                        "lines", to: "Line", inverse: "order", isToMany: true, deleteRule: .cascade)
                ]),
            EntityDescription(
                "Line", mergePolicy: .error, attributes: [.init("text", .string)],
                relationships: [.init("order", to: "Order", inverse: "lines")]),
        ])
        node = try EngineNode(model)
        other = try EngineNode(model, node: 2)
    }

    private func insertions(_ count: Int, isBulk: Bool) throws -> SaveRequest {
        SaveRequest(
            operations: try (1...count).map {
                try node.insertion("Item", -Int64($0), ["name": .string("item \($0)")])
            }, isBulk: isBulk)
    }

    private func count(_ node: EngineNode, _ entity: String = "Item") throws -> Int {
        try node.coordinator.read { try $0.count(FetchRequest(entity)) }
    }

    @Test("A bulk save of 25,000 objects is done whole at both nodes")
    func whole() throws {
        let size = 25_000
        let result = try node.save(try insertions(size, isBulk: true))
        #expect(result.insertedRows.count == size && result.rows.count == size)
        #expect(try count(node) == size)
        #expect(node.transactions.map(\.dot) == [try #require(result.transaction)])
        try other.take(from: node)
        #expect(try count(other) == size)
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
        #expect(try other.coordinator.verify().isOK)
    }

    @Test("More operations than the limit are refused unless bulk, and nothing is written")
    func refused() throws {
        let before = try node.coordinator.currentToken
        let error = #expect(throws: CoordinatorError.self) {
            try node.save(try insertions(Self.limit + 1, isBulk: false))
        }
        #expect(error?.code == .limitExceeded)
        for word in ["20001", "20000", "isBulk", "\"bulk\": true", "--bulk", "wait"] {
            #expect(error?.message.contains(word) ?? false, "\(word)")
        }
        #expect(try count(node) == 0)
        #expect(try node.coordinator.currentToken == before)
        // The limit itself is allowed, and no sequence was used.
        let result = try node.save(try insertions(Self.limit, isBulk: false))
        #expect(result.transaction?.sequence == 1)
        #expect(try count(node) == Self.limit)
    }

    @Test("A context saves more than the limit only with isBulk, and keeps its changes until then")
    func ofContext() throws {
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            for _ in 0...Self.limit { _ = context.insert("Item") }
            let error = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(error?.code == .limitExceeded && context.hasChanges)
            try context.save(SaveOptions(isBulk: true))
            #expect(!context.hasChanges)
        }
        #expect(try count(node) == Self.limit + 1)
    }

    @Test("What delete rules add does not count, and is deleted at every node")
    func cascade() throws {
        let lines = 2_000
        let made = try node.save(
            SaveRequest(
                operations: [try node.insertion("Order", -1)]
                    + (1...lines).map {
                        try node.insertion("Line", -1 - Int64($0), ["order": .reference(RowID(-1))])
                    }))
        try other.take(from: node)
        let order = ManagedObjectID(entityName: "Order", row: made.insertedRows[0].row)
        let kept = ManagedObjectID(entityName: "Line", row: made.insertedRows[1].row)
        // The other node's edit of one line is concurrent to the delete of all.
        try other.update(kept, ["text": .string("edited")])
        let deleted = try node.save(SaveRequest(operations: [try node.deletion(order)]))
        #expect(deleted.rows.count == lines + 1)
        #expect(try count(node, "Line") == 0 && count(node, "Order") == 0)
        try exchange(node, other)
        for store in [node, other] {
            #expect(try store.row(order) == nil)
            #expect(try store.value(kept, "text") == .string("edited"))
            #expect(try store.value(kept, "order") == .null)
            #expect(try count(store, "Line") == 1)
            #expect(try store.conflicts(kind: .delete).count == 1)
            #expect(try store.coordinator.verify().isOK)
        }
    }

    @Test("A context's delete that cascades to more than the limit needs no isBulk")
    func cascadeInContext() throws {
        let lines = Self.limit + 1
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            let order = context.insert("Order")
            for _ in 0..<lines { context.insert("Line")["order"] = .reference(order.objectID.row) }
            try context.save(SaveOptions(isBulk: true))
            context.delete(order)
            try context.save()
        }
        #expect(try count(node, "Line") == 0 && count(node, "Order") == 0)
    }

    @Test("A key's conflict is resolved although more rows than the limit refer to the loser")
    func resolving() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Tag", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription("tasks", to: "Task", inverse: "tag", isToMany: true)
                ], uniquenessConstraints: [["name"]]),
            EntityDescription(
                "Task",
                relationships: [RelationshipDescription("tag", to: "Tag", inverse: "tasks")]),
        ])
        let nodes = try [EngineNode(model), EngineNode(model, node: 2)]
        let tags = try nodes.map { try $0.insert("Tag", ["name": .string("a")]) }
        _ = try nodes[1].coordinator.save(
            SaveRequest(
                operations: try (0...Self.limit).map {
                    try nodes[1].insertion(
                        "Task", -1 - Int64($0), ["tag": .reference(tags[1].row)])
                }, isBulk: true))
        try nodes[0].take(from: nodes[1])
        let conflict = try #require(try nodes[0].conflicts(kind: .uniqueness).first)
        let side = try #require(conflict.sides.first { $0.object == tags[0] }?.dot)
        _ = try nodes[0].coordinator.resolve(conflict.id, .sideOf(tags[0], side)) as SaveResult
        #expect(try nodes[0].members(tags[0], "tasks").count == Self.limit + 1)
        #expect(try nodes[0].row(tags[1]) == nil)
    }

    @Test("Another save waits for a bulk save, and succeeds")
    func waiting() async throws {
        let coordinator = node.coordinator
        let bulk = try insertions(25_000, isBulk: true)
        let small = SaveRequest(operations: [try node.insertion("Order")])
        // The writer stands still until both wait.
        let mayGoOn = DispatchSemaphore(value: 0)
        coordinator.makeDurable { _ in mayGoOn.wait() }
        async let large: SaveResult = coordinator.save(bulk)
        while coordinator.waitingSaves < 1 { try await Task.sleep(for: .milliseconds(1)) }
        async let saved: SaveResult = coordinator.save(small)
        while coordinator.waitingSaves < 2 { try await Task.sleep(for: .milliseconds(1)) }
        mayGoOn.signal()
        #expect(try await large.transaction?.sequence == 1)
        #expect(try await saved.transaction?.sequence == 2)
        #expect(try count(node, "Order") == 1)
    }

    @Test("A bulk save that is repeated by its save ID is done once, with isBulk or without")
    func repeated() throws {
        var request = try insertions(Self.limit + 1, isBulk: true)
        request.saveID = "import"
        let first = try node.save(request)
        request.isBulk = false
        let again = try node.save(request)
        #expect(first.transaction != nil && again.transaction == first.transaction)
        #expect(try count(node) == Self.limit + 1)
    }
}
