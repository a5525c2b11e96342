// One loop: inputs to the replicator, effects out.
//
// Threading: made, run and released on the loop's own thread. Everything that other threads need
// goes through `LoopShared`.

internal import Coordinator
internal import Dispatch
internal import Logging
internal import Merge
internal import Replication
internal import Synchronization

/// What the loop shows to other threads.
struct LoopReport: Sendable {
    var replicator: ReplicatorStatus?
    var transport = TransportStatistics()
    var keys = MeshKeyReport()
    var digests: [PeerDigest] = []
    var stability = StabilityReport()
    var startedAt: UInt64 = 0
    /// When the process opened the node first: it may have opened its store anew since.
    var beganAt: UInt64 = 0
    var isRunning = false
}

/// What the loop shares with other threads.
final class LoopShared: Sendable {
    let handover = HandoverQueue()
    let acknowledgements = Acknowledgements()
    let counters: NodeCounters
    let report = Mutex(LoopReport())
    let history: HistoryKeeper
    let orphans: OrphanKeeper
    private let isRemovalTold = Atomic(false)
    private let isDurabilityTold = Atomic(false)

    init(history limits: HistoryLimits, counters: NodeCounters, orphans: OrphanKeeper) {
        self.counters = counters
        self.orphans = orphans
        history = HistoryKeeper(limits: limits, counters: counters)
    }

    /// Raises an alarm where what was applied could not be made durable, once until it can.
    func noteDurability(_ failure: (any Error)?, _ logger: Logger) {
        let wasTold = isDurabilityTold.exchange(failure != nil, ordering: .relaxed)
        guard let failure, !wasTold else { return }
        counters.raise(
            AlarmLine(
                "notDurable", .error,
                "What other nodes have saved is applied, and could not be made durable",
                [LogKeys.error: "\(failure)"]), logger)
    }

    /// Raises an alarm where the store's files have gone from their place, once until they are back.
    func noteStore(isRemoved: Bool, _ path: String, _ logger: Logger) {
        let wasRemoved = isRemovalTold.exchange(isRemoved, ordering: .relaxed)
        guard isRemoved, !wasRemoved else { return }
        counters.raise(
            AlarmLine(
                "storeRemoved", .critical,
                "The store's file is not where it was opened; saves are refused",
                [LogKeys.path: "\(path)"]), logger)
    }
}

/// The loop of a node: it owns the transport and the replicator, and blocks on nothing but the
/// sockets.
final class NodeLoop {
    /// How often time is told to the replicator.
    static let tickMilliseconds: UInt64 = 50
    /// How often what was applied is made durable, and the store is tended.
    static let secondMilliseconds: UInt64 = 1_000
    /// How often what is durable is recorded beside the store: what is collected waits for it.
    static let recordMilliseconds: UInt64 = 5_000
    /// How soon it is made durable again where a peer asks, or somebody here waits for one.
    static let promptMilliseconds: UInt64 = 50
    /// Rows and links looked at in one collection.
    static let collectedInASecond = 1_000
    /// How soon the store is asked again to collect where it could not, as on a full disk.
    static let collectionRetryMilliseconds: UInt64 = 10_000
    /// How soon a peer that could not be reached is tried again.
    static let retryMilliseconds: UInt64 = 100
    /// How many polls are drained before other work gets its turn.
    static let pollsInRow = 16

    private let shared: LoopShared
    private let coordinator: PersistentStoreCoordinator
    private let transport: any Transport
    private let logger: Logger
    private let maintenanceQueue: DispatchQueue
    private var replicator: Replicator
    private var interpreter: EffectInterpreter
    private let transfers: StoreTransfers
    private var digestBook: DigestBook
    private var meshWatch = MeshWatch()
    private var stabilityWatch: StabilityWatch
    private var stabilityReport = StabilityReport()

    private let actor: ActorID
    private let peers: [NodeID]
    private let startedAt = MonotonicClock.milliseconds
    private let beganAt: UInt64
    private var state: StoreState
    private var nextTickAt: UInt64 = 0
    private var nextRetryAt: UInt64 = 0
    private var nextSecondAt: UInt64 = 0
    private var nextRecordAt: UInt64 = 0
    private var isRecording = false
    private var madeDurableAt: UInt64 = 0
    private var isMakingDurable = false
    private var isDurabilityAsked = false
    /// The stable vector at the last collection, and whether that looked at all it could.
    private var collectedAt = VersionVector()
    private var isCollected = true
    private var isCollecting = false
    private var collectionAllowedAt: UInt64 = 0
    /// Log reads that are ahead of the commits this loop has heard of.
    private var earlyReads: [LogRead] = []
    private var isStopping = false

