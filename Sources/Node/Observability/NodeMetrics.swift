// The metrics of a node.

internal import Coordinator
internal import Glibc
internal import Merge
internal import Replication

/// The values that a node's metrics are read from, at one moment.
struct NodeMetrics {
    let status: NodeOverview
    let counters: NodeCounters.Values
    let handover: HandoverQueue.Gauges
    let residentBytes: UInt64

    /// The metrics in Prometheus' text format.
    var text: String { Self.all.text(of: self) }

    static let all: [Metric<Self>] = [
        ofStore, ofSaves, ofReads, ofPeers, ofQueues, ofMesh, ofHistory, ofTransfers, ofProcess,
    ].flatMap(\.self)

    /// The peers that are members now. The node waits for no others.
    private var peers: [PeerStatus] { status.peers.filter(\.isConfigured) }

    private func samples(_ value: (PeerStatus) -> Double?) -> [(labels: [String], value: Double)] {
        peers.compactMap { peer in value(peer).map { ([peer.node.description], $0) } }
    }

    private static let ofStore: [Metric<Self>] = [
        .gauge("tributary_generation", "Commits of this store since it was made.") {
            Double($0.status.token.generation)
        },
        .gauge("tributary_store_bytes", "Size of the database file.") {
            Double($0.status.store.storeBytes)
        },
        .gauge("tributary_wal_bytes", "Bytes in use of the write-ahead log.") {
            Double($0.status.store.walBytes)
        },
        .gauge(
            "tributary_wal_file_bytes",
            "Size of the write-ahead log's file. It shrinks to 32 MiB when nothing is pinned."
        ) { Double($0.status.store.walFileBytes) },
        .gauge("tributary_pins", "Pinned generations.") { Double($0.status.pins.count) },
        .gauge("tributary_oldest_pin_age_seconds", "Age of the oldest pin.") {
            Double($0.status.pins.oldestAgeMilliseconds) / 1000
        },
        .gauge("tributary_conflicts_open", by: "state", "kind", help: "Open conflicts.") {
            $0.status.conflicts.map { ([$0.state, $0.kind], Double($0.count)) }
        },
    ]

    private static let ofSaves: [Metric<Self>] = [
        .counter("tributary_saves_total", "Saves, resolutions and undos that this node did.") {
            $0.counters.saves
        },
        .counter("tributary_saves_failed_total", "Saves that were refused or failed.") {
            $0.counters.failedSaves
        },
        .counter(
            "tributary_saves_unacknowledged_total",
            "Saves that too few nodes acknowledged in time."
        ) { $0.counters.unacknowledged },
        .counter(
            "tributary_transactions_committed_total",
            "Transactions of this node that it committed."
        ) { $0.counters.committed },
        .counter(
            "tributary_transactions_applied_total",
            "Transactions of other nodes that it applied."
        ) { $0.counters.applied },
        .histogram(
            "tributary_save_seconds",
            "Time from a save's call until it is on this node's disk."
        ) { $0.counters.saveSeconds },
        .histogram("tributary_group_size", "Saves committed together, with one sync of the disk.") {
            $0.counters.groupSize
        },
        .gauge("tributary_saves_waiting", "Saves that wait for their group.") {
            Double($0.status.waitingSaves)
        },
        .gauge("tributary_acknowledgements_waiting", "Saves that wait for other nodes.") {
            Double($0.status.waitingAcknowledgements)
        },
    ]

    private static let ofReads: [Metric<Self>] = [
        .counter("tributary_fetches_total", "Fetches and counts, of clients and of contexts.") {
            $0.status.reads.fetches
        },
        .counter("tributary_read_statements_total", "Statements that read objects.") {
            $0.status.reads.statements
        },
        .counter("tributary_read_rows_total", "Rows that fetches gave and faults read.") {
            $0.status.reads.rows
        },
        .counter("tributary_faults_total", "Faults of contexts that were fired one by one.") {
            $0.status.reads.faults
        },
        .counter(
            "tributary_row_cache_hits_total", "Faults that a row already read has served."
        ) { $0.status.reads.cacheHits },
        .counter("tributary_row_cache_misses_total", "Faults that had to ask the store.") {
            $0.status.reads.cacheMisses
        },
        .gauge("tributary_row_cache_bytes", "Memory of the rows that contexts have read.") {
            Double($0.status.rowCache.bytes)
        },
        .gauge(
            "tributary_request_shapes",
            "Shapes of requests that `tributary advise` knows of. The limit is 256."
        ) { Double($0.status.shapes.count) },
        .counter(
            "tributary_request_shapes_dropped_total",
            "Shapes of requests that were forgotten because others were seen later."
        ) { $0.status.shapes.dropped },
    ]

