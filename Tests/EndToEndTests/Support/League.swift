import Coordinator
import Testing

/// A model of objects that have unique keys and lead to each other in every way there is.
///
/// A Team's key is its name, which a Club inherits; a Player's has two parts. Teams share Sponsors,
/// and have a Ground for themselves. A Medal must have a holder, and goes with him; a Team that is
/// host of a Game cannot be deleted.
enum League {
    /// The entities that inherit from none.
    static let roots = ["Team", "Player", "Medal", "Sponsor", "Ground", "Game"]

    /// For each relationship the one that leads back.
    static let inverses = [
        "team": "players", "players": "team", "holder": "medals", "medals": "holder",
        "teams": "sponsors", "sponsors": "teams", "home": "ground", "ground": "home",
        "host": "games", "games": "host",
    ]

    /// The model, with one merge policy for all.
    static func json(policy: String) -> String {
        let name = #"{"name": "name", "type": "string", "optional": false}"#
        let plain = #""mergePolicy": "\#(policy)", "attributes": [\#(name)]"#
        return """
            {"entities": [
             {"name": "Team", "mergePolicy": "\(policy)", "uniquenessConstraints": [["name"]],
              "attributes": [\(name), {"name": "motto", "type": "string"}],
              "relationships": [
               {"name": "players", "destination": "Player", "inverse": "team", "toMany": true},
               {"name": "sponsors", "destination": "Sponsor", "inverse": "teams", "toMany": true},
               {"name": "ground", "destination": "Ground", "inverse": "home"},
               {"name": "games", "destination": "Game", "inverse": "host", "toMany": true,
                "deleteRule": "deny"}]},
             {"name": "Club", "parent": "Team"},
             {"name": "Player", "mergePolicy": "\(policy)",
              "uniquenessConstraints": [["name", "number"]],
              "attributes": [\(name), {"name": "number", "type": "integer64"}],
              "relationships": [
               {"name": "team", "destination": "Team", "inverse": "players"},
               {"name": "medals", "destination": "Medal", "inverse": "holder", "toMany": true,
                "deleteRule": "cascade"}]},
             {"name": "Medal", \(plain), "relationships": [
               {"name": "holder", "destination": "Player", "inverse": "medals",
                "optional": false}]},
             {"name": "Sponsor", \(plain), "relationships": [
               {"name": "teams", "destination": "Team", "inverse": "sponsors", "toMany": true}]},
             {"name": "Ground", \(plain), "relationships": [
               {"name": "home", "destination": "Team", "inverse": "ground"}]},
             {"name": "Game", \(plain), "relationships": [
               {"name": "host", "destination": "Team", "inverse": "games"}]}]}
            """
    }
}

/// All that a node shows of a league, by URI.
struct LeagueView: Sendable {
    let objects: [String: JSONObject]

    init(_ node: NodeHandle) async throws {
        var objects: [String: JSONObject] = [:]
        for root in League.roots {
            for object in try await node.objects(root) { objects[object.text("id")] = object }
        }
        self.objects = objects
    }

    func value(_ uri: String, _ property: String) -> JSONValue? { objects[uri]?.value(property) }

    /// Where a relationship of an object leads.
    func targets(_ uri: String, _ relationship: String) -> Set<String> {
        switch value(uri, relationship) {
        case .string(let target)?: [target]
        case .array(let targets)?: Set(targets.compactMap(\.string))
        default: []
        }
    }

    /// Expects that no two objects have one key, and that every relationship leads to objects that
    /// are shown, which lead back.
    func expectSound(_ note: Comment, sourceLocation: SourceLocation = #_sourceLocation) {
        var broken: [String] = []
        for (uri, object) in objects {
            for member in object["values"]?.object?.members ?? [] {
                guard let inverse = League.inverses[member.key] else { continue }
                // What is not shown leads nowhere.
                for target in targets(uri, member.key)
                where !targets(target, inverse).contains(uri) {
                    broken.append("\(uri).\(member.key) leads to \(target)")
                }
            }
        }
        #expect(broken.isEmpty, note, sourceLocation: sourceLocation)
        let keys = objects.values.compactMap { key(of: $0) }
        let shared = Dictionary(grouping: keys) { $0 }.filter { $0.value.count > 1 }.keys
        #expect(shared.isEmpty, note, sourceLocation: sourceLocation)
    }

    /// An object's unique key; nil of entities that have none.
    private func key(of object: JSONObject) -> String? {
        let name = object.value("name")?.string ?? ""
        switch object.text("entity") {
        case "Team", "Club": return "team \(name)"
        case "Player": return "player \(name) \(object.value("number")?.integer ?? 0)"
        default: return nil
        }
    }
}
