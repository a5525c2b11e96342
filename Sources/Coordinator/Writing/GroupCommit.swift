import GRDB
package import Merge
import Synchronization

/// The outcome of a batch of foreign transactions.
package struct ApplyResult: Sendable {
    /// The store's vector afterwards.
    package let versionVector: VersionVector
    /// The beginnings of the actors of that vector.
    package let beginnings: Beginnings
    /// Its digest.
    package let digest: ProjectionDigest
    /// Its generation.
    package let generation: UInt64
    /// The members of the cluster then.
    package let membership: Membership
    /// The part of the vector that is on disk for certain.
    package let durable: VersionVector
    /// Transactions that could not be merged, with the reason; they are to be held.
    package let rejected: [(dot: Dot, reason: String)]
}

/// Group commit: saves and foreign transactions that wait are committed together, one SQLite
/// transaction and one wait for the disk for all of them.
///
/// The engine belongs to the writer connection's queue. A caller that enqueues a job while nobody
/// works off the waiting ones becomes the leader and does so; the others wait for their completion.
/// So there is no thread of our own, and while one group waits for the disk the next one gathers.
/// (Were every caller to take its turn on the queue, a caller whose job was done by another would
/// still wait in line, and groups would stay at one job.)
///
/// A caller that may not wait long leads in its own thread all the same while jobs are short and the disk
/// is quick: waking another thread would take as long as the commit. Else the writer's queue leads.
///
/// `@unchecked Sendable`: `engine` is touched on the writer queue only, inside ``drain(atMost:)`` and
/// ``finish()``, but for its constant `actor`; everything else is behind a mutex.
final class GroupCommit: @unchecked Sendable {
    /// Groups that a blocked caller commits for others before it hands over: its own save is in the
    /// first.
    private static let groupsByCaller = 4

    /// The state of the last commit, for others to read.
    struct Published {
        var token: QueryGenerationToken
        var digest: ProjectionDigest
        var membership: Membership
        var log: LogStanding
        var tombstones: Int
        var orphans: [Dot]
        var durable: VersionVector
        /// The generation whose vector ``durable`` is.
        var durableGeneration: UInt64
    }

    private struct Waiting {
        var queue = CommitQueue()
        var stopped: CoordinatorError?
        /// With what the disk failed first, for whatever reason it was stopped before.
        var diskFailure: CoordinatorError?
        /// Whether it stopped at a commit whose outcome nobody knows.
        var isOutcomeUnknown = false
    }

    private let engine: StoreEngine
    private let pool: DatabasePool
    /// Whether a caller that blocks works off all there is before it returns.
    private let worksAlone: Bool
    /// Milliseconds that never fall.
    private let clock: @Sendable () -> UInt64
    private let waiting = Mutex(Waiting())
    private let published: Mutex<Published>
    /// How long readers are waited for when the log must start over, in milliseconds; 0 if it need
    /// not.
    private let logRestartPatience = Atomic<Int32>(0)
    private let willCommit: @Sendable ([CommitNotice]) -> Void
    private let onCommit: @Sendable (CommitNotice) -> Void
    private let onStop: @Sendable (CoordinatorError) -> Void

    init(
        engine: StoreEngine, pool: DatabasePool, worksAlone: Bool,
        clock: @escaping @Sendable () -> UInt64,
        willCommit: @escaping @Sendable ([CommitNotice]) -> Void,
        onCommit: @escaping @Sendable (CommitNotice) -> Void,
        onStop: @escaping @Sendable (CoordinatorError) -> Void
    ) {
        self.engine = engine
        self.pool = pool
        self.worksAlone = worksAlone
        self.clock = clock
        self.willCommit = willCommit
        self.onCommit = onCommit
        self.onStop = onStop
        published = Mutex(
            Published(
                token: engine.token, digest: engine.state.digest,
                membership: engine.state.membership, log: engine.state.log,
                tombstones: engine.state.tombstones, orphans: engine.state.orphans,
                durable: engine.state.versionVector,
                durableGeneration: engine.state.generation))
    }

