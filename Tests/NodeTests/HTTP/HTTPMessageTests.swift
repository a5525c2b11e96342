import Coordinator
import Synchronization
import Testing

@testable import Node

/// RFC 9110 and 9112, as a client sees them that says anything.
@Suite("HTTP as the RFCs have it")
struct HTTPMessageTests {
    /// A message, and what becomes of it.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let text: String
        let status: Int
        let code: String?
        /// Whether the connection ends after it.
        let ends: Bool

        init(
            _ name: String, _ text: String, _ status: Int, _ code: String? = nil, ends: Bool = true
        ) {
            (testDescription, self.text, self.status) = (name, text, status)
            (self.code, self.ends) = (code, ends)
        }
    }

    private static func get(_ target: String, _ fields: String...) -> String {
        (["GET \(target) HTTP/1.1", "Host: localhost"] + fields + ["", ""]).joined(
            separator: "\r\n")
    }

    private static func post(_ fields: [String], _ body: String) -> String {
        (["POST /v1/verify HTTP/1.1", "Host: localhost", "Content-Type: application/json"] + fields
            + ["", body]).joined(separator: "\r\n")
    }

    private static func malformed(_ name: String, _ text: String) -> Case {
        Case(name, text, 400, "malformed")
    }

    private static let chunked = ["Transfer-Encoding: chunked"]
    private static let long = String(repeating: "a", count: 100_000)

    private static let lines: [Case] = [
        malformed("a line that is folded", get("/healthz", "X: a\r\n b")),
        malformed("lines that end with LF", "GET /healthz HTTP/1.1\nHost: localhost\n\n"),
        malformed("a space before the colon", get("/healthz", "X : a")),
        malformed("a field without a name", get("/healthz", ": a")),
        malformed("a field without a colon", get("/healthz", "X")),
        malformed("NUL in a field", get("/healthz", "X: a\0b")),
        malformed("CR in a field", get("/healthz", "X: a\rb")),
        malformed("TLS", "\u{16}\u{03}\u{01}\u{02}\0\u{01}\0\u{01}\u{7C}\u{03}\u{03}"),
        malformed("no Host", "GET /healthz HTTP/1.1\r\n\r\n"),
        malformed("two Hosts", get("/healthz", "Host: localhost")),
        malformed("a Host that is none", "GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        malformed("another protocol", "GET /healthz HTTX/1.1\r\nHost: localhost\r\n\r\n"),
        malformed("a target without a slash", get("healthz")),
        malformed("a star that is not for OPTIONS", get("*")),
        malformed("a fragment", get("/healthz#a")),
        malformed("no version", "GET /healthz\r\nHost: localhost\r\n\r\n"),
        malformed("a version and more", "GET /healthz HTTP/1.1 x\r\nHost: localhost\r\n\r\n"),
        malformed("a Host with a space", "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n"),
        malformed("a user in the target", get("http://me@localhost/healthz")),
        malformed("another scheme", get("ftp://localhost/healthz")),
        Case(
            "a method that nobody knows", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501, "notSupported"),
        Case("HTTP/2", "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, "versionNotSupported"),
        Case(
            "HTTP/2 from the start", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "versionNotSupported"),
        Case(
            "a tunnel", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 404,
            "notFound"),
        Case(
            "a thousand fields and more",
            get("/healthz", String(repeating: "X: a\r\n", count: 1_000) + "X: a"), 431,
            "headerTooLarge"),
        Case("fields without end", get("/healthz", "X: \(long)"), 431, "headerTooLarge"),
        Case("a target without end", get("/\(long)"), 414, "addressTooLong"),
        Case("an expectation", get("/healthz", "Expect: tea"), 417, "expectationFailed"),
        Case("an upgrade", get("/healthz", "Upgrade: h2c", "Connection: Upgrade"), 200),
        Case("Connection: Close", get("/healthz", "Connection: Close"), 200),
        Case("Connection: close among others", get("/healthz", "Connection: te, close"), 200),
    ]

    private static let bodies: [Case] = [
        malformed(
            "length and chunks", post(["Content-Length: 2"] + chunked, "2\r\n{}\r\n0\r\n\r\n")),
        malformed("two lengths", post(["Content-Length: 2", "Content-Length: 3"], "{}")),
        malformed(
            "two lengths that agree", post(["Content-Length: 2", "Content-Length: 2"], "{}")),
        Case(
            "a long body where no token is needed",
            get("/healthz", "Content-Type: application/json", "Content-Length: 70000")
                + String(repeating: "x", count: 70_000), 413, "bodyTooLarge", ends: false),
        Case(
            "a long body in chunks where no token is needed",
            get("/healthz", "Content-Type: application/json", "Transfer-Encoding: chunked")
                + "11170\r\n" + String(repeating: "x", count: 70_000) + "\r\n0\r\n\r\n", 413,
            "bodyTooLarge", ends: false),
        malformed("a length below zero", post(["Content-Length: -2"], "{}")),
        malformed("a length with a sign", post(["Content-Length: +2"], "{}")),
        malformed("a length in words", post(["Content-Length: two"], "{}")),
        malformed("a length in a list", post(["Content-Length: 2, 2"], "{}")),
        malformed("a length beyond numbers", post(["Content-Length: 99999999999999999999"], "{}")),
        malformed("a chunk of letters", post(chunked, "zz\r\n{}\r\n0\r\n\r\n")),
        malformed("a chunk below zero", post(chunked, "-2\r\n{}\r\n0\r\n\r\n")),
        malformed("a chunk beyond numbers", post(chunked, "fffffffffffffffff\r\n{}\r\n0\r\n\r\n")),
        malformed("a chunk longer than it says", post(chunked, "1\r\n{}\r\n0\r\n\r\n")),
        malformed(
            "chunks in HTTP/1.0",
            "POST /v1/verify HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        malformed("a length that is empty", post(["Content-Length:"], "{}")),
        malformed(
            "chunks twice", post(["Transfer-Encoding: chunked, chunked"], "2\r\n{}\r\n0\r\n\r\n")),
        malformed(
            "chunks before gzip", post(["Transfer-Encoding: chunked, gzip"], "2\r\n{}\r\n0\r\n\r\n")
        ),
        Case("gzip", post(["Transfer-Encoding: gzip"], ""), 501, "notSupported"),
        Case("gzip in chunks", post(["Transfer-Encoding: gzip, chunked"], ""), 501, "notSupported"),
        Case(
            "what ends as chunked does", post(["Transfer-Encoding: xchunked"], ""), 501,
            "notSupported"),
    ]

    private static let kept: [Case] = [
        Case(
            "chunks with extensions and trailers",
            post(
                ["Transfer-Encoding: Chunked"], "2;a=b\r\n{}\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n"
            ), 200, ends: false),
        Case("a whole URL", get("http://localhost/healthz"), 200, ends: false),
        Case(
            "a whole URL before Host",
            "GET HTTP://LOCALHOST:80/healthz?a HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200,
            ends: false),
        Case(
            "a foreign URL before Host", get("http://evil.example/healthz"), 421, "hostRefused",
            ends: false),
        Case("letters as percent", get("/%68ealth%7a"), 200, ends: false),
        Case("a slash as percent is no slash", get("/v1%2Fstatus"), 404, "notFound", ends: false),
        Case("percent of nothing", get("/v1/%zz"), 400, "malformed", ends: false),
        Case("a long target", get("/\(long.prefix(70_000))"), 414, "addressTooLong", ends: false),
        Case(
            "a method that is not for here", "PATCH /v1/save HTTP/1.1\r\nHost: localhost\r\n\r\n",
            405, "methodNotAllowed", ends: false),
        Case(
            "a method of others", "PROPFIND / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501,
            "notSupported", ends: false),
        Case("empty lines before it", "\r\n\r\n" + get("/healthz"), 200, ends: false),
    ]

    @Test(
        "A message is answered as the RFCs say, and ends the connection where the next is not known"
    )
    func table() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            for message in Self.lines + Self.bodies + Self.kept {
                let name = message.testDescription
                let connection = try RawConnection(port: node.server.port)
                connection.send(message.text)
                guard let answer = await connection.answer() else {
                    Issue.record("\(name): no answer")
                    continue
                }
                #expect(answer.status == message.status, "\(name): \(answer.body)")
                #expect(answer.code == message.code, "\(name): \(answer.body)")
                #expect(answer["Date"]?.hasSuffix(" GMT") == true, "\(name)")
                #expect((answer["Connection"] == "close") == message.ends, "\(name)")
                if message.ends {
                    #expect(await connection.rest() == "", "\(name)")
                    #expect(connection.isClosed, "\(name)")
                } else {
                    connection.send(Self.get("/healthz"))
                    #expect(await connection.answer()?.status == 200, "\(name)")
                }
            }
            #expect(node.backend.failures.withLock { $0.isEmpty })
        }
    }

    @Test("HEAD is answered as GET, without the body: the next answer follows at once")
    func head() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            for (path, status) in [
                ("/healthz", 200), ("/metrics", 200), ("/v1/status", 200), ("/v1/model", 200),
                ("/v1/changes", 200), ("/v1/none", 404), ("/v1/save", 405),
            ] {
                let connection = try RawConnection(port: node.server.port)
                connection.send(
                    "HEAD \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n" + Self.get("/healthz"))
                let head = await connection.answer(hasBody: false)
                #expect(head?.status == status, "\(path)")
                if path == "/healthz" { #expect(head?["Content-Length"] == "15") }
                if path == "/v1/save" { #expect(head?["Allow"] == "POST, OPTIONS") }
                #expect(await connection.answer()?.body == #"{"status":"ok"}"#, "\(path)")
            }
        }
    }

    @Test("OPTIONS tells what is possible, without a body")
    func options() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            for (target, allowed) in [
                ("*", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
                ("http://localhost", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
                ("/v1/history", "GET, HEAD, DELETE, OPTIONS"), ("/v1/save", "POST, OPTIONS"),
            ] {
                let answer = try await node.raw(
                    "OPTIONS \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(answer.status == 204 && answer["Allow"] == allowed, "\(target)")
                #expect(answer["Content-Length"] == nil && answer["Transfer-Encoding"] == nil)
            }
            #expect(
                try await node.raw("OPTIONS /v1/none HTTP/1.1\r\nHost: localhost\r\n\r\n").status
                    == 404)
        }
    }

    @Test("HTTP/1.0 is answered without chunks, and closed, whatever it asks for")
    func oldClients() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            _ = try await node.insertPerson("Ada")
            let body = #"{"entity": "Person"}"#
            let connection = try RawConnection(port: node.server.port)
            connection.send(
                "POST /v1/fetch HTTP/1.0\r\nConnection: keep-alive\r\nAccept: application/x-ndjson\r\n"
                    + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                    + body)
            let answer = await connection.answer()
            #expect(answer?.line.hasPrefix("HTTP/1.0 200") == true)
            #expect(answer?["Transfer-Encoding"] == nil && answer?["Connection"] == "close")
            #expect(answer?.body.hasPrefix(#"{"id":"#) == true)
            #expect(answer?.body.contains(#"{"end":true"#) == true)
            #expect(connection.isClosed)
        }
    }

    @Test("Requests in one go are answered in order, and nothing after what cannot be read")
    func pipelining() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            let connection = try RawConnection(port: node.server.port)
            connection.send(
                Self.get("/healthz") + Self.get("/v1/none") + Self.get("/readyz") + "x\r\n\r\n"
                    + Self.get("/healthz"))
            var statuses: [Int] = []
            while let answer = await connection.answer() { statuses.append(answer.status) }
            #expect(statuses == [200, 404, 200, 400])
            #expect(connection.isClosed)
            // What cannot be read may be a body too; those before it are answered all the same.
            let save = #"{"operations": [{"insert": "Person", "values": {"name": "Eve"}}]}"#
            let broken = try RawConnection(port: node.server.port)
            broken.send(
                "POST /v1/save HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    + "Content-Length: \(save.utf8.count)\r\n\r\n\(save)"
                    + Self.post(Self.chunked, "x\r\n"))
            #expect(await broken.answer()?.status == 200)
            #expect(await broken.answer()?.status == 400)
            #expect(await broken.rest() == "")
        }
    }

    @Test("A body is asked for where the client waits for that, and not where it is refused before")
    func expectation() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            let connection = try RawConnection(port: node.server.port)
            connection.send(Self.post(["Expect: 100-Continue", "Content-Length: 2"], ""))
            #expect(await connection.answer()?.status == 100)
            connection.send("{}")
            #expect(await connection.answer()?.status == 200)
            let refused = try RawConnection(port: node.server.port)
            refused.send(
                "POST /v1/none HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                    + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n")
            let answer = await refused.answer()
            #expect(answer?.status == 404 && answer?["Connection"] == "close")
            #expect(await refused.rest() == "")
        }
    }

    @Test("Nothing is answered twice: a body that breaks after its answer ends the connection")
    func brokenAfterAnswer() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            let connection = try RawConnection(port: node.server.port)
            connection.send(
                "POST /v1/none HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            #expect(await connection.answer()?.status == 404)
            connection.send("x\r\n")
            #expect(await connection.rest() == "")
            #expect(connection.isClosed)
        }
    }

    @Test("A body that ends early is not taken for a whole one")
    func truncated() async throws {
        try await HTTPTestNode.run { (node: HTTPTestNode) async throws in
            let save = #"{"operations": [{"insert": "Person", "values": {"name": "Eve"}}]}"#
            for (field, body) in [
                ("Content-Length: \(save.utf8.count + 1)", save),
                (
                    "Transfer-Encoding: chunked",
                    "\(String(save.utf8.count, radix: 16))\r\n\(save)\r\n"
                ),
            ] {
                let connection = try RawConnection(port: node.server.port)
                connection.send(
                    "POST /v1/save HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        + "\(field)\r\n\r\n\(body)")
                connection.finish()
                #expect(await connection.answer()?.status == 400)
                #expect(await connection.rest() == "")
            }
            let count = try await node.fetch(#"{"entity": "Person", "resultType": "count"}"#)
            #expect(count["count"] == .integer(0))
        }
    }

    @Test("Time is written as HTTP has it, over leap days too")
    func dates() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] as [(UInt64, String)] { #expect(HTTPDate.text(seconds) == text) }
    }
}
