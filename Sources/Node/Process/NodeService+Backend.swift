// The node's answers to the HTTP interface.

package import Coordinator
internal import Merge
internal import Replication
internal import Synchronization

extension NodeService: NodeBackend {
    private static let orphaned =
        "It cannot be applied any more: an earlier save of its node is lost with that node."
    static let keptOrphan = orphaned + " What it wrote is kept: see `tributary orphans`."

    /// The state of replication and of its peers, at most a tick (200 ms) old.
    package func status() async -> NodeStatus {
        let (replicator, keys, stability) = shared.report.withLock {
            ($0.replicator, $0.keys, $0.stability)
        }
        let now = MonotonicClock.milliseconds
        var status = NodeStatus(
            members: members,
            peers: (replicator?.peers ?? []).map { peer in
                var shown = NodeStatus.Peer(
                    node: peer.node, isConnected: peer.isConnected, vector: peer.vector,
                    lag: peer.missingThere, missingHere: peer.missingHere,
                    clockOffsetMilliseconds: peer.clockOffsetMilliseconds,
                    refusal: peer.refusalText ?? keys.refusalText(of: peer))
                shown.quarantineMilliseconds = peer.quarantinedUntil.map { $0 - min($0, now) }
                return shown
            },
            held: (replicator?.held ?? []).map {
                NodeStatus.Held(transaction: $0.dot, reason: $0.reason.text)
            } + orphans(replicator))
        status.transfer = replicator?.transfer
        status.alarms = counters.values.lastAlarms.reversed()
        status.keys = keys
        status.stability = stability
        status.history = shared.history.report
        status.historyLimits = shared.history.limits
        status.lookedAt = MonotonicClock.milliseconds
        guard keys.publicKey != nil else { return status }
        for index in status.peers.indices {
            let known = keys.peers.first { $0.node == status.peers[index].node }
            status.peers[index].handshake = known?.handshake ?? MeshKeyReport.Handshake.none
            status.peers[index].publicKey = known?.publicKey
        }
        return status
    }

    /// The saves that can never be applied, by dot: those that the store keeps, also of earlier
    /// runs, and those that it does not, unless they were applied after all. One that was kept and
    /// is not any more was discarded.
    private func orphans(_ replicator: ReplicatorStatus?) -> [NodeStatus.Held] {
        let kept = Set((try? coordinator.orphanedDots) ?? [])
        let applied = (try? coordinator.currentToken)?.versionVector ?? VersionVector()
        let others = ((replicator?.orphaned ?? []) + shared.orphans.notKept).filter {
            !applied.contains($0)
        }
        return kept.union(others).sorted().map {
            NodeStatus.Held(
                transaction: $0, reason: kept.contains($0) ? Self.keptOrphan : Self.orphaned)
        }
    }

    /// Reads keys, tokens and certificates again, and lifts quarantines; see ``NodeProcess``.
    package func reload() async throws -> ReloadReport {
        guard let reloader = reloader.withLock({ $0 }) else {
            throw NotSupported("This node was not started from a configuration file.")
        }
        return try await reloader()
    }

    /// Listens again, within some tens of milliseconds, to peers that are ignored for what they sent.
    ///
    /// - Returns: whom that concerns as far as is known here, lowest first; it may be a tick
    ///   (200 ms) old.
    func liftQuarantines() -> [NodeID] {
        let peers = shared.report.withLock { $0.replicator }?.peers ?? []
        shared.handover.give(.quarantinesLifted)
        return peers.filter { $0.quarantinedUntil != nil }.map(\.node)
    }

    /// Goes on with other keys and peers' keys, within some tens of milliseconds.
    ///
    /// A peer that is not configured any more, or comes under a key that is not listed, is cut off
    /// on both ways. The members of the cluster stay those of the start.
    ///
    /// - Parameter change: what to go on with. Peers that were not there at the start are ignored.
    /// - Throws: ``NodeError`` with `configurationInvalid`, and nothing has changed, where a mesh
    ///   would begin or end to use keys, or where a peer has none.
    package func update(_ change: MeshChange) throws(NodeError) {
        let hadKeys = shared.report.withLock { $0.keys.publicKey } != nil
        guard hadKeys == (change.keys != nil) else {
            throw NodeError(
                .configurationInvalid,
                "mesh.secretKeyFile: a mesh begins or ends to use keys only with a new start",
                context: ["key": "mesh.secretKeyFile"])
        }
        var change = change
        let members = members
        change.peers.removeAll { !members.contains($0.node) }
        if let peer = change.peers.first(where: { change.keys != nil && $0.publicKeys.isEmpty }) {
            throw NodeError(
                .configurationInvalid, "Node \(peer.node) has no public key",
                context: ["key": "mesh.peers", "node": "\(peer.node)"])
        }
        places.withLock { $0.take(change) }
        shared.handover.give(.rekeyed(change))
    }

    /// Saves, and counts how long it took; see ``saving(_:)``.
    package func save(_ request: SaveRequest) async throws -> SaveResult {
        // Also while it waits: it may be saved a moment later.
        try await coordinator.whileUnderWay(request.saveID) {
            try await saving { coordinator in
                try refuseUnknownRepeat(request.saveID)
                return try await coordinator.save(request)
            }
        }
    }

    /// Does what ends in a save, and counts how long it took.
    ///
    /// In the first two seconds in which saves are refused for the store is to be vouched for, they
    /// wait: a new node of a small or a new cluster is vouched for by then.
    package func saving(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> SaveResult
    ) async throws -> SaveResult {
        let begun = MonotonicClock.microseconds
        do {
            let result = try await saveOnceVouched(save)
            counters.countSave(seconds: Double(MonotonicClock.microseconds - begun) / 1_000_000)
            return result
        } catch {
            counters.countFailedSave()
            throw error
        }
    }