    var actor: ActorID { engine.actor }
    /// The recovery state to write down before anything of others is applied.
    var owedRecovery: OwedRecovery { engine.owedRecovery }
    /// Whether it stopped at a commit whose outcome nobody knows.
    var isOutcomeUnknown: Bool { waiting.withLock(\.isOutcomeUnknown) }
    /// With what the disk failed first; nil where it has not.
    var diskFailure: CoordinatorError? { waiting.withLock(\.diskFailure) }

    /// The last commit's token, digest and durable vector.
    var current: Published { published.withLock { $0 } }

    /// How many jobs wait.
    var waitingCount: Int { waiting.withLock(\.queue.jobs.count) }

    // MARK: Enqueuing

    /// Enqueues a job, and works off what waits where nobody else does; its completion may be
    /// called on another thread, and later.
    func runBlocking(_ job: CommitJob) { runBlocking([job]) }

    /// Enqueues jobs in one step, so that no other comes between them, and works them off
    /// likewise.
    func runBlocking(_ jobs: [CommitJob]) {
        guard enqueue(jobs) else { return }
        let groups = worksAlone ? .max : Self.groupsByCaller
        pool.writeWithoutTransaction { _ in drain(.all, atMost: groups) }
    }

    /// Enqueues a job; its completion is called on the writer queue. Where a caller works off all
    /// there is, that has happened when this returns, unless it is called from such a completion.
    func run(_ job: CommitJob) {
        guard enqueue([job]) else { return }
        if job.isShort || worksAlone { leadShortly() } else { leadByQueue() }
    }

    /// Has a save wait for others that are ready in the same thread, so that they are of its group, and
    /// does it.
    func save(
        size: Int, _ make: @escaping @Sendable (StoreEngine) throws -> SaveRequest
    ) async throws -> SaveResult {
        let outcome = AwaitedOutcome<SaveResult>()
        let job = CommitJob.save(make: make, size: size) { outcome.complete($0) }
        if enqueue([job]) {
            guard job.isShort else {
                leadByQueue()
                return try await outcome.value
            }
            await Task.yield()
            leadShortly()
        }
        return try await outcome.value
    }

    private func leadByQueue() {
        pool.asyncWriteWithoutTransaction { _ in self.drain(.all, atMost: .max) }
    }

    /// Leads in the calling thread what does not take long there, and has the queue do the rest.
    private func leadShortly() {
        guard !worksAlone else {
            return pool.writeWithoutTransaction { _ in drain(.all, atMost: .max) }
        }
        guard waiting.withLock(\.queue.isDiskQuick) else { return leadByQueue() }
        pool.writeWithoutTransaction { _ in drain(.short, atMost: Self.groupsByCaller) }
    }

    /// Adds jobs to those that wait; fails those that have no room.
    ///
    /// - Returns: whether the caller must lead.
    private func enqueue(_ jobs: [CommitJob]) -> Bool {
        let (stopped, accepted, leads): (CoordinatorError?, Int, Bool) = waiting.withLock {
            waiting in
            if let stopped = waiting.stopped { return (stopped, 0, false) }
            let (accepted, leads) = waiting.queue.add(jobs)
            return (nil, accepted, leads)
        }
        if accepted < jobs.count {
            let refusal =
                stopped
                ?? CoordinatorError(
                    .limitExceeded,
                    "\(CommitQueue.waitingJobs) saves are waiting already; try later.")
            for job in jobs.dropFirst(accepted) { job.fail(refusal) }
        }
        return leads
    }

