import Client
import NIOCore
import NIOHTTP1
import NIOPosix
import Node
import Synchronization
import Testing

/// A server that answers by path; it exists only for these tests.
private final class TinyServer: Sendable {
    let channel: any Channel
    let accepted: Counter

    final class Counter: Sendable {
        let value = Atomic<Int>(0)
    }

    init() async throws {
        let accepted = Counter()
        self.accepted = accepted
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                accepted.value.add(1, ordering: .relaxed)
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Answering())
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    var url: String { "http://127.0.0.1:\(channel.localAddress?.port ?? 0)" }

    private final class Answering: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart
        private var head: HTTPRequestHead?
        private var body = ByteBuffer()

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                self.head = head
                body = ByteBuffer()
            case .body(var part): body.writeBuffer(&part)
            case .end:
                if let head { answer(head, context) }
            }
        }

        private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
            switch head.uri {
            case "/echo":
                let token = head.headers.first(name: "Authorization") ?? "none"
                write(context, ["X-Method": head.method.rawValue, "X-Token": token], [body])
            case "/json":
                // It takes no CBOR, as a node of an earlier version.
                let type = head.headers.first(name: "Content-Type") ?? ""
                let headers = [
                    "X-Accept": head.headers.first(name: "Accept") ?? "none", "X-Type": type,
                ]
                let isRefused = type != "application/json"
                write(context, headers, [body], status: isRefused ? .unsupportedMediaType : .ok)
            case "/type":
                let type = head.headers.first(name: "Content-Type") ?? ""
                write(context, ["X-Type": type], [body])
            case "/missing": write(context, [:], [ByteBuffer(string: "no")], status: .notFound)
            case "/close": write(context, ["Connection": "close"], [body], closing: true)
            case "/reset": context.close(promise: nil)
            case "/silent": break
            case "/garbage":
                let bytes = ByteBuffer(string: "what is this\r\n\r\n")
                context.channel.pipeline.context(handlerType: HTTPResponseEncoder.self)
                    .assumeIsolated().whenSuccess { encoder in
                        encoder.writeAndFlush(NIOAny(IOData.byteBuffer(bytes)), promise: nil)
                    }
            case "/lines":
                write(
                    context, [:],
                    ["one\ntw", "o\r\n\n", "thr", "ee"].map { ByteBuffer(string: $0) })
            case "/cut":
                write(context, [:], [ByteBuffer(string: "one\ntwo")], closing: true, ending: false)
            case "/hang": write(context, [:], [ByteBuffer(string: "one\n")], ending: false)
            case "/many":
                let chunk = ByteBuffer(string: String(repeating: "0123456789\n", count: 1000))
                write(context, [:], Array(repeating: chunk, count: 200))
            default: write(context, [:], [ByteBuffer(string: head.uri)])
            }
        }

        private func write(
            _ context: ChannelHandlerContext, _ headers: [String: String], _ parts: [ByteBuffer],
            status: HTTPResponseStatus = .ok, closing: Bool = false, ending: Bool = true
        ) {
            let fields = HTTPHeaders(headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
            let head = HTTPResponseHead(version: .http1_1, status: status, headers: fields)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            for part in parts {
                context.write(wrapOutboundOut(.body(.byteBuffer(part))), promise: nil)
            }
            if ending { context.write(wrapOutboundOut(.end(nil)), promise: nil) }
            context.flush()
            if closing { context.close(promise: nil) }
        }
    }
}

@Suite("Node client") struct NodeClientTests {
    private static func code(_ body: () async throws -> Void) async -> ClientError.Code? {
        do {
            try await body()
            return nil
        } catch { return (error as? ClientError)?.code }
    }

