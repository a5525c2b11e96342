import Client
import Coordinator
import Merge
import Testing

@testable import Node

/// Bodies in CBOR: what a client that speaks it gets, beside what one gets that speaks JSON.
@Suite("CBOR over HTTP")
struct CBORContractTests {
    private static let cbor = "application/cbor"

    /// An answer, read by the type that it says it has.
    struct Answer {
        let status: Int
        let type: String?
        let headers: [(String, String)]
        let value: JSONValue
        /// The answer as JSON, with bytes as base64.
        var text: String { JSONWriter.text(of: value) }
        var error: JSONObject? { value.object?["error"]?.object }
    }

    private func ask(
        _ node: HTTPTestNode, _ path: String, _ body: [UInt8]?, type: String? = nil,
        accept: String? = cbor, method: String = "POST"
    ) async throws -> Answer {
        var headers: [(String, String)] = []
        if let type { headers.append(("Content-Type", type)) }
        if let accept { headers.append(("Accept", accept)) }
        let answer = try await node.client.request(method, path, body: body, headers: headers)
        let answered = answer.headers.first { $0.0.lowercased() == "content-type" }?.1
        let isCBOR = answered == Self.cbor
        return Answer(
            status: answer.status, type: answered, headers: answer.headers,
            value: isCBOR
                ? try CBORParser.parse(answer.body, maximumBytes: .max)
                : (try? JSONParser.parse(answer.body, maximumBytes: .max)) ?? .null)
    }

    /// Asks with a body in CBOR for an answer in CBOR.
    private func ask(
        _ node: HTTPTestNode, _ path: String, _ body: JSONValue, accept: String? = cbor
    ) async throws -> Answer {
        try await ask(
            node, path, CBORWriter.bytes(of: body), type: Self.cbor, accept: accept)
    }

    /// A value from JSON; texts that begin with "bytes:" are base64 for byte strings.
    private func value(_ text: String) throws -> JSONValue {
        func replaced(_ value: JSONValue) -> JSONValue {
            switch value {
            case .string(let text) where text.hasPrefix("bytes:"):
                return ValueText.bytes(fromBase64: String(text.dropFirst(6))).map { .bytes($0) }
                    ?? value
            case .array(let elements): return .array(elements.map(replaced))
            case .object(let object):
                var result = JSONObject()
                for member in object.members { result[member.key] = replaced(member.value) }
                return .object(result)
            default: return value
            }
        }
        return replaced(try JSONParser.parse(Array(text.utf8)))
    }

