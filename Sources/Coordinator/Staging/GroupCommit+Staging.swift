import Merge
import Synchronization

/// Very large transactions a part at a time: see ``StagedTransaction``.
extension GroupCommit {
    /// Does a part of what is staged, or begins with what waits to be.
    ///
    /// Where a disk is full the rest is tried again after the next group. Meanwhile what is large is
    /// written in one piece, which says so; of another node's it is said at once, as long as something
    /// is to be discarded.
    func advanceStaged() {
        guard waiting.withLock({ $0.stopped == nil }) else { return endStaged() }
        guard let (transaction, job) = staged else { return beginStaged() }
        do {
            if !transaction.isAnswered, !transaction.isGivenUp,
                try transaction.isOvertaken(engine)
            {
                published.withLock { $0.overtakenCount += 1 }
                transaction.giveUp()
            }
            if transaction.isComplete {
                show(transaction, job)
            } else {
                followLog(pages: staging.checkpointPages)
                let rewrites = transaction.rewrites
                try transaction.advance(engine, atMost: staging.atOnce)
                published.withLock { $0.rewrittenCount += transaction.rewrites - rewrites }
            }
            goOn(transaction, job)
            // What is shown already, or never will be, is nothing that others have to wait for.
            if transaction.isAnswered, let next = waiting.withLock({ $0.takeForeign(staging) }) {
                commit([next])
            }
        } catch {
            fail(transaction, job, error)
        }
    }

    private func beginStaged() {
        let next = waiting.withLock { $0.takeDeferred() }
        guard let next else { return }
        guard let transaction = origin(next).flatMap({ StagedTransaction.of($0, engine) }) else {
            return commit([next])
        }
        staged = (transaction, next)
        engine.staging = transaction
        setStaging(true)
    }

    /// Makes an end of what is done; what was given up is written in one piece then.
    private func goOn(_ transaction: StagedTransaction, _ job: Job) {
        let isDone = transaction.phase == .done
        if isDone {
            staged = nil
            engine.staging = nil
        }
        setStaging(!isDone)
        if isDone, transaction.isGivenUp { commit([job]) }
    }

    private func origin(_ job: Job) -> StagedTransaction.Origin? {
        guard job.size >= staging.operations else { return nil }
        switch job {
        case .save(let make, _, _): return (try? make(engine)).map { .save($0) }
        case .apply(let transactions, _):
            guard transactions.count == 1 else { return nil }
            // What it has seen says which siblings its writes replace.
            let whole = transactions[0].completed(by: engine.state.beginnings).transaction
            // One that is not ready is refused where it is applied.
            return engine.state.versionVector.covers(whole.seen) ? .foreign(whole) : nil
        case .makeDurable, .maintain: return nil
        }
    }

    /// Lets its job be done as if it were small: it finds its rows written.
    private func show(_ transaction: StagedTransaction, _ job: Job) {
        // The log is written back after it, not with it: both together would hold others up.
        followLog(pages: 0)
        engine.showing = transaction
        commit([job])
        engine.showing = nil
        transaction.proceed(isShown: engine.committed.actors.staged != nil)
    }

    private func fail(_ transaction: StagedTransaction, _ job: Job, _ error: any Error) {
        guard !transaction.isAnswered else {
            let mapped = CoordinatorError(mapping: error)
            setStaging(false)
            stopIfNeeded(mapped)
            guard let next = waiting.withLock({ $0.takeDeferred() }) else { return }
            // What is still to be discarded may be of the same transaction, come again: its rows would
            // be taken for another's.
            if next.isApply, transaction.phase == .discarding { return next.fail(mapped) }
            return commit([next])
        }
        let isRefused = error is NotStageable || error is ApplyRejection
        if isRefused, !transaction.isGivenUp {
            transaction.giveUp()
        } else {
            transaction.noteFailed()
            transaction.proceed(isShown: false)
            let mapped = CoordinatorError(mapping: error)
            job.fail(mapped)
            stopIfNeeded(mapped)
        }
        goOn(transaction, job)
    }

    /// What is written part by part is written back in small parts as well.
    private func followLog(pages: Int) {
        LogCheckpoint.follow(commitsOf: engine.database, pages: pages)
    }

    private func setStaging(_ isStaging: Bool) {
        if !isStaging { followLog(pages: staging.usualCheckpointPages) }
        waiting.withLock { waiting in
            waiting.isStaging = isStaging
            waiting.isStagingForeign = isStaging && staged.map { !$0.job.isSave } ?? false
        }
    }

    /// After a stop nothing is written; the next opening finishes what is there.
    private func endStaged() {
        if let (transaction, job) = staged, !transaction.isAnswered {
            job.fail(
                waiting.withLock { $0.stopped }
                    ?? CoordinatorError(.notWritable, "The store was closed."))
        }
        staged = nil
        engine.staging = nil
        setStaging(false)
    }
}

extension GroupCommit.Waiting {
    /// Puts a job behind those that wait. One that is to be staged waits apart, and so does what
    /// comes from elsewhere after such a one: it may build on it.
    mutating func add(_ job: GroupCommit.Job, _ staging: GroupCommit.Staging) {
        if job.mayBeStaged && job.size >= staging.operations || job.isApply && defersForeign {
            deferred.append((job, come))
        } else {
            jobs.append(job)
            come += 1
        }
    }

    /// The next foreign transactions that wait apart, unless they are to be staged.
    mutating func takeForeign(_ staging: GroupCommit.Staging) -> GroupCommit.Job? {
        guard let place = deferred.firstIndex(where: { $0.job.isApply }),
            deferred[place].job.size < staging.operations, deferred[place].after <= taken
        else { return nil }
        return deferred.remove(at: place).job
    }

    private var defersForeign: Bool { isStagingForeign || deferred.contains { $0.job.isApply } }

    /// The next job that waits apart, once all that came before it is done.
    mutating func takeDeferred() -> GroupCommit.Job? {
        guard let first = deferred.first, first.after <= taken else { return nil }
        deferred.removeFirst()
        return first.job
    }
}

extension GroupCommit.Job {
    var isApply: Bool { if case .apply = self { true } else { false } }

    var mayBeStaged: Bool { isSave || isApply }
}
