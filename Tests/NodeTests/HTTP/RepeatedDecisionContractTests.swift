import Coordinator
import Merge
import Node
import Testing

/// What is asked for twice: a save ID with other operations, and a conflict that is decided already.
@Suite("Save IDs and decisions that come again")
struct RepeatedDecisionContractTests {
    @Test(
        "A save ID that comes again with other operations is refused, and answered with the same ones"
    )
    func reused() async throws {
        try await HTTPTestNode.run { node in
            func save(_ values: String) async throws -> HTTPTestNode.Answer {
                try await node.save(
                    "{\"operations\": [{\"insert\": \"Person\", \"values\": {\(values)}}], "
                        + "\"saveID\": \"one\"}")
            }
            let first = try await save("\"name\": \"Ada\", \"age\": 3")
            #expect(first.status == 200)
            let again = try await save(" \"age\": 3,\n\"name\": \"Ada\"")
            #expect(again.status == 200 && again["transaction"] == first["transaction"])
            let other = try await save("\"name\": \"Bob\", \"age\": 3")
            #expect(other.status == 409 && other.code == "saveIDReused")
            let count = try await node.fetch("{\"entity\": \"Person\", \"resultType\": \"count\"}")
            #expect(count["count"] == .integer(1))
        }
    }

    @Test("Resolving what is resolved tells who did and when; a side may be given by its number")
    func resolved() async throws {
        try await HTTPTestNode.run { node in
            let (person, _) = try await node.insertPerson("Ada")
            let seen = try node.coordinator.currentToken.versionVector
            _ = try await node.save(
                "{\"operations\": [{\"update\": \"\(person)\", \"values\": {\"name\": \"Eve\"}}]}")
            try node.applyForeignName("Amy", of: person, seen: seen)
            let list = try await node.ask("GET", "/v1/conflicts?open=true")
            let id = try #require(list["conflicts"]?.array?.first?.object?["id"]?.string)
            let path = "/v1/conflicts/\(id)/resolution"
            let none = try await node.ask("POST", path, "{\"side\": 3}")
            #expect(none.status == 409 && none.code == "sidesChanged")
            let first = try await node.ask(
                "POST", path, "{\"side\": 2, \"author\": \"Eve\", \"context\": \"desk\"}")
            #expect(first.status == 200)
            let again = try await node.ask("POST", path, "{\"side\": 1}")
            #expect(again.status == 409 && again.code == "alreadyResolved")
            let decision = try #require(again["error.decision"]?.object)
            #expect(decision["author"] == .string("Eve") && decision["context"] == .string("desk"))
            #expect(decision["dot"] == first["transaction"])
            let closed = try await node.ask("GET", "/v1/conflicts?open=false")
            let entry = try #require(closed["conflicts"]?.array?.first?.object)
            #expect(entry["decision"]?.object == decision)
        }
    }
}
