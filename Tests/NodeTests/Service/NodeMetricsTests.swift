import Merge
import Replication
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
            lines = await nodes[0].metricsText().split(separator: "\n").map(String.init)
            return lines.contains("tributary_peers_connected 1")
        }
        #expect(lines.contains("tributary_saves_total 4"))
        #expect(lines.contains("tributary_http_requests_total{status=\"200\"} 1"))
        #expect(!lines.contains { $0.contains("status=\"999\"") })
        #expect(lines.contains { $0.hasPrefix("tributary_peer_lag_transactions{peer=\"2\"} ") })
        let families = lines.filter { $0.hasPrefix("# TYPE ") }
            .map { String($0.split(separator: " ")[2]) }
        #expect(families.count == Set(families).count)
        for line in lines where !line.hasPrefix("#") {
            #expect(families.contains { line.hasPrefix($0) }, "\(line)")
        }
        for node in nodes { await node.stop() }
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
