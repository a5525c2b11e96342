import Merge
import Testing

@testable import Coordinator

/// Deletes among what is staged: of rows that nothing refers to, while that stays so.
extension StagedChangesTests {
    /// What nothing hangs on: the sheets have keys.
    private var free: [ManagedObjectID] { ids.filter { $0.entityName != "Sheet" } }

    private func deletes(_ node: EngineNode, _ ids: [ManagedObjectID]) throws -> SaveRequest {
        SaveRequest(operations: try ids.map { try node.deletion($0) })
    }

    @Test("Deletes are staged as well, with updates or without")
    func deleted() throws {
        let free = self.free
        var request = try deletes(node, free)
        request.operations += try ids.filter { !free.contains($0) }.map {
            try node.change($0, ["title": .string("after")])
        }
        let result = try node.coordinator.save(request)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(result.rows.prefix(free.count).allSatisfy { $0.version == nil })
        #expect(result.rows.map(\.objectID) == free + ids.filter { !free.contains($0) })
        #expect(try titled(node) == Self.count - free.count)
        for id in free { #expect(try node.row(id) == nil) }
        #expect(try node.members(try node.folder(), "items") == [])
        try node.expectNothingStaged()
        #expect(try node.coordinator.read { try $0.count(FetchRequest("Item")) } == 0)
        try checkEqual()
        // Their tombstones are what they would have been: a revival brings the row back whole.
        try other.update(free[0], ["note": .string("back")], resolves: true)
        try checkEqual()
        #expect(try node.value(free[0], "title") == .string("before 0"))
        // And they are collected in time.
        for store in [node, other] {
            let stable = try store.vector
            #expect(try store.coordinator.collect(stable: stable).tombstonesCollected > 20)
        }
        try checkEqual()
    }

    @Test("Deletes of another node's, of which some are in conflict")
    func deletedElsewhere() throws {
        let free = self.free
        for id in free.prefix(6) { try node.update(id, ["note": .string("mine")]) }
        try node.save(
            try node.change(
                free[10], [:], [.init(name: "tags", kind: .add, members: [free[12].row])]))
        try node.delete(free[20])
        _ = try other.coordinator.save(try deletes(other, free))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try node.conflicts(kind: .delete).count == 6)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("What comes to refer to a row that is being deleted is told so", arguments: moments)
    func referredMeanwhile(parts: Int) throws {
        let saved = try node.coordinator.save(
            SaveRequest(
                operations: try (1...Int64(Self.count)).map { try node.insertion("Folder", -$0) }))
        let folders = saved.rows.map(\.objectID)
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try deletes(node, folders)
        var item: ManagedObjectID?
        let outcome = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                #expect(try coordinator.verify().isOK)
                let isThere = try node.row(folders[1]) != nil
                let code = try node.code {
                    item = try node.insert("Item", ["folder": .reference(folders[1].row)])
                }
                // They may be shown before it has its turn.
                #expect(code == .validationFailed || (code == nil && isThere))
                #expect(try coordinator.verify().isOK)
            }
        }
        #expect(outcome == nil)
        node.finishStaging()
        // Where one is referred to its delete rules have a say, on all of the save.
        #expect(coordinator.stagedTransactions == (item == nil ? 1 : 0))
        #expect(try coordinator.read { try $0.count(FetchRequest("Folder")) } == 1)
        if let item { #expect(try node.value(item, "folder") == .null) }
        // The delete had seen the reference.
        #expect(try node.conflicts().isEmpty)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("While deletes are put in place, rows that are gone are gone, and may come back")
    func whileBurying() throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let free = self.free
        let request = try deletes(node, free)
        let (first, second) = (free[28], free[29])
        _ = try BetweenParts.run(coordinator, parts: 33) {
            try coordinator.save(request)
        } meanwhile: {
            #expect(try node.row(first) == nil)
            #expect(
                try node.code { try node.update(first, ["note": .null]) } == .objectNotFound)
            #expect(try coordinator.verify().isOK)
            try node.update(second, ["note": .string("back")], resolves: true)
            #expect(try node.value(second, "note") == .string("back"))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(try node.value(second, "note") == .string("back"))
        try node.expectNothingStaged()
        try checkEqual()
        #expect(try other.row(first) == nil)
    }

