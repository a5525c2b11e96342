import Coordinator
import Testing

@testable import Node

@Suite("Advice about indexes over HTTP")
struct AdviceContractTests {
    @Test("A node advises for the requests that its clients made")
    func advises() async throws {
        try await HTTPTestNode.run { node in
            let none = try await node.ask("GET", "/v1/advice")
            #expect(none.text == #"{"indexes":[],"observed":0,"dropped":0}"#)
            for age in [30, 40] {
                let answer = try await node.fetch(
                    #"{"entity": "Person", "predicate": "age == \#(age)", "sort": ["-name"]}"#)
                #expect(answer.status == 200)
            }
            let answer = try await node.ask("GET", "/v1/advice")
            #expect(answer.status == 200)
            #expect(answer["observed"] == .integer(1))
            #expect(answer["indexes.0.entity"]?.string == "Person")
            let text = answer["indexes.0.index"].map { JSONWriter.text(of: $0) }
            #expect(text == #"{"name":"byAgeName","elements":["age","-name"]}"#)
            #expect(answer["indexes.0.rows"] == .integer(0))
            #expect(
                answer["indexes.0.requests.0"]?.object?.members.map(\.key) == [
                    "equal", "ranged", "sort", "text", "count", "milliseconds", "rows", "before",
                    "after",
                ])
            #expect(answer["indexes.0.requests.0.count"] == .integer(2))
            #expect(answer["indexes.0.requests.0.equal"] == .array([.string("age")]))
            #expect(answer["indexes.0.requests.0.sort"] == .array([.string("-name")]))
            #expect(answer["indexes.0.requests.0.before.0"]?.string == "SCAN t0")
            let after = answer["indexes.0.requests.0.after.0"]?.string
            #expect(after == "SEARCH t0 USING COVERING INDEX Person.byAgeName (age=?)")
            #expect(answer["indexes.1"] == nil)
            // The index can be put in a model as it stands.
            let index = try #require(answer["indexes.0.index"])
            let model = """
                {"entities": [{"name": "Person", "indexes": [\(JSONWriter.text(of: index))],
                  "attributes": [{"name": "name", "type": "string"},
                    {"name": "age", "type": "integer64"}]}]}
                """
            let read = try ManagedObjectModel(json: Array(model.utf8))
            #expect(read.entity(named: "Person")?.indexes.first?.elements == ["age", "-name"])
            #expect(try await node.ask("GET", "/v1/advice?limit=1").status == 400)
        }
    }
}
