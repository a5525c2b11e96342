// One loop: frames, answers and time into the node's core, actions out.
//
// Threading: made, run and released on the loop's own thread. Everything that other threads need
// goes through `LoopShared`.

internal import Coordinator
internal import Logging
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// The loop of a node: it owns the transport and the node's core, and blocks on nothing but the
/// sockets.
final class NodeLoop {
    /// How often it is looked how long transactions wait to become stable.
    static let secondMilliseconds: UInt64 = 1_000
    /// How many polls are drained before other work gets its turn.
    static let pollsInRow = 16

    /// The settings of a loop.
    struct Setting {
        var peers: [MeshPeer]
        /// Peers that reloads took out: members still, and cut off.
        var withdrawn: Set<NodeID>
        var beganAt: UInt64
        var logger: Logger
    }

    let shared: LoopShared
    let coordinator: PersistentStoreCoordinator
    let logger: Logger
    private(set) var core: NodeCore
    private let transport: any Transport
    private let lanes: StoreLanes
    private var links: MeshLinks
    private var meshWatch = MeshWatch()
    private var stabilityWatch: StabilityWatch
    private var stabilityReport = StabilityReport()

    private let peers: [NodeID]
    private let startedAt = MonotonicClock.milliseconds
    private let beganAt: UInt64
    private var ticks = TickPace()
    private var nextSecondAt: UInt64 = 0
    private var isStopping = false
    /// Whether the alarms were raised that are raised once until what they tell of is over.
    var isRemovalTold = false
    var isDurabilityTold = false

    init(
        _ core: NodeCore, shared: LoopShared, transport: any Transport, lanes: StoreLanes,
        setting: Setting
    ) {
        self.core = core
        self.shared = shared
        self.transport = transport
        self.lanes = lanes
        coordinator = lanes.store.coordinator
        logger = setting.logger
        peers = setting.peers.map(\.node)
        beganAt = setting.beganAt
        stabilityWatch = StabilityWatch(startedAt: startedAt)
        links = MeshLinks(
            transport: transport, coordinator: coordinator, logger: logger,
            plan: MeshPlan(
                node: coordinator.node, configured: setting.peers, withdrawn: setting.withdrawn))
    }

    /// Starts the core: from then on saves are let through or refused as it says.
    ///
    /// - Throws: where the transport is broken.
    func begin() throws {
        shared.handover.attach(transport.wakeup)
        try feed(.started(peers: peers, wallMilliseconds: MonotonicClock.wallMilliseconds))
        publishReport(isRunning: true)
    }

    /// Runs until told to stop.
    ///
    /// - Throws: what made it end otherwise: a broken transport or store, or a number in use.
    func run() throws {
        // However it ends, the next run has what the store has not taken.
        defer { shared.orphans.keep(core.orphans) }
        while !isStopping {
            let now = MonotonicClock.milliseconds
            let wait = ticks.nextAt > now ? Int(ticks.nextAt - now) : 0
            try take(transport.poll(timeoutMilliseconds: wait))
            try takeHandedOver()
            if MonotonicClock.milliseconds >= ticks.nextAt { try tick() }
        }
        publishReport(isRunning: false)
    }

    private func feed(_ input: NodeInput) throws {
        ticks.noteEvent(now: MonotonicClock.milliseconds)
        try carryOut(core.handle(input, now: MonotonicClock.milliseconds))
        try carryOut(core.settleSending(now: MonotonicClock.milliseconds))
    }

    // MARK: - What comes in

    /// Takes in frames, and goes on while there are more, so that what comes together is applied
    /// together.
    private func take(_ first: [IncomingFrame]) throws {
        var frames = first
        var polls = 0
        while !frames.isEmpty {
            // Commits here came before what peers say about them.
            try takeHandedOver()
            for frame in frames {
                try feed(
                    .frame(
                        frame.bytes, from: frame.sender,
                        over: frame.channel == .publish ? .publish : .exchange,
                        isQuestion: frame.route != nil))
            }
            shared.acknowledgements.update(core.confirmations)
            polls += 1
            frames = polls < Self.pollsInRow ? try transport.poll(timeoutMilliseconds: 0) : []
        }
    }

