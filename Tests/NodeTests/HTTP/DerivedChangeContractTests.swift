import Client
import Coordinator
import Node
import Testing

@Suite("What a delete changes beside its object")
struct DerivedChangeContractTests {
    private static let model = """
        {"entities": [
          {"name": "Owner",
           "relationships": [
             {"name": "items", "destination": "Item", "inverse": "owner", "toMany": true}]},
          {"name": "Item",
           "relationships": [{"name": "owner", "destination": "Owner", "inverse": "items"}]}]}
        """

    @Test("History and the change feed tell it as an update, and it is no conflict")
    func told() async throws {
        try await HTTPTestNode.run(model: Self.model) { node in
            let saved = try await node.save(
                """
                {"operations": [
                  {"insert": "Owner", "id": "@owner"},
                  {"insert": "Item", "id": "@item", "values": {"owner": "@owner"}}]}
                """)
            let owner = try #require(saved["ids.@owner"]?.string)
            let item = try #require(saved["ids.@item"]?.string)
            let token = try #require(saved["token"]?.string)
            _ = try await node.save(operations: #"{"delete": "\#(owner)"}"#)
            let derived: JSONValue = [
                "object": .string(item), "kind": .string("update"),
                "values": ["owner": .null], "derived": .boolean(true),
            ]
            let history = try await node.ask("GET", "/v1/history?after=\(token)")
            let changes = history["transactions.0.changes"]?.array ?? []
            #expect(changes.count == 2)
            #expect(changes.first?.object?["kind"] == .string("delete"))
            #expect(changes.last == derived)

            let feed = try await node.client.stream("GET", "/v1/changes?after=\(token)")
            for try await line in feed where line.hasPrefix("data: ") {
                #expect(line.contains(JSONWriter.text(of: derived)), "\(line)")
                break
            }
            let conflicts = try await node.ask("GET", "/v1/conflicts")
            #expect(conflicts["conflicts"] == .array([]))
        }
    }
}
