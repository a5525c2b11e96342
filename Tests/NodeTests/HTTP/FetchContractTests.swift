import Client
import Coordinator
import Foundation
import Merge
import Node
import Testing

@Suite("POST /v1/fetch and what reads states")
struct FetchContractTests {
    private func fill(_ node: HTTPTestNode, _ count: Int) async throws {
        var operations: [String] = []
        for index in 0..<count {
            operations.append(
                #"{"insert": "Person", "values": {"name": "P\#(index)", "age": \#(index % 10)}}"#)
        }
        let body = "{\"operations\": [\(operations.joined(separator: ","))]}"
        let answer = try await node.save(body)
        guard answer.status == 200 else { throw HTTPTestNode.Unexpected(answer.text) }
    }

    @Test("Each result type has its shape")
    func answersAsTheContractSays() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, 3)
            let state = #","generation":2,"vector":{"ACTOR":1},"token":"TOKEN"}"#
            let objects = try await node.fetch(
                """
                {"entity": "Person", "predicate": "age >= $least", "substitutions": {"least": 1},
                 "sort": ["-age"], "limit": 1, "properties": ["name", "reports"]}
                """)
            let state2 = state.replacing(
                "\"generation\":2", with: "\"generation\":\(generation(objects))")
            #expect(
                normalised(objects.text)
                    == #"{"objects":[{"id":"x-tributary://demo/Person/pROW","entity":"Person","#
                    + #""version":"DOT-1","conflicted":false,"#
                    + #""values":{"name":"P2","reports":[]}}]"# + state2)
            let ids = try await node.fetch(
                #"{"entity": "Person", "resultType": "ids", "offset": 2, "limit": 5}"#)
            #expect(
                normalised(ids.text) == #"{"ids":["x-tributary://demo/Person/pROW"]"# + state2)
            let count = try await node.fetch(#"{"entity": "Person", "resultType": "count"}"#)
            #expect(normalised(count.text) == #"{"count":3"# + state2)
            let rows = try await node.fetch(
                """
                {"entity": "Person", "resultType": "dictionary", "groupBy": ["age"],
                 "properties": ["age", {"name": "n", "function": "count", "keyPath": "name"}],
                 "having": "n > 0", "sort": ["age"], "limit": 1}
                """)
            #expect(normalised(rows.text) == #"{"rows":[{"age":0,"n":1}]"# + state2)
        }
    }