    private static let ofPeers: [Metric<Self>] = [
        .gauge("tributary_peers_connected", "Peers heard within five seconds.") {
            Double($0.peers.count { $0.isConnected })
        },
        .gauge(
            "tributary_peer_lag_transactions", by: "peer",
            help: "Transactions here that the peer is not known to have."
        ) { $0.samples { Double($0.missingThere) } },
        .gauge(
            "tributary_peer_ahead_transactions", by: "peer",
            help: "Transactions of the peer that are missing here."
        ) { $0.samples { Double($0.missingHere) } },
        .gauge(
            "tributary_peer_clock_offset_seconds", by: "peer",
            help: "The peer's clock minus this node's."
        ) { $0.samples { $0.clockOffsetMilliseconds.map { Double($0) / 1000 } } },
    ]

    private static let ofQueues: [Metric<Self>] = [
        .gauge("tributary_causal_queue_transactions", "Transactions that wait for a predecessor.") {
            Double($0.status.gauges?.waitingCount ?? 0)
        },
        .gauge(
            "tributary_causal_queue_bytes",
            "Bytes of the transactions that wait for a predecessor."
        ) { Double($0.status.gauges?.waitingBytes ?? 0) },
        .gauge("tributary_applying_transactions", "Transactions that the store is applying.") {
            Double($0.status.gauges?.applyingCount ?? 0)
        },
        .gauge(
            "tributary_held_transactions",
            """
            Transactions that cannot be applied, for another reason than their model: look at \
            once.
            """
        ) { Double($0.heldCount) },
        .gauge(
            "tributary_orphans",
            "Saves of other nodes that can never be applied, kept for people."
        ) { Double($0.status.orphans) },
        .gauge(
            "tributary_waiting_for_model_transactions",
            "Transactions of peers that wait until this node has their model."
        ) { Double($0.status.gauges?.waitingForModelCount ?? 0) },
        .gauge(
            "tributary_handover_queue_transactions",
            "Committed transactions that wait to be announced."
        ) { Double($0.handover.transactions) },
        .gauge(
            "tributary_handover_queue_bytes",
            "Bytes of the transactions that wait to be announced."
        ) { Double($0.handover.bytes) },
        .counter(
            "tributary_handover_dropped_total",
            "Committed transactions that were not announced for lack of room. Peers pull them."
        ) { $0.handover.dropped },
        .counter(
            "tributary_causal_queue_dropped_total",
            "Transactions dropped for lack of room. The node pulls them again."
        ) { $0.status.gauges?.droppedCount ?? 0 },
        .counter(
            "tributary_orphans_left_out_total",
            "Saves that can never be applied and that the node had no room to keep."
        ) { $0.counters.orphansLeftOut },
    ]

    private static let ofMesh: [Metric<Self>] = [
        .counter("tributary_pulls_total", "Pulls sent.") { $0.status.gauges?.pullCount ?? 0 },
        .counter("tributary_pull_timeouts_total", "Pulls that got no answer.") {
            $0.status.gauges?.pullTimeoutCount ?? 0
        },
        .counter(
            "tributary_heads_asked_total",
            """
            Heads that the node asked a peer to send whole, because the peer is an incarnation \
            ahead.
            """
        ) { $0.status.gauges?.partialHeadsCount ?? 0 },
        .counter("tributary_frames_ignored_total", "Frames that the protocol refused or ignored.") {
            $0.status.gauges?.ignoredCount ?? 0
        },
        .counter(
            "tributary_frames_refused_total",
            "Messages refused before they reached the protocol."
        ) { UInt64(max(0, $0.status.transport.framesRefused)) },
        .counter(
            "tributary_connections_ended_total",
            """
            Connections of the mesh that the node ended because the peer flooded it or had too \
            many.
            """
        ) { UInt64(max(0, $0.status.transport.connectionsEnded)) },
        .counter("tributary_frames_received_total", "Frames received.") {
            UInt64(max(0, $0.status.transport.framesReceived))
        },
        .counter("tributary_frames_sent_total", "Frames sent.") {
            UInt64(max(0, $0.status.transport.framesSent))
        },
        .counter("tributary_frame_bytes_received_total", "Bytes of the frames received.") {
            UInt64(max(0, $0.status.transport.bytesReceived))
        },
        .counter(
            "tributary_frame_bytes_sent_total",
            "Bytes of the frames sent; a published frame counts once."
        ) { UInt64(max(0, $0.status.transport.bytesSent)) },
        .counter(
            "tributary_frames_dropped_total",
            "Frames not sent because the queue was full or no connection was up."
        ) {
            UInt64(
                max(0, $0.status.transport.framesCongested + $0.status.transport.framesUnreachable))
        },
        .counter(
            "tributary_siblings_collapsed_total",
            """
            Siblings collapsed because nothing concurrent can arrive any more. No change: a \
            member is away.
            """
        ) { $0.counters.collapsed },
        .counter(
            "tributary_tombstones_collected_total",
            "Tombstones and removed links collected. No change: a member is away."
        ) { $0.counters.collected },
        .counter("tributary_alarms_total", "Alarms raised.") { $0.counters.alarms },
    ]

