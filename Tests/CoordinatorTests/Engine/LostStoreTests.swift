// What if a node's store is lost, and its number is used again at once, against the rules?

import Foundation
import Merge
import Testing

@testable import Coordinator

@Suite("A store that is made anew under a number that was used")
struct LostStoreTests {
    @Test("Its objects have other identities, though it is the same minute")
    func sameMinute() throws {
        let node = try #require(NodeID(3))
        let model = try ManagedObjectModel(entities: [
            EntityDescription("Thing", attributes: [AttributeDescription("name", .string)])
        ])
        let entity = try #require(model.entity(named: "Thing"))
        var rows = Set<RowID>()
        for chance in [UInt64(1_000), 900_000] {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("tributary-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true)
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
}
