import Client
import Coordinator
import Foundation
import Testing

@testable import Node

@Suite("Tokens and the requests that they permit") struct HTTPAccessTests {
    private static let tokens = [
        HTTPToken(secret: "reader-0123456789abcdef", scope: .read, name: "reader"),
        HTTPToken(secret: "writer-0123456789abcdef", scope: .write, name: "writer"),
        HTTPToken(secret: "admin-0123456789abcdef", scope: .admin, name: "admin"),
    ]

    /// All that there is, with the least scope; nil for anybody. It is written down here once more
    /// so that nobody widens a scope without seeing it.
    static let table: [(method: String, path: String, scope: HTTPScope?)] = [
        ("GET", "/healthz", nil), ("GET", "/readyz", nil), ("GET", "/metrics", .read),
        ("GET", "/v1/status", .read), ("GET", "/v1/advice", .read), ("GET", "/v1/model", .read),
        ("POST", "/v1/fetch", .read),
        ("GET", "/v1/objects/Person/p1", .read), ("GET", "/v1/saves/x", .read),
        ("POST", "/v1/generations", .read), ("DELETE", "/v1/generations/x", .read),
        ("GET", "/v1/history", .read), ("GET", "/v1/changes?after=x", .read),
        ("GET", "/v1/conflicts", .read), ("GET", "/v1/conflicts/x", .read),
        ("POST", "/v1/verify", .read), ("GET", "/v1/members", .read),
        ("GET", "/v1/consumers", .read), ("GET", "/v1/consumers/x", .read),
        ("PUT", "/v1/consumers/x", .write), ("DELETE", "/v1/consumers/x", .write),
        ("GET", "/v1/orphans", .read), ("GET", "/v1/orphans/x", .read),
        ("DELETE", "/v1/orphans/x", .admin), ("GET", "/v1/discards", .read),
        ("GET", "/v1/objects/Person/p1/blame", .read), ("GET", "/v1/objects/Person/p1/log", .read),
        ("GET", "/v1/diff?from=x", .read), ("POST", "/v1/conflicts/resolution", .write),
        ("POST", "/v1/saves/x/undo", .write), ("POST", "/v1/policies/try", .read),
        ("GET", "/", nil), ("GET", "/inspector/app.js", nil),
        ("POST", "/v1/save", .write), ("POST", "/v1/batch", .write),
        ("POST", "/v1/conflicts/x/resolution", .write),
        ("POST", "/v1/conflicts/x/undo", .write), ("DELETE", "/v1/history?before=x", .admin),
        ("POST", "/v1/backup", .admin), ("POST", "/v1/members", .admin),
        ("POST", "/v1/members/2/departure", .admin), ("POST", "/v1/reload", .admin),
    ]

    @Test("Every endpoint asks for its scope: 401 without a token, 403 with too small a scope")
    func scopes() async throws {
        try await HTTPTestNode.run(options: .with { $0.tokens = Self.tokens }) { node in
            let url = "http://127.0.0.1:\(node.server.port)"
            let stranger = try NodeClient(url: url)
            let clients = try Self.tokens.map {
                ($0.scope, try NodeClient(url: url, token: $0.secret))
            }
            for (method, path, needed) in Self.table {
                let refused = try await stranger.request(method, path)
                #expect((refused.status == 401) == (needed != nil), "\(method) \(path)")
                for (scope, client) in clients {
                    let answer = try await client.request(method, path)
                    let isEnough = needed.map { scope >= $0 } ?? true
                    #expect((answer.status != 403) == isEnough, "\(method) \(path) \(scope)")
                    #expect(answer.status != 401 && answer.status != 405)
                    guard !isEnough, let needed else { continue }
                    let error = try JSONParser.parse(answer.body).object?["error"]?.object
                    #expect(error?["code"] == .string("forbidden"))
                    #expect(error?["scope"] == .string(scope.rawValue))
                    #expect(error?["needed"] == .string(needed.rawValue))
                }
            }
            // What is not there is nobody's business without a token, and 404 or 405 with one.
            #expect(try await stranger.request("GET", "/v1/none").status == 401)
            #expect(try await clients[0].1.request("GET", "/v1/none").status == 404)
            #expect(try await stranger.request("PUT", "/v1/save").status == 401)
            #expect(try await clients[0].1.request("PUT", "/v1/save").status == 405)
            for (_, client) in clients { await client.close() }
            await stranger.close()
        }
    }

