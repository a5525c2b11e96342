internal import Coordinator
internal import Merge
internal import Replication
internal import Synchronization

/// One life of a node: the production coordinator and replicator, and the shell between them that
/// in the product is NodeLoop and EffectInterpreter. As there, the answers to effects come later.
final class SimulatedProcess {
    /// What a frame may wait for while the process is paused; a full socket drops the rest.
    static let pausedFrames = 1_000
    static let tickMicroseconds: UInt64 = 50_000
    static let retryMilliseconds: UInt64 = 100

    let machine: Machine
    /// The number of this life among those of the machine.
    let life: Int
    /// How many faults had struck the disk before it began.
    let faultsBefore: UInt64
    /// How many writes the disk had refused before it began, for it was full.
    let refusalsBefore: UInt64
    /// How many syncs of the disk had failed before it began.
    let failedSyncsBefore: UInt64
    let coordinator: PersistentStoreCoordinator
    let actor: ActorID
    /// What was known of the store when it was opened.
    let recoveryAtOpening: StoreRecovery
    private var double: DoubleWatch
    unowned let world: World
    private(set) var replicator: Replicator
    var generator: SeededGenerator
    let mailbox = Mailbox()
    let outgoing: OutgoingTransfer
    let incoming: IncomingTransfer
    private var observation: CommitObservation?
    /// When the process began, which may have run the node before.
    let startedAt: UInt64
    let openedAt: UInt64

    private(set) var isAlive = true
    private(set) var state: StoreState
    private(set) var stable = VersionVector()
    private(set) var isSavingAllowed = true
    /// The nodes it has links with.
    private var links: Set<NodeID>
    /// Whether a member has told that this node is one no more.
    private(set) var isToldDeparted = false
    private var pausedFrames: [(SimulatedNetwork.Frame)] = []
    private(set) var isPaused = false
    private var earlyReads: [EarlyRead] = []
    private var unreached: [NodeID] = []
    private var isDurabilityAsked = false
    private var nextRetryAt: UInt64 = 0
    private var nextDurableAt: UInt64 = 0
    private var nextRecordAt: UInt64 = 0
    private var nextSecondAt: UInt64 = 0
    /// Saves that are waited for until other nodes have them on disk, and who has told so.
    var unconfirmed: [(dot: Dot, peers: [NodeID])] = []
    private var nextCollectionAt: UInt64 = 0
    /// The latest wall time that this life has seen.
    private var latestWall: UInt64 = 0
    private var isCollected = false
    private var heldDots: [Dot] = []
    /// How many pulls there had been when transactions began to wait for others.
    private var pullsAtGap: UInt64?
    var pins: [Int: (pin: GenerationPin, reading: Reading, since: UInt64)] = [:]

    private struct EarlyRead {
        var id: UInt64
        var transactions: [[UInt8]]
        var reachedEnd: Bool
        var ownSequence: UInt64
    }

    /// What the writer's queue tells; Sendable because the coordinator's closures are.
    final class Mailbox: Sendable {
        let notices = Mutex<[CommitNotice]>([])
        let stopped = Mutex<CoordinatorError?>(nil)
    }

    /// Opens the machine's store and starts the process; `begin()` follows.
    init(
        machine: Machine, world: World, minimumIncarnation: UInt64, startedAt: UInt64
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
        coordinator = try PersistentStoreCoordinator(
            storeAt: machine.storePath, model: world.model(of: machine),
            cluster: World.cluster, node: machine.node, options: options)
        outgoing = OutgoingTransfer(coordinator) { [clock = machine.clock] in
            clock.monotonicMilliseconds
        }
        incoming = IncomingTransfer(for: coordinator)
        guard let actor = coordinator.actor else {
            fatalError("A store opened for writing has an actor.")
        }
        self.actor = actor
        recoveryAtOpening = coordinator.recovery
        double = DoubleWatch(beganAt: startedAt, isStoreOwn: recoveryAtOpening == .none)
        let token = try coordinator.currentToken
        state = StoreState(
            vector: token.versionVector, durable: coordinator.durableVector,
            digest: try coordinator.currentDigest, membership: try coordinator.membership,
            beginnings: token.beginnings)
        replicator = Replicator(
            configuration: .init(
                cluster: World.cluster, actor: actor,
                modelHash: coordinator.model.modelHash,
                recovery: Self.recovery(coordinator.recovery),
                isFounder: coordinator.recovery == .founder,
                formerIncarnations: try coordinator.formerIncarnations,
                founders: try coordinator.founders,
                incarnations: try coordinator.rememberedIncarnations,
                models: world.plan.editions == nil ? [] : try coordinator.modelTexts,
                predecessor: coordinator.predecessor, hearsFirst: coordinator.mayBeUnknown,
                transfer: incoming.begun().map {
                    .init(
                        donor: $0.offer.donor, copy: TransferCopy($0.offer), offset: $0.offset)
                }),
            limits: machine.settings.limits,
            generator: SeededGenerator(seed: world.draw()))
        observation = coordinator.observeCommits { [mailbox] notice in
            mailbox.notices.withLock { $0.append(notice) }
        }
        coordinator.onStop { [mailbox] error in mailbox.stopped.withLock { $0 = error } }
    }

