import Coordinator

/// One entity for every policy, alike in everything else, and some with unique keys.
enum TestModel {
    /// The entities and their policies' names.
    static let policies = [
        "Errors": "error", "Rows": "errorByRow", "Earliest": "mergeByPropertyStoreTrump",
        "Latest": "mergeByPropertyObjectTrump", "Rollback": "rollback", "Overwrite": "overwrite",
    ]

    static let entities = policies.keys.sorted()

    /// Entities with unique keys, one of them with heirs, and what belongs to one of those alone.
    static let keyed = ["Accounts", "Cards", "Reserves"]

    private static let keyedText = """
        {"name": "Accounts", "mergePolicy": "mergeByPropertyStoreTrump",
         "uniquenessConstraints": [["name"]],
         "attributes": [{"name": "name", "type": "string", "optional": false},
           {"name": "a", "type": "string"}],
         "relationships": [{"name": "card", "destination": "Cards", "inverse": "account"}]},
        {"name": "VipAccounts", "parent": "Accounts"},
        {"name": "Cards", "mergePolicy": "mergeByPropertyObjectTrump",
         "attributes": [{"name": "name", "type": "string"}, {"name": "a", "type": "string"}],
         "relationships": [{"name": "account", "destination": "Accounts", "inverse": "card"}]},
        {"name": "Reserves", "mergePolicy": "error", "uniquenessConstraints": [["name"]],
         "attributes": [{"name": "name", "type": "string", "optional": false},
           {"name": "a", "type": "string"}]}
        """

    static let json: String = {
        let texts = entities.map { entity in
            """
            {"name": "\(entity)", "mergePolicy": "\(policies[entity] ?? "error")",
             "attributes": [
               {"name": "name", "type": "string", "optional": false},
               {"name": "a", "type": "string"}, {"name": "b", "type": "string"},
               {"name": "number", "type": "integer64"}],
             "relationships": [
               {"name": "parent", "destination": "\(entity)", "inverse": "children"},
               {"name": "children", "destination": "\(entity)", "inverse": "parent",
                "toMany": true},
               {"name": "friends", "destination": "\(entity)", "inverse": "friendOf",
                "toMany": true},
               {"name": "friendOf", "destination": "\(entity)", "inverse": "friends",
                "toMany": true}]}
            """
        }
        return "{\"entities\": [\((texts + [keyedText]).joined(separator: ",\n"))]}"
    }()
}

// Operations of a save.
extension JSONValue {
    static func insert(_ entity: String, id: String? = nil, _ values: JSONObject) -> JSONValue {
        var operation: JSONObject = ["insert": .string(entity), "values": .object(values)]
        if let id { operation["id"] = .string(id) }
        return .object(operation)
    }

    static func update(_ uri: String, _ values: JSONObject) -> JSONValue {
        ["update": .string(uri), "values": .object(values)]
    }

    static func link(_ uri: String, add: [String] = [], remove: [String] = []) -> JSONValue {
        func friends(_ uris: [String]) -> JSONValue {
            ["friends": .array(uris.map { .string($0) })]
        }
        var operation: JSONObject = ["update": .string(uri)]
        if !add.isEmpty { operation["add"] = friends(add) }
        if !remove.isEmpty { operation["remove"] = friends(remove) }
        return .object(operation)
    }

    static func delete(_ uri: String) -> JSONValue { ["delete": .string(uri)] }
}

// Literals keep the operations above legible.
extension JSONValue: ExpressibleByStringInterpolation {
    /// A string.
    public init(stringLiteral text: String) { self = .string(text) }
}

extension JSONValue: ExpressibleByIntegerLiteral {
    /// An integer.
    public init(integerLiteral number: Int64) { self = .integer(number) }
}
