package import Coordinator
package import Merge
package import Replication

/// A node's shell without I/O: the replicator, and the duties that its effects put on a node.
///
/// The program drives it with sockets and timers, the simulator in virtual time. Both tell it what
/// has happened and do what it answers. The same inputs give the same actions in every run. It is a
/// value for one thread at a time, and nothing in it waits.
package struct NodeCore {
    /// How often things are done, in milliseconds, and how much at once.
    package struct Intervals: Hashable, Sendable {
        /// How soon a peer that could not be reached is tried again.
        package var reaching: UInt64 = 100
        /// How often what was applied is made durable.
        package var durability: UInt64 = 1_000
        /// How soon it is made durable again where a peer asks: it may be waiting for that.
        package var promptDurability: UInt64 = 50
        /// How often what is durable is recorded beside the store: what is collected waits for it.
        package var recording: UInt64 = 5_000
        /// How often what is stable is collected. Saves wait for it.
        package var collection: UInt64 = 1_000
        /// Rows and links looked at in one collection.
        package var collected = 1_000
        /// How often history is looked at where nothing more may go, and copies, pins and files are.
        package var upkeep: UInt64 = 1_000
        /// How soon the store is asked again to collect, to purge or to keep orphans where it could
        /// not, as on a full disk.
        package var retry: UInt64 = 10_000

        /// The program's own.
        package init() {}
    }

    /// How a node is run.
    package struct Settings: Sendable {
        /// The bounds of the protocol.
        package var limits = Limits()
        /// How often things are done.
        package var intervals = Intervals()
        /// How much history is kept; nil for all of it.
        package var history: HistoryLimits?
        /// Orphans that an earlier run of the process could not have written.
        package var orphans = OrphanBook()
        /// When the process that runs the node first had its store open, in monotonic milliseconds.
        package var beganAt: UInt64 = 0
        /// For how long after the start no copy of a member's store is asked for, in milliseconds.
        package var transferPauseMilliseconds: UInt64 = 0

        /// The defaults.
        package init() {}
    }

    /// This incarnation of this node.
    package let actor: ActorID
    let settings: Settings
    private(set) var replicator: Replicator
    /// The store, as of the latest report.
    package internal(set) var state: StoreState
    /// All that the replicator has declared stable.
    package private(set) var stable = VersionVector()
    /// Orphans that are not in the store yet.
    package internal(set) var orphans: OrphanBook

    private let hasBegunTransfer: Bool
    var now: UInt64 = 0
    var duties = DutyTable()
    var double: DoubleWatch
    private var pace: TransferPace
    /// Peers that the last frame for them did not reach, because no connection was up.
    private(set) var unreached: Set<NodeID> = []
    /// Peers for whom a frame was dropped, which the replicator has not been told yet.
    private var undelivered: Set<NodeID> = []
    var isDurabilityAsked = false
    /// The stable vector at the last collection, and whether that looked at all it could.
    var collectedAt = VersionVector()
    var isCollected = true
    /// Pages of the log that are ahead of the reported commits.
    private var earlyPages: [EarlyPage] = []
    private var actions: [NodeAction] = []

    private struct EarlyPage {
        var id: UInt64
        var transactions: [[UInt8]] = []
        var reachedEnd = false
        var ownSequence: UInt64 = 0
    }

    /// Prepares a node. Commits are to be observed already, so that none falls between the state
    /// that is read here and the first that is reported. One that is in both does no harm.
    ///
    /// - Parameter generator: the only source of chance.
    /// - Throws: ``CoordinatorError`` where the store cannot be read, or not be written.
    package init(_ store: NodeStore, settings: Settings, generator: SeededGenerator) throws {
        let coordinator = store.coordinator
        state = try StoreState(of: coordinator)
        let configuration = try Replicator.Configuration(
            of: store, transferPauseMilliseconds: settings.transferPauseMilliseconds)
        actor = configuration.actor
        hasBegunTransfer = configuration.transfer != nil
        self.settings = settings
        orphans = settings.orphans
        pace = TransferPace(bytesPerSecond: settings.limits.transferBytesPerSecond)
        double = DoubleWatch(
            beganAt: settings.beganAt, isStoreOwn: coordinator.recovery == .none)
        replicator = Replicator(
            configuration: configuration, limits: settings.limits, generator: generator)
    }

    /// The state of the peers, and how full the queues are.
    package var status: ReplicatorStatus { replicator.status }

    /// Each agreed peer's vector on disk, as it last said: acknowledgements rest on it.
    package var confirmations: [(node: NodeID, vector: VersionVector)] {
        replicator.confirmations
    }

    /// Takes in an event and answers with what is to be done, in order.
    ///
    /// - Parameter now: monotonic milliseconds, never falling from input to input.
    package mutating func handle(_ input: NodeInput, now: UInt64) -> [NodeAction] {
        self.now = max(self.now, now)
        switch input {
        case .started(let peers, let wall):
            // The copies that an earlier run gave, and what it took that cannot be gone on with.
            perform(.tendTransfers(all: true))
            if !hasBegunTransfer { perform(.discardTransfer) }
            feed(.started(state: state, peers: peers, now: now, wallMilliseconds: wall))
        case .tick(let wall, let awaited): tick(wall: wall, awaited: awaited)
        case .frame(let bytes, let sender, let channel, let isQuestion):
            if isQuestion { isDurabilityAsked = true }
            feed(.messageReceived(bytes: bytes, from: sender, over: channel, now: now))
        case .committed(let transactions, let committed):
            if !transactions.isEmpty { pace.noteSave(at: now) }
            take(committed, transactions)
        case .answered(let job, let result): take(result, of: job)
        case .awaited(let nodes): ask(nodes)
        case .quarantinesLifted:
            for peer in replicator.status.peers where peer.quarantinedUntil != nil {
                feed(.quarantineLifted(peer.node, now: now))
            }
        }
        return takeActions()
    }

    /// Takes note whether a frame went over a connection to a peer.
    package mutating func noteSending(to node: NodeID, isSent: Bool) {
        guard !isSent else {
            unreached.remove(node)
            return
        }
        unreached.insert(node)
        undelivered.insert(node)
    }

    /// Tells the replicator for whom frames were dropped, so that it does not wait for answers: it
    /// asks again, or another. To be asked after the actions of an input.
    package mutating func settleSending(now: UInt64) -> [NodeAction] {
        guard !undelivered.isEmpty else { return [] }
        self.now = max(self.now, now)
        let nodes = undelivered.sorted()
        undelivered = []
        for node in nodes { feed(.peerDisconnected(node, now: self.now)) }
        return takeActions()
    }

    private mutating func takeActions() -> [NodeAction] {
        var result: [NodeAction] = []
        swap(&result, &actions)
        return result
    }

    // MARK: - The replicator

    mutating func feed(_ input: Input) {
        for effect in replicator.handle(input) { carryOut(effect) }
    }

    mutating func perform(_ job: StoreJob, after delay: UInt64 = 0) {
        actions.append(.perform(job, after: delay))
    }

    mutating func end(_ ending: NodeEnding) { actions.append(.end(ending)) }

    mutating func ask(_ nodes: [NodeID]) {
        for node in nodes { feed(.peerConnected(node, now: now)) }
    }

    private mutating func carryOut(_ effect: Effect) {
        switch effect {
        case .publish(let frame): actions.append(.publish(frame))
        case .send(let node, let frame): actions.append(.send(frame, to: node))
        case .reply(let node, let frame): actions.append(.reply(frame, to: node))
        case .connect(let nodes): actions.append(.connect(to: nodes))
        case .setSaving(let isAllowed): actions.append(.set(.saving(isAllowed: isAllowed)))
        case .setClockOff(let isOff): actions.append(.set(.clock(isOff: isOff)))
        case .quarantined(let node, let reason, _):
            actions.append(.tell(.quarantined(node, reason: reason)))
        case .alarm(let alarm): raise(alarm)
        case .stable(let vector):
            stable = vector
            actions.append(.tell(.stable(vector)))
        case .reopen(let incarnation): double.note(later: incarnation, now: now)
        case .refused:
            double.noteRefusal()
            actions.append(.tell(.refused))
        case .keepOrphans(let transactions):
            let (taken, leftOut) = orphans.take(transactions)
            if !taken.isEmpty { actions.append(.tell(.orphaned(taken))) }
            leaveOut(leftOut)
        case .orphansNotKept(let dots): leaveOut(dots)
        default: carryOutByStore(effect)
        }
    }

    /// Carries out what the store does. Jobs of its writer keep their order, so what is known of
    /// its recovery is recorded before a later apply is committed.
    private mutating func carryOutByStore(_ effect: Effect) {
        switch effect {
        case .apply(let transactions): perform(.apply(transactions))
        case .readLog(let id, let vector, let byteLimit):
            perform(.readLog(id: id, after: vector, byteLimit: byteLimit))
        case .outgrown: perform(.setRecovery(.restored, founders: []))
        case .founder: perform(.setRecovery(.founder, founders: []))
        case .vouched(let founders): perform(.setRecovery(.none, founders: founders))
        case .remember(let actor): perform(.remember(actor))
        case .learnModels(let models): perform(.learnModels(models))
        case .compareModel(let model, let node): perform(.compareModel(model, of: node))
        case .readTransfer(let id, let number, let offset, let byteLimit, let node, let vector):
            perform(
                .readTransfer(
                    id: id, number: number, offset: offset, byteLimit: byteLimit, for: node,
                    covering: vector), after: pace.delay(for: byteLimit, at: now))
        case .takeTransfer(let copy, let donor, let offset, let bytes):
            perform(.takeTransfer(copy, donor: donor, offset: offset, bytes: bytes))
        case .installTransfer: perform(.checkTransfer)
        case .discardTransfer: perform(.discardTransfer)
        default: break
        }
    }

    private mutating func raise(_ alarm: Alarm) {
        switch alarm {
        case .twoNodesWithOneID(actor.node, incarnation: nil): double.noteMeeting(now: now)
        case .departed: actions.append(.set(.departed))
        default: break
        }
        actions.append(.tell(.alarm(alarm)))
    }

    mutating func leaveOut(_ dots: [Dot]) {
        guard !dots.isEmpty else { return }
        orphans.leaveOut(dots)
        actions.append(.tell(.orphansLeftOut(dots)))
    }

    // MARK: - The store

    /// Takes over what the store holds, and tells the replicator.
    mutating func take(_ newer: StoreState, _ transactions: [EncodedTransaction] = []) {
        state.adopt(newer)
        feed(.committed(transactions, state: newer.recording(state.recorded), now: now))
        answerPages()
    }

    /// Answers a log read, once the commits that it has seen were reported: else the peer could
    /// hear of a save of this node before the replicator has.
    mutating func answer(
        _ id: UInt64, _ transactions: [[UInt8]], reachedEnd: Bool, ownSequence: UInt64
    ) {
        earlyPages.append(
            EarlyPage(
                id: id, transactions: transactions, reachedEnd: reachedEnd,
                ownSequence: ownSequence))
        answerPages()
    }

    mutating func answerPages() {
        guard !earlyPages.isEmpty else { return }
        let ready = earlyPages.filter { $0.ownSequence <= state.vector[actor] }
        earlyPages.removeAll { $0.ownSequence <= state.vector[actor] }
        for page in ready {
            feed(
                .logRead(
                    id: page.id, transactions: page.transactions, reachedEnd: page.reachedEnd,
                    now: now))
        }
    }
}