    init(
        shared: LoopShared, coordinator: PersistentStoreCoordinator,
        configuration: Replicator.Configuration, state: StoreState, peers: [MeshPeer],
        transport: any Transport, limits: Limits, logger: Logger,
        withdrawn: Set<NodeID>, beganAt: UInt64,
        queues: (reading: DispatchQueue, maintenance: DispatchQueue)
    ) {
        self.shared = shared
        self.coordinator = coordinator
        self.transport = transport
        self.logger = logger
        actor = configuration.actor
        self.state = state
        self.peers = peers.map(\.node)
        maintenanceQueue = queues.maintenance
        self.beganAt = beganAt
        stabilityWatch = StabilityWatch(startedAt: self.startedAt)
        digestBook = DigestBook(
            cluster: coordinator.cluster, modelHash: coordinator.model.modelHash, limits: limits)
        transfers = StoreTransfers(
            coordinator: coordinator, handover: shared.handover, logger: logger)
        var configuration = configuration
        configuration.transfer = transfers.begin()
        replicator = Replicator(
            configuration: configuration, limits: limits,
            generator: SeededGenerator(seed: actor.incarnation))
        interpreter = EffectInterpreter(
            transport: transport, coordinator: coordinator, handover: shared.handover,
            counters: shared.counters, logger: logger, readQueue: queues.reading,
            transfers: transfers, orphans: shared.orphans,
            pace: TransferPace(bytesPerSecond: limits.transferBytesPerSecond),
            plan: MeshPlan(node: coordinator.node, configured: peers, withdrawn: withdrawn),
            double: DoubleWatch(beganAt: beganAt, isStoreOwn: coordinator.recovery == .none))
    }

    /// Tells the replicator of the store: from then on saves are let through or refused as it says.
    ///
    /// - Throws: where the transport is broken.
    func begin() throws {
        shared.handover.attach(transport.wakeup)
        let now = MonotonicClock.milliseconds
        try feed(
            .started(
                state: state, peers: peers, now: now,
                wallMilliseconds: MonotonicClock.wallMilliseconds))
        publishReport(isRunning: true)
    }

    /// Runs until told to stop.
    ///
    /// - Throws: what made it end otherwise: a broken transport or store, or a number in use.
    func run() throws {
        while !isStopping {
            let now = MonotonicClock.milliseconds
            let wait = nextTickAt > now ? Int(nextTickAt - now) : 0
            try take(transport.poll(timeoutMilliseconds: wait))
            try takeHandedOver()
            if MonotonicClock.milliseconds >= nextTickAt { try tick() }
        }
        publishReport(isRunning: false)
    }

    private func feed(_ input: Input) throws {
        try interpreter.carryOut(replicator.handle(input))
        // A question that was not sent is not waited for: the replicator asks again, or another.
        for node in interpreter.takeUndelivered() {
            let now = MonotonicClock.milliseconds
            try interpreter.carryOut(replicator.handle(.peerDisconnected(node, now: now)))
        }
    }

    // MARK: - Frames

    /// Takes in frames, and goes on while there are more, so that what comes together is applied
    /// together.
    private func take(_ first: [IncomingFrame]) throws {
        var frames = first
        var polls = 0
        while !frames.isEmpty {
            // What was committed here came before what peers say about it.
            try takeHandedOver()
            for frame in frames {
                if frame.route != nil { isDurabilityAsked = true }
                digestBook.note(
                    frame, now: MonotonicClock.milliseconds, beginnings: replicator.beginnings)
                try feed(
                    .messageReceived(
                        bytes: frame.bytes, from: frame.sender,
                        over: frame.channel == .publish ? .publish : .exchange,
                        now: MonotonicClock.milliseconds))
            }
            if shared.acknowledgements.isAwaited { updateAcknowledgements() }
            polls += 1
            frames = polls < Self.pollsInRow ? try transport.poll(timeoutMilliseconds: 0) : []
        }
    }

    // MARK: - What other threads hand over

