import Client
import Coordinator
import Merge
import Testing

@testable import Node

@Suite("Batch requests over HTTP")
struct BatchContractTests {
    private static func count(_ node: HTTPTestNode, _ predicate: String) async throws -> Int64? {
        try await node.fetch(
            #"{"entity": "Person", "predicate": "\#(predicate)", "resultType": "count"}"#)["count"]?
            .integer
    }

    @Test("Objects are inserted, updated and deleted, and history has the author")
    func changes() async throws {
        try await HTTPTestNode.run { node in
            let inserted = try await node.ask(
                "POST", "/v1/batch",
                #"{"insert": {"entity": "Person", "objects": [{"name": "Ada", "age": 36}, {"name": "Bob"}]}, "resultType": "ids", "author": "import", "context": "nightly"}"#
            )
            #expect(inserted.status == 200, "\(inserted.text)")
            #expect(inserted["count"] == .integer(2))
            #expect(inserted["transactions"] == .integer(1))
            let uris = (inserted["objects"]?.array ?? []).compactMap(\.string)
            #expect(uris.count == 2)
            let updated = try await node.ask(
                "POST", "/v1/batch",
                #"{"update": {"entity": "Person", "predicate": "name == $n", "substitutions": {"n": "Ada"}, "values": {"age": 37}}}"#
            )
            #expect(updated["count"] == .integer(1))
            #expect(updated["objects"] == nil)
            #expect(try await Self.count(node, "age == 37") == 1)
            let history = try await node.ask("GET", "/v1/history")
            #expect(history["transactions.0.author"]?.string == "import")
            #expect(history["transactions.0.context"]?.string == "nightly")
            #expect(history["transactions.1.changes.0.kind"]?.string == "update")
            let would = try await node.ask(
                "POST", "/v1/batch",
                #"{"delete": {"entity": "Person", "sort": ["name"], "limit": 1}, "dryRun": true}"#)
            #expect(would.text == #"{"count":1,"transactions":0}"#)
            #expect(try await Self.count(node, "TRUEPREDICATE") == 2)
            let deleted = try await node.ask(
                "POST", "/v1/batch", #"{"delete": {"objects": ["\#(uris[0])"]}}"#)
            #expect(deleted["count"] == .integer(1), "\(deleted.text)")
            #expect(try await Self.count(node, "TRUEPREDICATE") == 1)
            #expect(deleted["token"]?.string == (try node.coordinator.currentToken.text))
        }
    }

    @Test("History and the feed of changes take filters")
    func filters() async throws {
        try await HTTPTestNode.run { node in
            for (author, entity) in [("ann", "Person"), ("bob", "Person"), ("ann", "Note")] {
                let key = entity == "Note" ? "text" : "name"
                let answer = try await node.ask(
                    "POST", "/v1/batch",
                    #"{"insert": {"entity": "\#(entity)", "objects": [{"\#(key)": "x"}]}, "author": "\#(author)"}"#
                )
                #expect(answer.status == 200, "\(answer.text)")
            }
            func count(_ query: String) async throws -> Int? {
                try await node.ask("GET", "/v1/history?\(query)")["transactions"]?.array?.count
            }
            #expect(try await count("author=ann") == 2)
            #expect(try await count("author=ann&entity=Note") == 1)
            #expect(try await count("node=1&property=name") == 2)
            #expect(try await count("context=x") == 0)
            #expect(try await count("where=author%20%3D%3D%20%27bob%27") == 1)
            #expect(try await count("author=ann&limit=1") == 1)
            let first = try await node.ask("GET", "/v1/history?author=ann&limit=1")
            let token = try #require(first["token"]?.string)
            let rest = try await node.ask("GET", "/v1/history?author=ann&after=\(token)")
            #expect(rest["transactions"]?.array?.count == 1)
            for wrong in ["entity=X", "node=x", "where=x", "property=none", "who=ann"] {
                #expect(try await node.ask("GET", "/v1/history?\(wrong)").status == 400)
                #expect(try await node.ask("GET", "/v1/changes?\(wrong)").status == 400)
            }
        }
    }

    @Test("Lines tell each transaction, and the outcome at the end; repeated it is not done again")
    func lines() async throws {
        try await HTTPTestNode.run { node in
            let objects = Array(repeating: #"{"name": "x"}"#, count: 20_001).joined(separator: ",")
            let body = #"""
                {"insert": {"entity": "Person", "objects": [\#(objects)]}, "saveID": "once"}
                """#
            for _ in 0..<2 {
                let answer = try await node.ask(
                    "POST", "/v1/batch", body, headers: [("Accept", "application/x-ndjson")])
                let lines = try answer.text.split(separator: "\n").map {
                    try JSONParser.parse(Array($0.utf8))
                }
                let last = try #require(lines.last?.object)
                #expect(last["end"] == .boolean(true))
                #expect(last["count"] == .integer(20_001))
                #expect(last["transactions"] == .integer(3))
            }
            #expect(try await Self.count(node, "TRUEPREDICATE") == 20_001)
            // Something else is not done under its name.
            let other = try await node.ask(
                "POST", "/v1/batch", #"{"delete": {"entity": "Person"}, "saveID": "once"}"#)
            #expect(other.code == "saveIDReused")
            let streamed = try await node.ask(
                "POST", "/v1/batch", #"{"delete": {"entity": "Person"}, "saveID": "once"}"#,
                headers: [("Accept", "application/x-ndjson")])
            #expect(streamed.status == 200)
            #expect(streamed["error.code"]?.string == "saveIDReused")
            #expect(streamed["status"] == .integer(409))
        }
    }

    @Test(
        "What makes no sense is refused",
        arguments: [
            ("{}", "malformed"), (#"{"update": {"entity": "X", "values": {}}}"#, "malformed"),
            (#"{"update": {"entity": "Person", "values": {}}}"#, "malformed"),
            (#"{"update": {"entity": "Person", "values": {"x": 1}}}"#, "malformed"),
            (#"{"update": {"entity": "Person", "values": {"age": "x"}}}"#, "validationFailed"),
            (
                #"{"update": {"entity": "Person", "values": {"age": 1}, "predicate": "x =="}}"#,
                "invalidPredicate"
            ),
            (#"{"delete": {"entity": "Person", "objects": []}}"#, "malformed"),
            (#"{"delete": {"objects": ["x"]}}"#, "malformed"),
            (#"{"delete": {"entity": "Person"}, "resultType": "all"}"#, "malformed"),
            (
                #"{"delete": {"entity": "Person"}, "insert": {"entity": "Person", "objects": []}}"#,
                "malformed"
            ),
            (#"{"insert": {"entity": "Person", "objects": [1]}}"#, "malformed"),
            (#"{"delete": {"entity": "Person"}, "saveID": ""}"#, "malformed"),
        ])
    func refused(_ body: String, _ code: String) async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Ada")
            let answer = try await node.ask("POST", "/v1/batch", body)
            #expect(answer.code == code, "\(answer.text)")
            #expect(try await Self.count(node, "TRUEPREDICATE") == 1)
        }
    }
}
