// What if a node's store is lost, and its number is used again at once, against the rules?

import Foundation
import Merge
import Testing

@testable import Coordinator

@Suite("A new store under a number that was used")
struct LostStoreTests {
    @Test("Its objects have other identities, though it is the same minute")
    func sameMinute() throws {
        let node = try #require(NodeID(3))
        let model = try ManagedObjectModel(entities: [
            EntityDescription("Thing", attributes: [.init("name", .string)])
        ])
        let entity = try #require(model.entity(named: "Thing"))
        var rows = Set<RowID>()
        for chance in [UInt64(1_000), 900_000] {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("tributary-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            var options = PersistentStoreCoordinator.Options()
            options.wallMilliseconds = { 1_795_000_000_000 }
            options.random = { chance }
            let coordinator = try PersistentStoreCoordinator(
                storeAt: folder.appendingPathComponent("store.sqlite").path, model: model,
                cluster: "test", node: node, options: options)
            let request = SaveRequest(
                operations: (1...20).map {
                    SaveOperation(kind: .insert, entity: entity, row: RowID(-$0))
                })
            rows.formUnion(try coordinator.save(request).insertedRows.map(\.row))
            coordinator.close()
        }
        #expect(rows.count == 40)
    }

    @Test("Saves that come back from others are known by their IDs, and not done again")
    func answersReturn() throws {
        let (model, keeper) = try Self.items()
        let lost = try EngineNode(model, node: 2)
        var request = SaveRequest(
            operations: [
                try lost.insertion("Item", -3, ["name": .string("a")]),
                try lost.insertion("Item", -1, ["name": .string("b")]),
            ], saveID: "once")
        for index in request.operations.indices { request.operations[index].name = "@\(index)" }
        let outcome = try lost.save(request)
        try keeper.take(from: lost)
        lost.close()

        let node = try EngineNode(model, node: 2)
        try node.take(from: keeper)
        for isReopened in [false, true] {
            if isReopened { try node.reopen() }
            let known = try #require(try node.coordinator.read { try $0.savedAnswer("once") })
            #expect(known.isRebuilt && known.transaction == outcome.transaction)
            #expect(known.timestamp == outcome.timestamp && known.seen == outcome.seen)
            // Nobody knows what the request called them.
            #expect(known.insertedRows.allSatisfy { $0.name == nil })
            // What was applied waits for the disk; a client that gets an answer has waited for it.
            #expect(node.coordinator.isAwaitingDisk(known) == !isReopened)
            let again = try node.save(request)
            #expect(again.transaction == outcome.transaction)
            #expect(again.insertedRows == outcome.insertedRows)
            #expect(!node.coordinator.isAwaitingDisk(again))
        }
        #expect(try node.coordinator.read { try $0.count(FetchRequest("Item")) } == 2)
        // It is of the lost store's node alone: others' clients choose IDs of their own.
        #expect(try keeper.coordinator.read { try $0.savedAnswer("once") } == nil)
    }

    @Test("Where an inserted object took another's place, such an answer tells of none")
    func answersOfUnited() throws {
        let (model, keeper) = try Self.items()
        let lost = try EngineNode(model, node: 2)
        try lost.save(try lost.insertion("Item", -1, ["name": .string("a")]))
        let request = SaveRequest(
            operations: [
                try lost.insertion("Item", -1, ["name": .string("a")]),
                try lost.insertion("Item", -2, ["name": .string("b")]),
            ], mergePolicy: .mergeByPropertyObjectTrump, saveID: "once")
        let outcome = try lost.save(request)
        #expect(outcome.insertedRows.count == 2)
        try keeper.take(from: lost)
        let node = try EngineNode(model, node: 2)
        try node.take(from: keeper)
        let again = try node.save(request)
        #expect(again.transaction == outcome.transaction && again.insertedRows.isEmpty)
        #expect(try node.coordinator.read { try $0.count(FetchRequest("Item")) } == 2)
    }

    private static func items() throws -> (ManagedObjectModel, keeper: EngineNode) {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Item", attributes: [.init("name", .string)], uniquenessConstraints: [["name"]])
        ])
        return (model, try EngineNode(model, node: 1))
    }
}
