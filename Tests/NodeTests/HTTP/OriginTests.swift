import Coordinator
import Testing

@testable import Node

/// Pages of browsers, which send requests to any address, and what of them a node answers.
@Suite("Foreign pages and foreign names")
struct OriginTests {
    private static let save = #"{"operations": [{"insert": "Person", "values": {"name": "Eve"}}]}"#

    private static func post(
        _ fields: [String], host: String = "127.0.0.1", type: String? = "application/json"
    ) -> String {
        var lines = [
            "POST /v1/save HTTP/1.1", "Host: \(host)", "Content-Length: \(save.utf8.count)",
        ]
        if let type { lines.append("Content-Type: \(type)") }
        return (lines + fields + ["", save]).joined(separator: "\r\n")
    }

    private static func count(_ node: HTTPTestNode) async throws -> Int64? {
        try await node.fetch(#"{"entity": "Person", "resultType": "count"}"#)["count"]?.integer
    }

    @Test("A node without tokens answers only under names of loopback and those configured: 421")
    func foreignNames() async throws {
        try await HTTPTestNode.run(options: .with { $0.hosts = ["Shop.example"] }) {
            (node: HTTPTestNode) async throws in
            for host in [
                "evil.example", "evil.example:7100", "127.0.0.1.evil.example",
                "localhost.evil.example",
                "10.0.0.1:7100", "[::2]", "0.0.0.0:7100", "", "localhost:x", "localhost:7100:1",
                "128.0.0.1", "127.0.0.256", "notlocalhost",
            ] {
                let refused = try await node.raw(Self.post([], host: host))
                #expect(refused.status == 421 && refused.code == "hostRefused", "\(host)")
            }
            #expect(try await Self.count(node) == 0)
            for host in [
                "localhost", "LocalHost:7100", "node1.localhost:80", "127.0.0.1:1", "127.8.9.10",
                "[::1]", "[::1]:7100", "shop.example", "SHOP.example:8443",
            ] { #expect(try await node.raw(Self.post([], host: host)).status == 200, "\(host)") }
        }
    }

    @Test("A foreign page is refused on any node, with a token too: 403")
    func foreignPages() async throws {
        var secured = HTTPServer.Options()
        secured.token = "0123456789abcdef"
        for options in [HTTPServer.Options(), secured] {
            let bearer = options.token.map { ["Authorization: Bearer \($0)"] } ?? []
            try await HTTPTestNode.run(options: options) { (node: HTTPTestNode) async throws in
                for origin in [
                    "http://evil.example", "null", "", "http://127.0.0.1:81", "http://localhost",
                    "https://127.0.0.1:444", "file://", "chrome-extension://abc", "http://[::1]",
                    "http://127.0.0.1, http://127.0.0.1",
                ] {
                    let refused = try await node.raw(Self.post(bearer + ["Origin: \(origin)"]))
                    #expect(refused.status == 403 && refused.code == "originRefused", "\(origin)")
                    #expect(refused["Access-Control-Allow-Origin"] == nil)
                }
                let health = try await node.raw(
                    "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n\r\n")
                #expect(health.status == 403)
                #expect(try await Self.count(node) == 0)
                for (origin, host) in [
                    ("http://127.0.0.1", "127.0.0.1"), ("http://127.0.0.1:7100", "127.0.0.1:7100"),
                    ("HTTP://LocalHost:80", "localhost"), ("http://[::1]:7100", "[::1]:7100"),
                    // Behind a proxy that speaks HTTPS.
                    ("https://localhost", "localhost"),
                ] {
                    let answer = try await node.raw(
                        Self.post(bearer + ["Origin: \(origin)"], host: host))
                    #expect(answer.status == 200, "\(origin): \(answer.body)")
                }
            }
        }
    }

    @Test("A token protects by itself: the name under which a node is asked is free then")
    func namesWithTokens() async throws {
        try await HTTPTestNode.run(options: .with { $0.token = "0123456789abcdef" }) {
            (node: HTTPTestNode) async throws in
            let bearer = ["Authorization: Bearer 0123456789abcdef"]
            #expect(try await node.raw(Self.post(bearer, host: "n1.example")).status == 200)
            #expect(try await node.raw(Self.post([], host: "n1.example")).status == 401)
        }
    }

    @Test("Pages of a configured origin may ask, and hear so before")
    func allowedPages() async throws {
        var options = HTTPServer.Options()
        options.token = "0123456789abcdef"
        options.origins = ["https://shop.example", "http://localhost:3000"]
        try await HTTPTestNode.run(options: options) { (node: HTTPTestNode) async throws in
            let asked =
                "OPTIONS /v1/save HTTP/1.1\r\nHost: x\r\nAccess-Control-Request-Method: POST\r\n"
            let allowed = try await node.raw(asked + "Origin: https://shop.example\r\n\r\n")
            #expect(allowed.status == 204)
            #expect(allowed["Access-Control-Allow-Origin"] == "https://shop.example")
            #expect(allowed["Access-Control-Allow-Methods"]?.contains("POST") == true)
            #expect(allowed["Access-Control-Allow-Headers"]?.contains("Content-Type") == true)
            #expect(allowed["Vary"] == "Origin" && allowed["Content-Length"] == nil)
            let foreign = try await node.raw(asked + "Origin: http://shop.example\r\n\r\n")
            #expect(foreign.status == 403 && foreign["Access-Control-Allow-Origin"] == nil)
            let bearer = "Authorization: Bearer 0123456789abcdef"
            let saved = try await node.raw(Self.post([bearer, "Origin: http://localhost:3000"]))
            #expect(saved.status == 200)
            #expect(saved["Access-Control-Allow-Origin"] == "http://localhost:3000")
            // The page sees the refusal as well.
            let unknown = try await node.raw(Self.post(["Origin: https://shop.example"]))
            #expect(unknown.status == 401)
            #expect(unknown["Access-Control-Allow-Origin"] == "https://shop.example")
        }
    }

    @Test("A body is taken only as JSON or CBOR, and as it is: 415")
    func contentTypes() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            for type in [
                nil, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "",
                "application/jsonp", "text/plain; application/json",
                "application/json; charset=latin1",
                "application/json, text/plain", "application/cbor, text/plain", "application/cbor2",
            ] {
                let refused = try await node.raw(Self.post([], type: type))
                #expect(refused.status == 415, "\(type ?? "none")")
                #expect(refused.code == "mediaTypeNotSupported", "\(refused.body)")
                #expect(refused["Accept"] == "application/json, application/cbor")
            }
            for coding in ["gzip", "br, gzip", "identity, gzip"] {
                let refused = try await node.raw(Self.post(["Content-Encoding: \(coding)"]))
                #expect(refused.status == 415 && refused.code == "encodingNotSupported")
                #expect(refused["Accept-Encoding"] == "identity")
            }
            // Also in chunks, which announce no length.
            let chunked =
                "POST /v1/save HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "\(String(Self.save.utf8.count, radix: 16))\r\n\(Self.save)\r\n0\r\n\r\n"
            #expect(try await node.raw(chunked).status == 415)
            #expect(try await Self.count(node) == 0)
            for type in [
                "application/json", "Application/JSON", "application/json;charset=UTF-8",
                "application/json ; charset=\"utf-8\"",
            ] { #expect(try await node.raw(Self.post([], type: type)).status == 200, "\(type)") }
        }
    }
}
