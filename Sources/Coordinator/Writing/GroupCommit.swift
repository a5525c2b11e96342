import GRDB
import GRDBSQLite
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
    enum Limits {
        /// The most jobs that may wait. Past it callers get an error, before memory runs out.
        static let waitingJobs = 20_000
        /// Jobs in a group, and their operations: what bounds the time until the first of them is
        /// acknowledged. A longer save is alone in its group.
        static let jobsInGroup = 512
        static let operationsInGroup = 5_000
        /// Groups that a blocked caller commits for others before it hands over: its own save is
        /// in the first.
        static let groupsByCaller = 4
        /// The operations of a short job, and the bytes of a short transaction.
        static let shortOperations = 64
        static let shortBytes = 64 << 10
        /// A commit that takes this long, in milliseconds, shows that the disk is not quick.
        static let longCommit: UInt64 = 20
        /// For how many commits after such a one the queue leads.
        static let commitsByQueue = 100
    }

    /// A job that waits.
    enum Job: Sendable {
        case save(
            make: @Sendable (StoreEngine) throws -> SaveRequest, size: Int,
            completion: @Sendable (Result<SaveResult, any Error>) -> Void)
        case apply(
            [EncodedTransaction], completion: @Sendable (Result<ApplyResult, any Error>) -> Void)
        case makeDurable(completion: @Sendable (Result<Void, any Error>) -> Void)
        /// Where it is to be alone in its group, no other job fails with it.
        case maintain(
            @Sendable (StoreEngine) throws -> Void, isAlone: Bool,
            completion: @Sendable (Result<Void, any Error>) -> Void)

        var size: Int {
            switch self {
            case .save(_, let size, _): size
            case .apply(let transactions, _):
                transactions.reduce(0) { $0 + $1.transaction.changes.count }
            case .makeDurable: 1
            case .maintain(_, let isAlone, _): isAlone ? Limits.operationsInGroup + 1 : 1
            }
        }

        /// Whether a caller that may not wait long may do it.
        var isShort: Bool {
            switch self {
            case .save(_, let size, _): size <= Limits.shortOperations
            case .apply(let transactions, _):
                size <= Limits.shortOperations
                    && transactions.reduce(0) { $0 + $1.bytes.count } <= Limits.shortBytes
            case .makeDurable, .maintain: false
            }
        }

        /// Whether it may fail, or wait for the disk, by itself: saves are not in one group with it.
        var isUpkeep: Bool {
            switch self {
            case .save, .apply: false
            case .makeDurable, .maintain: true
            }
        }

        var isSave: Bool { if case .save = self { true } else { false } }

        func fail(_ error: any Error) {
            switch self {
            case .save(_, _, let completion): completion(.failure(error))
            case .apply(_, let completion): completion(.failure(error))
            case .makeDurable(let completion): completion(.failure(error))
            case .maintain(_, _, let completion): completion(.failure(error))
            }
        }
    }

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
        var jobs: [Job] = []
        var stopped: CoordinatorError?
        /// With what the disk failed first, for whatever reason it was stopped before.
        var diskFailure: CoordinatorError?
        /// Whether it stopped at a commit whose outcome nobody knows.
        var isOutcomeUnknown = false
        /// Whether somebody leads. The one that sets it works off jobs until there are none, and
        /// clears it in the same look at the list, so that no job is left behind.
        var isLed = false
        /// How many commits more the queue leads, for the disk was not quick.
        var commitsByQueue = 0
    }

    /// Which jobs a leader takes.
    private enum Reach {
        case all
        /// Short ones, and only while the disk is quick.
        case short
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
    private let onCommit: @Sendable (CommitNotice) -> Void
    private let onStop: @Sendable (CoordinatorError) -> Void

    init(
        engine: StoreEngine, pool: DatabasePool, worksAlone: Bool,
        clock: @escaping @Sendable () -> UInt64,
        onCommit: @escaping @Sendable (CommitNotice) -> Void,
        onStop: @escaping @Sendable (CoordinatorError) -> Void
    ) {
        self.engine = engine
        self.pool = pool
        self.worksAlone = worksAlone
        self.clock = clock
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
    var waitingCount: Int { waiting.withLock(\.jobs.count) }

    // MARK: Enqueuing

    /// Enqueues a job, and works off what waits where nobody else does; its completion may be
    /// called on another thread, and later.
    func runBlocking(_ job: Job) { runBlocking([job]) }

    /// Enqueues jobs in one step, so that no other comes between them, and works them off
    /// likewise.
    func runBlocking(_ jobs: [Job]) {
        guard enqueue(jobs) else { return }
        let groups = worksAlone ? .max : Limits.groupsByCaller
        pool.writeWithoutTransaction { _ in drain(.all, atMost: groups) }
    }

    /// Enqueues a job; its completion is called on the writer queue. Where a caller works off all
    /// there is, that has happened when this returns, unless it is called from such a completion.
    func run(_ job: Job) {
        guard enqueue([job]) else { return }
        if job.isShort || worksAlone { leadShortly() } else { leadByQueue() }
    }

    /// Has a save wait for others that are ready in the same thread, so that they are of its group, and
    /// does it.
    func save(
        size: Int, _ make: @escaping @Sendable (StoreEngine) throws -> SaveRequest
    ) async throws -> SaveResult {
        let outcome = AwaitedOutcome<SaveResult>()
        let job = Job.save(make: make, size: size) { outcome.complete($0) }
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
        guard waiting.withLock({ $0.commitsByQueue == 0 }) else { return leadByQueue() }
        pool.writeWithoutTransaction { _ in drain(.short, atMost: Limits.groupsByCaller) }
    }

    /// Adds jobs to those that wait; fails those that have no room.
    ///
    /// - Returns: whether the caller must lead.
    private func enqueue(_ jobs: [Job]) -> Bool {
        let (stopped, accepted, leads): (CoordinatorError?, Int, Bool) = waiting.withLock {
            waiting in
            if let stopped = waiting.stopped { return (stopped, 0, false) }
            let accepted = min(jobs.count, max(0, Limits.waitingJobs - waiting.jobs.count))
            guard accepted > 0 else { return (nil, 0, false) }
            waiting.jobs += jobs.prefix(accepted)
            defer { waiting.isLed = true }
            return (nil, accepted, !waiting.isLed)
        }
        if accepted < jobs.count {
            let refusal =
                stopped
                ?? CoordinatorError(
                    .limitExceeded, "\(Limits.waitingJobs) saves are waiting already; try later.")
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
            defer { waiting.jobs = [] }
            return waiting.jobs
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

    private func drain(_ reach: Reach, atMost groups: Int) {
        for _ in 0..<groups {
            guard let group = takeGroup(reach) else { return }
            if group.isEmpty { break }
            commit(group)
            restartLogIfAsked()
        }
        leadByQueue()
    }

    private func commit(_ group: [Job]) {
        let begun = clock()
        write(group)
        let isLong = clock() >= begun + Limits.longCommit
        waiting.withLock { waiting in
            waiting.commitsByQueue =
                isLong ? Limits.commitsByQueue : max(0, waiting.commitsByQueue - 1)
        }
    }

    /// The most jobs from the front that go together, within bounds; empty if the first is out of reach,
    /// nil if none waits.
    private func takeGroup(_ reach: Reach) -> [Job]? {
        waiting.withLock { waiting in
            guard let first = waiting.jobs.first else {
                waiting.isLed = false
                return nil
            }
            if reach == .short, waiting.commitsByQueue > 0 { return [] }
            var count = 0
            var size = 0
            var (hasSaves, hasUpkeep) = (first.isSave, first.isUpkeep)
            for job in waiting.jobs {
                hasSaves = hasSaves || job.isSave
                hasUpkeep = hasUpkeep || job.isUpkeep
                guard count < Limits.jobsInGroup, !(hasSaves && hasUpkeep),
                    reach == .all || job.isShort,
                    count == 0 || size + job.size <= Limits.operationsInGroup
                else { break }
                size += job.size
                count += 1
            }
            let group = Array(waiting.jobs[0..<count])
            waiting.jobs.removeFirst(count)
            return group
        }
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
    private func write(_ group: [Job]) {
        let hasSaves = group.contains(where: \.isSave)
        var outcomes = Outcomes()
        do {
            if hasSaves {
                try engine.begin(isDurable: true)
            } else {
                try engine.begin(isDurable: false)
            }
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
            notices = try engine.commit()
        } catch {
            fail(group, outcomes, CoordinatorError(mapping: error))
            return
        }
        if hasSaves {
            // Groups that came to nothing have not waited for the disk.
            publish(isDurable: !notices.isEmpty)
        } else {
            publish(isDurable: false)
        }
        for (result, completion) in outcomes.saved { completion(result) }
        for notice in notices { onCommit(notice) }
        for completion in outcomes.maintained { completion(.success(())) }
        finish(applied: outcomes.applied, durable: outcomes.durable)
    }

    private func perform(_ job: Job, _ outcomes: inout Outcomes) throws {
        switch job {
        case .save(let make, _, let completion):
            do {
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
    private func fail(_ group: [Job], _ outcomes: Outcomes, _ error: CoordinatorError) {
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

extension CoordinatorError {
    /// The same error with the file it is about, where its message does not name it yet.
    func naming(_ path: String) -> CoordinatorError {
        if message.contains(path) { return self }
        return CoordinatorError(
            code, "\(path): \(message)", conflicts: conflicts, failures: failures)
    }

    /// The meaning of a full disk for a running node.
    static let diskFullWhileRunning = "The disk is full; nothing was saved, and reads go on."

    /// Makes a typed error of whatever SQLite or GRDB threw.
    ///
    /// - Parameter diskFull: what a full disk means there.
    init(mapping error: any Error, diskFull: String = diskFullWhileRunning) {
        let primary: Int32
        let message: String
        switch error {
        case let error as CoordinatorError:
            self = error
            return
        case let failure as SQLFailure: (primary, message) = (failure.primary, failure.message)
        case let failure as DatabaseError:
            primary = failure.resultCode.rawValue
            message = failure.message ?? "\(failure)"
        default: (primary, message) = (SQLITE_IOERR, "\(error)")
        }
        switch primary {
        case SQLITE_FULL:
            self.init(.diskFull, diskFull)
        case SQLITE_CORRUPT:
            self.init(.storeDamaged, "The store is damaged: \(message).")
        case SQLITE_NOTADB:
            self.init(
                .storeDamaged,
                "It is no Tributary store, or the store's beginning is damaged: \(message).")
        case SQLITE_BUSY, SQLITE_LOCKED:
            self.init(.storeInUse, "The store is in use by another process: \(message).")
        default: self.init(.inputOutput, "SQLite failed: \(message) (\(primary)).")
        }
    }
}