    @Test("Collection is not done while rows are still to be buried")
    func collectingWhileBurying() throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let free = self.free
        let request = try deletes(node, free)
        _ = try BetweenParts.run(coordinator, parts: 33) {
            try coordinator.save(request)
        } meanwhile: {
            // What is buried by now is collected, and the rest later.
            let all = try coordinator.currentToken.versionVector
            #expect(try !coordinator.collect(stable: all).isDone)
        }
        node.finishStaging()
        let all = try coordinator.currentToken.versionVector
        #expect(try coordinator.collect(stable: all).isDone)
        #expect(try coordinator.read { try $0.uncollectedCount } == 0)
    }

    @Test("What comes to refer meanwhile to a row that denies it has all of the deletes refused")
    func denied() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Shelf", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription(
                        "products", to: "Product", inverse: "shelf", isToMany: true,
                        deleteRule: .deny)
                ]),
            EntityDescription(
                "Product", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription("shelf", to: "Shelf", inverse: "products")
                ]),
        ])
        let node = try EngineNode(model, node: 1)
        try node.reopenStaging(worksAlone: false)
        let saved = try node.coordinator.save(
            SaveRequest(operations: try (1...30).map { try node.insertion("Shelf", -$0) }))
        let shelves = saved.rows.map(\.objectID)
        let coordinator = node.coordinator
        let request = try deletes(node, shelves)
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: 12) {
                try coordinator.save(request)
            } meanwhile: {
                _ = try node.insert("Product", ["shelf": .reference(shelves[1].row)])
            }
        }
        #expect(code == .deleteDenied)
        #expect(try coordinator.read { try $0.count(FetchRequest("Shelf")) } == 30)
        node.finishStaging()
        #expect(try coordinator.verify().isOK)
    }

    @Test("Nobody is the incarnation that stands for what has no dot yet")
    func incarnations() throws {
        let actor = ActorTable.stagedStamp.dot.actor
        let result = try node.coordinator.apply([
            EncodedTransaction(
                Transaction(
                    dot: Dot(actor: actor, sequence: 1), timestamp: .zero, seen: VersionVector(),
                    author: nil, saveID: nil, modelHash: model.modelHash, shapes: [], changes: [])
            )
        ])
        #expect(result.rejected.count == 1)
    }

    @Test("A delete that would leave too few is refused, in whatever part it is")
    func counts() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Order", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription(
                        "lines", to: "Line", inverse: "order", isToMany: true, minimumCount: 1)
                ]),
            EntityDescription(
                "Line", attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("order", to: "Order", inverse: "lines")]),
        ])
        let nodes = try (1...2).map { try EngineNode(model, node: $0) }
        try nodes[1].reopenStaging()
        for node in nodes {
            var orders: [ManagedObjectID] = []
            var lines: [ManagedObjectID] = []
            for _ in 0..<10 {
                let result = try node.save(
                    try node.insertion("Order", -1),
                    try node.insertion("Line", -2, ["order": .reference(RowID(-1))]))
                orders.append(ManagedObjectID(entityName: "Order", row: result.insertedRows[0].row))
                lines.append(ManagedObjectID(entityName: "Line", row: result.insertedRows[1].row))
            }
            let request = SaveRequest(
                operations: try orders.map { try node.change($0, ["name": .string("new")]) }
                    + lines.map { try node.deletion($0) })
            #expect(try node.code { _ = try node.coordinator.save(request) } == .validationFailed)
            // Nor is one of updates alone staged: another save might move a line away meanwhile.
            var updates = request
            updates.operations = Array(request.operations.prefix(10))
            _ = try node.coordinator.save(updates)
            #expect(node.coordinator.stagedTransactions == 0)
        }
    }

    @Test("Deletes from elsewhere that leave too few, however many, are listed")
    func countedDeletes() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Order", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription(
                        "lines", to: "Line", inverse: "order", isToMany: true, isOptional: false)
                ]),
            EntityDescription(
                "Line", attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("order", to: "Order", inverse: "lines")]),
        ])
        let nodes = try (1...2).map { try EngineNode(model, node: $0) }
        try nodes[1].reopenStaging()
        let result = try nodes[0].coordinator.save(
            SaveRequest(
                operations: [try nodes[0].insertion("Order", -1)]
                    + (2...31).map {
                        try nodes[0].insertion("Line", -$0, ["order": .reference(RowID(-1))])
                    }))
        try exchange(nodes[0], nodes[1])
        // Each leaves what the other deletes.
        let lines = result.insertedRows.dropFirst().map {
            ManagedObjectID(entityName: "Line", row: $0.row)
        }
        for (node, deleted) in [(nodes[0], lines.dropLast()), (nodes[1], lines.suffix(1))] {
            _ = try node.coordinator.save(
                SaveRequest(operations: try deleted.map { try node.deletion($0) }))
        }
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.onlyConflict().violation == .relationshipLacksMinimumCount)
        }
        // And many that come mend it.
        _ = try nodes[0].coordinator.save(
            SaveRequest(
                operations: try (1...30).map {
                    try nodes[0].insertion(
                        "Line", -$0, ["order": .reference(result.insertedRows[0].row)])
                }))
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.conflicts().isEmpty) }
    }

    // MARK: What comes between
}
