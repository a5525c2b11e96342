// The only place where an effect of the replicator becomes an action.
//
// Threading: belongs to the loop's thread; what it starts answers through the handover queue.

internal import Coordinator
internal import Dispatch
internal import Logging
internal import Merge
internal import Replication

/// Carries out effects: frames to the transport, transactions to the store, news to the log.
struct EffectInterpreter {
    let transport: any Transport
    let coordinator: PersistentStoreCoordinator
    let handover: HandoverQueue
    let counters: NodeCounters
    let logger: Logger
    /// Reads of the log are made here, so that the loop never waits for the disk.
    let readQueue: DispatchQueue
    let transfers: StoreTransfers
    let orphans: OrphanKeeper
    /// When parts of this store's copies are given.
    var pace: TransferPace

    /// Peers that the last frame for them did not reach, because no connection was up.
    private(set) var unreached: Set<NodeID> = []
    /// Peers for whom a frame was dropped since this was last asked.
    private var undelivered: Set<NodeID> = []
    /// What is known of another live node that uses our number.
    private(set) var double: DoubleWatch
    /// All that the replicator has declared stable.
    private(set) var stable = VersionVector()
    private var plan: MeshPlan

    init(
        transport: any Transport, coordinator: PersistentStoreCoordinator,
        handover: HandoverQueue, counters: NodeCounters, logger: Logger, readQueue: DispatchQueue,
        transfers: StoreTransfers, orphans: OrphanKeeper, pace: TransferPace, plan: MeshPlan,
        double: DoubleWatch
    ) {
        self.double = double
        self.transfers = transfers
        self.orphans = orphans
        self.pace = pace
        self.transport = transport
        self.coordinator = coordinator
        self.handover = handover
        self.counters = counters
        self.logger = logger
        self.readQueue = readQueue
        self.plan = plan
    }

    /// Carries out the effects of one input, in their order.
    ///
    /// - Throws: an error where the transport is broken; never for a peer's fault.
    mutating func carryOut(_ effects: [Effect]) throws {
        for effect in effects {
            switch effect {
            case .publish(let frame):
                try sending(frame) { try transport.publish($0) }
            case .send(let node, let frame):
                try send(frame, to: node)
            case .reply(let node, let frame):
                try sending(frame) { try transport.reply($0, to: node) }
            case .apply(let transactions): apply(transactions)
            case .readLog(let id, let vector, let byteLimit):
                readLog(id, after: vector, byteLimit: byteLimit)
            case .quarantined(let node, let reason, _):
                counters.raise(
                    AlarmLine(
                        "quarantined", .warning, "What this peer sends is ignored for a while",
                        [LogKeys.peer: "\(node)", LogKeys.reason: "\(reason)"]), logger)
            case .alarm(let alarm): report(alarm)
            case .stable(let vector): stable = vector
            case .setSaving(let allowed): setSaving(allowed)
            case .setClockOff(let isOff): coordinator.setClockOff(isOff)
            case .outgrown: record(.restored)
            case .founder: record(.founder)
            case .vouched(let founders): record(.none, founders: founders)
            case .connect(let nodes): connect(to: nodes)
            case .remember(let actor): remember(actor)
            case .keepOrphans(let transactions): orphans.take(transactions, logger: logger)
            case .orphansNotKept(let dots): orphans.leaveOut(dots, logger: logger)
            case .learnModels(let models): learn(models)
            case .compareModel(let model, let node): compare(model, of: node)
            case .reopen(let incarnation):
                double.note(later: incarnation, now: MonotonicClock.milliseconds)
            case .refused: double.noteRefusal()
            case .readTransfer(let id, let number, let offset, let byteLimit, let node, let vector):
                transfers.read(
                    id, number, from: offset, byteLimit: byteLimit, for: node, covering: vector,
                    after: pace.delay(for: byteLimit, at: MonotonicClock.milliseconds))
            case .takeTransfer(let copy, let donor, let offset, let bytes):
                transfers.take(copy, donor: donor, offset: offset, bytes: bytes)
            case .installTransfer: transfers.check()
            case .discardTransfer: transfers.discard()
            }
        }
    }

    /// Connects to the members there are now.
    private mutating func connect(to nodes: [NodeID]) {
        do {
            plan.members = nodes
            plan.membership = try coordinator.membership
        } catch {
            logger.error("Members cannot be read", metadata: [LogKeys.error: "\(error)"])
        }
        for (peer, reason) in plan.unreachable {
            logger.error(
                "A member cannot be connected to",
                metadata: [LogKeys.peer: "\(peer)", LogKeys.reason: "\(reason)"])
        }
        for peer in plan.peers {
            do {
                try transport.connect(to: peer)
            } catch {
                logger.error(
                    "A member cannot be connected to",
                    metadata: [LogKeys.peer: "\(peer.node)", LogKeys.error: "\(error)"])
            }
        }
        for (node, keys) in plan.cut {
            do {
                try transport.disconnect(from: node, hearing: keys)
            } catch {
                logger.error(
                    "A node that is a member no more cannot be cut off",
                    metadata: [LogKeys.peer: "\(node)", LogKeys.error: "\(error)"])
            }
        }
    }

    /// Goes on with other keys and addresses of configured peers. A member that cannot be talked to
    /// in this mesh, for data alone tell of it and no key, is left out, as it is at the start.
    mutating func update(_ change: MeshChange) throws {
        plan.configure(change.peers)
        var peers = plan.peers
        if change.keys != nil {
            for peer in peers where peer.publicKeys.isEmpty {
                logger.error(
                    "A member cannot be connected to",
                    metadata: [
                        LogKeys.peer: "\(peer.node)", LogKeys.reason: "it has no public key",
                    ])
            }
            peers.removeAll { $0.publicKeys.isEmpty }
        }
        try transport.update(MeshChange(keys: change.keys, peers: peers))
    }

