@testable import Coordinator

/// A model that has one of everything: types, kinds of relationship, rules, policies, inheritance.
enum SampleModel {
    static let cluster = "fuzz"

    static let model = must { try ManagedObjectModel(json: Array(text.utf8)) }

    static let text = """
        {"entities": [
          {"name": "Person", "attributes": [
             {"name": "name", "type": "string"}, {"name": "age", "type": "integer64"},
             {"name": "weight", "type": "double"}, {"name": "ratio", "type": "float"},
             {"name": "balance", "type": "decimal"}, {"name": "born", "type": "date"},
             {"name": "isMember", "type": "boolean"}, {"name": "token", "type": "uuid"},
             {"name": "home", "type": "uri"}, {"name": "photo", "type": "binary"},
             {"name": "mood", "type": "string", "transient": true}],
           "relationships": [
             {"name": "manager", "destination": "Person", "inverse": "reports"},
             {"name": "reports", "destination": "Person", "inverse": "manager", "toMany": true},
             {"name": "groups", "destination": "Group", "inverse": "members", "toMany": true},
             {"name": "pets", "destination": "Animal", "inverse": "owner", "toMany": true,
              "deleteRule": "cascade"},
             {"name": "debts", "destination": "Debt", "inverse": "debtor", "toMany": true,
              "deleteRule": "deny"},
             {"name": "desk", "destination": "Desk", "inverse": "user"}]},
          {"name": "Employee", "parent": "Person", "mergePolicy": "mergeByPropertyObjectTrump",
           "attributes": [{"name": "title", "type": "string", "mergePolicy": "error"}]},
          {"name": "Group", "mergePolicy": "mergeByPropertyStoreTrump",
           "attributes": [{"name": "label", "type": "string"}],
           "relationships": [{"name": "members", "destination": "Person", "inverse": "groups",
             "toMany": true, "maxCount": 5}]},
          {"name": "Animal", "attributes": [{"name": "name", "type": "string"},
             {"name": "age", "type": "integer16"}],
           "relationships": [{"name": "owner", "destination": "Person", "inverse": "pets"}]},
          {"name": "Desk", "attributes": [{"name": "place", "type": "string"}],
           "relationships": [{"name": "user", "destination": "Person", "inverse": "desk"}]},
          {"name": "Debt", "attributes": [{"name": "sum", "type": "integer32", "optional": false,
             "default": 1, "validation": {"min": -5, "max": 500}}],
           "relationships": [{"name": "debtor", "destination": "Person", "inverse": "debts"}]},
          {"name": "Note", "mergePolicy": "overwrite",
           "attributes": [{"name": "text", "type": "string",
             "validation": {"max": 20, "pattern": "[^x]*"}}, {"name": "size", "type": "integer64"}],
           "relationships": [{"name": "previous", "destination": "Note", "inverse": "next"},
             {"name": "next", "destination": "Note", "inverse": "previous",
              "deleteRule": "cascade"}]},
          {"name": "Key", "mergePolicy": "errorByRow",
           "attributes": [{"name": "word", "type": "string"}, {"name": "number", "type": "integer64"}],
           "uniquenessConstraints": [["word"], ["word", "number"]],
           "indexes": [{"name": "byNumber", "elements": ["number", "word"]}]}
        ]}
        """
}