    /// What its store holds, told or not.
    var vectorInStore: VersionVector {
        (try? coordinator.currentToken.versionVector) ?? state.vector
    }

    private static func recovery(_ recovery: StoreRecovery) -> Recovery {
        switch recovery {
        case .none: .none
        case .new, .founder: .new
        case .restored: .restored
        }
    }

    /// Tells the replicator that all is ready, and begins to tick.
    func begin() {
        observe {
            .started(
                node: $0, actor: actor, vector: state.vector, recovery: coordinator.recovery)
        }
        observeFound()
        noteMigration()
        if recoveryAtOpening == .founder { met(.founderReopened) }
        observe { .durable(node: $0, vector: state.durable) }
        feed(
            .started(
                state: state, peers: machine.configured, now: world.milliseconds,
                wallMilliseconds: lookAtClock()))
        scheduleTick()
    }

    /// Tells of transactions in the store that nobody has heard of: the process that committed
    /// them ended at once.
    private func observeFound() {
        let known = VersionVector(
            state.vector.entries.compactMap { entry in
                var sequence = entry.sequence
                while sequence > 0,
                    world.context.archive.transaction(
                        Dot(actor: entry.actor, sequence: sequence)) == nil
                { sequence -= 1 }
                return sequence > 0 ? .init(actor: entry.actor, sequence: sequence) : nil
            })
        guard !known.covers(state.vector) else { return }
        let found = run { coordinator in
            try coordinator.read { reader in
                let beginnings = try reader.beginnings()
                return try reader.transactions(notCoveredBy: known, byteLimit: .max).transactions
                    .map { try EncodedTransaction(decoding: $0).completed(by: beginnings) }
            }
        }
        guard case .success(let transactions) = found, !transactions.isEmpty else { return }
        for transaction in transactions { world.noteChanges(in: transaction.transaction) }
        observe { .found(node: $0, transactions: transactions) }
    }

    private func noteMigration() {
        guard let editions = world.plan.editions else { return }
        let former = editions.former(of: machine.edition).filter(machine.hadEditions.contains)
        guard machine.hadEditions.insert(machine.edition).inserted, let last = former.last,
            !state.vector.isEmpty
        else { return }
        met(.storeMigrated)
        for edition in (last + 1)..<(editions.base(of: machine.edition) + 1) {
            for beacon in editions.beacons[edition] { met(beacon) }
        }
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
        if isOrderly { coordinator.close() }
    }

    /// Lets go of a dead process's connections, after its disk has noticed its death.
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

    // MARK: The replicator

    func feed(_ input: Input) {
        guard isAlive else { return }
        for effect in replicator.handle(input) {
            carryOut(effect)
            guard isAlive else { return }
        }
    }