    @Test("Method, body and token arrive, and status, head and body come back, on one connection")
    func requests() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url, token: "secret")
        for count in [0, 1, 100_000] {
            let body = [UInt8](repeating: 65, count: count)
            let response = try await client.request("POST", "/echo", body: body)
            #expect(response.status == 200)
            #expect(response.body == body)
            #expect(response.headers.contains { $0.0 == "X-Token" && $0.1 == "Bearer secret" })
            #expect(response.headers.contains { $0.0 == "X-Method" && $0.1 == "POST" })
        }
        #expect(try await client.request("GET", "/missing").status == 404)
        #expect(server.accepted.value.load(ordering: .relaxed) == 1)
        await client.close()
        #expect(await Self.code { _ = try await client.request("GET", "/") } == .clientUnavailable)
    }

    @Test("A body in CBOR is sent once more as JSON where CBOR is refused, and only there")
    func bodiesInBothForms() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url)
        let taken = try await client.request("POST", "/type", cbor: [0xA0]) {
            Issue.record("JSON is not needed")
            return []
        }
        #expect(taken.status == 200 && taken.body == [0xA0])
        #expect(taken.headers.contains { $0.0 == "X-Type" && $0.1 == "application/cbor" })
        for (accept, expected) in [
            ([], "application/cbor, application/json"),
            ([("accept", "application/json")], "application/json"),
        ] {
            let refused = try await client.request(
                "POST", "/json", cbor: [0xA0], orJSON: { Array("{}".utf8) }, headers: accept)
            #expect(refused.status == 200 && refused.body == Array("{}".utf8))
            #expect(refused.headers.contains { $0.0 == "X-Accept" && $0.1 == expected })
        }
        struct NoJSON: Error {}
        await #expect(throws: NoJSON.self) {
            _ = try await client.request("POST", "/json", cbor: [0xA0]) { throw NoJSON() }
        }
        let failed = try await client.request("POST", "/missing", cbor: [0xA0]) {
            Issue.record("Only a refused type is asked for again")
            return []
        }
        #expect(failed.status == 404)
        await client.close()
    }

    @Test("Requests made at once each get their own answer")
    func concurrent() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let body = try await client.request("GET", "/n\(number)").body
                    return body == Array("/n\(number)".utf8)
                }
            }
            for try await isOwn in group { #expect(isOwn) }
        }
        #expect(server.accepted.value.load(ordering: .relaxed) == 1)
    }

    @Test("Refused, reset, late and malformed answers have different errors")
    func failures() async throws {
        let server = try await TinyServer()
        var limits = NodeClient.Limits()
        limits.responseBytes = 1000
        let client = try NodeClient(url: server.url, limits: limits)
        for (method, path, code) in [
            ("POST", "/reset", ClientError.Code.connectionReset), ("GET", "/silent", .timedOut),
            ("GET", "/garbage", .responseMalformed), ("GET", "/many", .responseMalformed),
        ] {
            let time = path == "/silent" ? Duration.milliseconds(50) : nil
            let found = await Self.code {
                _ = try await client.request(method, path, timeout: time)
            }
            #expect(found == code, "\(path)")
        }
        #expect(try await client.request("GET", "/fine").status == 200)
        let url = server.url
        try await server.channel.close()
        let late = try NodeClient(url: url)
        #expect(await Self.code { _ = try await late.request("GET", "/") } == .connectionRefused)
    }

    @Test("A node that takes no connection in time was sent nothing, unlike one that is late")
    func connectingTooLong() async throws {
        // A listener that nobody accepts from, and more connections than it has room for.
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        var waiting: [Int32] = []
        defer { for descriptor in waiting + [listener] { close(descriptor) } }
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = bind(listener, address, length)
                _ = listen(listener, 0)
                _ = getsockname(listener, address, &length)
                for _ in 0..<8 {
                    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
                    let connecting = socket(AF_INET, kind, 0)
                    _ = connect(connecting, address, length)
                    waiting.append(connecting)
                }
            }
        }
        var limits = NodeClient.Limits()
        limits.connectTimeout = .milliseconds(200)
        let client = try NodeClient(
            url: "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))", limits: limits)
        #expect(await Self.code { _ = try await client.request("GET", "/") } == .hostUnreachable)
    }

    @Test("A connection that the node closes after an answer is replaced")
    func closing() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url)
        for _ in 0..<3 { #expect(try await client.request("GET", "/close").status == 200) }
        #expect(server.accepted.value.load(ordering: .relaxed) == 3)
    }

    @Test("A task that is cancelled gives its request up, and the client goes on")
    func cancelling() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url)
        let task = Task { try await client.request("GET", "/silent") }
        _ = try? await client.request("GET", "/", timeout: .milliseconds(20))
        task.cancel()
        #expect(await Self.code { _ = try await task.value } == .cancelled)
        #expect(try await client.request("GET", "/").status == 200)
    }

    @Test("A stream gives its lines whole, wherever the chunks were cut")
    func lines() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url)
        let stream = try await client.stream("GET", "/lines")
        #expect(stream.status == 200)
        var lines: [String] = []
        for try await line in stream { lines.append(line) }
        #expect(lines == ["one", "two", "", "three"])
        #expect(try await client.stream("GET", "/missing").status == 404)
        var count = 0
        for try await line in try await client.stream("GET", "/many") {
            count += line == "0123456789" ? 1 : 0
        }
        #expect(count == 200_000)
    }

    @Test("A stream that is cut off or falls silent ends with an error, after its whole lines")
    func cut() async throws {
        let server = try await TinyServer()
        let client = try NodeClient(url: server.url)
        for (path, expected, idle) in [
            ("/cut", ClientError.Code.connectionReset, Duration.seconds(60)),
            ("/hang", .timedOut, .milliseconds(100)),
        ] {
            let stream = try await client.stream("GET", path, idleTimeout: idle)
            var lines: [String] = []
            let code = await Self.code { for try await line in stream { lines.append(line) } }
            #expect(lines == ["one"])
            #expect(code == expected)
        }
        #expect(
            await Self.code { _ = try await client.stream("GET", "/reset") } == .connectionReset)
    }

    @Test("What is no URL of a node, and what would break a request's lines, is refused")
    func malformed() async throws {
        for url in ["", "127.0.0.1:1", "https://", "http://", "http://a:1/x", "http://*:1"] {
            #expect(throws: ClientError.self) { try NodeClient(url: url) }
        }
        for url in [
            "http://127.0.0.1", "http://[::1]:7100/", "http://[::1]", "http://a.b:1", "https://a",
        ] {
            #expect(throws: Never.self) { try NodeClient(url: url) }
        }
        let client = try NodeClient(url: "http://127.0.0.1:1")
        for path in ["", "x", "/a b", "/a\r\nX: y", "/é"] {
            #expect(
                await Self.code { _ = try await client.request("GET", path) }
                    == .requestInvalid)
        }
    }
}