    private func takeHandedOver() throws {
        var isAnybodyAwaited = false
        transport.wakeup.hear()
        for event in shared.handover.take() {
            switch event {
            case .committed(let transactions, let committed):
                shared.counters.countGroup(transactions.count)
                try feed(.committed(transactions, committed))
            case .answered(let job, let result):
                tell(result, of: job)
                try feed(.answered(job, result))
            case .rekeyed(let change): try links.update(change)
            case .awaited: isAnybodyAwaited = true
            case .quarantinesLifted: try feed(.quarantinesLifted)
            case .failed(let error): throw error
            case .stop: isStopping = true
            }
        }
        // Once for all who wait, even if they are a thousand.
        if isAnybodyAwaited { try feed(.awaited(shared.acknowledgements.awaitedPeers)) }
    }

    private func tick() throws {
        let now = MonotonicClock.milliseconds
        shared.acknowledgements.update(core.confirmations)
        shared.acknowledgements.expire(now: now)
        let awaited = shared.acknowledgements.awaitedPeers
        ticks.noteTick(now: now, isAwaited: !awaited.isEmpty)
        let actions = core.handle(
            .tick(wallMilliseconds: MonotonicClock.wallMilliseconds, awaited: awaited), now: now)
        if !actions.isEmpty { ticks.noteEvent(now: now) }
        try carryOut(actions)
        try carryOut(core.settleSending(now: MonotonicClock.milliseconds))
        if now >= nextSecondAt {
            nextSecondAt = now + Self.secondMilliseconds
            stabilityReport = stabilityWatch.note(
                core.status, durable: core.state.durable, now: now)
        }
        publishReport(isRunning: true)
    }

    // MARK: - What goes out

    private func carryOut(_ actions: [NodeAction]) throws {
        for action in actions {
            switch action {
            case .publish(let frame): _ = try sending(frame) { try transport.publish($0) }
            case .send(let frame, let node):
                let outcome = try sending(frame) { try transport.send($0, to: node) }
                core.noteSending(to: node, isSent: outcome == .sent)
            case .reply(let frame, let node):
                _ = try sending(frame) { try transport.reply($0, to: node) }
            case .connect(let nodes): links.connect(to: nodes)
            case .set(let setting):
                setting.set(in: coordinator)
                tell(setting)
            case .perform(let job, let delay):
                tellBeginning(of: job)
                lanes.perform(job, after: delay)
            case .tell(let news): tell(news)
            case .end(let ending): throw ending.error(of: coordinator.node)
            }
        }
    }

    /// A frame over the transport's limit is dropped and reported: it is this node's own fault, but
    /// no reason to stop, nor to send it again.
    private func sending(
        _ frame: [UInt8], by action: ([UInt8]) throws -> FrameOutcome
    ) throws -> FrameOutcome {
        do { return try action(frame) } catch let error as NodeError
            where error.code == .frameTooLarge
        {
            logger.error(
                "A frame is too long to be sent", metadata: [LogKeys.bytes: "\(frame.count)"])
            return .sent
        }
    }

    private func publishReport(isRunning: Bool) {
        let keys = transport.keyReport
        meshWatch.note(keys, now: MonotonicClock.milliseconds, logger: logger)
        shared.orphans.keep(core.orphans)
        let report = LoopReport(
            replicator: core.status, transport: transport.statistics, keys: keys,
            stability: stabilityReport, startedAt: startedAt, beganAt: beganAt,
            isRunning: isRunning)
        shared.report.withLock { $0 = report }
    }
}

extension NodeEnding {
    /// The error that a run ends with.
    fileprivate func error(of node: NodeID) -> any Error {
        switch self {
        case .numberInUse: NodeError.numberInUse(node)
        case .otherStore:
            NodeError(
                .nodeIDInUse,
                "Another store of node \(node) is or was in use in this cluster; "
                    + "to go on with this one, stop the other, and remove the file beside this "
                    + "store whose name ends in -incarnation")
        case .laterIncarnation(let later, let hasMet):
            NodeError(
                .incarnationOutdated,
                "The cluster knows a later incarnation of node \(node) than this one",
                context: ["incarnation": "\(later)", "hasMet": "\(hasMet)"])
        case .copyReady:
            NodeError(
                .transferReady, "A copy of a member's store is to take this store's place")
        case .failed(let error): error
        }
    }
}