    private func carryOut(_ effect: Effect) {
        switch effect {
        case .publish(let bytes):
            for node in world.audience(of: machine) {
                world.send(bytes, from: self, to: world.address(of: node), .publish)
            }
        case .send(let node, let bytes):
            let isSent = world.send(bytes, from: self, to: world.address(of: node), .exchange)
            if isSent {
                unreached.removeAll { $0 == node }
            } else if !unreached.contains(node) {
                unreached.append(node)
                later(0) { $0.feed(.peerDisconnected(node, now: $0.world.milliseconds)) }
            }
        case .reply(let node, let bytes):
            world.send(
                bytes, from: self, to: world.route(from: machine, to: node), .exchange)
        case .apply(let transactions): later(handover()) { $0.apply(transactions) }
        case .readLog(let id, let vector, let byteLimit):
            later(handover()) { $0.readLog(id, after: vector, byteLimit: byteLimit) }
        case .quarantined(let node, let reason, _):
            world.trace { "node \(self.name) ignores node \(node): \(reason)" }
        case .alarm(let alarm): take(alarm)
        case .stable(let vector):
            stable = vector
            isCollected = false
            let members = state.membership.isEmpty ? nil : state.membership.current
            observe { .stable(node: $0, vector: vector, members: members) }
        case .setSaving(let allowed):
            isSavingAllowed = allowed
            coordinator.setSaving(allowed: allowed)
        case .setClockOff(let isOff):
            world.trace { "node \(self.name) has its clock \(isOff ? "far off" : "right")" }
            coordinator.setClockOff(isOff)
        case .outgrown:
            world.trace { "node \(self.name) takes over from older stores" }
            run { try $0.outgrow() }
        case .founder:
            world.trace { "node \(self.name) is a founder" }
            run { try $0.noteFounder() }
        case .vouched(let founders):
            world.trace { "node \(self.name) is vouched for" }
            if case .success = run({ try $0.vouch(founders: founders) }) {
                // It waits for the disk.
                observe { .durable(node: $0, vector: coordinator.durableVector) }
            }
        case .connect(let nodes): connect(to: nodes)
        case .remember(let actor): later(handover()) { $0.remember(actor) }
        case .reopen(let incarnation): double.note(later: incarnation, now: world.milliseconds)
        case .refused:
            met(.doubleMet)
            double.noteRefusal()
        case .readTransfer(let id, let number, let offset, let byteLimit, let node, let vector):
            later(handover()) {
                $0.readTransfer(
                    id, number, from: offset, byteLimit: byteLimit, for: node, covering: vector)
            }
        case .takeTransfer(let copy, let donor, let offset, let bytes):
            later(handover()) { $0.take(copy, donor: donor, offset: offset, bytes: bytes) }
        case .installTransfer: later(handover()) { $0.checkTransfer() }
        case .discardTransfer: later(handover()) { try? $0.incoming.discard() }
        case .keepOrphans(let orphans):
            met(.orphanFound)
            later(handover()) { $0.keepOrphans(orphans) }
        case .orphansNotKept: met(.orphanFound)
        case .learnModels(let texts): later(handover()) { $0.learn(texts) }
        case .compareModel(let text, let node):
            later(handover()) {
                $0.feed(
                    .modelCompared(
                        node, hash: text.hash, difference: "differs", now: $0.world.milliseconds))
            }
        }
    }

    /// Lets the store learn of models that nodes of its own model had before it.
    private func learn(_ texts: [ModelText]) {
        let result = run { try $0.learn(texts.compactMap(\.model)) }
        guard isAlive else { return }
        guard case .success(let known) = result else {
            return feed(.modelsNotLearnt(texts, now: world.milliseconds))
        }
        if !known.isEmpty { met(.modelLearnt) }
        feed(.modelsLearnt(texts.filter { known.contains($0.hash) }, now: world.milliseconds))
    }

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
    /// nothing else either, for the others' keys are not listed; but that of a node that others have
    /// retired opens the exchange.
    private func isLetIn(_ frame: SimulatedNetwork.Frame) -> Bool {
        guard frame.channel == .publish || world.namesPublisher else { return true }
        guard let sender = NodeID(frame.sender) else { return false }
        if links.contains(sender) { return true }
        return frame.channel == .exchange
            && state.membership[sender]?.departure?.isRetired ?? false
    }

