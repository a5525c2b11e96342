internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// One life of a node: the production coordinator and the production shell, driven in virtual time
/// and over a virtual network. As in the program, the answers to the store's jobs come later.
final class SimulatedProcess {
    /// How many frames may wait while the process is paused; a full socket drops the rest.
    static let pausedFrames = 1_000
    static let tickMicroseconds: UInt64 = 50_000

    let machine: Machine
    /// The number of this life among those of the machine.
    let life: Int
    /// How many faults had struck the disk before it began.
    let faultsBefore: UInt64
    /// How many writes the disk had refused before it began, because it was full.
    let refusalsBefore: UInt64
    /// How many syncs of the disk had failed before it began.
    let failedSyncsBefore: UInt64
    let store: NodeStore
    /// The store's recovery state when it was opened.
    let recoveryAtOpening: StoreRecovery
    unowned let world: World
    private(set) var core: NodeCore
    var generator: SeededGenerator
    let mailbox = Mailbox()
    private var observation: CommitObservation?
    /// When the process began, which may have run the node before.
    let startedAt: UInt64
    let openedAt: UInt64

    private(set) var isAlive = true
    private(set) var isSavingAllowed = true
    /// The nodes it has links with.
    private var links: Set<NodeID>
    /// Whether a member has said that this node has departed.
    private(set) var isToldDeparted = false
    private var pausedFrames: [SimulatedNetwork.Frame] = []
    private(set) var isPaused = false
    private var nextSecondAt: UInt64 = 0
    /// Jobs that were asked for and are not begun, and the loop's inputs, in order.
    private var jobs: [StoreJob.Lane: [StoreJob]] = [:]
    private var handedOver: [NodeInput] = []
    /// The latest wall time that this life has seen.
    var latestWall: UInt64 = 0
    var heldDots: [Dot] = []
    /// How many pulls there had been when transactions began to wait for others.
    var pullsAtGap: UInt64?
    /// The last vector that was observed to be durable.
    var durableObserved = VersionVector()
    var acknowledgements = AcknowledgementBook()
    /// Which saves clients wait for, and at which nodes, by number in the book.
    var awaited: [Int: (dot: Dot, peer: NodeID)] = [:]
    var pins: [Int: (pin: GenerationPin, reading: Reading, since: UInt64)] = [:]
    var pastPoints = PastPoints()

