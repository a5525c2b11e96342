import Coordinator
import Foundation
import Merge
import Node
import Testing

@Suite("Orphans over HTTP")
struct OrphanContractTests {
    /// Saves of another node, as they would have come from it.
    private static func saves(
        _ node: HTTPTestNode, _ names: String...
    ) throws -> [EncodedTransaction] {
        let other = try PersistentStoreCoordinator(
            storeAt: node.directory.appendingPathComponent("other.sqlite").path,
            model: node.coordinator.model, cluster: "demo", node: try HTTPTestNode.node(2))
        defer { other.close() }
        let person = try #require(other.model.entity(named: "Person"))
        let name = try #require(person.position(of: "name"))
        for text in names {
            var request = SaveRequest(operations: [
                SaveOperation(
                    kind: .insert, entity: person, row: RowID(-1),
                    values: [(name, .string(text))])
            ])
            request.author = "ada"
            _ = try other.save(request)
        }
        return try other.read { try $0.history(afterPosition: 0, limit: 100) }.map(\.encoded)
    }

    @Test("They are listed with what they would have written, shown, and discarded")
    func whole() async throws {
        try await HTTPTestNode.run { node in
            let empty = try await node.ask("GET", "/v1/orphans")
            #expect(empty.text == #"{"orphans":[],"next":null}"#)
            let orphans = try Self.saves(node, "Ada", "Eve", "Bob")
            try node.coordinator.keepOrphans(Array(orphans.dropFirst()))
            let list = try await node.ask("GET", "/v1/orphans")
            #expect(list.status == 200 && list["orphans"]?.array?.count == 2)
            #expect(list["next"] == .null)
            let (eve, bob) = (orphans[1].dot.description, orphans[2].dot.description)
            #expect(list["orphans.0.transaction"]?.string == eve)
            #expect(list["orphans.0.author"]?.string == "ada")
            #expect(list["orphans.0.saveID"] == .null && list["orphans.0.context"] == .null)
            #expect(list["orphans.0.damaged"] == .boolean(false))
            #expect((list["orphans.0.keptAt.milliseconds"]?.integer ?? 0) > 1_600_000_000_000)
            #expect((list["orphans.0.timestamp.milliseconds"]?.integer ?? 0) > 1_600_000_000_000)
            #expect(list["orphans.0.changes.0.kind"]?.string == "insert")
            #expect(list["orphans.0.changes.0.values.name"]?.string == "Eve")
            let one = try await node.ask("GET", "/v1/orphans/\(bob)")
            #expect(one.json == list["orphans.1"])
            // A page at a time.
            let first = try await node.ask("GET", "/v1/orphans?limit=1")
            #expect(first["orphans"]?.array?.count == 1 && first["next"]?.string == eve)
            let second = try await node.ask("GET", "/v1/orphans?limit=1&after=\(eve)")
            #expect(second["orphans.0"] == list["orphans.1"] && second["next"] == .null)
            let gone = try await node.ask(
                "DELETE", "/v1/orphans/\(eve)?author=carl&note=saved%20again")
            #expect(gone.status == 200 && gone["discarded"] == .boolean(true))
            for method in ["GET", "DELETE"] {
                let unknown = try await node.ask(method, "/v1/orphans/\(eve)")
                #expect(unknown.status == 404 && unknown.code == "orphanUnknown", "\(method)")
            }
            #expect(try node.coordinator.orphanedDots == [orphans[2].dot])
            let discards = try await node.ask("GET", "/v1/discards")
            #expect(discards["discards.0.transaction"]?.string == eve, "\(discards.text)")
            #expect(discards["discards.0.author"]?.string == "carl")
            #expect(discards["discards.0.note"]?.string == "saved again")
        }
    }

    @Test("What is no name, no count, or no parameter is refused")
    func refused() async throws {
        try await HTTPTestNode.run { node in
            for path in ["/nonsense", "?limit=0", "?after=x", "?since=1"] {
                let answer = try await node.ask("GET", "/v1/orphans\(path)")
                #expect(answer.status == 400 && answer.code == "malformed", "\(path)")
            }
            #expect(try await node.ask("DELETE", "/v1/orphans/2.1-0").status == 400)
            #expect(try await node.ask("POST", "/v1/orphans", "{}").status == 405)
        }
    }
}
