import Client
import Coordinator
import TestSupport
import Testing

@testable import Node

@Suite("Reads that take long", .serialized)
struct LongReadTests {
    /// It looks for a long text at every place of each address, again and again.
    private static let predicate = (0..<20).map {
        "site LIKE '*\(String(repeating: "a", count: 60))\($0)'"
    }.joined(separator: " OR ")
    private static let site = String(repeating: "a", count: 120)
    private static let long =
        #"{"entity": "Person", "resultType": "count", "predicate": "\#(predicate)"}"#

    private func fill(_ node: HTTPTestNode) async throws {
        let people = (0..<6_000).map {
            #"{"insert": "Person", "id": "@p\#($0)","# + #" "values": {"name": "P", "site": ""#
                + Self.site + #""}}"#
        }
        let body = #"{"operations": [\#(people.joined(separator: ","))]}"#
        let answer = try await node.save(body)
        guard answer.status == 200 else { throw HTTPTestNode.Unexpected(answer.text) }
    }

    @Test(
        "A read ends with its client, whether it runs or waits, and others are answered meanwhile")
    func endsWithClient() async throws {
        var options = HTTPServer.Options()
        options.readingThreads = 2
        options.shortRead = .milliseconds(50)
        try await HTTPTestNode.run(options: options) { node in
            try await fill(node)
            let lanes = node.server.services.lanes
            let clients = try (0..<8).map { _ in try SilentClient(port: node.server.port) }
            for client in clients { client.send("POST", "/v1/fetch", Self.long) }
            try await eventually("one is long, and the others wait or have begun") {
                let gauges = lanes.gauges
                return gauges.runningLong == 1
                    && gauges.waitingLong + gauges.running
                        + gauges.waiting == 8
            }
            let status = try await node.ask("GET", "/v1/status")
            let text = "Person: " + Self.predicate.prefix(200)
            #expect(status["reads.underWay.0.text"] == .string(text), "\(status.text)")
            #expect(status["reads.underWay.0.milliseconds"]?.integer != nil)
            #expect(try await node.ask("POST", "/v1/generations", "{}").status == 200)
            let count = try await node.fetch(#"{"entity": "Note", "resultType": "count"}"#)
            #expect(count["count"] == .integer(0))
            for client in clients { client.hangUp() }
            try await eventually("nothing is read any more") {
                let gauges = lanes.gauges
                return gauges.running + gauges.waiting + gauges.waitingLong == 0
            }
            // None has come to its end.
            #expect(lanes.gauges.abandoned == 8)
            let metrics = try await node.ask("GET", "/metrics").text
            #expect(metrics.contains("\ntributary_http_reads_abandoned_total 8\n"), "\(metrics)")
        }
    }

    @Test("A feed of changes ends with its client, though nothing changes")
    func feedEnds() async throws {
        try await HTTPTestNode.run { node in
            let client = try SilentClient(port: node.server.port)
            client.send("GET", "/v1/changes")
            let feed = node.server.services.feed
            try await eventually("it follows") { feed.followerCount == 1 }
            client.hangUp()
            try await eventually("it is gone") { feed.followerCount == 0 }
        }
    }
}
