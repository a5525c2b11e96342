internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// The work of a process's store, and the observations of it.
extension SimulatedProcess {
    /// The writer queue's messages; Sendable because the coordinator's closures are.
    final class Mailbox: Sendable {
        let notices = Mutex<[CommitNotice]>([])
        let answers = Mutex<[Result<StoreOutcome, any Error>]>([])
        let stopped = Mutex<CoordinatorError?>(nil)
    }

    // MARK: Jobs

    /// Does a job, and hands its answer over.
    ///
    /// A fault of the disk may end the process meanwhile; then the answer goes to nobody.
    func begin(_ job: StoreJob) {
        if case .tendHistory = job { rememberJournal() }
        guard isAlive else { return }
        run { [store, mailbox] _ in
            store.perform(job) { result in mailbox.answers.withLock { $0.append(result) } }
        }
        let answers = mailbox.answers.withLock { answers in
            defer { answers = [] }
            return answers
        }
        for result in answers where isAlive {
            switch result {
            case .success(let outcome): note(outcome, of: job)
            case .failure: noteFailure(result, of: job)
            }
            if isAlive { handOver(.answered(job, result)) }
        }
    }

    private func note(_ outcome: StoreOutcome, of job: StoreJob) {
        switch (job, outcome) {
        case (.collect(let stable, _), .collected(let result)):
            if result.siblingsCollapsed > 0 { met(.siblingCollapsed) }
            if result.tombstonesCollected > 0 { met(.tombstoneCollected) }
            if result.linksCollected > 0 { met(.linkCollected) }
            observe { .collected(node: $0, stable: stable, result: result) }
        case (.keepOrphans(let orphans), .orphansKept(let keeping)):
            check(keeping, of: orphans)
        case (.tendHistory(let limits, _), .historyTended(let tending)):
            note(tending, limits)
        case (_, .learnt(let models)): if !models.isEmpty { met(.modelLearnt) }
        case (_, .applied(_, let rejected)):
            for rejection in rejected {
                world.trace { "node \(self.name) rejects \(rejection.dot): \(rejection.reason)" }
            }
        default: break
        }
    }

    /// A job of the store may fail only where its disk has a fault. One of a copy or of models may
    /// fail for what others sent.
    private func noteFailure(_ result: Result<StoreOutcome, any Error>, of job: StoreJob) {
        switch job {
        case .readLog: noteReadFailure(result)
        case .apply: _ = succeeds(result, at: "apply")
        case .makeDurable: _ = succeeds(result, at: "make durable")
        case .record: _ = succeeds(result, at: "record its standing")
        case .collect: _ = succeeds(result, at: "collect")
        case .tendHistory: _ = succeeds(result, at: "tend its history")
        case .keepOrphans: _ = succeeds(result, at: "keep orphans")
        case .remember: _ = succeeds(result, at: "remember an incarnation")
        case .setRecovery: _ = succeeds(result, at: "record its recovery")
        default: break
        }
    }

    private func note(_ tending: HistoryTending, _ limits: HistoryLimits) {
        if tending.purgedUnstable > 0 { met(.historyPurged) }
        if case .consumer = tending.hold { met(.historyKept) }
        let purged = run { try $0.read { try $0.purgedVector } }
        if case .success(let vector) = purged { observe { .purged(node: $0, vector: vector) } }
        if tending.recordsDropped > 0 { met(.closedRecordsDropped) }
        if case .success(let status) = run({ try $0.historyStatus() }) {
            observe { .tended(node: $0, limits: limits, tending: tending, status: status) }
        }
    }

    /// Lets the world remember what the journal says of the past, before some of it goes.
    func rememberJournal() {
        let result = run { coordinator in
            try coordinator.read {
                try $0.conflicts(ConflictQuery(isOpen: false, limit: 10_000))
            }
        }
        if case .success(let conflicts) = result { world.remember(conflicts) }
    }

    // MARK: Orphans

    /// Holds the store to what it keeps: what it gives is what was saved.
    private func check(_ keeping: OrphanKeeping, of transactions: [EncodedTransaction]) {
        let found = run { try $0.orphans() }
        guard isAlive, case .success(let orphans) = found else { return }
        for dot in keeping.kept {
            met(.orphanKept)
            let kept = orphans.first { $0.dot == dot }?.encoded
            // What it has seen is completed by what is known at the time.
            if kept?.bytes == transactions.first(where: { $0.dot == dot })?.bytes { continue }
            world.violate(
                2,
                "\(Telling.node(machine.number)) was to keep the orphan \(dot): expected it as it was "
                    + "saved, found \(kept == nil ? "nothing" : "something else")")
        }
    }

    /// Holds the store to keeping as orphans only what it has not applied.
    private func checkOrphans() {
        guard let orphans = try? coordinator.orphanedDots, !orphans.isEmpty else { return }
        let vector = vectorInStore
        for dot in orphans where vector.contains(dot) {
            world.violate(
                2,
                "\(Telling.node(machine.number)) has applied \(dot): expected it to be no orphan any "
                    + "more, found it kept as one")
        }
    }

    // MARK: Commits

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
            awaitConfirmations(of: notice.transactions.map(\.dot))
            let committed = StoreState(notice)
            observe { .durable(node: $0, vector: committed.durable) }
            handOver(.committed(notice.transactions, committed))
        }
        world.checkDisk(of: self)
        if isAlive, let error = mailbox.stopped.withLock({ $0 }) {
            world.stop(self, reason: "\(error)")
        }
        if isAlive { observeDurable() }
        if !notices.isEmpty { world.checkDouble(of: self) }
        if isAlive, world.readsEveryGeneration, !notices.isEmpty { readAndObserve() }
    }

    /// Tells of transactions in the store that nobody has heard of: the process that committed
    /// them ended at once.
    func observeFound() {
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

    /// Checks that a save of another node stamped far ahead is held until its time comes (DESIGN
    /// section 13).
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

    // MARK: Figures

    func noteGauges() {
        let status = replicatorStatus
        if status.gauges.droppedCount > 0 { met(.queueOverflowed) }
        noteGap(status.gauges)
        if status.gauges.piecesBytes > 0 { met(.sentInPieces) }
        if status.gauges.partialHeadsCount > 0 { met(.headsAskedWhole) }
        checkOrphans()
        let isHeld = status.held.contains {
            if case .unknownModel = $0.reason { true } else { false }
        }
        if isHeld, world.plan.editions != nil { met(.heldForModel) }
        let sizes = coordinator.storeSizes()
        observe {
            .gauges(
                node: $0,
                gauges: ProcessGauges(
                    replicator: status.gauges, held: status.held.count,
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
}
