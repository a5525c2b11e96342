// The state of a node: for people, for the HTTP interface, and for metrics.
//
// Values only; may be handed to any thread.

package import Coordinator
internal import Dispatch
package import Merge
package import Replication
internal import Synchronization

/// Where a node stands.
package struct NodeOverview: Sendable {
    /// How many open conflicts there are of one state and kind.
    package struct ConflictCount: Hashable, Sendable {
        /// The state, as the HTTP interface names it.
        package var state: String
        /// The kind, likewise.
        package var kind: String
        /// How many.
        package var count: Int
    }

    /// This node.
    package var node: NodeID
    /// This incarnation of it.
    package var actor: ActorID
    /// The cluster's name.
    package var cluster: String
    /// The state of the store: its generation, vector and token.
    package var token: QueryGenerationToken
    /// The digest of that state.
    package var digest: ProjectionDigest
    /// The part of the vector that is on disk for certain.
    package var durable: VersionVector
    /// The model's version hash in hexadecimal.
    package var modelHash: String
    /// All members of the cluster, lowest first.
    package var members: [NodeID]
    /// The peers that are known, by number.
    package var peers: [PeerStatus]
    /// Transactions that are held, and why.
    package var held: [HeldTransaction]
    /// How many saves of others are kept that can never be applied.
    package var orphans: Int
    /// The copy of a member's store that is being taken in, if one is.
    package var transfer: TransferStatus?
    /// The protocol's queues; nil before the start.
    package var gauges: ReplicatorGauges?
    /// The counts of the transport.
    package var transport: TransportStatistics
    /// Open conflicts.
    package var conflicts: [ConflictCount]
    /// Pinned generations.
    package var pins: PinStatus
    /// The store's room on disk.
    package var store: StoreSizes
    /// The past that the store holds, and its readers.
    package var history: HistoryStatus
    /// Rows and links that keep something until it is stable.
    package var uncollected: Int
    /// What was read through the store's coordinator since it was opened.
    package var reads: ContextCounters
    /// The cache of rows that contexts have read.
    package var rowCache: RowCacheGauge
    /// The shapes of requests that are kept, and how many times one was forgotten.
    package var shapes: (count: Int, dropped: UInt64)
    /// Saves that wait for their group.
    package var waitingSaves: Int
    /// Saves that wait for acknowledgements.
    package var waitingAcknowledgements: Int
    /// Whether the loop runs.
    package var isRunning: Bool
    /// Monotonic milliseconds since the process opened the node first; 0 before.
    package var uptimeMilliseconds: UInt64
    /// The history purged since the start.
    var purged: HistoryReport
    /// The transactions that are not stable, and the members they wait for.
    var stability: StabilityReport
}

extension NodeService {
    /// Where the node stands now. What it knows of peers is at most a tick (200 ms) old.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func overview() async throws -> NodeOverview {
        try await withCheckedThrowingContinuation { continuation in
            // Reading blocks on the disk, which the threads that run tasks must not.
            maintenanceQueue.async { [self] in
                continuation.resume(with: Result { try overviewBlocking() })
            }
        }
    }

    /// The same, blocking the caller's thread on the disk.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func overviewBlocking() throws -> NodeOverview {
        let report = shared.report.withLock { $0 }
        let durable = coordinator.durableVector
        let (token, digest, uncollected, conflicts) = try coordinator.read { reader in
            (
                try reader.token, try reader.digest, try reader.uncollectedCount,
                try reader.conflictCounts().map {
                    NodeOverview.ConflictCount(state: $0.state, kind: $0.kind, count: $0.count)
                }
            )
        }
        let now = MonotonicClock.milliseconds
        return NodeOverview(
            node: coordinator.node, actor: actor, cluster: coordinator.cluster, token: token,
            digest: digest, durable: durable, modelHash: coordinator.model.modelHashText,
            members: members, peers: report.replicator?.peers ?? [],
            held: report.replicator?.held ?? [], orphans: try coordinator.orphanedDots.count,
            transfer: report.replicator?.transfer, gauges: report.replicator?.gauges,
            transport: report.transport, conflicts: conflicts, pins: coordinator.pinStatus,
            store: coordinator.storeSizes(), history: try coordinator.historyStatus(),
            uncollected: uncollected, reads: coordinator.counters,
            rowCache: coordinator.rowCacheGauge, shapes: coordinator.observedShapes,
            waitingSaves: coordinator.waitingSaves,
            waitingAcknowledgements: shared.acknowledgements.count, isRunning: report.isRunning,
            uptimeMilliseconds: report.beganAt == 0 ? 0 : now - report.beganAt,
            purged: shared.history.report, stability: report.stability)
    }
}