    private func setSaving(_ isAllowed: Bool) {
        coordinator.setSaving(allowed: isAllowed)
        logger.notice(
            isAllowed
                ? "Saves are let through"
                : "Saves are held back until a member has met this store and it has caught up")
    }

    /// Records what the replicator knows of the store's recovery. Jobs of the writer keep their
    /// order, so it is written before a later apply is committed.
    private func record(_ recovery: StoreRecovery, founders: [ActorID] = []) {
        let logger = logger
        coordinator.setRecovery(recovery, founders: founders) { result in
            guard case .failure(let error) = result else { return }
            logger.error(
                "The state of recovery could not be recorded; it is with what is applied next",
                metadata: [LogKeys.error: "\(error)"])
        }
    }

    private func remember(_ actor: ActorID) {
        let handover = handover
        let logger = logger
        coordinator.remember(actor) { result in
            var isDurable = true
            if case .failure(let error) = result {
                isDurable = false
                logger.error(
                    "An incarnation of a peer could not be recorded",
                    metadata: [LogKeys.peer: "\(actor.node)", LogKeys.error: "\(error)"])
            }
            handover.give(.remembered(actor, isDurable: isDurable))
        }
    }

    /// The peers for whom a frame was dropped since this was last asked, lowest first.
    mutating func takeUndelivered() -> [NodeID] {
        guard !undelivered.isEmpty else { return [] }
        defer { undelivered = [] }
        return undelivered.sorted()
    }

    // MARK: - Frames

    private mutating func send(_ frame: [UInt8], to node: NodeID) throws {
        var outcome = FrameOutcome.sent
        try sending(frame) {
            outcome = try transport.send($0, to: node)
            return outcome
        }
        if outcome == .sent {
            unreached.remove(node)
        } else {
            unreached.insert(node)
            undelivered.insert(node)
        }
    }

    /// A frame over the transport's limit is dropped and reported: it is our own fault, but no
    /// reason to stop.
    private func sending(
        _ frame: [UInt8], by action: ([UInt8]) throws -> FrameOutcome
    ) throws {
        do {
            _ = try action(frame)
        } catch let error as NodeError where error.code == .frameTooLarge {
            logger.error(
                "A frame is too long to be sent", metadata: [LogKeys.bytes: "\(frame.count)"])
        }
    }

    // MARK: - The store

    /// Applies at once: while one batch is committed, the next one gathers in the replicator.
    private func apply(_ transactions: [EncodedTransaction]) {
        let handover = handover
        let coordinator = coordinator
        let counters = counters
        let logger = logger
        coordinator.apply(transactions) { result in
            switch result {
            case .success(let applied):
                let rejections = applied.rejected.map { Rejection(dot: $0.dot, reason: $0.reason) }
                counters.countApplied(transactions.count - rejections.count)
                handover.give(
                    .applied(
                        StoreState(
                            vector: applied.versionVector, durable: applied.durable,
                            digest: applied.digest, membership: applied.membership,
                            beginnings: applied.beginnings),
                        rejections))
            case .failure(let error):
                // A full disk passes; anything worse stops the writer, which says so itself.
                counters.raise(
                    AlarmLine(
                        "notApplied", .error, "Transactions of other nodes could not be applied",
                        [LogKeys.count: "\(transactions.count)", LogKeys.error: "\(error)"]),
                    logger)
                handover.give(.applied(nil, []))
            }
        }
    }

    /// Reads what a peer asked for.
    ///
    /// An effect says that only what is durable may be read, so that nobody hears of a save that
    /// a power loss here would undo. Our own saves are durable before anybody can read them: the
    /// commit becomes visible after its fsync. Other nodes' transactions that are applied but not
    /// yet synced here are given too, for they were durable at their origin before they were
    /// published. Holding them back would cost a peer that can reach only us a second, and would
    /// make us look like one that does not answer.
    private func readLog(_ id: UInt64, after vector: VersionVector, byteLimit: Int) {
        let handover = handover
        let coordinator = coordinator
        let logger = logger
        readQueue.async {
            var answer = LogRead(id: id)
            do {
                try coordinator.read { reader in
                    let page = try reader.transactions(
                        notCoveredBy: vector, byteLimit: max(1, byteLimit))
                    answer.transactions = page.transactions
                    answer.reachedEnd = page.reachedEnd
                    if let actor = coordinator.actor {
                        answer.ownSequence = try reader.token.versionVector[actor]
                    }
                }
            } catch {
                logger.error("The log could not be read", metadata: [LogKeys.error: "\(error)"])
                // Whoever asks could wait for ever for what this node says it has.
                if (error as? CoordinatorError)?.code == .storeDamaged {
                    return handover.give(.failed(error))
                }
                answer = LogRead(id: id)
            }
            handover.give(.logRead(answer))
        }
    }

    // MARK: - Alarms

    private mutating func report(_ alarm: Alarm) {
        if case .twoNodesWithOneID(coordinator.node, incarnation: nil) = alarm {
            double.noteMeeting(now: MonotonicClock.milliseconds)
        }
        if case .departed = alarm { coordinator.setDeparted() }
        if case .transferFailed = alarm { counters.countTransfer(isInstalled: false) }
        counters.raise(alarm.line, logger)
    }
}
