package import Merge

/// The replication protocol as a state machine without sockets, clocks or disks.
///
/// The shell tells it what has happened and does what it answers. The same inputs give the same
/// effects in every run. It is a value for one thread at a time; nothing in it blocks.
///
/// How catching up works: saves are published once and may be lost. Every second, nodes tell
/// each other their vectors, and what is missing is pulled, page by page, from a node that has
/// it. What arrives early waits in a ``CausalQueue``, what may be applied goes to the store in
/// batches, one at a time.
package struct Replicator: Sendable {
    let configuration: Configuration
    let limits: Limits
    var generator: SeededGenerator

    var now: UInt64 = 0
    var wallClock = WallClock()
    var state = StoreState(vector: VersionVector(), digest: ProjectionDigest())
    /// The latest timestamp of what is applied or about to be.
    var latestTimestamp = HybridTimestamp.zero
    var queue: CausalQueue
    /// Sorted by node.
    var peers: [PeerProgress] = []
    var effects: [Effect] = []
    var counts = ReplicatorGauges()

    var closed = ClosedActors()
    var stability = Stability()
    var recovery: RecoveryProgress
    /// Whether the shell last heard that the node may save.
    var toldSaving = true
    var acceptance: Acceptance
    var members: Members
    var clock: ClockJudge

    var isStarted = false
    var startedAt: UInt64 = 0
    var nextHeadsAt: UInt64 = 0
    var applyAllowedAt: UInt64 = 0
    /// When to look whether something has to be pulled; nil where nothing is known to be missing.
    var pullDue: UInt64?
    var models: ModelCatalog
    var lastID: UInt64 = 0
    var assembly = Assembly()
    var outgoing = Outgoing()
    var taking: TransferTaking
    var raised = RaisedAlarms()

    /// Prepares a replicator; nothing happens before ``Input/started(state:peers:now:wallMilliseconds:)``.
    ///
    /// - Parameter generator: the only source of chance, for jitter.
    package init(
        configuration: Configuration, limits: Limits = Limits(), generator: SeededGenerator
    ) {
        self.configuration = configuration
        self.limits = limits
        self.generator = generator
        queue = CausalQueue(limits: limits)
        models = ModelCatalog(configuration)
        queue.models = models.hashes
        recovery = RecoveryProgress(configuration)
        acceptance = Acceptance(configuration)
        members = Members(own: configuration.actor.node)
        clock = ClockJudge(limits: limits)
        taking = TransferTaking(begun: configuration.transfer)
    }

    /// This node.
    package var node: NodeID { configuration.actor.node }

    /// Takes in an event and answers with what is to be done, in order.
    package mutating func handle(_ input: Input) -> [Effect] {
        setTime(input.now, wall: input.wallMilliseconds)
        switch input {
        case .started(let state, let peers, _, _):
            start(state, peers: peers)
        case .tick: tick()
        case .messageReceived(let bytes, let sender, let channel, _):
            receive(bytes, from: sender, over: channel)
        case .committed(let transactions, let state, _):
            adopt(state)
            announce(transactions)
        case .applied(let state, let rejected, _):
            finishApplying(state, rejected: rejected)
        case .logRead(let id, let transactions, let reachedEnd, _):
            answer(id, with: transactions, reachedEnd: reachedEnd)
        case .remembered(let actor, let isDurable, _):
            finishRemembering(actor, isDurable: isDurable)
        case .modelsLearnt(let models, _):
            takeUp(models)
        case .modelsNotLearnt(let models, _):
            self.models.reconsider(models)
        case .modelCompared(let node, let hash, let difference, _):
            takeUp(difference: difference, of: hash, node: node)
        case .transferRead(let id, let copy, let offset, let bytes, _):
            giveTransfer(id, copy: copy, offset: offset, bytes: bytes)
        case .transferTaken(let offset, _):
            finishTaking(offset)
        case .transferRefused(let reason, _):
            refuseTransfer(reason)
        case .peersChanged(let nodes, _):
            members.configured = nodes
            setPeers()
        case .peerConnected(let node, _):
            if let index = peerIndex(node) {
                peers[index].lastHello = nil
                sayHello(index)
            }
        case .peerDisconnected(let node, _):
            disconnect(node)
        case .quarantineLifted(let node, _):
            if let index = peerIndex(node) {
                peers[index].quarantine = nil
                sayHello(index)
            }
        }
        settleMeetings()
        tellRecovery()
        raiseHolds()
        startApplying()
        if let due = pullDue, due <= now { pullWhatIsMissing() }
        var result: [Effect] = []
        swap(&result, &effects)
        return result
    }

    // MARK: - Time

    private mutating func setTime(_ now: UInt64, wall: UInt64?) {
        self.now = max(self.now, now)
        if let wall { wallClock.set(wall, at: self.now) }
        let (horizon, overflow) = wallMilliseconds.addingReportingOverflow(
            limits.futureMilliseconds)
        queue.horizon = overflow ? .max : horizon
    }

    /// Wall time now, in milliseconds since 1970.
    var wallMilliseconds: UInt64 { wallClock.milliseconds(at: now) }

    private mutating func start(_ state: StoreState, peers nodes: [NodeID]) {
        guard !isStarted else { return }
        isStarted = true
        startedAt = now
        taking.pause(until: now + configuration.transferPauseMilliseconds)
        self.state = state
        queue.join(state.vector)
        closed.incarnations.depart(state.membership.departed.map(\.node))
        for actor in configuration.incarnations where actor.node != node {
            closed.remembered.note(actor)
        }
        noteIncarnations(
            state.vector.entries.map(\.actor) + closed.remembered.newest + [configuration.actor])
        // Before anything else: what the store may do.
        members.configured = nodes
        if isAlone { recovery.finishAlone() }
        tellRecovery()
        setPeers()
        publishHeads()
    }

    private mutating func tick() {
        guard isStarted else { return }
        if now >= nextHeadsAt { publishHeads() }
        queue.release(now: now)
        outgoing.expire(now: now, limits: limits)
        if let dot = assembly.dot, queue.has(dot) { assembly = Assembly() }
        expirePulls()
        for index in peers.indices where peers[index].endQuarantine(now: now) { sayHello(index) }
        noteGap(isCertain: false)
        keepOrphans()
        tendTransfer()
        judgeClock()
        if acceptance.judge(now: now, limits: limits) { effects.append(.refused) }
        askForModels()
    }

    // MARK: - The store

    /// Takes over what the store holds after local saves.
    private mutating func adopt(_ state: StoreState) {
        take(state)
        queue.join(state.vector)
    }

    private mutating func take(_ state: StoreState) {
        if self.state.takeApplied(state) { takeUpMembership() }
        self.state.takeDurable(state)
    }

    private mutating func finishApplying(_ state: StoreState, rejected: [Rejection]) {
        take(state)
        let isForward = queue.finishBatch(
            vector: self.state.vector.joined(state.vector), rejected: rejected, now: now)
        closed.dropped.forget(coveredBy: self.state.vector)
        if closed.isDropOwed { dropWhatIsClosed() }
        // A store that applies nothing and rejects nothing is in trouble (a full disk): it is
        // not asked again at once.
        if !isForward, rejected.isEmpty { applyAllowedAt = now + limits.headsMilliseconds }
        noteGap(isCertain: true)
    }

    private mutating func startApplying() {
        guard now >= applyAllowedAt else { return }
        let batch = queue.takeBatch()
        guard !batch.isEmpty else { return }
        for transaction in batch {
            latestTimestamp = max(latestTimestamp, transaction.transaction.timestamp)
        }
        effects.append(.apply(batch))
    }

    private mutating func raiseHolds() {
        for held in queue.takeNewHolds() {
            switch held.reason {
            case .timestampInFuture(let time): raise(.timestampInFuture(held.dot, time))
            case .rejected(let reason): raise(.rejected(held.dot, reason: reason))
            // So it is whenever a new model is brought to one node after the other; who is held, and how
            // many, is in the status and in a gauge.
            case .unknownModel: break
            }
        }
    }

    // MARK: - Peers

    func peerIndex(_ node: NodeID) -> Int? { peers.firstIndex { $0.node == node } }

    /// The peer's place, made where it is new; nil where there are too many.
    mutating func peerIndex(adding node: NodeID, isConfigured: Bool) -> Int? {
        let place = peers.firstIndex { $0.node >= node } ?? peers.endIndex
        if place < peers.endIndex, peers[place].node == node { return place }
        guard isConfigured || peers.count < limits.peers else { return nil }
        peers.insert(PeerProgress(node: node, isConfigured: isConfigured), at: place)
        return place
    }

    mutating func setPeers() {
        let nodes = Set(currentMembers).subtracting([node]).sorted()
        if !state.membership.isEmpty { effects.append(.connect(to: nodes)) }
        for index in peers.indices where !nodes.contains(peers[index].node) {
            peers[index].isConfigured = false
            peers[index].pulling = nil
        }
        for node in nodes {
            guard let index = peerIndex(adding: node, isConfigured: true) else { continue }
            peers[index].isConfigured = true
            if !peers[index].isAgreed { sayHello(index) }
        }
        setStabilityMembers()
    }

    private mutating func disconnect(_ node: NodeID) {
        guard let index = peerIndex(node) else { return }
        peers[index].lastHeard = nil
        peers[index].pulling = nil
        // A log read under way stays counted: one that reconnects again and again gets no second.
        peers[index].waitingPull = nil
        noteGap(isCertain: true)
    }

    mutating func quarantine(_ index: Int, reason: String) {
        let until = peers[index].beginQuarantine(now: now, limits: limits)
        effects.append(.quarantined(peers[index].node, reason: reason, until: until))
        noteGap(isCertain: true)
    }

    mutating func raise(_ alarm: Alarm) { effects.append(.alarm(alarm)) }

    mutating func raiseOnce(_ alarm: Alarm) {
        if raised.note(alarm, own: node, limits: limits) { raise(alarm) }
    }

    mutating func makeID() -> UInt64 {
        lastID += 1
        return lastID
    }

    /// The beginnings of the incarnations known here.
    package var beginnings: Beginnings { state.beginnings }

    func encoded(_ message: Message, telling beginnings: Beginnings? = nil) -> [UInt8] {
        Envelope(cluster: configuration.cluster, sender: node, message: message)
            .encoded(telling: beginnings)
    }

    // MARK: - Status

    /// The state of the peers, and how full the queues are.
    package var status: ReplicatorStatus {
        var gauges = counts
        gauges.waitingCount = queue.waitingCount
        gauges.waitingBytes = queue.waitingBytes
        gauges.waitingForModelCount = state.vector.lag(behind: PullPlan.blocked(queue.holds, peers))
        gauges.applyingCount = queue.applyingCount
        gauges.applyingBytes = queue.applyingBytes
        gauges.pullsOutstanding = peers.count { $0.pulling != nil }
        gauges.readsOutstanding = peers.count { $0.answering != nil }
        gauges.piecesBytes = outgoing.bytes + assembly.count
        gauges.orphanBytes = closed.dropped.bytes
        gauges.droppedCount += queue.droppedCount
        gauges.deliveredCount = queue.deliveredCount
        return ReplicatorStatus(
            peers: peers.map {
                PeerStatus(of: $0, beside: state.vector, now: now, limits: limits)
            },
            held: queue.holds.map { HeldTransaction(dot: $0.dot, reason: $0.reason) },
            stable: stability.vector, members: stability.statuses(stabilityView),
            recovery: recovery.stage, isSaving: isSaving && !clock.isOff,
            orphaned: closed.dropped.dots(beyond: state.vector, where: isLost),
            transfer: transfer.map {
                TransferStatus(donor: $0.donor, offset: $0.offset, total: $0.copy?.total)
            }, gauges: gauges)
    }
}