    private func takeHandedOver() throws {
        var isAnybodyAwaited = false
        for event in shared.handover.take() {
            let now = MonotonicClock.milliseconds
            switch event {
            case .committed(let transactions, let committed):
                adopt(committed)
                if !transactions.isEmpty { interpreter.pace.noteSave(at: now) }
                shared.counters.countGroup(transactions.count)
                try feed(.committed(transactions, state: standing(committed), now: now))
            case .applied(let applied, let rejected):
                if let applied { adopt(applied) }
                let reached = standing(applied ?? state)
                try feed(.applied(state: reached, rejected: rejected, now: now))
            case .logRead(let read):
                earlyReads.append(read)
            case .madeDurable(let durable):
                isMakingDurable = false
                guard let durable else { continue }
                adopt(durable)
                try feed(.committed([], state: standing(durable), now: now))
            case .recorded(let recorded):
                isRecording = false
                guard let recorded else { continue }
                state.recorded.join(recorded)
                try feed(.committed([], state: state, now: now))
            case .remembered(let actor, let isDurable):
                try feed(.remembered(actor, isDurable: isDurable, now: now))
            case .learnt(let models): try feed(.modelsLearnt(models, now: now))
            case .notLearnt(let models): try feed(.modelsNotLearnt(models, now: now))
            case .compared(let node, let hash, let difference):
                try feed(
                    .modelCompared(node, hash: hash, difference: difference, now: now))
            case .transferRead(let id, let copy, let offset, let bytes):
                try feed(
                    .transferRead(id: id, copy: copy, offset: offset, bytes: bytes, now: now))
            case .transferTaken(let offset): try feed(.transferTaken(offset: offset, now: now))
            case .transferChecked(let refusal):
                guard let refusal else {
                    throw NodeError(
                        .transferReady,
                        "A copy of a member's store is to take this store's place")
                }
                try feed(.transferRefused(refusal, now: now))
            case .collected(let result):
                isCollecting = false
                // What failed is tried again, though nothing more becomes stable.
                isCollected = result?.isDone ?? false
                if let result {
                    shared.counters.countCollected(result)
                } else {
                    collectionAllowedAt = now + Self.collectionRetryMilliseconds
                }
            case .rekeyed(let change): try interpreter.update(change)
            case .awaited: isAnybodyAwaited = true
            case .quarantinesLifted: try liftQuarantines(now)
            case .failed(let error): throw error
            case .stop: isStopping = true
            }
        }
        // Once for all who wait, be it a thousand.
        if isAnybodyAwaited { try askAwaitedPeers() }
        try answerReads()
    }

    /// Listens to those again who are ignored for what they sent: an operator says that it is put
    /// right.
    private func liftQuarantines(_ now: UInt64) throws {
        for peer in replicator.status.peers where peer.quarantinedUntil != nil {
            try feed(.quarantineLifted(peer.node, now: now))
        }
    }

    /// A state that was made where nobody knows what is recorded beside the store.
    private func standing(_ other: StoreState) -> StoreState {
        var other = other
        other.recorded = state.recorded
        return other
    }

    private func adopt(_ newer: StoreState) {
        if newer.vector.covers(state.vector) {
            state.vector = newer.vector
            state.digest = newer.digest
            state.membership = newer.membership
        }
        state.durable.join(newer.durable)
    }

    /// Answers log reads; one that is ahead of us waits for the commit it has seen, or the peer
    /// could tell us of a save of ours before we have heard of it ourselves.
    private func answerReads() throws {
        guard !earlyReads.isEmpty else { return }
        let ready = earlyReads.filter { $0.ownSequence <= state.vector[actor] }
        earlyReads.removeAll { $0.ownSequence <= state.vector[actor] }
        for read in ready {
            try feed(
                .logRead(
                    id: read.id, transactions: read.transactions, reachedEnd: read.reachedEnd,
                    now: MonotonicClock.milliseconds))
        }
    }

    // MARK: - Time

    private func tick() throws {
        let now = MonotonicClock.milliseconds
        nextTickAt = now + Self.tickMilliseconds
        try feed(.tick(now: now, wallMilliseconds: MonotonicClock.wallMilliseconds))
        if now >= nextRetryAt {
            nextRetryAt = now + Self.retryMilliseconds
            for node in interpreter.unreached.sorted() {
                try feed(.peerConnected(node, now: now))
            }
        }
        try heedDouble(now)
        makeDurableIfDue(now)
        if shared.acknowledgements.isAwaited {
            updateAcknowledgements()
            shared.acknowledgements.expire(now: now)
            try askAwaitedPeers()
        }
        if now >= nextSecondAt {
            nextSecondAt = now + Self.secondMilliseconds
            stabilityReport = stabilityWatch.note(
                replicator.status, durable: state.durable, now: now)
            tendStore()
            transfers.tend()
            collectIfDue()
            recordIfDue(now)
        }
        publishReport(isRunning: true)
    }

