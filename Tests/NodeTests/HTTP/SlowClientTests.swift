import Coordinator
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("Clients that take their time", .serialized)
struct SlowClientTests {
    /// More than the system takes for a client that does not read.
    private static let notes = 16
    private static let noteBytes = 1_000_000
    private static let all = #"{"entity": "Note"}"#

    private func fill(_ node: HTTPTestNode) async throws {
        let text = String(repeating: "x", count: Self.noteBytes)
        for _ in 0..<Self.notes {
            let body = #"{"operations": [{"insert": "Note", "values": {"text": "\#(text)"}}]}"#
            guard try await node.save(body).status == 200 else { throw CancellationError() }
        }
    }

    private static func options() -> HTTPServer.Options {
        var options = HTTPServer.Options()
        options.maximumAnswerBytes = 20 << 20
        options.maximumAnswersBytes = 20 << 20
        return options
    }

    @Test(
        "A client that takes nothing for so long is cut off, and counted", arguments: [false, true])
    func cutOff(asLines: Bool) async throws {
        var options = Self.options()
        options.slowClientTimeout = .milliseconds(300)
        try await HTTPTestNode.run(options: options) { node in
            try await fill(node)
            let silent = try SilentClient(port: node.server.port)
            let services = node.server.services
            // On a busy machine writes to clients that do read may take that long, too.
            let before = services.writes.cutOff
            silent.send(
                "POST", "/v1/fetch", Self.all,
                accept: asLines ? "application/x-ndjson" : "application/json")
            try await eventually("it is cut off") { services.writes.cutOff > before }
            try await eventually("nothing is kept for it") {
                services.answers.bytes == 0 && services.writes.count == 0
                    && node.coordinator.pinStatus.count == 0
            }
            let metrics = try await node.ask("GET", "/metrics").text
            let count = try #require(
                metrics.firstMatch(of: /\ntributary_http_slow_clients_total ([0-9]+)\n/))
            #expect(UInt64(count.1).map { $0 > before } == true, "\(metrics)")
            #expect(metrics.contains("\ntributary_http_answer_bytes 0\n"), "\(metrics)")
        }
    }

    @Test(
        "Where there is no room for an answer, the one that has waited longest for its client goes")
    func makesRoom() async throws {
        let now = Mutex<UInt64>(10_000)
        let cut = Mutex<[Int]>([])
        let writes = PendingWrites(milliseconds: 30_000, busyMilliseconds: 2_000) {
            now.withLock { $0 }
        }
        let budget = AnswerBudget(limit: 100) { writes.cutOffStalest() }
        // It is no large answer: that it goes would make no room.
        _ = writes.begin(isOfLargeAnswer: false) { cut.withLock { $0.append(0) } }
        for number in 1...2 {
            _ = writes.begin(isOfLargeAnswer: true) { cut.withLock { $0.append(number) } }
            now.withLock { $0 += 1_000 }
        }
        try budget.reserve(90)
        now.withLock { $0 -= 1 }
        #expect(throws: HTTPError.self) { try budget.reserve(11) }
        #expect(cut.withLock { $0 } == [])
        now.withLock { $0 += 1 }
        #expect(throws: HTTPError.self) { try budget.reserve(11) }
        #expect(cut.withLock { $0 } == [1])
        #expect(throws: HTTPError.self) { try budget.reserve(11) }
        #expect(cut.withLock { $0 } == [1])
        try budget.reserve(10)
        #expect(budget.bytes == 100 && budget.refused == 3)
        now.withLock { $0 += 28_000 }
        writes.sweep()
        #expect(cut.withLock { $0 } == [1, 0])
    }
}
