// Reports on a node's core and on its store: log lines, alarms and figures.

internal import Coordinator
internal import Logging
internal import Merge
internal import NodeCore
internal import Replication

extension NodeLoop {
    /// Tells of news.
    func tell(_ news: NodeNews) {
        switch news {
        case .alarm(let alarm):
            if case .transferFailed = alarm { shared.counters.countTransfer(isInstalled: false) }
            raise(alarm.line)
        case .quarantined(let node, let reason):
            raise(
                AlarmLine(
                    .quarantined, .warning, "What this peer sends is ignored for a while",
                    [LogKeys.peer: "\(node)", LogKeys.reason: "\(reason)"]))
        case .orphaned(let dots):
            raise(
                AlarmLine(
                    .orphaned, .error,
                    "Saves that can never be applied are kept: an earlier one is lost",
                    [
                        LogKeys.transaction: "\(dots.first.map { "\($0)" } ?? "")",
                        LogKeys.count: "\(dots.count)",
                    ]))
        case .orphansLeftOut(let dots):
            shared.counters.countOrphansLeftOut(dots.count)
            raise(
                AlarmLine(
                    .orphansNotKept, .error,
                    "There is no room to keep saves that can never be applied",
                    [
                        LogKeys.transaction: "\(dots.first.map { "\($0)" } ?? "")",
                        LogKeys.count: "\(dots.count)",
                    ]))
        case .stable, .refused: break
        }
    }

    /// Tells how the store takes saves from now on.
    func tell(_ setting: StoreSetting) {
        guard case .saving(let isAllowed) = setting else { return }
        logger.notice(
            isAllowed
                ? "Saves are let through"
                : "Saves are held back until a member has met this store and it has caught up")
    }

    /// Tells that a job that takes long is begun.
    func tellBeginning(of job: StoreJob) {
        guard case .takeTransfer(let copy, let donor, offset: 0, _) = job else { return }
        logger.notice(
            "The node takes a copy of a member's store",
            metadata: [LogKeys.peer: "\(donor)", LogKeys.bytes: "\(copy.total)"])
    }

    /// Tells what came of a job.
    func tell(_ result: Result<StoreOutcome, any Error>, of job: StoreJob) {
        switch result {
        case .success(let outcome): tell(outcome, of: job)
        case .failure(let error): tell(error, of: job)
        }
    }

    private func tell(_ outcome: StoreOutcome, of job: StoreJob) {
        switch (job, outcome) {
        case (.apply(let transactions), .applied(_, let rejected)):
            shared.counters.countApplied(transactions.count - rejected.count)
        case (_, .durable): isDurabilityTold = false
        case (_, .collected(let result)): shared.counters.countCollected(result)
        case (_, .historyTended(let tending)):
            shared.history.note(tending, core.status.members, logger: logger)
        case (.readTransfer(_, _, _, _, let node, _), .transferPart(let copy, offset: 0, _)):
            logger.notice(
                "The node gives a member a copy of the store",
                metadata: [LogKeys.peer: "\(node)", LogKeys.bytes: "\(copy.total)"])
        case (_, .pinsExpired(let count)):
            tellOfFiles()
            guard count > 0 else { return }
            logger.warning(
                "Pinned generations were given up", metadata: [LogKeys.count: "\(count)"])
        default: break
        }
    }

    private func tell(_ error: any Error, of job: StoreJob) {
        let reason: Logger.Metadata = [LogKeys.error: "\(error)"]
        // A store that was closed, with the node, is no failure of upkeep.
        let isClosed = (error as? CoordinatorError)?.code == .notWritable
        switch job {
        case .apply(let transactions):
            raise(
                AlarmLine(
                    .notApplied, .error, "Transactions of other nodes could not be applied",
                    [LogKeys.count: "\(transactions.count)", LogKeys.error: "\(error)"]))
        case .makeDurable: tellOfDurability(error)
        case .remember(let actor):
            logger.error(
                "An incarnation of a peer could not be recorded",
                metadata: [LogKeys.peer: "\(actor.node)", LogKeys.error: "\(error)"])
        case .keepOrphans(let orphans) where !isClosed:
            logger.error(
                "Orphans could not be kept; the node tries again",
                metadata: [LogKeys.count: "\(orphans.count)", LogKeys.error: "\(error)"])
        case .readTransfer(_, _, _, _, let node, _):
            logger.error(
                "A copy of the store could not be made or read",
                metadata: [LogKeys.peer: "\(node)", LogKeys.error: "\(error)"])
        case .takeTransfer(_, let donor, _, _):
            logger.error(
                "A copy of a member's store could not be written",
                metadata: [LogKeys.peer: "\(donor)", LogKeys.error: "\(error)"])
        case .tendHistory where !isClosed:
            logger.error("History could not be purged", metadata: reason)
        case .readLog: logger.error("The log could not be read", metadata: reason)
        case .record:
            logger.error(
                "How far the store has come could not be recorded beside it", metadata: reason)
        case .collect: logger.error("Stable values could not be collected", metadata: reason)
        case .setRecovery:
            logger.error(
                "The recovery state could not be recorded; the next apply records it",
                metadata: reason)
        case .learnModels:
            logger.error("A former model could not be recorded", metadata: reason)
        case .discardTransfer:
            logger.error("An unfinished copy could not be removed", metadata: reason)
        // The replicator raises an alarm where a copy will not do. The others do not fail.
        case .keepOrphans, .tendHistory, .checkTransfer, .compareModel, .tendTransfers,
            .maintain:
            break
        }
    }

    /// Raises an alarm where what was applied could not be made durable, once until it can.
    private func tellOfDurability(_ error: any Error) {
        guard !isDurabilityTold else { return }
        isDurabilityTold = true
        raise(
            AlarmLine(
                .notDurable, .error,
                "What other nodes have saved is applied, and could not be made durable",
                [LogKeys.error: "\(error)"]))
    }

    /// Raises an alarm where the store's files have gone from their place, once until they are back.
    private func tellOfFiles() {
        let isRemoved = coordinator.isStoreRemoved
        defer { isRemovalTold = isRemoved }
        guard isRemoved, !isRemovalTold else { return }
        raise(
            AlarmLine(
                .storeRemoved, .critical,
                "The store's file is not where it was opened; saves are refused",
                [LogKeys.path: "\(coordinator.storePath)"]))
    }

    private func raise(_ line: AlarmLine) { shared.counters.raise(line, logger) }
}
