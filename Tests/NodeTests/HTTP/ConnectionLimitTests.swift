import Synchronization
import TestSupport
import Testing

@testable import Node

/// Connections that take room and time from others.
@Suite("Connections without end")
struct ConnectionLimitTests {
    private static let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private static let status = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func endings(_ node: HTTPTestNode) -> [ConnectionEnding] {
        node.backend.connectionNotes.withLock { notes in
            notes.compactMap { if case .ended(let ending) = $0 { ending } else { nil } }
        }
    }

    private static func alarms(_ node: HTTPTestNode) -> Int {
        node.backend.connectionNotes.withLock { notes in
            notes.count { if case .noRoom(maximum: 4) = $0 { true } else { false } }
        }
    }

    private static func isOpen(_ count: Int, _ node: HTTPTestNode) -> Bool {
        node.backend.connectionNotes.withLock { notes in
            notes.contains { if case .open(count) = $0 { true } else { false } }
        }
    }

    @Test("The longest idle connections make room for new ones, and an alarm tells of it once")
    func idleOnes() async throws {
        var options = HTTPServer.Options()
        options.maximumConnections = 4
        options.headerTimeout = .seconds(300)
        try await HTTPTestNode.run(options: options) { (node: HTTPTestNode) async throws in
            var idle: [RawConnection] = []
            for _ in 0..<4 {
                let connection = try RawConnection(port: node.server.port)
                connection.send(Self.health)
                #expect(await connection.answer()?.status == 200)
                connection.send("GET /v1/status HTTP/1.1\r\nHo")
                idle.append(connection)
            }
            for _ in 0..<3 {
                let connection = try RawConnection(port: node.server.port)
                connection.send(Self.status)
                #expect(await connection.answer()?.status == 200)
                idle.append(connection)
            }
            for connection in idle[..<3] {
                #expect(await connection.rest() == "")
                #expect(connection.isClosed)
            }
            idle[3].send("st: localhost\r\n\r\n")
            #expect(await idle[3].answer()?.status == 200)
            #expect(Self.endings(node) == [.room, .room, .room])
            #expect(Self.alarms(node) == 1)
        }
    }

    @Test("Where requests are under way on all connections, supervisors are answered all the same")
    func reserve() async throws {
        var options = HTTPServer.Options()
        options.maximumConnections = 4
        options.headerTimeout = .seconds(300)
        options.reservedConnections = 1
        try await HTTPTestNode.run(options: options) { (node: HTTPTestNode) async throws in
            var feeds: [RawConnection] = []
            for _ in 0..<4 {
                let feed = try RawConnection(port: node.server.port)
                feed.send("GET /v1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(await feed.answer(hasBody: false)?.status == 200)
                feeds.append(feed)
            }
            // One that says nothing does not keep the reserve.
            let silent = try RawConnection(port: node.server.port)
            try await eventually("it is in") { Self.isOpen(5, node) }
            for path in ["/healthz", "/readyz", "/metrics"] {
                let connection = try RawConnection(port: node.server.port)
                connection.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
                let answer = await connection.answer()
                #expect(answer?.status == 200 && answer?["Connection"] == "close", "\(path)")
                #expect(await connection.rest() == "")
            }
            #expect(await silent.rest() == "")
            let other = try RawConnection(port: node.server.port)
            other.send(Self.status)
            let refused = await other.answer()
            #expect(refused?.status == 503 && refused?.code == "limitExceeded")
            #expect(refused?["Retry-After"] == "1")
            #expect(await other.rest() == "")
            #expect(feeds.allSatisfy { !$0.isClosed })
            #expect(Self.alarms(node) == 1)
        }
    }

    @Test("A request's header must come in time: 408, or nothing to who has said nothing")
    func headers() async throws {
        try await HTTPTestNode.run(options: .with { $0.headerTimeout = .seconds(1) }) {
            (node: HTTPTestNode) async throws in
            let half = try RawConnection(port: node.server.port)
            half.send("GET /healthz HTTP/1.1\r\nHost: loc")
            let late = await half.answer()
            #expect(late?.status == 408 && late?.code == "requestTimeout")
            #expect(await half.rest() == "")
            let silent = try RawConnection(port: node.server.port)
            #expect(await silent.rest() == "")
            #expect(silent.isClosed)
            // The second request of a connection is held to it as the first is.
            let kept = try RawConnection(port: node.server.port)
            kept.send(Self.health)
            #expect(await kept.answer()?.status == 200)
            kept.send("GET")
            #expect(await kept.answer()?.status == 408)
            #expect(await kept.rest() == "")
            #expect(Self.endings(node) == [.header, .header, .header])
        }
    }

    @Test("A request's body must come in time: 408, and nothing is done")
    func bodies() async throws {
        try await HTTPTestNode.run(options: .with { $0.bodyTimeout = .milliseconds(200) }) {
            (node: HTTPTestNode) async throws in
            let connection = try RawConnection(port: node.server.port)
            connection.send(
                "POST /v1/save HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    + "Content-Length: 1000\r\n\r\n{\"operations\"")
            let late = await connection.answer()
            #expect(late?.status == 408 && late?.code == "requestTimeout")
            #expect(await connection.rest() == "")
            #expect(Self.endings(node) == [.body])
        }
    }
}