    /// Prepares the connection for its end: writes the log back into the store's file, which the
    /// last connection to close cannot do if it is a reader, and releases statements that would
    /// keep it open. If the disk has failed all stays as it is, for the next process.
    ///
    /// - Returns: what the side file may say then; nil where not all is on disk.
    func finish() -> IncarnationRecord? {
        pool.writeWithoutTransaction { database in
            engine.finish()
            // Asked here, behind what was being done: a caller that got a failure may close at
            // once.
            guard diskFailure == nil else { return nil }
            do {
                try database.checkpoint(.truncate)
            } catch {
                noteFailure(CoordinatorError(mapping: error))
                return nil
            }
            LogCheckpoint.setAtClosing(true, of: database)
            return engine.session.incarnationRecord(generation: engine.committed.generation)
        }
    }

    /// Refuses everything from now on.
    func stop(_ reason: CoordinatorError) {
        let left = waiting.withLock { waiting in
            if waiting.stopped == nil { waiting.stopped = reason }
            return waiting.queue.takeAll()
        }
        for job in left { job.fail(reason) }
    }

    /// Has the log start over after the next commit, if readers have kept it from that.
    ///
    /// - Parameter patience: how long readers are waited for, in milliseconds from 1 on.
    func askForLogRestart(patience: Int32) {
        logRestartPatience.store(patience, ordering: .relaxed)
    }

    private func restartLogIfAsked() {
        let patience = logRestartPatience.exchange(0, ordering: .relaxed)
        guard patience > 0, diskFailure == nil else { return }
        do {
            try LogCheckpoint.restart(engine.database, patience: patience)
        } catch { stopIfNeeded(CoordinatorError(mapping: error)) }
    }

    // MARK: Working off

    private func drain(_ reach: CommitQueue.Reach, atMost groups: Int) {
        for _ in 0..<groups {
            guard let group = waiting.withLock({ $0.queue.takeGroup(reach) }) else { return }
            if group.isEmpty { break }
            commit(group)
            restartLogIfAsked()
        }
        leadByQueue()
    }

    private func commit(_ group: [CommitJob]) {
        let begun = clock()
        write(group)
        let taken = clock() - begun
        waiting.withLock { $0.queue.noteCommit(milliseconds: taken) }
    }

    /// What the jobs of a group have come to, before it is committed.
    private struct Outcomes {
        var saved: [(Result<SaveResult, any Error>, (Result<SaveResult, any Error>) -> Void)] = []
        var applied:
            [(rejected: [(dot: Dot, reason: String)], (Result<ApplyResult, any Error>) -> Void)] =
                []
        var durable: [(Result<Void, any Error>) -> Void] = []
        var maintained: [(Result<Void, any Error>) -> Void] = []
    }

    /// Does the jobs and commits them: one transaction, with a generation for each run of saves and each
    /// run of others.
    private func write(_ group: [CommitJob]) {
        let hasSaves = group.contains(where: \.isSave)
        var outcomes = Outcomes()
        do {
            try engine.begin(isDurable: hasSaves)
            var rest = group[...]
            while let first = rest.first {
                let run = rest.prefix { $0.isSave == first.isSave }
                try engine.group(isLocal: first.isSave) {
                    for job in run { try perform(job, &outcomes) }
                }
                rest = rest.dropFirst(run.count)
            }
        } catch {
            // Nothing of the group is written, so every job of it has failed, for that reason.
            let mapped = CoordinatorError(mapping: error)
            try? engine.rollBack()
            for job in group { job.fail(mapped) }
            stopIfNeeded(mapped)
            return
        }
        let notices: [CommitNotice]
        do {
            willCommit(engine.session.closed)
            notices = try engine.commit()
        } catch {
            fail(group, outcomes, CoordinatorError(mapping: error))
            return
        }
        // Groups that came to nothing have not waited for the disk.
        publish(isDurable: hasSaves && !notices.isEmpty)
        for (result, completion) in outcomes.saved { completion(result) }
        for notice in notices { onCommit(notice) }
        for completion in outcomes.maintained { completion(.success(())) }
        finish(applied: outcomes.applied, durable: outcomes.durable)
    }

