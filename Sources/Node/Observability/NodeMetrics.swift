// The metrics of a node, composed from one snapshot.

internal import Coordinator
internal import Glibc
internal import Merge
internal import Replication

/// All that is exported, at one moment.
struct NodeMetrics {
    let status: NodeOverview
    let counters: NodeCounters.Values
    let handover: HandoverQueue.Gauges
    let residentBytes: UInt64

    /// The metrics in Prometheus' text format.
    var text: String {
        var writer = ExpositionWriter()
        writeStore(to: &writer)
        writeSaves(to: &writer)
        writePeers(to: &writer)
        writeQueues(to: &writer)
        writeHistory(to: &writer)
        writeTransfers(to: &writer)
        writeProcess(to: &writer)
        return writer.text
    }

    private func writeStore(to writer: inout ExpositionWriter) {
        writer.write(
            "tributary_generation", .gauge, "Commits of this store since it was made.",
            Double(status.token.generation))
        writer.write(
            "tributary_store_bytes", .gauge, "Size of the database file.",
            Double(status.store.storeBytes))
        writer.write(
            "tributary_wal_bytes", .gauge, "Bytes of the write-ahead log in use.",
            Double(status.store.walBytes))
        writer.write(
            "tributary_wal_file_bytes", .gauge, "Size of the write-ahead log's file.",
            Double(status.store.walFileBytes))
        writer.write(
            "tributary_pins", .gauge, "Generations that are pinned.", Double(status.pins.count))
        writer.write(
            "tributary_oldest_pin_age_seconds", .gauge, "Age of the oldest pin.",
            Double(status.pins.oldestAgeMilliseconds) / 1000)
        writer.write(
            "tributary_conflicts_open", .gauge, "Open conflicts by state and kind.",
            status.conflicts.map {
                ([("state", $0.state), ("kind", $0.kind)], Double($0.count))
            })
    }

    private func writeSaves(to writer: inout ExpositionWriter) {
        writer.write(
            "tributary_saves_total", .counter, "Saves done through this node.",
            Double(counters.saves))
        writer.write(
            "tributary_saves_failed_total", .counter, "Saves refused or failed.",
            Double(counters.failedSaves))
        writer.write(
            "tributary_saves_unacknowledged_total", .counter,
            "Saves that too few nodes acknowledged in time.", Double(counters.unacknowledged))
        writer.write(
            "tributary_transactions_committed_total", .counter,
            "Local transactions committed.", Double(counters.committed))
        writer.write(
            "tributary_transactions_applied_total", .counter,
            "Transactions of other nodes applied.", Double(counters.applied))
        writer.write(
            "tributary_save_seconds", "Time from a save's call to its answer.",
            counters.saveSeconds)
        writer.write(
            "tributary_group_size", "Local transactions committed together.", counters.groupSize)
        writer.write(
            "tributary_saves_waiting", .gauge, "Saves that wait for their group.",
            Double(status.waitingSaves))
        writer.write(
            "tributary_acknowledgements_waiting", .gauge,
            "Saves that wait for other nodes.", Double(status.waitingAcknowledgements))
    }

    private func writePeers(to writer: inout ExpositionWriter) {
        func label(_ peer: PeerStatus) -> [(name: String, value: String)] {
            [("peer", peer.node.description)]
        }
        // Nobody waits for one who is a member no more, or none yet.
        let peers = status.peers.filter(\.isConfigured)
        writer.write(
            "tributary_peers_connected", .gauge, "Peers heard lately.",
            Double(peers.count { $0.isConnected }))
        writer.write(
            "tributary_peer_lag_transactions", .gauge,
            "Transactions here that the peer is not known to have.",
            peers.map { (label($0), Double($0.missingThere)) })
        writer.write(
            "tributary_peer_ahead_transactions", .gauge,
            "Transactions of the peer that are missing here.",
            peers.map { (label($0), Double($0.missingHere)) })
        writer.write(
            "tributary_peer_clock_offset_seconds", .gauge,
            "The peer's wall clock less ours.",
            peers.compactMap { peer in
                peer.clockOffsetMilliseconds.map { (label(peer), Double($0) / 1000) }
            })
    }