    private static let ofHistory: [Metric<Self>] = [
        .gauge("tributary_history_transactions", "Transactions kept in the log.") {
            Double($0.status.history.transactions)
        },
        .gauge("tributary_history_bytes", "Bytes of the transactions kept in the log.") {
            Double($0.status.history.bytes)
        },
        .gauge("tributary_journal_closed_records", "Closed conflicts kept in the journal.") {
            Double($0.status.history.closedRecords)
        },
        .gauge(
            "tributary_unstable_transactions",
            "Transactions on this node's disk that not every member is known to have on disk."
        ) { Double($0.status.stability.unstable) },
        .gauge("tributary_vector_actors", "Incarnations in the vector. The limit is 16,384.") {
            Double($0.status.token.versionVector.entries.count)
        },
        .gauge(
            "tributary_uncollected_rows",
            "Rows and links that wait to be collected until something is stable."
        ) { Double($0.status.uncollected) },
        .gauge(
            "tributary_stability_held_back_seconds", by: "peer",
            help: "How long something has waited for the member to have it."
        ) { $0.heldBack },
        .counter(
            "tributary_history_purged_total", by: "reason",
            help: "Transactions purged: by `age`, by `size`, or `unstable` ones by size."
        ) { $0.purged },
        .counter(
            "tributary_journal_dropped_total",
            "Closed conflicts dropped because there were too many."
        ) { $0.status.purged.recordsDropped },
        .counter(
            "tributary_consumers_expired_total",
            "Consumers that lost history they had not read."
        ) { $0.status.purged.consumersExpired },
        .gauge(
            "tributary_consumer_behind_transactions", by: "consumer",
            help: "Transactions that the consumer has not read."
        ) { $0.status.history.consumers.map { ([$0.name], Double($0.behind)) } },
    ]

    private static let ofTransfers: [Metric<Self>] = [
        .gauge(
            "tributary_transfer_taken_bytes",
            "Bytes already on disk of the copy of a member's store that the node is taking."
        ) { Double($0.status.transfer?.offset ?? 0) },
        .gauge("tributary_transfer_bytes", "All bytes of that copy.") {
            Double($0.status.transfer?.total ?? 0)
        },
        .counter(
            "tributary_transfers_installed_total",
            "Copies of members' stores that the node installed."
        ) { $0.counters.transfersInstalled },
        .counter(
            "tributary_transfers_failed_total",
            "Copies of members' stores that the node could not write or install."
        ) { $0.counters.transfersFailed },
    ]

    private static let ofProcess: [Metric<Self>] = [
        .counter(
            "tributary_http_requests_total", by: "status",
            help: "HTTP requests answered."
        ) {
            $0.counters.requests.sorted { $0.key < $1.key }.map {
                ([String($0.key)], Double($0.value))
            }
        },
        .gauge("tributary_http_connections", "Open connections of the HTTP interface.") {
            Double($0.counters.connections)
        },
        .counter(
            "tributary_http_connections_ended_total", by: "reason",
            help: """
                HTTP connections that the node ended: the longest idle one for lack of `room`, a \
                late `header` or `body`, or all `full` of requests.
                """
        ) { $0.connectionsEnded },
        .gauge("tributary_resident_memory_bytes", "Resident memory of the process.") {
            Double($0.residentBytes)
        },
        .gauge("tributary_uptime_seconds", "Time since the process first opened the node.") {
            Double($0.status.uptimeMilliseconds) / 1000
        },
    ]

    /// Transactions that are held for another reason than that this node lacks their model.
    private var heldCount: Int {
        status.held.count {
            if case .unknownModel = $0.reason { false } else { true }
        }
    }

    private var heldBack: [(labels: [String], value: Double)] {
        let now = MonotonicClock.milliseconds
        return status.stability.members.map { member in
            let since = member.waitingSince.map { now > $0 ? now - $0 : 0 } ?? 0
            return ([member.status.node.description], Double(since) / 1000)
        }
    }

    private var purged: [(labels: [String], value: Double)] {
        [
            (["age"], Double(status.purged.purgedByAge)),
            (["size"], Double(status.purged.purgedBySize)),
            (["unstable"], Double(status.purged.purgedUnstable)),
        ]
    }

    private var connectionsEnded: [(labels: [String], value: Double)] {
        ConnectionEnding.allCases.map {
            ([$0.rawValue], Double(counters.connectionsEnded[$0] ?? 0))
        }
    }
}

/// Reads how much memory the process holds.
enum ProcessMemory {
    /// Resident bytes; 0 if the system does not say.
    static var residentBytes: UInt64 {
        guard
            let bytes = try? SmallFile.read("/proc/self/statm", maximumBytes: 4096).bytes,
            let pages = String(decoding: bytes, as: UTF8.self).split(separator: " ").dropFirst()
                .first.flatMap({ UInt64($0) })
        else { return 0 }
        return pages * UInt64(max(0, sysconf(Int32(_SC_PAGESIZE))))
    }
}
