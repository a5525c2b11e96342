import Merge

extension Replicator {
    /// What is known of the peers, and how full the queues are.
    public var status: ReplicatorStatus {
        var gauges = counts
        gauges.waitingCount = queue.waitingCount
        gauges.waitingBytes = queue.waitingBytes
        gauges.waitingForModelCount = state.vector.lag(behind: blocked)
        gauges.applyingCount = queue.applyingCount
        gauges.applyingBytes = queue.applyingBytes
        gauges.pullsOutstanding = peers.count { $0.pulling != nil }
        gauges.readsOutstanding = peers.count { $0.answering != nil }
        gauges.piecesBytes = outgoing.bytes + assembly.count
        gauges.orphanBytes = dropped.bytes
        gauges.droppedCount += queue.droppedCount
        gauges.deliveredCount = queue.deliveredCount
        return ReplicatorStatus(
            peers: peers.map(status(of:)),
            held: queue.holds.map { HeldTransaction(dot: $0.dot, reason: $0.reason) },
            stable: stability.vector, members: stability.statuses(stabilityView),
            recovery: recovery.stage, isSaving: isSaving && !clock.isOff,
            orphaned: dropped.dots(beyond: state.vector, where: isLost),
            transfer: transfer.map {
                TransferStatus(donor: $0.donor, offset: $0.offset, total: $0.copy?.total)
            }, gauges: gauges)
    }

    private func status(of peer: PeerProgress) -> PeerStatus {
        PeerStatus(
            node: peer.node, isConfigured: peer.isConfigured,
            isConnected: peer.isConnected(now: now, limits: limits), isAgreed: peer.isAgreed,
            actor: peer.actor, lastHeard: peer.lastHeard, heardAt: peer.heardAt,
            vector: peer.vector,
            durable: peer.durable, missingHere: state.vector.lag(behind: peer.vector),
            missingThere: peer.vector.lag(behind: state.vector),
            clockOffsetMilliseconds: peer.clockOffset, refusal: peer.refusal,
            quarantinedUntil: peer.isQuarantined(now: now) ? peer.quarantine?.until : nil,
            isPulling: peer.pulling != nil)
    }
}