    @Test("A limit of 0 is none; groups and aggregates come as rows where no type is named")
    func takesDefaults() async throws {
        func rows(_ row: JSONValue) -> JSONValue { .array([row]) }
        try await HTTPTestNode.run { node in
            try await fill(node, 3)
            let all = try await node.fetch(#"{"entity": "Person", "limit": 0, "offset": 1}"#)
            #expect(all["objects"]?.array?.count == 2, "\(all.text)")
            let named = try await node.fetch(#"{"entity": "Person", "properties": ["name"]}"#)
            #expect(named["objects"]?.array?.count == 3, "\(named.text)")
            let counted = try await node.fetch(
                #"{"entity": "Person", "properties": [{"name": "n", "function": "count"}]}"#)
            #expect(counted["rows"] == rows(["n": .integer(3)]), "\(counted.text)")
            let grouped = try await node.fetch(
                #"{"entity": "Person", "groupBy": ["age"], "sort": ["-age"], "limit": 1}"#)
            #expect(grouped["rows"] == rows(["age": .integer(2)]), "\(grouped.text)")
            let total = #"[{"name": "total", "function": "sum", "keyPath": "age"}]"#
            let having = try await node.fetch(
                #"{"entity": "Person", "properties": \#(total), "groupBy": ["name"], "#
                    + #""having": "total > 1"}"#)
            #expect(having["rows"] == rows(["total": .integer(2)]), "\(having.text)")
        }
    }

    @Test("It groups and sorts by periods of dates, and refuses what is none")
    func groupsByPeriods() async throws {
        try await HTTPTestNode.run { node in
            let dates = [
                "1969-12-31T23:30:00.000Z", "1970-01-01T00:00:00.000Z", "1970-01-01T22:00:00.000Z",
            ]
            for (number, date) in dates.enumerated() {
                let values = #"{"name": "P\#(number)", "born": "\#(date)"}"#
                let saved = try await node.save(
                    #"{"operations": [{"insert": "Person", "values": \#(values)}]}"#)
                #expect(saved.status == 200, "\(saved.text)")
            }
            for (key, expected) in [
                ("day(born)", [("1969-12-31T00:00:00.000Z", 1), ("1970-01-01T00:00:00.000Z", 2)]),
                ("day(born, 60)", [("1969-12-31T23:00:00.000Z", 3)]),
            ] {
                let count = #"{"name": "n", "function": "count"}"#
                let answer = try await node.fetch(
                    #"{"entity": "Person", "groupBy": ["\#(key)"], "sort": ["\#(key)"], "#
                        + #""properties": ["\#(key)", \#(count)]}"#)
                let rows = expected.map { start, count -> JSONValue in
                    [key: .string(start), "n": .integer(Int64(count))]
                }
                #expect(answer["rows"] == .array(rows), "\(answer.text)")
            }
            for key in ["day(name)", "day(born", "lower(name)", "day(nothing)"] {
                let answer = try await node.fetch(
                    #"{"entity": "Person", "groupBy": ["\#(key)"]}"#)
                #expect(answer.status == 400, "\(answer.text)")
            }
        }
    }

    private func generation(_ answer: HTTPTestNode.Answer) -> Int64 {
        answer["generation"]?.integer ?? -1
    }

    @Test("Versions tell dot, timestamp and all siblings of every register")
    func tellsVersions() async throws {
        try await HTTPTestNode.run { node in
            let (uri, dot) = try await node.insertPerson("Ada")
            let seen = try node.coordinator.currentToken.versionVector
            let saved = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"name": "Eve"}}"#)
            try node.applyForeignName("Amy", of: uri, seen: seen)
            let answer = try await node.fetch(
                #"{"entity": "Person", "versions": true, "properties": ["name"]}"#)
            #expect(answer["objects.0.conflicted"] == .boolean(true))
            #expect(answer["objects.0.versions"]?.object?.members.map(\.key) == ["name"])
            let siblings = answer["objects.0.versions.name.siblings"]?.array ?? []
            #expect(siblings.compactMap { $0.object?["value"]?.string } == ["Amy", "Eve"])
            #expect(answer["objects.0.values.name"] == .string("Amy"))
            #expect(siblings.last?.object?["dot"] == saved["transaction"])
            #expect(dot.hasSuffix("-1"))
            let path = uri.replacing("x-tributary://demo/", with: "/v1/objects/")
            let object = try await node.ask("GET", path + "?versions=true")
            #expect(object["versions.name.siblings"]?.array?.count == 2)
            #expect(object["version"]?.string?.contains("+") == true)
        }
    }

    @Test("An answer that comes to more bytes than it may is refused, and comes as lines")
    func answersTooLarge() async throws {
        try await HTTPTestNode.run(options: .with { $0.maximumAnswerBytes = 1_900 }) { node in
            for number in 1...40 { _ = try await node.insertPerson("P\(number)") }
            let requests = [
                "",
                #", "resultType": "dictionary", "properties": ["name", "age", "small", "ratio"]"#,
            ]
            for request in requests {
                let part = try await node.fetch(#"{"entity": "Person", "limit": 4\#(request)}"#)
                #expect(part.status == 200, "\(part.text)")
                let whole = try await node.fetch(#"{"entity": "Person"\#(request)}"#)
                #expect(whole.status == 422 && whole.code == "answerTooLarge", "\(whole.text)")
                #expect(whole["error.limit"] == .integer(1_900))
            }
            for kind in ["objects", "ids"] {
                let lines = try await node.ask(
                    "POST", "/v1/fetch", #"{"entity": "Person", "resultType": "\#(kind)"}"#,
                    headers: [("Accept", "application/x-ndjson")])
                #expect(lines.text.split(separator: "\n").count == 41, "\(lines.text)")
            }
        }
    }

    @Test("More paths to prefetch than may be followed are refused")
    func prefetchesTooMuch() async throws {
        try await HTTPTestNode.run { node in
            let paths = Array(repeating: #""notes""#, count: 33).joined(separator: ", ")
            let answer = try await node.fetch(#"{"entity": "Person", "prefetch": [\#(paths)]}"#)
            #expect(answer.status == 400 && answer.message.contains("33 paths"), "\(answer.text)")
            let steps = Array(repeating: "notes.owner", count: 6).joined(separator: ".")
            let long = try await node.fetch(#"{"entity": "Person", "prefetch": ["\#(steps)"]}"#)
            #expect(long.status == 400 && long.message.contains("at most 10"), "\(long.text)")
        }
    }

    @Test("A sort in the order of a language is that of objects and of groups")
    func languages() async throws {
        try await HTTPTestNode.run { node in
            let names = ["file 10", "ö", "file 2", "Z"]
            let saved = try await node.save(
                "{\"operations\": ["
                    + names.map { #"{"insert": "Person", "values": {"name": "\#($0)"}}"# }
                    .joined(separator: ", ") + "]}")
            #expect(saved.status == 200, "\(saved.text)")
            for (sort, sorted) in [
                ("localizedStandard:(name, sv)", ["file 2", "file 10", "Z", "ö"]),
                ("-localizedStandard:(name)", ["Z", "ö", "file 10", "file 2"]),
                ("name", ["Z", "file 10", "file 2", "ö"]),
            ] {
                for more in ["", #", "groupBy": ["name"]"#] {
                    let found = try await node.fetch(
                        #"{"entity": "Person", "sort": ["\#(sort)"]\#(more)}"#)
                    #expect(found.status == 200, "\(found.text)")
                    let rows = found["rows"]?.array ?? found["objects"]?.array ?? []
                    #expect(
                        rows.map { ($0.object?["values"] ?? $0).object?["name"]?.string } == sorted,
                        "\(sort): \(found.text)")
                }
            }
        }
    }

    @Test(
        "What makes no sense is 400",
        arguments: [
            (#"{}"#, "malformed", "entity"), (#"{"entity": "Nobody"}"#, "malformed", "Nobody"),
            (#"{"entity": "Person", "x": 1}"#, "malformed", "\"x\""),
            (#"{"entity": "Person", "limit": "x"}"#, "malformed", "limit"),
            (#"{"entity": "Person", "limit": -1}"#, "malformed", "limit"),
            (#"{"entity": "Person", "sort": ["nothing"]}"#, "malformed", "nothing"),
            (
                #"{"entity": "Person", "sort": ["localizedStandard:(nothing)"]}"#, "malformed",
                "nothing"
            ),
            (
                #"{"entity": "Person", "sort": ["localizedStandard:(age)"]}"#, "invalidPredicate",
                "no text"
            ),
            (
                #"{"entity": "Person", "sort": ["localizedStandard:(name, xx)"]}"#,
                "invalidPredicate", "locale \"xx\""
            ),
            (
                #"{"entity": "Person", "sort": ["localizedStandard:(name"]}"#, "invalidPredicate",
                "no key path"
            ),
            (#"{"entity": "Person", "properties": ["x"]}"#, "malformed", "\"x\""),
            (#"{"entity": "Person", "prefetch": ["name"]}"#, "malformed", "name"),
            (#"{"entity": "Person", "resultType": "x"}"#, "malformed", "resultType"),
            (#"{"entity": "Person", "generation": "x"}"#, "malformed", "generation"),
            (#"{"entity": "Person", "after": 5}"#, "malformed", "after"),
            (#"{"entity": "Person", "substitutions": []}"#, "malformed", "substitutions"),
            (
                #"{"entity": "Person", "resultType": "objects", "groupBy": ["age"]}"#, "malformed",
                "groupBy"
            ),
            (#"{"entity": "Person", "having": "age > 1"}"#, "malformed", "having"),
            (#"{"entity": "Person", "predicate": "name =="}"#, "invalidPredicate", "character"),
            (#"{"entity": "Person", "predicate": "nothing == 1"}"#, "invalidPredicate", "nothing"),
            (#"{"entity": "Person", "predicate": "name == $x"}"#, "invalidPredicate", "x"),
            (
                #"{"entity": "Person", "predicate": "name == 1; DROP TABLE Person"}"#,
                "invalidPredicate", "character"
            ),
        ])
    func refusesNonsense(body: String, code: String, place: String) async throws {
        try await HTTPTestNode.run { node in
            let answer = try await node.fetch(body)
            #expect(answer.status == 400, "\(body): \(answer.text)")
            #expect(answer.code == code, "\(answer.text)")
            #expect(answer.message.contains(place), "\(answer.message)")
        }
    }

    @Test("Hostile predicates cost an error, not the node")
    func survivesHostilePredicates() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, 1)
            for predicate in [
                String(repeating: "(", count: 60_000), String(repeating: "NOT ", count: 16_000),
                String(repeating: "x", count: 100_000),
                "name MATCHES '" + String(repeating: "(a*)*", count: 200) + "b'",
                "manager.manager.manager.manager.manager.manager.manager.manager.name == 'x'",
            ] {
                let answer = try await node.fetch(
                    #"{"entity": "Person", "predicate": "\#(predicate)"}"#)
                #expect(answer.status == 400 || answer.status == 200)
            }
            let injected = try await node.fetch(
                """
                {"entity": "Person", "predicate": "name == $n",
                 "substitutions": {"n": "' OR 1=1 --"}, "resultType": "count"}
                """)
            #expect(injected["count"] == .integer(0))
        }
    }

    @Test("A stream gives one object a line and says that it is whole")
    func streamsLines() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, 1_000)
            let headers = [("Accept", "application/x-ndjson")]
            let answer = try await node.ask(
                "POST", "/v1/fetch", #"{"entity": "Person", "sort": ["name"]}"#, headers: headers)
            let lines = answer.text.split(separator: "\n")
            #expect(lines.count == 1_001)
            #expect(lines.first?.contains(#""name":"P0""#) == true)
            #expect(lines.last?.hasPrefix(#"{"end":true,"count":1000,"generation":"#) == true)
            #expect(
                answer.headers.contains {
                    $0.0.lowercased() == "content-type" && $0.1 == "application/x-ndjson"
                })
            let ids = try await node.ask(
                "POST", "/v1/fetch", #"{"entity": "Person", "resultType": "ids", "limit": 2}"#,
                headers: headers)
            #expect(ids.text.split(separator: "\n").count == 3)
            let wrong = try await node.ask(
                "POST", "/v1/fetch", #"{"entity": "Nobody"}"#, headers: headers)
            #expect(wrong.status == 400)
        }
    }

    @Test("A pinned generation never changes, until it is released")
    func readsPins() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, 1)
            let pin = try await node.ask("POST", "/v1/generations", #"{"leaseSeconds": 30}"#)
            #expect(pin.status == 200)
            #expect(
                pin.json.object?.members.map(\.key)
                    == ["token", "generation", "vector", "digest", "leaseSeconds"])
            #expect(pin["digest"]?.string == (try node.coordinator.currentDigest).description)
            #expect(pin["leaseSeconds"] == .integer(30))
            let token = try #require(pin["token"]?.string)
            try await fill(node, 2)
            let body = #"{"entity": "Person", "resultType": "count", "generation": "\#(token)"}"#
            let pinned = try await node.fetch(body)
            #expect(pinned["count"] == .integer(1))
            #expect(pinned["generation"] == pin["generation"])
            #expect(pinned["token"] == pin["token"])
            let current = try await node.fetch(#"{"entity": "Person", "resultType": "count"}"#)
            #expect(current["count"] == .integer(3))
            let status = try await node.ask("GET", "/v1/status")
            #expect(status["pins.count"] == .integer(1))
            let after = try #require(current["token"]?.string)
            let never = try await node.fetch(
                #"{"entity": "Person", "generation": "\#(token)", "after": "\#(after)"}"#)
            #expect(never.status == 504)
            #expect(try await node.ask("DELETE", "/v1/generations/\(token)").status == 200)
            let gone = try await node.fetch(body)
            #expect(gone.status == 410 && gone.code == "queryGenerationExpired")
            #expect(try await node.ask("DELETE", "/v1/generations/\(token)").status == 410)
            #expect(try await node.ask("DELETE", "/v1/generations/x").status == 400)
            let long = try await node.ask("POST", "/v1/generations", #"{"leaseSeconds": 4000}"#)
            #expect(long.status == 400)
        }
    }

    @Test("A fetch after a token waits for it, and says so when it does not come")
    func waitsForTokens() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, 1)
            var vector = try node.coordinator.currentToken.versionVector
            let actor = try #require(node.coordinator.actor)
            vector.advance(actor, to: 2)
            let token = QueryGenerationToken(
                store: 1, generation: 1, position: 1, versionVector: vector
            ).text
            let early = try await node.fetch(
                #"{"entity": "Person", "after": "\#(token)", "timeoutSeconds": 0.05}"#)
            #expect(early.status == 504 && early.code == "generationTimeout")
            let request = #"{"entity": "Person", "resultType": "count", "after": "\#(token)""#
            async let waiting = NodeClient(url: node.url).request(
                "POST", "/v1/fetch", body: Array((request + #", "timeoutSeconds": 60}"#).utf8),
                timeout: .seconds(90))
            try await fill(node, 1)
            let answer = try await waiting
            #expect(answer.status == 200)
            #expect(String(decoding: answer.body, as: UTF8.self).hasPrefix(#"{"count":2,"#))
            // A node that stops does not wait for what may never come.
            vector.advance(actor, to: 3)
            let never = QueryGenerationToken(
                store: 1, generation: 1, position: 1, versionVector: vector
            ).text
            async let ended = node.fetch(
                #"{"entity": "Person", "after": "\#(never)", "timeoutSeconds": 3600}"#)
            node.coordinator.endWaiting()
            #expect(try await ended.code == "generationTimeout")
        }
    }

    @Test("Single objects: unknown ones are 404, odd addresses 400")
    func getsObjects() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _) = try await node.insertPerson("Ada")
            let path = uri.replacing("x-tributary://demo/", with: "/v1/objects/")
            let answer = try await node.ask("GET", path)
            #expect(answer["id"] == .string(uri))
            #expect(answer["token"]?.string != nil)
            let lost = try await node.ask("GET", "/v1/objects/Person/p1")
            #expect(lost.status == 404 && lost.code == "objectNotFound")
            for odd in ["/v1/objects/Nobody/p1", "/v1/objects/Person/1", path + "?x=1"] {
                #expect(try await node.ask("GET", odd).status == 400, "\(odd)")
            }
        }
    }
}