    private func perform(_ job: CommitJob, _ outcomes: inout Outcomes) throws {
        switch job {
        case .save(let make, _, let completion):
            do {
                engine.session.plannedRows.begin()
                defer { engine.session.plannedRows.end() }
                outcomes.saved.append((.success(try engine.save(try make(engine))), completion))
            } catch let error as CoordinatorError where error.code != .storeDamaged {
                outcomes.saved.append((.failure(error), completion))
            }
        case .makeDurable(let completion): outcomes.durable.append(completion)
        case .maintain(let work, _, let completion):
            try work(engine)
            outcomes.maintained.append(completion)
        case .apply(let transactions, let completion):
            var rejected: [(dot: Dot, reason: String)] = []
            for transaction in transactions {
                do {
                    try engine.apply(transaction)
                } catch let rejection as ApplyRejection {
                    rejected.append((rejection.dot, rejection.reason))
                }
            }
            outcomes.applied.append((rejected, completion))
        }
    }

    /// Answers the jobs of a group with a commit that failed: whether saves are on the disk is not known,
    /// but where it was full.
    private func fail(_ group: [CommitJob], _ outcomes: Outcomes, _ error: CoordinatorError) {
        try? engine.rollBack()
        let isKnown = outcomes.saved.isEmpty || error.code == .diskFull
        if !isKnown { waiting.withLock { $0.isOutcomeUnknown = true } }
        for (result, completion) in outcomes.saved {
            switch result {
            case .failure: completion(result)
            case .success:
                completion(
                    .failure(
                        isKnown
                            ? error
                            : CoordinatorError(
                                .outcomeUnknown,
                                "The disk failed at the commit (\(error.message)); whether "
                                    + "it was saved shows after a restart.")))
            }
        }
        for job in group where !job.isSave { job.fail(error) }
        if !outcomes.saved.isEmpty, error.code == .diskFull { return }
        stopIfNeeded(error, always: !isKnown)
    }

    /// Waits for the disk where somebody asked for it, and answers.
    private func finish(
        applied: [(
            rejected: [(dot: Dot, reason: String)], (Result<ApplyResult, any Error>) -> Void
        )], durable: [(Result<Void, any Error>) -> Void]
    ) {
        var failure: CoordinatorError?
        if !durable.isEmpty {
            do {
                try engine.makeDurable()
                publish(isDurable: true)
            } catch { failure = CoordinatorError(mapping: error) }
        }
        let current = current
        for (rejected, completion) in applied {
            completion(
                .success(
                    ApplyResult(
                        versionVector: current.token.versionVector,
                        beginnings: current.token.beginnings, digest: current.digest,
                        generation: current.token.generation, membership: current.membership,
                        durable: current.durable, rejected: rejected)))
        }
        for completion in durable { completion(failure.map { .failure($0) } ?? .success(())) }
        if let failure { stopIfNeeded(failure) }
    }

    private func publish(isDurable: Bool) {
        published.withLock { published in
            published.token = engine.token
            published.digest = engine.state.digest
            published.membership = engine.state.membership
            published.log = engine.state.log
            published.tombstones = engine.state.tombstones
            published.orphans = engine.state.orphans
            if isDurable {
                published.durable = engine.committed.versionVector
                published.durableGeneration = engine.committed.generation
            }
        }
    }

    /// After a failure of the disk or damage nothing is written any more; a full disk passes.
    private func stopIfNeeded(_ error: CoordinatorError, always: Bool = false) {
        noteFailure(error)
        guard always || [.inputOutput, .storeDamaged].contains(error.code) else { return }
        stop(error)
        onStop(error)
    }

    private func noteFailure(_ error: CoordinatorError) {
        guard error.code == .inputOutput else { return }
        waiting.withLock { if $0.diskFailure == nil { $0.diskFailure = error } }
    }
}