    private func remember(_ actor: ActorID) {
        let result = run { try $0.remember(actor) }
        guard isAlive else { return }
        var isDurable = false
        if case .success = result {
            isDurable = true
            observe { .durable(node: $0, vector: coordinator.durableVector) }
        }
        feed(.remembered(actor, isDurable: isDurable, now: world.milliseconds))
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
            coordinator.setDeparted()
        case .twoNodesWithOneID(machine.node, incarnation: nil):
            met(.doubleMet)
            double.noteMeeting(now: world.milliseconds)
        default: break
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

    func handover() -> UInt64 {
        UInt64.random(in: 0...machine.settings.handoverMicroseconds, using: &generator)
    }

    var name: String { "\(machine.number + 1)\(machine.isCopy ? "'" : "")" }

    // MARK: Frames

    /// A frame arrives.
    func take(_ frame: SimulatedNetwork.Frame) {
        guard isAlive, isLetIn(frame) else { return }
        if isPaused {
            if pausedFrames.count < Self.pausedFrames { pausedFrames.append(frame) }
            return
        }
        if frame.channel == .exchange { isDurabilityAsked = true }
        let isNamed = frame.channel == .exchange || world.namesPublisher
        feed(
            .messageReceived(
                bytes: frame.bytes, from: isNamed ? NodeID(frame.sender) : nil,
                over: frame.channel, now: world.milliseconds))
    }

    // MARK: Time

    /// Ends or opens the store anew where another process lives under this node's number, or may.
    private func heedDouble(_ now: UInt64) {
        switch double.verdict(now: now) {
        case .goOn: break
        case .end: world.leave(self)
        case .endForOtherStore:
            met(.doubleMet)
            world.leave(self)
        case .reopen(let incarnation, let hasMet):
            world.reopen(self, after: incarnation, hasMet: hasMet)
        }
    }

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
        feed(.tick(now: now, wallMilliseconds: lookAtClock()))
        if isAlive, now >= nextRetryAt {
            nextRetryAt = now + Self.retryMilliseconds
            for node in unreached.sorted() { feed(.peerConnected(node, now: now)) }
        }
        if isAlive { heedDouble(now) }
        if isAlive { makeDurableIfDue(now) }
        if isAlive { recordIfDue(now) }
        if isAlive, now >= nextCollectionAt { collect(now) }
        if isAlive, now >= nextSecondAt {
            nextSecondAt = now + 1_000
            noteGauges()
            tendPins()
            tendHistory()
            consume()
            tellConfirmed()
        }
    }

    private func makeDurableIfDue(_ now: UInt64) {
        guard state.durable != state.vector else { return }
        let interval =
            isDurabilityAsked
            ? min(50, machine.settings.durabilityMilliseconds)
            : machine.settings.durabilityMilliseconds
        guard now >= nextDurableAt + interval else { return }
        isDurabilityAsked = false
        nextDurableAt = now
        guard succeeds(run { try $0.makeDurable() }, at: "make durable") != nil else { return }
        guard let token = try? coordinator.currentToken,
            let digest = try? coordinator.currentDigest,
            let membership = try? coordinator.membership
        else { return }
        // The three belong together, as in the product: an apply that is not told of yet counts.
        let reached = StoreState(
            vector: token.versionVector, durable: coordinator.durableVector, digest: digest,
            membership: membership, beginnings: token.beginnings)
        observe { .durable(node: $0, vector: reached.durable) }
        adopt(reached)
        feed(.committed([], state: standing(reached), now: now))
    }

    private func recordIfDue(_ now: UInt64) {
        guard state.recorded != state.durable, now >= nextRecordAt else { return }
        nextRecordAt = now + machine.settings.recordMilliseconds
        guard let recorded = succeeds(run { try $0.recordStanding() }, at: "record its standing")
        else { return }
        state.recorded.join(recorded)
        feed(.committed([], state: state, now: now))
    }

    private func collect(_ now: UInt64) {
        nextCollectionAt = now + machine.settings.collectionMilliseconds
        guard !isCollected, stable != VersionVector() else { return }
        let limit = machine.settings.collectionLimit
        let collected = run { try $0.collect(stable: self.stable, limit: limit) }
        guard let result = succeeds(collected, at: "collect") else { return }
        isCollected = result.isDone
        if result.siblingsCollapsed > 0 { met(.siblingCollapsed) }
        if result.tombstonesCollected > 0 { met(.tombstoneCollected) }
        if result.linksCollected > 0 { met(.linkCollected) }
        observe { .collected(node: $0, result: result) }
    }

    // MARK: The store

    /// Runs something on the coordinator and takes in what it committed.
    ///
    /// A fault of the disk may end the process meanwhile; then the answer went to nobody.
    @discardableResult
    func run<Value>(
        _ body: (PersistentStoreCoordinator) throws -> Value
    ) -> Result<Value, any Error> {
        let result = Result { try body(coordinator) }
        takeCommits()
        return result
    }

    func takeCommits() {
        let notices = mailbox.notices.withLock { notices in
            defer { notices = [] }
            return notices
        }
        for notice in notices {
            observe { .committed(node: $0, notice: notice) }
            checkTimestamps(notice)
            noteReleases(notice)
            world.checkModels(notice, at: machine)
            guard notice.isLocal else { continue }
            noteUnconfirmed(notice.transactions.map(\.dot))
            // As in the product: a local commit has waited for the disk. What is durable by now may be
            // more, of groups that are told of later.
            let committed = StoreState(
                vector: notice.token.versionVector, digest: notice.digest,
                membership: notice.membership, beginnings: notice.token.beginnings)
            observe { .durable(node: $0, vector: committed.durable) }
            later(handover()) {
                $0.adopt(committed)
                $0.feed(
                    .committed(
                        notice.transactions, state: $0.standing(committed),
                        now: $0.world.milliseconds))
                $0.answerReads()
            }
        }
        world.checkDisk(of: self)
        if isAlive, let error = mailbox.stopped.withLock({ $0 }) {
            world.stop(self, reason: "\(error)")
        }
        if !notices.isEmpty { world.checkDouble(of: self) }
        if isAlive, world.readsEveryGeneration, !notices.isEmpty { readAndObserve() }
    }

    private func lookAtClock() -> UInt64 {
        let wall = machine.clock.wallMilliseconds
        latestWall = max(latestWall, wall)
        return wall
    }

    /// What another node stamped far ahead is to be held until its time comes (DESIGN section 13).
    private func checkTimestamps(_ notice: CommitNotice) {
        _ = lookAtClock()
        guard !notice.isLocal else { return }
        let horizon = latestWall + machine.settings.limits.futureMilliseconds
        for transaction in notice.transactions {
            let time = transaction.transaction.timestamp.milliseconds
            guard time > horizon else { continue }
            world.violate(
                4,
                "\(Telling.node(machine.number)) \(transaction.dot): expected it held until its "
                    + "time comes, found it applied \(time - horizon) ms too early")
        }
    }

    private func noteReleases(_ notice: CommitNotice) {
        if notice.transactions.count > 1, notice.isLocal { met(.groupCommitted) }
        if !notice.isLocal {
            world.statistics.applied += UInt64(notice.transactions.count)
            for transaction in notice.transactions {
                let writer = transaction.dot.actor
                if transaction.frontier != transaction.transaction.seen {
                    met(.incarnationCompacted)
                }
                if writer.node == machine.node { met(.ownSavesReturned) }
                if world.isClosed(writer) { met(.closedActorPulled) }
            }
        }
        for transaction in notice.transactions
        where transaction.transaction.changes.contains(where: { $0.kind == .revival }) {
            met(.rowRevived)
        }
        guard !heldDots.isEmpty else { return }
        for transaction in notice.transactions where heldDots.contains(transaction.dot) {
            heldDots.removeAll { $0 == transaction.dot }
            met(.heldTimestampReleased)
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
        state.beginnings.join(newer.beginnings)
        state.durable.join(newer.durable)
    }

    private func apply(_ transactions: [EncodedTransaction]) {
        let result = run { try $0.apply(transactions) }
        guard isAlive else { return }
        switch result {
        case .success(let applied):
            let reached = StoreState(
                vector: applied.versionVector, durable: applied.durable, digest: applied.digest,
                membership: applied.membership, beginnings: applied.beginnings)
            let rejected = applied.rejected.map { Rejection(dot: $0.dot, reason: $0.reason) }
            for rejection in rejected {
                world.trace { "node \(self.name) rejects \(rejection.dot): \(rejection.reason)" }
            }
            later(handover()) {
                $0.adopt(reached)
                $0.feed(
                    .applied(
                        state: $0.standing(reached), rejected: rejected,
                        now: $0.world.milliseconds))
                $0.answerReads()
            }
        case .failure:
            _ = succeeds(result, at: "apply")
            later(handover()) {
                $0.feed(.applied(state: $0.state, rejected: [], now: $0.world.milliseconds))
            }
        }
    }

    private func readLog(_ id: UInt64, after vector: VersionVector, byteLimit: Int) {
        var read = EarlyRead(id: id, transactions: [], reachedEnd: false, ownSequence: 0)
        let result = run { coordinator in
            try coordinator.read { reader in
                let page = try reader.transactions(
                    notCoveredBy: vector, byteLimit: max(1, byteLimit))
                read.transactions = page.transactions
                read.reachedEnd = page.reachedEnd
                read.ownSequence = try reader.token.versionVector[self.actor]
            }
        }
        guard isAlive else { return }
        if case .failure = result {
            noteReadFailure(result)
            read = EarlyRead(id: id, transactions: [], reachedEnd: false, ownSequence: 0)
        }
        later(handover()) {
            $0.earlyReads.append(read)
            $0.answerReads()
        }
    }

    /// Answers log reads; one that is ahead of what the replicator has heard of waits, as in the
    /// product.
    private func answerReads() {
        let ready = earlyReads.filter { $0.ownSequence <= state.vector[actor] }
        guard !ready.isEmpty else { return }
        earlyReads.removeAll { $0.ownSequence <= state.vector[actor] }
        for read in ready {
            feed(
                .logRead(
                    id: read.id, transactions: read.transactions, reachedEnd: read.reachedEnd,
                    now: world.milliseconds))
        }
    }

    // MARK: Figures

    private func noteGauges() {
        let gauges = replicator.status.gauges
        if gauges.droppedCount > 0 { met(.queueOverflowed) }
        noteGap(gauges)
        if gauges.piecesBytes > 0 { met(.sentInPieces) }
        if gauges.partialHeadsCount > 0 { met(.headsAskedWhole) }
        checkOrphans()
        if world.plan.editions != nil { noteHeldForModel() }
        let sizes = coordinator.storeSizes()
        observe {
            .gauges(
                node: $0,
                gauges: ProcessGauges(
                    replicator: gauges, held: replicator.status.held.count,
                    limits: machine.settings.limits, writeAheadLogBytes: sizes.walBytes,
                    writeAheadLogLimit: machine.settings.walLimit,
                    pins: coordinator.pinStatus.count))
        }
    }

    /// A gap is repaired by a pull where transactions waited for others, something was pulled
    /// since, and they wait no longer.
    private func noteGap(_ gauges: ReplicatorGauges) {
        if gauges.waitingCount > 0 {
            pullsAtGap = pullsAtGap ?? gauges.pullCount
        } else if let pulls = pullsAtGap {
            pullsAtGap = nil
            if gauges.pullCount > pulls { met(.gapRepairedByPull) }
        }
    }

    private func noteHeldForModel() {
        let isHeld = replicator.status.held.contains {
            if case .unknownModel = $0.reason { true } else { false }
        }
        if isHeld { met(.heldForModel) }
    }

    var replicatorStatus: ReplicatorStatus { replicator.status }
}

extension PersistentStoreCoordinator {
    /// The models whose transactions can be applied, oldest first, the store's own the last.
    fileprivate var modelTexts: [ModelText] {
        get throws { (try formerModels + [model]).map { ModelText($0) } }
    }
}

extension ModelText {
    fileprivate init(_ model: ManagedObjectModel) {
        self.init(
            hash: model.modelHash, text: Array(JSONWriter.text(of: model.jsonValue()).utf8))
    }

    /// The model; nil where the text is none, or is that of another hash.
    fileprivate var model: ManagedObjectModel? {
        guard let model = try? ManagedObjectModel(json: text), model.modelHash == hash else {
            return nil
        }
        return model
    }
}

/// Chance for the coordinator's door, which is Sendable; everything runs on one thread.
final class SharedGenerator: Sendable {
    private let generator: Mutex<SeededGenerator>

    init(seed: UInt64) { generator = Mutex(SeededGenerator(seed: seed)) }

    func next() -> UInt64 { generator.withLock { $0.next() } }
}
