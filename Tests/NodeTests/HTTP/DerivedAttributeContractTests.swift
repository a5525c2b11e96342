import Coordinator
import Testing

@testable import Node

@Suite("Derived attributes over HTTP")
struct DerivedAttributeContractTests {
    private static let model = """
        {"entities": [
          {"name": "Folder", "attributes": [{"name": "name", "type": "string"},
             {"name": "canonical", "type": "string", "derivation": "canonical:(name)"},
             {"name": "key", "type": "binary", "derivation": "localizedStandard:(name, sv)"},
             {"name": "total", "type": "decimal", "derivation": "notes.price.@sum"}],
           "relationships": [
             {"name": "notes", "destination": "Note", "inverse": "folder", "toMany": true}],
           "indexes": [{"name": "byName", "elements": ["-canonical"]},
             {"name": "named", "elements": ["name"], "predicate": "name != nil"}]},
          {"name": "Note", "attributes": [{"name": "price", "type": "decimal"}],
           "relationships": [{"name": "folder", "destination": "Folder", "inverse": "notes"}]}]}
        """

    @Test("They are shown, fetched and sorted by, and refused where somebody assigns them")
    func contract() async throws {
        try await HTTPTestNode.run(model: Self.model) { node in
            let saved = try await node.save(
                operations: #"{"insert": "Folder", "id": "@f", "values": {"name": "Ärzte"}}"#,
                #"{"insert": "Note", "values": {"price": "0.1", "folder": "@f"}}"#,
                #"{"insert": "Note", "values": {"price": "0.2", "folder": "@f"}}"#)
            #expect(saved.status == 200, "\(saved.text)")
            let found = try await node.fetch(
                #"""
                {"entity": "Folder", "predicate": "name BEGINSWITH[cd] 'AR' AND total == 0.3",
                 "sort": ["-total", "canonical"]}
                """#)
            #expect(found.status == 200, "\(found.text)")
            #expect(found["objects.0.values.canonical"]?.string == "arzte")
            #expect(found["objects.0.values.total"]?.string == "0.3")
            let some = try await node.fetch(
                #"{"entity": "Folder", "properties": ["total"]}"#)
            #expect(some["objects.0.values.total"]?.string == "0.3")
            #expect(some["objects.0.values.canonical"] == nil)

            // A key of an order comes as base64.
            let key = found["objects.0.values.key"]?.string
            #expect(key?.isEmpty == false, "\(found.text)")
            let same = try await node.fetch(
                #"{"entity": "Folder", "predicate": "key == '\#(key ?? "")'"}"#)
            #expect(same["objects"]?.array?.count == 1, "\(same.text)")

            let refused = try await node.save(
                operations: #"{"insert": "Folder", "values": {"total": "1"}}"#)
            #expect(refused.status == 400)
            #expect(refused.text.contains("Folder.total is derived"), "\(refused.text)")
        }
    }
}
