internal import Coordinator
internal import Merge
internal import Replication

/// The store's answers to its jobs.
extension NodeCore {
    /// Takes in the answer to a job.
    mutating func take(_ result: Result<StoreOutcome, any Error>, of job: StoreJob) {
        let outcome = try? result.get()
        switch job {
        case .apply: takeApplied(outcome)
        case .readLog(let id, _, _): takePage(result, id)
        case .makeDurable:
            duties.end(.durability)
            if case .durable(let durable)? = outcome { take(durable) }
        case .record:
            duties.end(.recording)
            guard case .recorded(let recorded)? = outcome else { return }
            state.recorded.join(recorded)
            feed(.committed([], state: state, now: now))
        case .remember(let actor):
            feed(.remembered(actor, isDurable: outcome != nil, now: now))
        // Where that failed it is with what is applied next.
        case .setRecovery: break
        case .collect: takeCollected(outcome)
        case .keepOrphans(let orphans): takeKept(outcome, of: orphans.count)
        case .tendHistory:
            guard case .historyTended(let tending)? = outcome else {
                return duties.end(.history, notBefore: now + settings.intervals.retry)
            }
            duties.end(
                .history, notBefore: tending.isDone ? now + settings.intervals.upkeep : now)
        case .learnModels(let texts):
            guard case .learnt(let models)? = outcome else {
                return feed(.modelsNotLearnt(texts, now: now))
            }
            feed(.modelsLearnt(models, now: now))
        case .compareModel(let text, let node):
            guard case .compared(let difference)? = outcome else { return }
            feed(.modelCompared(node, hash: text.hash, difference: difference, now: now))
        case .maintain: duties.end(.upkeep)
        default: takeTransfer(result, of: job)
        }
    }

    private mutating func takeApplied(_ outcome: StoreOutcome?) {
        guard case .applied(let reached, let rejected)? = outcome else {
            // A full disk passes; anything worse stops the writer, which says so itself.
            return feed(.applied(state: state, rejected: [], now: now))
        }
        state.adopt(reached)
        feed(
            .applied(state: reached.recording(state.recorded), rejected: rejected, now: now))
        answerPages()
    }

    private mutating func takePage(_ result: Result<StoreOutcome, any Error>, _ id: UInt64) {
        switch result {
        case .success(.logPage(let transactions, let reachedEnd, let ownSequence)):
            answer(id, transactions, reachedEnd: reachedEnd, ownSequence: ownSequence)
        case .failure(let error) where (error as? CoordinatorError)?.code == .storeDamaged:
            // The peer could wait for ever for what this node says it has.
            end(.failed(error))
        default: answer(id, [], reachedEnd: false, ownSequence: 0)
        }
    }

    private mutating func takeCollected(_ outcome: StoreOutcome?) {
        guard case .collected(let result)? = outcome else {
            // A job that failed is tried again, though nothing more becomes stable.
            isCollected = false
            return duties.end(.collection, notBefore: now + settings.intervals.retry)
        }
        isCollected = result.isDone
        duties.end(.collection)
    }

    private mutating func takeKept(_ outcome: StoreOutcome?, of count: Int) {
        guard case .orphansKept(let keeping)? = outcome else {
            return duties.end(.orphans, notBefore: now + settings.intervals.retry)
        }
        duties.end(.orphans)
        orphans.letGo(first: count)
        leaveOut(keeping.leftOut)
    }

    private mutating func takeTransfer(
        _ result: Result<StoreOutcome, any Error>, of job: StoreJob
    ) {
        switch (job, result) {
        case (.readTransfer(let id, _, _, _, _, _), let result):
            guard case .success(.transferPart(let copy, let offset, let bytes)) = result else {
                return feed(.transferRead(id: id, copy: nil, offset: 0, bytes: [], now: now))
            }
            feed(.transferRead(id: id, copy: copy, offset: offset, bytes: bytes, now: now))
        case (.takeTransfer, .success(.transferTaken(let offset))):
            feed(.transferTaken(offset: offset, now: now))
        case (.checkTransfer, .success): end(.copyReady)
        case (.takeTransfer, .failure(let error)), (.checkTransfer, .failure(let error)):
            feed(.transferRefused("\(error)", now: now))
        case (.tendTransfers, _): duties.end(.transfers)
        default: break
        }
    }
}
