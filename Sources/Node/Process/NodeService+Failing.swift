// Failures that are the node's own: they are in its log, and a damaged store ends it.

internal import Coordinator
internal import Logging
internal import Synchronization

extension NodeService {
    /// Logs a request that failed through a fault of this node, and ends the node where its store
    /// is damaged.
    package func noteFailure(_ failure: RequestFailure) {
        let now = MonotonicClock.milliseconds
        if let leftOut = failureWatch.withLock({ $0.note(now: now) }) {
            var metadata: Logger.Metadata = [
                LogKeys.method: "\(failure.method)", LogKeys.path: "\(failure.path)",
                LogKeys.code: "\(failure.code)", LogKeys.error: "\(failure.message)",
            ]
            if leftOut > 0 { metadata[LogKeys.count] = "\(leftOut) more before" }
            settings.logger.error("A request has failed", metadata: metadata)
        }
        if let damage = failure.damage {
            endIfDamaged(damage)
        } else if failure.code == CoordinatorError.Code.storeDamaged.rawValue {
            raiseDamage([LogKeys.path: "\(failure.path)", LogKeys.reason: "\(failure.message)"])
        }
    }

    /// Counts connections of the HTTP interface, and raises an alarm where there is no room for them.
    package func noteConnections(_ note: ConnectionNote) {
        switch note {
        case .open(let count): counters.countConnections(open: count)
        case .ended(let ending): counters.countConnection(ended: ending)
        case .noRoom(let maximum):
            counters.raise(
                AlarmLine(
                    .connectionsFull, .warning,
                    "All connections of the HTTP interface are taken: the longest idle ones are closed",
                    [LogKeys.count: "\(maximum)"]),
                settings.logger)
        }
    }

    /// Raises the alarm of a damaged store: peers do not see it, because what they compare is the
    /// digest of what was written.
    ///
    /// - Parameter differences: what was found, a sentence each.
    package func noteUnsound(_ differences: [String]) {
        raiseDamage([
            LogKeys.reason: "\(differences.first ?? "the digest is another one")",
            LogKeys.count: "\(differences.count)",
        ])
    }

    private func raiseDamage(_ particulars: Logger.Metadata) {
        counters.raise(
            AlarmLine(
                .damageSuspected, .critical,
                "What was read of the store, or a copy of it, is damaged; run verify", particulars),
            settings.logger)
    }

    /// Ends the node where an error shows that its store is damaged, as the writer does that finds
    /// it so: a node that goes on acknowledging saves in such a store has peers and clients rely on
    /// what it may not be able to give them.
    ///
    /// - Parameter error: what was thrown by a read of this node's own store.
    func endIfDamaged(_ error: any Error) {
        guard let damage = error as? CoordinatorError, damage.code == .storeDamaged,
            !isDamageTold.exchange(true, ordering: .relaxed)
        else { return }
        shared.handover.give(.failed(damage))
    }
}

/// Limits how fast a client that asks again and again can fill the log with its failures.
struct FailureWatch {
    /// How many failures are logged in a second; a full disk fails every save, and the log may be
    /// on it.
    static let linesInASecond = 20

    private var since: UInt64 = 0
    private var lines = 0
    private var leftOut = 0

    /// Notes a failure.
    ///
    /// - Returns: where it is to be logged, how many before it were not; nil where it is not.
    mutating func note(now: UInt64) -> Int? {
        if now >= since + 1_000 {
            since = now
            lines = 0
        }
        guard lines < Self.linesInASecond else {
            leftOut += 1
            return nil
        }
        lines += 1
        defer { leftOut = 0 }
        return leftOut
    }
}