    private func writeQueues(to writer: inout ExpositionWriter) {
        let gauges = status.gauges
        let levels: [(String, String, Int)] = [
            (
                "tributary_causal_queue_transactions",
                "Transactions that wait for a predecessor.", gauges?.waitingCount ?? 0
            ),
            ("tributary_causal_queue_bytes", "Their bytes.", gauges?.waitingBytes ?? 0),
            (
                "tributary_applying_transactions", "Transactions being applied.",
                gauges?.applyingCount ?? 0
            ),
            (
                "tributary_held_transactions",
                "Transactions that cannot be applied, for another reason than their model.",
                status.held.count {
                    if case .unknownModel = $0.reason { false } else { true }
                }
            ),
            (
                "tributary_orphans",
                "Saves of others that can be applied no more, kept for people.", status.orphans
            ),
            (
                "tributary_waiting_for_model_transactions",
                "Transactions of peers that wait until this node has their model.",
                Int(clamping: gauges?.waitingForModelCount ?? 0)
            ),
            (
                "tributary_handover_queue_transactions",
                "Committed transactions that wait to be announced.", handover.transactions
            ),
            ("tributary_handover_queue_bytes", "Their bytes.", handover.bytes),
        ]
        for (name, help, value) in levels { writer.write(name, .gauge, help, Double(value)) }
        let transport = status.transport
        let totals: [(String, String, UInt64)] = [
            (
                "tributary_handover_dropped_total",
                "Committed transactions not announced for want of room; peers pull them.",
                handover.dropped
            ),
            (
                "tributary_causal_queue_dropped_total",
                "Transactions dropped for want of room, to be pulled again.",
                gauges?.droppedCount ?? 0
            ),
            (
                "tributary_orphans_left_out_total",
                "Saves that can be applied no more and that there was no room to keep.",
                counters.orphansLeftOut
            ),
            ("tributary_pulls_total", "Pulls sent.", gauges?.pullCount ?? 0),
            (
                "tributary_pull_timeouts_total", "Pulls without an answer.",
                gauges?.pullTimeoutCount ?? 0
            ),
            (
                "tributary_heads_asked_total",
                "Heads of peers ahead by an incarnation, of which all was asked for.",
                gauges?.partialHeadsCount ?? 0
            ),
            (
                "tributary_frames_ignored_total", "Frames refused or ignored.",
                gauges?.ignoredCount ?? 0
            ),
            (
                "tributary_frames_refused_total", "Messages thrown away by the transport.",
                UInt64(max(0, transport.framesRefused))
            ),
            (
                "tributary_connections_ended_total",
                "Connections of peers that sent without end, or were too many.",
                UInt64(max(0, transport.connectionsEnded))
            ),
            (
                "tributary_frames_received_total", "Frames received.",
                UInt64(max(0, transport.framesReceived))
            ),
            (
                "tributary_frames_sent_total", "Frames sent.", UInt64(max(0, transport.framesSent))
            ),
            (
                "tributary_frames_dropped_total",
                "Frames not sent: the queue was full or no connection was up.",
                UInt64(max(0, transport.framesCongested + transport.framesUnreachable))
            ),
            (
                "tributary_siblings_collapsed_total",
                "Siblings let go of, since nothing concurrent can arrive any more.",
                counters.collapsed
            ),
            (
                "tributary_tombstones_collected_total",
                "Tombstones and links taken away that were let go of.", counters.collected
            ),
            ("tributary_alarms_total", "Alarms raised; see the log.", counters.alarms),
        ]
        for (name, help, value) in totals { writer.write(name, .counter, help, Double(value)) }
    }