    /// Ends the run where another process lives under this node's number, or may.
    private func heedDouble(_ now: UInt64) throws {
        switch interpreter.double.verdict(now: now) {
        case .goOn: break
        case .end: throw NodeError.numberInUse(coordinator.node)
        case .endForOtherStore:
            throw NodeError(
                .nodeIDInUse,
                "Another store of node \(coordinator.node) is or was in use in this cluster; "
                    + "to go on with this one, stop the other, and remove the file beside this "
                    + "store whose name ends in -incarnation")
        case .reopen(let later, let hasMet):
            throw NodeError(
                .incarnationOutdated,
                "The cluster knows a later incarnation of node \(coordinator.node) than this one",
                context: ["incarnation": "\(later)", "hasMet": "\(hasMet)"])
        }
    }

    /// Once a second, and sooner where a peer has asked where we stand: our durable vector is
    /// what it may be waiting for.
    private func makeDurableIfDue(_ now: UInt64) {
        guard !isMakingDurable, state.durable != state.vector else { return }
        let interval = isDurabilityAsked ? Self.promptMilliseconds : Self.secondMilliseconds
        guard now >= madeDurableAt + interval else { return }
        isDurabilityAsked = false
        isMakingDurable = true
        madeDurableAt = now
        let handover = shared.handover
        let coordinator = coordinator
        let (shared, logger) = (shared, logger)
        coordinator.makeDurable { result in
            if case .failure(let error) = result {
                shared.noteDurability(error, logger)
            } else {
                shared.noteDurability(nil, logger)
            }
            // On the writer's queue nothing is committed meanwhile: the three belong together.
            guard case .success = result, let token = try? coordinator.currentToken,
                let digest = try? coordinator.currentDigest,
                let membership = try? coordinator.membership
            else { return handover.give(.madeDurable(nil)) }
            handover.give(
                .madeDurable(
                    StoreState(
                        vector: token.versionVector, durable: coordinator.durableVector,
                        digest: digest, membership: membership,
                        beginnings: token.beginnings)))
        }
    }

    private func tendStore() {
        let coordinator = coordinator
        let logger = logger
        let shared = shared
        maintenanceQueue.async {
            let expired = coordinator.maintain()
            shared.noteStore(isRemoved: coordinator.isStoreRemoved, coordinator.storePath, logger)
            guard expired > 0 else { return }
            logger.warning(
                "Pinned generations were given up", metadata: [LogKeys.count: "\(expired)"])
        }
    }

    private func recordIfDue(_ now: UInt64) {
        guard !isRecording, now >= nextRecordAt, state.recorded != state.durable else { return }
        isRecording = true
        nextRecordAt = now + Self.recordMilliseconds
        let handover = shared.handover
        let coordinator = coordinator
        let logger = logger
        maintenanceQueue.async {
            do {
                handover.give(.recorded(try coordinator.recordStanding()))
            } catch {
                logger.error(
                    "How far the store has come could not be recorded beside it",
                    metadata: [LogKeys.error: "\(error)"])
                handover.give(.recorded(nil))
            }
        }
    }

    /// Lets the store let go of what is stable, a thousand rows a second at most: saves wait for it.
    private func collectIfDue() {
        guard !isCollecting, !isCollected || interpreter.stable != collectedAt,
            MonotonicClock.milliseconds >= collectionAllowedAt
        else { return }
        isCollecting = true
        collectedAt = interpreter.stable
        let handover = shared.handover
        let logger = logger
        coordinator.collect(stable: collectedAt, limit: Self.collectedInASecond) { result in
            if case .failure(let error) = result {
                logger.error(
                    "What is stable could not be collected",
                    metadata: [LogKeys.error: "\(error)"])
            }
            handover.give(.collected(try? result.get()))
        }
    }

    // MARK: - Acknowledgements

    /// Peers tell where they stand each second; one that somebody waits for is asked at once.
    private func askAwaitedPeers() throws {
        for node in shared.acknowledgements.awaitedPeers {
            try feed(.peerConnected(node, now: MonotonicClock.milliseconds))
        }
    }

    private func updateAcknowledgements() {
        shared.acknowledgements.update(
            replicator.status.peers.filter(\.isAgreed).map { ($0.node, $0.durable) })
    }

    private func publishReport(isRunning: Bool) {
        let keys = transport.keyReport
        let now = MonotonicClock.milliseconds
        let status = replicator.status
        meshWatch.note(keys, now: now, logger: logger)
        let report = LoopReport(
            replicator: status, transport: transport.statistics, keys: keys,
            digests: digestBook.digests,
            stability: stabilityReport,
            startedAt: startedAt, beganAt: beganAt, isRunning: isRunning)
        shared.report.withLock { $0 = report }
        guard isRunning else { return }
        shared.history.tend(coordinator, status, now: now, logger: logger)
        shared.orphans.tend(coordinator, now: now, logger: logger)
    }
}