    var coordinator: PersistentStoreCoordinator { store.coordinator }
    var actor: ActorID { core.actor }
    var state: StoreState { core.state }
    var stable: VersionVector { core.stable }
    var replicatorStatus: ReplicatorStatus { core.status }
    /// The vector of its store, reported or not.
    var vectorInStore: VersionVector { coordinator.lastCommit?.token.versionVector ?? state.vector }
    var name: String { "\(machine.number + 1)\(machine.isCopy ? "'" : "")" }

    /// Opens the machine's store and starts the process; `begin()` follows.
    ///
    /// - Parameter orphans: those that the process could not write before it opened the store
    ///   again.
    init(
        machine: Machine, world: World, minimumIncarnation: UInt64, startedAt: UInt64,
        orphans: OrphanBook
    ) throws {
        self.machine = machine
        self.world = world
        machine.lives += 1
        life = machine.lives
        faultsBefore = machine.disk.faultCount
        refusalsBefore = machine.disk.refusalCount
        failedSyncsBefore = machine.disk.count(of: .syncError)
        self.startedAt = startedAt
        openedAt = world.milliseconds
        links = Set(machine.configured)
        generator = SeededGenerator(seed: world.draw())
        var options = machine.options(seed: world.draw())
        options.minimumIncarnation = minimumIncarnation
        options.migration = .inferredGroupingDuplicates
        let coordinator = try PersistentStoreCoordinator(
            storeAt: machine.storePath, model: world.model(of: machine),
            cluster: World.cluster, node: machine.node, options: options)
        recoveryAtOpening = coordinator.recovery
        observation = coordinator.observeCommits { [mailbox] notice in
            mailbox.notices.withLock { $0.append(notice) }
        }
        coordinator.onStop { [mailbox] error in mailbox.stopped.withLock { $0 = error } }
        store = NodeStore(coordinator) { [clock = machine.clock] in clock.monotonicMilliseconds }
        var settings = machine.settings.core
        settings.orphans = orphans
        settings.beganAt = startedAt
        core = try NodeCore(
            store, settings: settings, generator: SeededGenerator(seed: world.draw()))
    }

    /// Tells the core that all is ready, and begins to tick.
    func begin() {
        observe {
            .started(
                node: $0, actor: actor, vector: state.vector, recovery: coordinator.recovery)
        }
        observeFound()
        world.noteMigration(by: self)
        if recoveryAtOpening == .founder { met(.founderReopened) }
        observeDurable()
        feed(.started(peers: machine.configured, wallMilliseconds: lookAtClock()))
        scheduleTick()
    }

    // MARK: Ending

    /// Ends the process's life; what becomes of the disk is the caller's.
    ///
    /// - Parameter isOrderly: whether the store is closed as the product closes it.
    func end(isOrderly: Bool) {
        guard isAlive else { return }
        isAlive = false
        noteGauges()
        observation = nil
        machine.memory.processEnded()
        pins = [:]
        pastPoints = PastPoints()
        if isOrderly { coordinator.close() }
    }

    /// Releases a dead process's connections, after its disk has noticed its death.
    func bury() { coordinator.close() }

    func pause() { isPaused = true }

    func resume() {
        guard isAlive, isPaused else { return }
        isPaused = false
        let frames = pausedFrames
        pausedFrames = []
        for frame in frames { take(frame) }
        tick()
    }

    // MARK: Observing

    func observe(_ make: (Int) -> Observation) { world.observe(make(machine.number)) }

    func met(_ beacon: Beacon) { world.met(beacon) }

    /// Observes what would survive a power loss, where that is more by now.
    func observeDurable() {
        let durable = coordinator.durableVector
        guard durable != durableObserved else { return }
        durableObserved = durable
        observe { .durable(node: $0, vector: durable) }
    }

    // MARK: The core

    func feed(_ input: NodeInput) {
        guard isAlive else { return }
        carryOut(core.handle(input, now: world.milliseconds))
        guard isAlive else { return }
        carryOut(core.settleSending(now: world.milliseconds))
    }

    private func carryOut(_ actions: [NodeAction]) {
        for action in actions {
            carryOut(action)
            guard isAlive else { return }
        }
    }

    private func carryOut(_ action: NodeAction) {
        switch action {
        case .publish(let bytes):
            for node in world.audience(of: machine) {
                world.send(bytes, from: self, to: world.address(of: node), .publish)
            }
        case .send(let bytes, let node):
            let isSent = world.send(
                bytes, from: self, to: world.address(of: node), .exchange, isQuestion: true)
            core.noteSending(to: node, isSent: isSent)
        case .reply(let bytes, let node):
            world.send(bytes, from: self, to: world.route(from: machine, to: node), .exchange)
        case .connect(let nodes): connect(to: nodes)
        case .set(let setting):
            if case .saving(let isAllowed) = setting { isSavingAllowed = isAllowed }
            world.trace { "node \(self.name) has its store set: \(setting)" }
            setting.set(in: coordinator)
        case .perform(let job, let delay): perform(job, after: delay)
        case .tell(let news): take(news)
        case .end(let ending): end(ending)
        }
    }

    private func take(_ news: NodeNews) {
        switch news {
        case .alarm(let alarm): take(alarm)
        case .quarantined(let node, let reason):
            world.trace { "node \(self.name) ignores node \(node): \(reason)" }
        case .stable(let vector):
            let members = state.membership.isEmpty ? nil : state.membership.current
            observe { .stable(node: $0, vector: vector, members: members) }
        case .refused: met(.doubleMet)
        case .orphaned, .orphansLeftOut: met(.orphanFound)
        }
    }

    private func take(_ alarm: Alarm) {
        world.trace { "node \(self.name) alarm: \(alarm)" }
        observe { .alarm(node: $0, alarm: alarm) }
        switch alarm {
        case .timestampInFuture(let dot, _): heldDots.append(dot)
        case .refused(_, let refusal) where refusal.part == .model:
            if world.machines.contains(where: world.isDeviating) { met(.peerRefused) }
        case .departed:
            met(.departedTold)
            isToldDeparted = true
        case .twoNodesWithOneID(machine.node, incarnation: nil): met(.doubleMet)
        default: break
        }
    }

    private func end(_ ending: NodeEnding) {
        switch ending {
        case .numberInUse: world.leave(self)
        case .otherStore:
            met(.doubleMet)
            world.leave(self)
        case .laterIncarnation(let incarnation, let hasMet):
            world.reopen(self, after: incarnation, hasMet: hasMet)
        case .copyReady: world.installTransfer(self)
        case .failed(let error): world.stop(self, reason: "\(error)")
        }
    }

    // MARK: The store's jobs

    /// Asks for a job. It is begun after a time drawn by chance, behind all that its lane was given
    /// before.
    private func perform(_ job: StoreJob, after milliseconds: UInt64) {
        let lane = job.lane
        jobs[lane, default: []].append(job)
        if case .setRecovery(let recovery, _) = job {
            world.trace { "node \(self.name) records its recovery: \(recovery)" }
            // The writer has it before any save that comes later.
            while isAlive, !(jobs[lane] ?? []).isEmpty { beginNext(lane) }
            return
        }
        later(milliseconds * 1_000 + handover()) { $0.beginNext(lane) }
    }

    private func beginNext(_ lane: StoreJob.Lane) {
        guard isAlive, let job = jobs[lane]?.first else { return }
        jobs[lane]?.removeFirst()
        begin(job)
    }

    /// Gives the loop an input after a time drawn by chance, behind all its earlier ones.
    func handOver(_ input: NodeInput) {
        handedOver.append(input)
        later(handover()) {
            guard !$0.handedOver.isEmpty else { return }
            $0.feed($0.handedOver.removeFirst())
        }
    }

    /// Does something of this life after a time, if it still lives then.
    func later(_ microseconds: UInt64, _ action: @escaping (SimulatedProcess) -> Void) {
        world.after(microseconds) { [self] in
            guard isAlive else { return }
            guard !isPaused else { return later(100_000, action) }
            action(self)
        }
    }

    private func handover() -> UInt64 {
        UInt64.random(in: 0...machine.settings.handoverMicroseconds, using: &generator)
    }

    // MARK: Frames

    /// Links with all members there are, and with none that others have retired: who left by
    /// itself is still told what others have of it.
    private func connect(to nodes: [NodeID]) {
        links.formUnion(nodes)
        guard let membership = try? coordinator.membership else { return }
        for member in membership.departed where member.departure?.isRetired ?? false {
            links.remove(member.node)
        }
    }

    /// Whether a frame finds a way in: a subscription only where there is a link, and with keys
    /// nothing else either, because the others' keys are not listed; but that of a node that others
    /// have retired opens the exchange.
    private func isLetIn(_ frame: SimulatedNetwork.Frame) -> Bool {
        guard frame.channel == .publish || world.namesPublisher else { return true }
        guard let sender = NodeID(frame.sender) else { return false }
        if links.contains(sender) { return true }
        return frame.channel == .exchange
            && state.membership[sender]?.departure?.isRetired ?? false
    }

    /// A frame arrives.
    func take(_ frame: SimulatedNetwork.Frame) {
        guard isAlive, isLetIn(frame) else { return }
        if isPaused {
            if pausedFrames.count < Self.pausedFrames { pausedFrames.append(frame) }
            return
        }
        let isNamed = frame.channel == .exchange || world.namesPublisher
        feed(
            .frame(
                frame.bytes, from: isNamed ? NodeID(frame.sender) : nil, over: frame.channel,
                isQuestion: frame.isQuestion))
        updateAcknowledgements()
    }

    // MARK: Time

    private func scheduleTick() {
        world.after(Self.tickMicroseconds + UInt64.random(in: 0...10_000, using: &generator)) {
            [self] in
            guard isAlive else { return }
            if !isPaused { tick() }
            if isAlive { scheduleTick() }
        }
    }

    private func tick() {
        let now = world.milliseconds
        updateAcknowledgements()
        expireAcknowledgements()
        feed(
            .tick(wallMilliseconds: lookAtClock(), awaited: acknowledgements.awaitedPeers))
        guard isAlive, now >= nextSecondAt else { return }
        nextSecondAt = now + 1_000
        noteGauges()
        consume()
    }

    func lookAtClock() -> UInt64 {
        let wall = machine.clock.wallMilliseconds
        latestWall = max(latestWall, wall)
        return wall
    }
}
