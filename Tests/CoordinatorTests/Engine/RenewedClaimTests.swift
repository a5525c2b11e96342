import Coordinator
import Merge
import Testing

/// Where a row is one register, any update makes its claim to a one-to-one as new as the update.
@Suite("Renewed claims")
struct RenewedClaimTests {
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", mergePolicy: .rollback, attributes: [.init("name", .string)],
                relationships: [.init("seat", to: "Seat", inverse: "person")]),
            EntityDescription(
                "Seat", attributes: [.init("name", .string)],
                relationships: [.init("person", to: "Person", inverse: "seat")]),
        ])
    }

    @Test("A context hears of a one-to-one that its own save lost by renewing another's claim")
    func lostClaims() throws {
        let nodes = try (1...2).map { try EngineNode(try Self.model(), node: $0) }
        let node = nodes[0]
        let seat = try node.insert("Seat")
        let persons = try (0..<20).map { _ in try node.insert("Person") }
        try exchange(node, nodes[1])
        try node.update(persons[0], ["seat": .reference(seat.row)])
        try nodes[1].update(persons[1], ["seat": .reference(seat.row)])
        try exchange(node, nodes[1])
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            let objects = persons.map { context.object(with: $0) }
            #expect(objects[0].relatedObject(forKey: "seat") != nil)
            for object in objects where object.objectID != persons[1] { object["name"] = "renewed" }
            try context.save()
            for object in objects.prefix(2) {
                let shown = try node.value(object.objectID, "seat")
                #expect(shown == (object === objects[0] ? .null : .reference(seat.row)))
                let id = object.relatedObject(forKey: "seat")?.objectID
                #expect(id.map { .reference($0.row) } ?? .null == shown)
            }
        }
    }

    @Test("An update that renews a claim settles it alike at every node, in any order")
    func claims() throws {
        let nodes = try (1...3).map { try EngineNode(try Self.model(), node: $0) }
        let seat = try nodes[0].insert("Seat")
        let persons = try (0..<20).map { _ in try nodes[0].insert("Person") }
        try exchange(nodes[0], nodes[1], nodes[2])
        // Two nodes give the same seat away, and a large update renews the earlier claim.
        try nodes[1].update(persons[0], ["seat": .reference(seat.row)])
        try nodes[2].update(persons[1], ["seat": .reference(seat.row)])
        try nodes[0].take(from: nodes[1])
        try nodes[2].take(from: nodes[1])
        try nodes[1].save(
            SaveRequest(
                operations: try persons.filter { $0 != persons[1] }.map {
                    try nodes[1].change($0, ["name": .string("renewed")])
                }))
        try nodes[0].take(from: nodes[2])
        try nodes[0].take(from: nodes[1])
        try exchange(nodes[0], nodes[1], nodes[2])
        let shown = try nodes.map { node in
            try persons.prefix(2).map { try node.value($0, "seat") }
        }
        #expect(shown[0] == shown[1] && shown[0] == shown[2])
    }
}