    private func writeHistory(to writer: inout ExpositionWriter) {
        let history = status.history
        let levels: [(String, String, Double)] = [
            (
                "tributary_history_transactions", "Transactions kept in the log.",
                Double(history.transactions)
            ),
            ("tributary_history_bytes", "Their bytes.", Double(history.bytes)),
            (
                "tributary_journal_closed_records", "Closed conflicts kept in the journal.",
                Double(history.closedRecords)
            ),
            (
                "tributary_unstable_transactions",
                "Transactions on disk here that not every member is known to have.",
                Double(status.stability.unstable)
            ),
            (
                "tributary_vector_actors", "Incarnations in the vector; see the limit of 16,384.",
                Double(status.token.versionVector.entries.count)
            ),
            (
                "tributary_uncollected_rows", "Rows and links that keep what is not stable yet.",
                Double(status.uncollected)
            ),
        ]
        for (name, help, value) in levels { writer.write(name, .gauge, help, value) }
        let now = MonotonicClock.milliseconds
        writer.write(
            "tributary_stability_held_back_seconds", .gauge,
            "For how long something has waited for a member to have it.",
            status.stability.members.map { member in
                let since = member.waitingSince.map { now > $0 ? now - $0 : 0 } ?? 0
                return ([("peer", member.status.node.description)], Double(since) / 1000)
            })
        let purged = status.purged
        writer.write(
            "tributary_history_purged_total", .counter, "Transactions purged, by reason.",
            [
                ("age", purged.purgedByAge), ("size", purged.purgedBySize),
                ("unstable", purged.purgedUnstable),
            ].map { ([("reason", $0.0)], Double($0.1)) })
        writer.write(
            "tributary_journal_dropped_total", .counter,
            "Closed conflicts dropped since there were too many.", Double(purged.recordsDropped))
        writer.write(
            "tributary_consumers_expired_total", .counter,
            "Consumers that lost history which they had not read.",
            Double(purged.consumersExpired))
        writer.write(
            "tributary_consumer_behind_transactions", .gauge,
            "Transactions that a consumer has not read.",
            history.consumers.map { ([("consumer", $0.name)], Double($0.behind)) })
    }

    private func writeTransfers(to writer: inout ExpositionWriter) {
        writer.write(
            "tributary_transfer_taken_bytes", .gauge,
            "Bytes on disk of the copy of a member's store that is being taken over.",
            Double(status.transfer?.offset ?? 0))
        writer.write(
            "tributary_transfer_bytes", .gauge, "All bytes of that copy.",
            Double(status.transfer?.total ?? 0))
        writer.write(
            "tributary_transfers_installed_total", .counter,
            "Copies of members' stores that took this one's place.",
            Double(counters.transfersInstalled))
        writer.write(
            "tributary_transfers_failed_total", .counter,
            "Copies of members' stores that could not, or of which a part could not be written.",
            Double(counters.transfersFailed))
    }

    private func writeProcess(to writer: inout ExpositionWriter) {
        writer.write(
            "tributary_http_requests_total", .counter, "HTTP requests answered, by status.",
            counters.requests.sorted { $0.key < $1.key }.map {
                ([("status", String($0.key))], Double($0.value))
            })
        writer.write(
            "tributary_http_connections", .gauge, "Open connections of the HTTP interface.",
            Double(counters.connections))
        writer.write(
            "tributary_http_connections_ended_total", .counter,
            "Connections of the HTTP interface that the node ended, by reason.",
            ConnectionEnding.allCases.map {
                ([("reason", $0.rawValue)], Double(counters.connectionsEnded[$0] ?? 0))
            })
        writer.write(
            "tributary_resident_memory_bytes", .gauge, "Resident memory of the process.",
            Double(residentBytes))
        writer.write(
            "tributary_uptime_seconds", .gauge, "Time since the process opened the node first.",
            Double(status.uptimeMilliseconds) / 1000)
    }
}

/// Reads how much memory the process holds.
enum ProcessMemory {
    /// Resident bytes; 0 where the system does not tell.
    static var residentBytes: UInt64 {
        guard
            let bytes = try? SmallFile.read("/proc/self/statm", maximumBytes: 4096).bytes,
            let pages = String(decoding: bytes, as: UTF8.self).split(separator: " ").dropFirst()
                .first.flatMap({ UInt64($0) })
        else { return 0 }
        return pages * UInt64(max(0, sysconf(Int32(_SC_PAGESIZE))))
    }
}
