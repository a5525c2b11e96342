import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("History within its limits")
    struct HistoryLimitTests {}
}

extension EndToEnd.HistoryLimitTests {
    /// Keeps nothing that may go.
    private static let short = ["TRIBUTARY_HISTORY_KEEP": "0s"]

    @Test("history is kept for a consumer and for a member that is away, who are named, then goes")
    func keptAndPurged() async throws {
        try await TestCluster.with(starting: [2, 3]) { cluster in
            let node = cluster.node(1)
            try await node.start(environment: Self.short)
            try await cluster.waitForConvergence()
            let begin = try await node.expect("PUT", "/v1/consumers/audit", [:])
            try await Self.save(30, at: node)
            try await cluster.waitForConvergence()
            try await Self.wait("the consumer is named") {
                let history = try await Self.history(node)
                return history.text("heldBackBy").contains("audit")
                    && (history["transactions"]?.integer ?? 0) >= 30
            }
            let page = try await node.expect("GET", "/v1/history?after=\(begin.text("token"))")
            #expect(page["transactions"]?.array?.count == 30)
            _ = try await node.expect(
                "PUT", "/v1/consumers/audit", ["token": .string(page.text("token"))])
            try await Self.wait("what it has read goes") {
                try await Self.history(node)["transactions"]?.integer == 1
            }
            _ = try await node.expect("DELETE", "/v1/consumers/audit")

            cluster.node(3).suspend()
            try await Self.save(20, at: node)
            try await Self.wait("the member is named") {
                let status = try await node.status()
                let holders = status["stability"]?.object?["heldBackBy"]?.array
                let kept = status["history"]?.object?["transactions"]?.integer ?? 0
                return holders == [.integer(3)] && kept >= 20
            }
            cluster.node(3).resume()
            try await Self.wait("it has all, and history goes") {
                try await Self.history(node)["transactions"]?.integer == 1
            }
            try await cluster.waitForConvergence()
            #expect(try await node.verify()["ok"] == .boolean(true))
        }
    }

    @Test(
        "over its size a log keeps what no other member has; consumer and laggard are reported"
    )
    func overSize() async throws {
        try await TestCluster.with(starting: [2, 3]) { cluster in
            let node = cluster.node(1)
            try await node.start(environment: ["TRIBUTARY_HISTORY_MAXIMUM_BYTES": "65536"])
            try await cluster.waitForConvergence()
            let begin = try await node.expect("PUT", "/v1/consumers/audit", [:])
            try await cluster.node(3).kill()
            let text = String(repeating: "long ", count: 1_000)
            for index in 0..<40 {
                try await node.save(.insert("Latest", ["name": "\(index) \(text)"]))
            }
            try await Self.wait("the log is within its limit, and node 3 is named") {
                let history = try await Self.history(node)
                let last = history["lastUnstable"]?.object
                return (history["bytes"]?.integer ?? .max) <= 65_536
                    && last?["members"]?.array?.contains(.integer(3)) == true
            }
            let gone = try await node.ask("GET", "/v1/history?after=\(begin.text("token"))")
            #expect(gone.status == 410)
            let consumer = try await node.expect("GET", "/v1/consumers/audit")
            #expect(consumer["expired"] == .boolean(true))
            try await cluster.waitForConvergence(among: [1, 2])
            #expect(try await cluster.node(2).count("Latest") == 40)
            // A restart counts the same, and goes on.
            #expect(try await node.terminate() == 0)
            try await node.start()
            #expect((try await Self.history(node)["bytes"]?.integer ?? .max) <= 65_536)
            #expect(try await node.verify()["ok"] == .boolean(true))
        }
    }

    private static func save(_ count: Int, at node: NodeHandle) async throws {
        for index in 0..<count {
            try await node.save(.insert("Latest", ["name": "n\(index)"]))
        }
    }

    private static func history(_ node: NodeHandle) async throws -> JSONObject {
        try await node.status()["history"]?.object ?? [:]
    }

    private static func wait(_ what: String, _ condition: () async throws -> Bool) async throws {
        try await eventually(what, within: .seconds(90), every: .milliseconds(200)) {
            try await condition()
        }
    }
}
