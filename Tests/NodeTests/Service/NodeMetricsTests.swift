import Coordinator
import Logging
import Merge
import Replication
import TestSupport
import Testing

@testable import Node

@Suite("Metrics are exported in Prometheus' format")
struct NodeMetricsTests {
    @Test("Labels and help are escaped, numbers are exact")
    func exposition() {
        var writer = ExpositionWriter()
        writer.write(
            "a", .gauge, "back\\slash\nnew \"line\"",
            [(labels: [(name: "label", value: "quote \" back \\ line \n")], value: 0.25)])
        #expect(
            writer.text == """
                # HELP a back\\\\slash\\nnew "line"
                # TYPE a gauge
                a{label="quote \\" back \\\\ line \\n"} 0.25

                """)
        #expect(ExpositionWriter.number(3) == "3")
        #expect(ExpositionWriter.number(.infinity) == "+Inf")
    }

    @Test("Of alarms the last of a name and peer is kept, and how often, within a bound")
    func alarms() {
        let counters = NodeCounters()
        func raise(_ name: AlarmName, _ peer: String?, _ reason: String, at now: UInt64) {
            counters.countAlarm(
                AlarmLine(
                    name, .error, "What happened",
                    [LogKeys.peer: peer.map { "\($0)" }, LogKeys.reason: "\(reason)"]
                        .compactMapValues { $0 }), now: now)
        }
        raise(.refused, "2", "one", at: 1)
        raise(.refused, "3", "two", at: 2)
        raise(.departed, nil, "three", at: 3)
        raise(.refused, "2", "four", at: 4)
        #expect(
            counters.values.lastAlarms == [
                RaisedAlarm(
                    name: "refused", peer: "3", text: "What happened (peer 3, reason two)",
                    count: 1, raisedAt: 2),
                RaisedAlarm(
                    name: "departed", peer: nil, text: "What happened (reason three)", count: 1,
                    raisedAt: 3),
                RaisedAlarm(
                    name: "refused", peer: "2", text: "What happened (peer 2, reason four)",
                    count: 2, raisedAt: 4),
            ])
        for peer in 10..<50 { raise(.refused, "\(peer)", "", at: 5) }
        #expect(counters.values.alarms == 44)
        #expect(counters.values.lastAlarms.count == NodeCounters.alarmsKept)
        #expect(counters.values.lastAlarms.last?.peer == "49")
    }

    @Test("A histogram's buckets are cumulative and end with all")
    func histogram() {
        var histogram = Histogram(bounds: [1, 2])
        for value in [0.5, 1, 1.5, 9] { histogram.record(value) }
        var writer = ExpositionWriter()
        writer.write("h", "Help.", histogram)
        #expect(
            writer.text == """
                # HELP h Help.
                # TYPE h histogram
                h_bucket{le="1"} 2
                h_bucket{le="2"} 3
                h_bucket{le="+Inf"} 4
                h_sum 12
                h_count 4

                """)
    }

    @Test("A running node exports every family once, with help and type before its samples")
    func families() async throws {
        let cluster = try TestCluster(2)
        let nodes = [try await cluster.start(1), try await cluster.start(2)]
        try await nodes[0].insertNotes(4)
        try await NodeService.converge(nodes, transactions: 4)
        nodes[0].counters.countRequest(status: 200)
        nodes[0].counters.countRequest(status: 999)
        // A link may be lost and made once more while both start.
        var lines: [String] = []
        try await eventually("the peer is known") {
            lines = try await nodes[0].metricsText().split(separator: "\n").map(String.init)
            return lines.contains("tributary_peers_connected 1")
        }
        #expect(lines.contains("tributary_saves_total 4"))
        #expect(lines.contains("tributary_http_requests_total{status=\"200\"} 1"))
        #expect(!lines.contains { $0.contains("status=\"999\"") })
        #expect(lines.contains { $0.hasPrefix("tributary_peer_lag_transactions{peer=\"2\"} ") })
        let families = lines.filter { $0.hasPrefix("# TYPE ") }
            .map { String($0.split(separator: " ")[2]) }
        #expect(families == NodeMetrics.all.map(\.name))
        #expect(families.count == Set(families).count)
        for line in lines where !line.hasPrefix("#") {
            #expect(families.contains { line.hasPrefix($0) }, "\(line)")
        }
        for node in nodes { await node.stop() }
    }

    @Test("What clients and contexts read is counted, with the shapes of requests")
    func reads() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        try await node.insertNotes(3)
        func value(_ name: String) async throws -> Int {
            let line = try await node.metricsText().split(separator: "\n")
                .first { $0.hasPrefix("tributary_\(name) ") }
            return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
        }
        let entity = try #require(node.coordinator.model.entities.first?.name)
        let before = (try await value("fetches_total"), try await value("read_rows_total"))
        _ = try node.coordinator.read { try $0.fetch(FetchRequest(entity)).count }
        #expect(try await value("fetches_total") == before.0 + 1)
        #expect(try await value("read_rows_total") == before.1 + 3)
        #expect(try await value("request_shapes") >= 1)
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            for object in try context.fetch(FetchRequest(entity)) {
                context.refresh(object, mergeChanges: false)
                _ = object.committedValues(forKeys: nil)
            }
        }
        #expect(try await value("faults_total") == 3)
        #expect(try await value("row_cache_hits_total") == 3)
        #expect(try await value("fetches_total") == before.0 + 2)
        #expect(try await value("row_cache_bytes") > 0)
        await node.stop()
    }

    @Test("Commits that do not fit are left out and counted, and their state is kept")
    func handover() throws {
        let queue = HandoverQueue(bounds: .init(transactions: 1, bytes: 1_000_000))
        let actor = ActorID(node: try #require(NodeID(1)), incarnation: 7)
        for sequence in 1...3 {
            let transaction = Transaction(
                dot: Dot(actor: actor, sequence: UInt64(sequence)), timestamp: .zero,
                seen: VersionVector(), modelHash: [], shapes: [], changes: [])
            var vector = VersionVector()
            vector.advance(actor, to: UInt64(sequence))
            queue.offer(
                [EncodedTransaction(transaction)],
                StoreState(vector: vector, digest: ProjectionDigest()))
        }
        #expect(queue.gauges.dropped == 2)
        let events = queue.take()
        #expect(events.count == 1)
        guard case .committed(let transactions, let state) = events[0] else {
            Issue.record("no commit")
            return
        }
        #expect(transactions.count == 1)
        #expect(state.vector[actor] == 3)
        #expect(queue.take().isEmpty)
    }
}