    @Test("docs/HTTP.md lists every endpoint, each with its scope")
    func documented() throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../docs/HTTP.md").standardized
        let text = try String(contentsOf: page, encoding: .utf8)
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| `") }
        let written = rows.flatMap { row in
            let scope = row.split(separator: "|").last?.trimmingCharacters(in: .whitespaces) ?? ""
            return row.matches(of: /`(GET|POST|PUT|DELETE) (\/[^`]*)`/).map { match in
                (String(match.1), Self.pattern(String(match.2)), scope)
            }
        }
        #expect(written.count == Self.table.count)
        for (method, path, scope) in Self.table {
            let known = written.first { $0.0 == method && $0.1 == Self.pattern(path) }
            #expect(known?.2 == scope?.rawValue ?? "none is asked for", "\(method) \(path)")
        }
    }

    /// A path without its query, and with what differs from request to request left out.
    private static func pattern(_ path: String) -> [String] {
        let known: Set = [
            "healthz", "readyz", "metrics", "v1", "resolution", "undo", "departure", "blame", "log",
            "inspector",
        ]
        let segments = path.prefix { $0 != "?" }.split(separator: "/").map(String.init)
        return segments.enumerated().map { place, part in
            place == 1 && segments[0] == "v1" || known.contains(part) ? part : ""
        }
    }

    @Test("Tokens that change hold from the next request on, on open connections too")
    func changed() async throws {
        try await HTTPTestNode.run(options: .with { $0.token = "0123456789abcdef" }) {
            (node: HTTPTestNode) async throws in
            #expect(try await node.ask("GET", "/v1/status").status == 200)
            node.server.update(tokens: Self.tokens)
            #expect(try await node.ask("GET", "/v1/status").status == 401)
            node.server.update(tokens: [HTTPToken(secret: "0123456789abcdef", scope: .read)])
            #expect(try await node.ask("GET", "/v1/status").status == 200)
            #expect(try await node.ask("POST", "/v1/reload").status == 403)
            // A feed that has begun ends with its token, without another change to wait for.
            let feed = try await node.client.stream("GET", "/v1/changes")
            #expect(feed.status == 200)
            var lines = feed.makeAsyncIterator()
            #expect(try await lines.next() == ": following")
            node.server.update(tokens: Self.tokens)
            while let line = try await lines.next() { #expect(!line.hasPrefix("data")) }
        }
    }

    @Test("A token is known only whole, and of two that are equal the greater scope counts")
    func comparing() {
        let access = HTTPAccess(Self.tokens)
        // The scheme may be in either case (RFC 9110).
        for field in ["Bearer reader-0123456789abcdef", "bearer reader-0123456789abcdef"] {
            #expect(access.token(inField: field)?.scope == .read)
        }
        for field in [
            nil, "", "Bearer", "Bearer ", "Bearer reader-0123456789abcde",
            "Bearer reader-0123456789abcdef0", "Bearer  reader-0123456789abcdef",
            "Bearer READER-0123456789ABCDEF", "Basic reader-0123456789abcdef",
            "reader-0123456789abcdef",
            "Bearer reader-0123456789abcdefBearer reader-0123456789abcdef",
        ] { #expect(access.token(inField: field) == nil) }
        for (field, words) in [
            (nil, "wants a token"), ("Bearer nobodys", "does not know that token"),
        ] {
            #expect { try access.check(field: field, needs: .read) } throws: {
                ($0 as? HTTPError)?.message.contains(words) == true
            }
        }
        let twice = HTTPAccess([
            HTTPToken(secret: "0123456789abcdef", scope: .admin),
            HTTPToken(secret: "0123456789abcdef", scope: .read),
        ])
        #expect(twice.token(inField: "Bearer 0123456789abcdef")?.scope == .admin)
        #expect(HTTPAccess([]).isOpen && !twice.isOpen)
    }
}
