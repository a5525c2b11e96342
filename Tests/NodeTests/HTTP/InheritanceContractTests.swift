import Client
import Coordinator
import Merge
import Node
import Testing

@Suite("An object has one URI, whatever leads to it")
struct InheritanceContractTests {
    /// Owners of animals. Each animal is a dog or a cat.
    private static let model = """
        {"entities": [
          {"name": "Owner", "attributes": [{"name": "name", "type": "string"}],
           "relationships": [
             {"name": "pet", "destination": "Animal", "inverse": "owners"},
             {"name": "liked", "destination": "Animal", "inverse": "likers", "toMany": true}]},
          {"name": "Animal", "abstract": true,
           "relationships": [
             {"name": "owners", "destination": "Owner", "inverse": "pet", "toMany": true},
             {"name": "likers", "destination": "Owner", "inverse": "liked", "toMany": true}]},
          {"name": "Dog", "parent": "Animal"}, {"name": "Cat", "parent": "Animal"}]}
        """

    private struct Pets {
        let dog: String
        let cat: String
        let owner: String
        let version: String
    }

    /// An owner with a dog, who likes a cat.
    private static func insertPets(_ node: HTTPTestNode) async throws -> Pets {
        let saved = try await node.save(
            """
            {"operations": [
              {"insert": "Dog", "id": "@dog"}, {"insert": "Cat", "id": "@cat"},
              {"insert": "Owner", "id": "@owner", "values": {"name": "Ann", "pet": "@dog"},
               "add": {"liked": ["@cat"]}}]}
            """)
        #expect(saved.status == 200, "\(saved.text)")
        return Pets(
            dog: try #require(saved["ids.@dog"]?.string),
            cat: try #require(saved["ids.@cat"]?.string),
            owner: try #require(saved["ids.@owner"]?.string),
            version: try #require(saved["transaction"]?.string))
    }

    /// Whether an answer names an object by the entity that a relationship leads to.
    private static func namesDestinations(_ text: String) -> Bool {
        text.contains("x-tributary://demo/Animal/")
    }

    @Test("History, the change feed and rows tell the entity that an object is of")
    func reading() async throws {
        try await HTTPTestNode.run(model: Self.model) { node in
            let beginning = try node.coordinator.currentToken.text
            let pets = try await Self.insertPets(node)
            let history = try await node.ask("GET", "/v1/history")
            #expect(!Self.namesDestinations(history.text), "\(history.text)")
            let changes = (history["transactions.0.changes"]?.array ?? []).compactMap(\.object)
            let owner = changes.first { $0["object"] == .string(pets.owner) }
            #expect(owner?["values"]?.object?["pet"] == .string(pets.dog))
            let link = changes.first { $0["add"] != nil }
            #expect(link?["object"] == .string(pets.cat))
            let added: JSONValue = ["likers": .array([.string(pets.owner)])]
            #expect(link?["add"] == added)

            let feed = try await node.client.stream("GET", "/v1/changes?after=\(beginning)")
            for try await line in feed where line.hasPrefix("data: ") {
                #expect(line.contains(pets.dog) && !Self.namesDestinations(line), "\(line)")
                break
            }

            let body = """
                {"entity": "Owner", "resultType": "dictionary", "properties": ["name", "pet"]}
                """
            let row: JSONValue = ["name": .string("Ann"), "pet": .string(pets.dog)]
            #expect(try await node.fetch(body)["rows"] == .array([row]))
            let lines = try await node.ask(
                "POST", "/v1/fetch", body, headers: [("Accept", "application/x-ndjson")])
            #expect(lines.text.hasPrefix(JSONWriter.text(of: row) + "\n"), "\(lines.text)")

            let versions = try await node.fetch(#"{"entity": "Owner", "versions": true}"#)
            #expect(versions["objects.0.values.pet"] == .string(pets.dog))
            #expect(
                versions["objects.0.versions.pet.siblings.0.value"] == .string(pets.dog),
                "\(versions.text)")
        }
    }

    @Test("Errors and conflicts tell the entity that an object is of")
    func disputing() async throws {
        try await HTTPTestNode.run(model: Self.model) { node in
            let pets = try await Self.insertPets(node)
            let seen = try node.coordinator.currentToken.versionVector
            let change = #""update": "\#(pets.owner)", "values": {"pet": "\#(pets.cat)"}"#
            #expect(try await node.save(operations: #"{\#(change)}"#).status == 200)
            let stale = try await node.save(
                operations: #"{\#(change), "version": "\#(pets.version)"}"#)
            #expect(stale.status == 409 && stale.code == "mergeConflict", "\(stale.text)")
            #expect(stale["error.conflicts.0.cachedSnapshot.pet"] == .string(pets.cat))
            #expect(!Self.namesDestinations(stale.text), "\(stale.text)")

            // Elsewhere somebody who had not seen the cat gave the owner the dog again.
            let owner = try #require(ObjectURI(pets.owner)?.row)
            let dog = try #require(ObjectURI(pets.dog)?.row)
            try node.apply(
                seen: seen, [ChangeShape(entity: "Owner", assigned: ["pet"])],
                [Change(kind: .update, shape: 0, row: owner, values: [.reference(dog)])])
            let list = try await node.ask("GET", "/v1/conflicts")
            let one = try await node.ask("GET", "/v1/conflicts/Owner.\(owner).pet")
            for (answer, path) in [(list, "conflicts.0."), (one, "")] {
                let sides = answer[path + "sides"]?.array ?? []
                let values = Set(sides.compactMap { $0.object?["value"]?.string })
                #expect(values == [pets.dog, pets.cat], "\(answer.text)")
                #expect(answer[path + "base.value"] == .string(pets.dog))
                #expect(!Self.namesDestinations(answer.text))
            }
        }
    }
}