    /// Tries again while it is refused for its store has to be vouched for: nothing was saved then.
    ///
    /// Each waits no longer than two seconds by itself. Others may go through meanwhile (in a new
    /// store those without a save ID), and then these are not the first two any more in which saves
    /// are refused.
    func saveOnceVouched<Outcome>(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> Outcome
    ) async throws -> Outcome {
        var refusedSince: UInt64?
        while true {
            do {
                let result = try await save(coordinator)
                recoveringSince.store(0, ordering: .relaxed)
                return result
            } catch let error as CoordinatorError where error.code == .recovering {
                let now = MonotonicClock.milliseconds
                let known = recoveringSince.compareExchange(
                    expected: 0, desired: now, ordering: .relaxed)
                let own = refusedSince ?? now
                refusedSince = own
                let since = min(known.exchanged ? now : known.original, own)
                guard now < since + Self.vouchingMilliseconds, !isStopping,
                    (try? await Task.sleep(for: .milliseconds(20))) != nil
                else { throw error }
            }
        }
    }

    /// Carries a batch request out; each of its transactions counts as a save.
    package func execute(
        _ request: any BatchRequest, author: String?, contextName: String?,
        progress: @escaping @Sendable (BatchResult) throws -> Void
    ) async throws -> BatchResult {
        let last = Mutex(MonotonicClock.microseconds)
        let saveID = request.options.saveID
        do {
            // Also while it waits: it may be saved a moment later.
            return try await coordinator.whileUnderWay(request) {
                try await saveOnceVouched { [counters] coordinator in
                    try refuseUnknownRepeat(saveID)
                    do {
                        return try await coordinator.carryOut(
                            request, author: author, contextName: contextName
                        ) { [weak self] done in
                            let now = MonotonicClock.microseconds
                            let begun = last.withLock { last in
                                defer { last = now }
                                return last
                            }
                            counters.countSave(seconds: Double(now - begun) / 1_000_000)
                            if self?.isStopping ?? true {
                                throw NodeError(
                                    .stopped, "This node is stopping; repeat it when it is back")
                            }
                            try progress(done)
                        }
                    } catch let error as BatchError where saveID != nil {
                        // What an earlier run was done with is known: it goes on from there.
                        let reason = error.reason as? CoordinatorError
                        throw reason?.code == .recovering ? CoordinatorError.recovering : error
                    }
                }
            }
        } catch {
            counters.countFailedSave()
            throw error
        }
    }

    /// Refuses what may have been saved under its ID by the store that was here before.
    private func refuseUnknownRepeat(_ saveID: String?) throws {
        guard let saveID, coordinator.mayLackSaveIDs else { return }
        let kept = try coordinator.read { try $0.savedAnswer(saveID) }
        if kept == nil { throw CoordinatorError.recovering }
    }

    private static let vouchingMilliseconds: UInt64 = 2_000

    /// Counts an answer of the HTTP interface.
    package func countRequest(status: Int) { counters.countRequest(status: status) }

    /// The node's metrics in Prometheus' text format.
    ///
    /// - Throws: what tells why the store cannot be read.
    package func metricsText() async throws -> String {
        do {
            return NodeMetrics(
                status: try await overview(), counters: counters.values,
                handover: shared.handover.gauges, residentBytes: ProcessMemory.residentBytes
            ).text
        } catch {
            endIfDamaged(error)
            throw error
        }
    }

    /// Forgets history that is stable and that all consumers have read.
    package func purgeHistory(before token: QueryGenerationToken) async throws -> Int {
        let status = shared.report.withLock { $0.replicator }
        guard let status, status.recovery == .none else { return 0 }
        return try await coordinator.purgeHistory(before: token, stable: status.stable)
    }

    /// Each peer's latest vector and digest, by number.
    package func peerDigests() async -> [PeerDigest] {
        let peers = shared.report.withLock { $0.replicator?.peers } ?? []
        return peers.compactMap { peer in
            peer.told.map { PeerDigest(node: peer.node, vector: $0.vector, digest: $0.digest) }
        }
    }
}

extension PeerStatus {
    /// Why the peer is not listened to, for people; nil where it is.
    fileprivate var refusalText: String? {
        if let refusal {
            return "Its \(refusal.part.rawValue) differs: \(refusal.reason)."
        }
        return quarantinedUntil == nil
            ? nil
            : "What it sent could not be decoded; it is ignored for a while, or until a reload."
    }
}

extension MeshKeyReport {
    /// Why no connection to a peer stands, as far as keys are the reason.
    fileprivate func refusalText(of peer: PeerStatus) -> String? {
        guard let known = peers.first(where: { $0.node == peer.node }) else {
            return publicKey == nil || !peer.isConfigured
                ? nil : "No key is listed for it any more."
        }
        guard !peer.isConnected else { return nil }
        return switch known.handshake {
        case .none, .succeeded: nil
        case .refusedThere: "It does not list this node's key."
        case .failed where publicKey == nil:
            "Who answers there hung up at once, as a node that has keys does."
        case .failed: "Who answers there has not proven the key that is listed for it here."
        }
    }
}

extension HeldReason {
    /// The reason for people.
    fileprivate var text: String {
        switch self {
        case .timestampInFuture(let timestamp):
            "Its timestamp is far ahead of this node's clock: \(timestamp)."
        case .rejected(let reason): reason
        case .unknownModel(let hash):
            "Its model \(ModelText.name(hash)) is not known here; it is applied when this node has "
                + "migrated to that model, and left with the peers until then."
        }
    }
}
