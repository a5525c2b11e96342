import Merge
import Testing

@testable import Coordinator

@Suite("Models as JSON")
struct ModelJSONTests {
    private static let text = """
        {"entities": [
          {"name": "Person", "parent": null, "abstract": false,
           "mergePolicy": "mergeByPropertyObjectTrump",
           "attributes": [
             {"name": "name", "type": "string", "optional": false, "default": "",
              "mergePolicy": "error", "validation": {"min": 1, "max": 80, "pattern": "[^\\u0000]*"}},
             {"name": "age", "type": "integer64", "validation": {"min": 0},
              "renamingIdentifier": "years", "hashModifier": "2", "userInfo": {"b": "1", "a": "2"}},
             {"name": "photo", "type": "binary", "derivation": null, "transient": true}],
           "relationships": [
             {"name": "manager", "destination": "Person", "inverse": "reports",
              "deleteRule": "deny", "ordered": false},
             {"name": "reports", "destination": "Person", "inverse": "manager", "toMany": true,
              "deleteRule": "cascade", "minCount": 0, "maxCount": 5}],
           "uniquenessConstraints": [["name"]],
           "indexes": [{"name": "byAge", "elements": ["age"]}]},
          {"name": "Employee", "parent": "Person"},
          {"name": "Log", "mergePolicy": "errorByRow"}]}
        """

    @Test("a model comes back as it went")
    func roundTrip() throws {
        let model = try ManagedObjectModel(json: Array(Self.text.utf8))
        let again = try ManagedObjectModel(json: JSONWriter.bytes(of: model.jsonValue()))
        #expect(again.descriptions == model.descriptions)
        #expect(again.versionHash == model.versionHash)
        #expect(again.jsonValue() == model.jsonValue())
        let person = try #require(model.descriptions.first { $0.name == "Person" })
        #expect(person.attributes[1].validation.minimum == .integer(0))
        #expect(person.relationships[1].maximumCount == 5)
        #expect(model.entity(named: "Log")?.policies.entity == .errorByRow)
    }

    @Test(
        "refuses a fault and names its place",
        arguments: [
            ("\"type\": \"binary\"", "\"type\": \"blob\"", "Person.photo"),
            ("\"age\"", "\"age\", \"indexed\": true", "Person.age"),
            ("\"ordered\": false", "\"ordered\": true", "Person.manager"),
            ("\"derivation\": null", "\"derivation\": \"now()\"", "Person.photo"),
            ("\"min\": 0", "\"minimum\": 0", "Person.age.validation"),
            ("\"min\": 1,", "\"min\": 81,", "Person.name.validation"),
            ("[^\\u0000]*", "[", "Person.name.validation"),
            ("\"default\": \"\"", "\"default\": 1", "Person.name"),
            ("errorByRow", "nobody", "Log"),
            ("\"deny\"", "\"maybe\"", "Person.manager"),
            ("\"maxCount\": 5", "\"maxCount\": -5", "Person.reports"),
            ("\"abstract\": false", "\"abstract\": 0", "Person"),
            ("\"parent\": \"Person\"", "\"parent\": \"Nobody\"", "Employee"),
            ("{\"entities\"", "{\"version\": 1, \"entities\"", "model"),
            ("]}", "]", "model"),
        ])
    func refuses(old: String, new: String, place: String) {
        let text = Self.text.split(separator: old, omittingEmptySubsequences: false)
        #expect(text.count > 1, "\(old)")
        let changed = text.dropFirst(2).reduce(text[0] + new + (text.count > 1 ? text[1] : "")) {
            $0 + old + $1
        }
        #expect {
            _ = try ManagedObjectModel(json: Array(changed.utf8))
        } throws: {
            ($0 as? ModelError)?.place == place
        }
    }
}
