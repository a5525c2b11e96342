import Coordinator
import Merge
import Testing

/// One-to-ones when a migration forms groups again.
@Suite("Claims when a model groups otherwise")
struct MigratedClaimsTests {
    private func model(_ key: String) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            // The claim is kept in its column: its name comes first.
            EntityDescription(
                "Badge", attributes: [.init("mark", .string), .init("number", .string)],
                relationships: [.init("person", to: "Person", inverse: "badge")],
                uniquenessConstraints: [[key]]),
            EntityDescription(
                "Person", attributes: [.init("name", .string)],
                relationships: [.init("badge", to: "Badge", inverse: "person")]),
        ])
    }

    @Test("What is eclipsed by a row that was eclipsed itself hands on what it had claimed")
    func handedOn() throws {
        let (first, second) = (try model("number"), try model("mark"))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        func badge(
            _ node: Int, number: String, mark: String, _ person: ManagedObjectID? = nil
        ) throws -> ManagedObjectID {
            var values: [String: PropertyValue] = [
                "number": .string(number), "mark": .string(mark),
            ]
            if let person { values["person"] = .reference(person.row) }
            return try nodes[node].insert("Badge", values)
        }
        let person = try nodes[0].insert("Person")
        try nodes[1].take(from: nodes[0])
        let both = [try badge(0, number: "1", mark: "1"), try badge(1, number: "1", mark: "2")]
        try exchange(nodes[0], nodes[1])
        let eclipsed = try #require(try both.first { try nodes[0].row($0)?.objectID != $0 })
        let mark = eclipsed == both[0] ? "1" : "2"
        let claiming = [
            try badge(0, number: "2", mark: mark, person),
            try badge(1, number: "3", mark: "3", person),
        ]
        try nodes[2].migrate(to: second)
        try exchange(nodes[0], nodes[1])
        try nodes[2].take(from: nodes[0])
        for node in nodes[..<2] { try node.migrate(to: second) }
        for node in nodes {
            #expect(try node.row(claiming[0])?.objectID == eclipsed)
            #expect(try node.members(person, "badge") == [claiming[1].row])
        }
        try exchange(nodes[0], nodes[1], nodes[2])
    }
}