    @Test("Every type of value comes and goes in CBOR as in JSON, and bytes as they are")
    func values() async throws {
        try await HTTPTestNode.run { node in
            let values = try value(
                """
                {"name": "Ada", "age": -9223372036854775808, "small": -32768, "ratio": 0.1,
                 "price": "12.50", "born": "2026-01-31T12:00:00.000Z", "photo": "bytes:AP8B",
                 "token": "01234567-89AB-CDEF-0123-456789ABCDEF", "active": true}
                """)
            func insertion(_ values: JSONValue) -> JSONValue {
                let operation: JSONValue = ["insert": .string("Person"), "values": values]
                return ["operations": .array([operation])]
            }
            let refused = try await ask(node, "/v1/save", insertion(["name": .bytes([65])]))
            #expect(refused.status == 422 && refused.type == Self.cbor, "\(refused.text)")
            #expect(refused.text.contains("not a byte string"), "\(refused.text)")
            let saved = try await ask(node, "/v1/save", insertion(values))
            #expect(saved.status == 200 && saved.type == Self.cbor, "\(saved.text)")
            #expect(
                saved.value.object?.members.map(\.key) == [
                    "transaction", "timestamp", "seen", "token", "ids", "conflicts",
                ])
            let fetched = try await ask(node, "/v1/fetch", value(#"{"entity": "Person"}"#))
            #expect(fetched.status == 200 && fetched.type == Self.cbor)
            let found = fetched.value.object?["objects"]?.array?.first?.object?["values"]?.object
            for member in values.object?.members ?? [] {
                let expected = member.key == "price" ? .string("12.5") : member.value
                #expect(found?[member.key] == expected, "\(member.key): \(fetched.text)")
            }
            #expect(try await node.fetch(#"{"entity": "Person"}"#).text == fetched.text)
        }
    }

    @Test("Numbers that are not finite are text, and floats that are not are refused")
    func notFinite() async throws {
        try await HTTPTestNode.run { node in
            let saved = try await ask(
                node, "/v1/save",
                value(
                    """
                    {"operations": [
                      {"insert": "Person", "values": {"name": "Ada", "ratio": "-Infinity"}}]}
                    """))
            #expect(saved.status == 200, "\(saved.text)")
            let found = try await ask(node, "/v1/fetch", value(#"{"entity": "Person"}"#))
            #expect(found.text.contains(#""ratio":"-Infinity""#), "\(found.text)")
            // {"operations": NaN}
            let body = [0xA1, 0x6A] + Array("operations".utf8) + [0xF9, 0x7E, 0x00]
            let refused = try await ask(node, "/v1/save", body, type: Self.cbor)
            #expect(
                refused.status == 400 && refused.error?["offset"] == .integer(12), "\(refused.text)"
            )
        }
    }

    @Test("A fetch answers with the same structure in both forms, whatever it asks for")
    func structure() async throws {
        try await HTTPTestNode.run { node in
            // Enough for several parts of an answer.
            let photo = [UInt8](repeating: 7, count: 600)
            for first in stride(from: 0, to: 300, by: 100) {
                let people = (first..<first + 100).map { number -> JSONValue in
                    let values: JSONValue = [
                        "name": .string("p\(number)"), "age": .integer(Int64(number)),
                        "photo": .bytes(photo),
                    ]
                    return ["insert": .string("Person"), "values": values]
                }
                let saved = try await ask(node, "/v1/save", ["operations": .array(people)])
                #expect(saved.status == 200, "\(saved.text.prefix(300))")
            }
            let manager = try await node.insertPerson("Boss", #""reports": []"#).uri
            let first = try await node.fetch(
                #"{"entity": "Person", "limit": 3, "resultType": "ids"}"#)
            for uri in (first["ids"]?.array ?? []).compactMap(\.string) where uri != manager {
                let answer = try await node.save(
                    operations: #"{"update": "\#(uri)", "values": {"manager": "\#(manager)"}}"#)
                #expect(answer.status == 200, "\(answer.text)")
            }
            let fetches = [
                "", #", "limit": 2, "versions": true"#, #", "predicate": "name == 'nobody'""#,
                #", "predicate": "name == 'nobody'", "prefetch": ["manager"]"#,
                #", "prefetch": ["manager", "manager.reports"]"#,
                #", "properties": ["name", "reports", "photo"]"#, #", "resultType": "ids""#,
                #", "resultType": "count""#,
                #", "resultType": "dictionary", "properties": ["name", "photo"]"#,
                #", "properties": [{"name": "sum", "function": "sum", "keyPath": "age"}]"#,
                #", "predicate": "photo == $p", "substitutions": {"p": "bytes:\#(ValueText.base64(photo))"}"#,
            ].map { #"{"entity": "Person"\#($0)}"# }
            for fetch in fetches {
                let fetch = try value(fetch)
                let json = try await node.fetch(JSONWriter.text(of: fetch))
                let answer = try await ask(node, "/v1/fetch", fetch)
                #expect(
                    answer.status == 200 && answer.type == Self.cbor, "\(answer.text.prefix(300))")
                #expect(answer.text == json.text, "\(JSONWriter.text(of: fetch))")
            }
            #expect(node.server.services.answers.bytes == 0)
        }
    }

    @Test("A save that comes again in the other form is the same save")
    func repeated() async throws {
        try await HTTPTestNode.run { node in
            let body = try value(
                """
                {"operations": [{"insert": "Person", "id": "@ada",
                  "values": {"name": "Ada", "photo": "bytes:AQID"}}], "saveID": "once"}
                """)
            let binary = try await ask(node, "/v1/save", body)
            let text = try await node.save(JSONWriter.text(of: body))
            #expect(
                binary.status == 200 && binary.text == text.text, "\(binary.text)\n\(text.text)")
            let count = try await node.fetch(#"{"entity": "Person", "resultType": "count"}"#)
            #expect(count["count"] == .integer(1))
        }
    }

    @Test("Body and answer each have their own form")
    func independent() async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Ada")
            let fetch = try value(#"{"entity": "Person"}"#)
            let json = JSONWriter.bytes(of: fetch)
            let binary = CBORWriter.bytes(of: fetch)
            for (body, type) in [(json, "application/json"), (binary, "Application/CBOR; x=y")] {
                for (accept, expected) in [
                    (nil, "application/json"), ("*/*", "application/json"),
                    ("application/cbor", Self.cbor), ("APPLICATION/CBOR", Self.cbor),
                    ("application/json, application/cbor", Self.cbor),
                    ("application/cbor;q=0.5, application/json", "application/json"),
                    ("application/json;q=0.5, application/cbor;q=0.9", Self.cbor),
                    ("application/cbor;q=0, */*", "application/json"),
                    ("application/cbor, */*;q=0.1", Self.cbor),
                    ("application/x-ndjson, application/cbor", "application/x-ndjson"),
                    ("application/cbor+x", "application/json"),
                ] {
                    let answer = try await ask(node, "/v1/fetch", body, type: type, accept: accept)
                    #expect(answer.status == 200 && answer.type == expected, "\(accept ?? "")")
                }
            }
        }
    }

    @Test("Errors of saves and fetches are CBOR for who asks for it, whatever refuses")
    func errors() async throws {
        try await HTTPTestNode.run(options: .with { $0.maximumBodyBytes = 1_000 }) { node in
            func check(
                _ answer: Answer, _ status: Int, _ code: String, offset: Int64? = nil
            ) {
                #expect(answer.status == status && answer.type == Self.cbor, "\(answer.text)")
                #expect(answer.error?["code"] == .string(code), "\(answer.text)")
                #expect(answer.error?["offset"]?.integer == offset, "\(answer.text)")
                #expect(answer.error?["message"]?.string?.isEmpty == false)
            }
            check(
                try await ask(node, "/v1/save", [0xA1, 0x61], type: Self.cbor), 400, "malformed",
                offset: 0)
            check(
                try await ask(node, "/v1/fetch", [0xA1, 0x61, 0x61, 0xC0, 0x01], type: Self.cbor),
                400,
                "malformed", offset: 3)
            let broken = try await ask(node, "/v1/save", Array("{".utf8), type: Self.cbor)
            check(broken, 400, "malformed", offset: 1)
            #expect(
                broken.error?["message"]?.string?.contains("not CBOR") == true, "\(broken.text)")
            let json = try await ask(node, "/v1/save", Array("{".utf8), type: "application/json")
            check(json, 400, "malformed")
            #expect(
                json.error?["line"] == .integer(1) && json.error?["column"] == .integer(2),
                "\(json.text)")
            check(
                try await ask(node, "/v1/fetch", value(#"{"entity": "Nobody"}"#)), 400, "malformed")
            check(
                try await ask(
                    node, "/v1/fetch", value(#"{"entity": "Person", "predicate": "name =="}"#)),
                400,
                "invalidPredicate", offset: 7)
            check(try await ask(node, "/v1/save", nil, method: "GET"), 405, "methodNotAllowed")
            check(
                try await ask(node, "/v1/save?x=y", value(#"{"operations": []}"#)), 400, "malformed"
            )
            check(
                try await ask(node, "/v1/save", Array(repeating: 0, count: 1_001), type: Self.cbor),
                413,
                "bodyTooLarge")
            let type = try await ask(node, "/v1/save", [0xA0], type: "text/plain")
            check(type, 415, "mediaTypeNotSupported")
            #expect(
                type.headers.contains {
                    $0.0 == "Accept" && $0.1 == "application/json, application/cbor"
                })
            // Without asking for it nobody gets CBOR.
            let plain = try await ask(node, "/v1/save", [0xA1, 0x61], type: Self.cbor, accept: nil)
            #expect(plain.status == 400 && plain.type == "application/json")
            #expect(plain.error?["offset"] == .integer(0))
        }
    }

    @Test("A conflict's snapshots have bytes as a fetch has them")
    func conflicts() async throws {
        try await HTTPTestNode.run { node in
            let (uri, version) = try await node.insertPerson("Ada", #""photo": "AQID""#)
            _ = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"photo": "BAUG"}}"#)
            let stale = try value(
                """
                {"operations": [{"update": "\(uri)", "version": "\(version)",
                  "values": {"photo": "bytes:CQ=="}}]}
                """)
            let answer = try await ask(node, "/v1/save", stale)
            #expect(answer.status == 409, "\(answer.text)")
            let conflict = answer.error?["conflicts"]?.array?.first?.object
            #expect(
                conflict?["objectSnapshot"]?.object?["photo"] == .bytes([1, 2, 3]),
                "\(answer.text)")
            #expect(
                conflict?["cachedSnapshot"]?.object?["photo"] == .bytes([4, 5, 6]),
                "\(answer.text)")
            #expect(try await node.save(JSONWriter.text(of: stale)).text == answer.text)
        }
    }

    @Test("Errors are CBOR before a token is known too")
    func unauthorized() async throws {
        try await HTTPTestNode.run(options: .with { $0.token = "0123456789abcdef" }) { node in
            let stranger = try NodeClient(url: node.url)
            let answer = try await stranger.request(
                "POST", "/v1/save", body: [0xA0],
                headers: [("Content-Type", Self.cbor), ("Accept", Self.cbor)])
            #expect(answer.status == 401)
            #expect(try CBORParser.parse(answer.body).object?["error"] != nil)
            await stranger.close()
        }
    }

    @Test("Routes without CBOR refuse its bodies, and those who accept nothing else")
    func elsewhere() async throws {
        try await HTTPTestNode.run { node in
            for path in ["/v1/generations", "/v1/verify", "/v1/backup", "/v1/members"] {
                let body = try await ask(node, path, [0xA0], type: Self.cbor, accept: nil)
                #expect(body.status == 415 && body.type == "application/json", "\(path)")
                #expect(body.error?["code"] == .string("mediaTypeNotSupported"), "\(path)")
                #expect(
                    body.headers.contains { $0.0 == "Accept" && $0.1 == "application/json" },
                    "\(path)")
            }
            for path in ["/v1/status", "/healthz", "/v1/saves/x", "/v1/model"] {
                let refused = try await ask(node, path, nil, method: "GET")
                #expect(refused.status == 406 && refused.type == "application/json", "\(path)")
                #expect(refused.error?["code"] == .string("notAcceptable"), "\(path)")
                for accept in ["application/cbor, application/json", "application/cbor, */*;q=0.1"]
                {
                    let answer = try await ask(node, path, nil, accept: accept, method: "GET")
                    #expect(answer.status == 200 && answer.type == "application/json", "\(path)")
                }
            }
        }
    }

    @Test("OPTIONS tells which bodies a POST takes")
    func options() async throws {
        try await HTTPTestNode.run { node in
            for (path, types) in [
                ("/v1/save", "application/json, application/cbor"),
                ("/v1/fetch", "application/json, application/cbor"),
                ("/v1/generations", "application/json"), ("/v1/status", nil), ("*", nil),
            ] {
                let answer = try await node.raw(
                    "OPTIONS \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(answer.status == 204 && answer["Accept-Post"] == types, "\(path)")
            }
        }
    }
}
