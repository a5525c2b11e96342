// What the HTTP interface asks of a node.

public import Coordinator
internal import Merge
internal import Replication
internal import Synchronization

extension NodeService: NodeBackend {
    /// What replication knows of itself and its peers, at most a tick (50 ms) old.
    public func status() async -> NodeStatus {
        let replicator = shared.report.withLock { $0.replicator }
        return NodeStatus(
            members: members,
            peers: (replicator?.peers ?? []).map { peer in
                NodeStatus.Peer(
                    node: peer.node, isConnected: peer.isConnected, vector: peer.vector,
                    lag: peer.missingThere, missingHere: peer.missingHere,
                    clockOffsetMilliseconds: peer.clockOffsetMilliseconds,
                    refusal: peer.refusalText)
            },
            held: (replicator?.held ?? []).map {
                NodeStatus.Held(transaction: $0.dot, reason: $0.reason.text)
            })
    }

    /// Saves, and counts how long it took.
    public func save(_ request: SaveRequest) async throws -> SaveResult {
        let begun = MonotonicClock.microseconds
        do {
            let result = try await coordinator.save(request)
            counters.countSave(seconds: Double(MonotonicClock.microseconds - begun) / 1_000_000)
            return result
        } catch {
            counters.countFailedSave()
            throw error
        }
    }

    /// Counts an answer of the HTTP interface.
    public func countRequest(status: Int) { counters.countRequest(status: status) }

    /// The node's metrics in Prometheus' text format; empty where the store cannot be read.
    public func metricsText() async -> String {
        guard let overview = try? await overview() else { return "" }
        return NodeMetrics(
            status: overview, counters: counters.values, handover: shared.handover.gauges,
            residentBytes: ProcessMemory.residentBytes
        ).text
    }

    /// Forgets history that every member has on disk, as far as their heads tell.
    public func purgeHistory(before token: QueryGenerationToken) async throws -> Int {
        var stable = coordinator.durableVector
        let peers = shared.report.withLock { $0.replicator }?.peers ?? []
        for member in members where member != coordinator.node {
            let durable = peers.first { $0.node == member }?.durable ?? VersionVector()
            stable = stable.meet(durable)
        }
        return try await coordinator.purgeHistory(before: token, stable: stable)
    }

    /// What each peer last told of its vector and digest, by number.
    public func peerDigests() async -> [PeerDigest] {
        shared.report.withLock { $0.digests }
    }
}

extension PeerStatus {
    /// Why the peer is not listened to, for people; nil where it is.
    fileprivate var refusalText: String? {
        if let refusal {
            return "Its \(refusal.part.rawValue) differs: here \(refusal.ours), "
                + "there \(refusal.theirs)."
        }
        return quarantinedUntil == nil
            ? nil : "What it sent could not be decoded; it is ignored for a while."
    }
}

extension HeldReason {
    /// The reason for people.
    fileprivate var text: String {
        switch self {
        case .timestampInFuture(let timestamp):
            "Its timestamp is far ahead of this node's clock: \(timestamp)."
        case .rejected(let reason): reason
        }
    }
}
