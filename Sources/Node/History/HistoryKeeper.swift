// Purging of history while a node runs.
//
// Threading: told by the loop; read by all threads.

internal import Coordinator
internal import Logging
internal import Merge
internal import Replication
internal import Synchronization

/// The history purged since the node was started, and what keeps the rest.
struct HistoryReport: Hashable, Sendable {
    /// Transactions that went by age, by size while stable, and by size while not.
    var purgedByAge: UInt64 = 0
    var purgedBySize: UInt64 = 0
    var purgedUnstable: UInt64 = 0
    /// Closed conflicts that went as there were too many.
    var recordsDropped: UInt64 = 0
    /// How often a consumer lost what it had not read.
    var consumersExpired: UInt64 = 0
    /// The reason why the oldest transaction stays although it may go.
    var hold: HistoryHold?
    /// The last time that something went which was not stable; nil where nothing did.
    var lastUnstable: Unstable?

    /// Transactions that went before a member was known to have them.
    struct Unstable: Hashable, Sendable {
        /// When, in wall milliseconds since 1970.
        var atMilliseconds: UInt64
        /// The last of them.
        var transaction: Dot
        /// The members that were not known to have it, by number.
        var members: [NodeID]
    }
}

/// Takes note of what goes of history, and raises alarms where somebody may lack it.
final class HistoryKeeper: Sendable {
    /// How often one alarm of a kind is raised.
    static let alarmMilliseconds: UInt64 = 60_000

    private struct State {
        var report = HistoryReport()
        var nextAlarmAt: UInt64 = 0
        var nextExpiryAt: UInt64 = 0
    }

    let limits: HistoryLimits
    private let counters: NodeCounters
    private let state = Mutex(State())

    init(limits: HistoryLimits, counters: NodeCounters) {
        self.limits = limits
        self.counters = counters
    }

    var report: HistoryReport { state.withLock { $0.report } }

    /// Takes note of a step towards the limits.
    ///
    /// - Parameter members: where the other members stand.
    func note(_ tending: HistoryTending, _ members: [MemberStatus], logger: Logger) {
        let now = MonotonicClock.milliseconds
        let lagging = tending.lastUnstable.map { dot in
            members.filter { !$0.recorded.contains(dot) || $0.hindrance != nil }.map(\.node)
        }
        let unread = tending.expired + tending.lost
        let (isAlarm, isExpiry, total) = state.withLock { state in
            state.report.purgedByAge += UInt64(tending.purgedByAge)
            state.report.purgedBySize += UInt64(tending.purgedBySize)
            state.report.purgedUnstable += UInt64(tending.purgedUnstable)
            state.report.recordsDropped += UInt64(tending.recordsDropped)
            state.report.consumersExpired += UInt64(unread.count)
            state.report.hold = tending.hold
            var isAlarm = false
            if let dot = tending.lastUnstable, let lagging {
                state.report.lastUnstable = .init(
                    atMilliseconds: MonotonicClock.wallMilliseconds, transaction: dot,
                    members: lagging)
                isAlarm = now >= state.nextAlarmAt
                if isAlarm { state.nextAlarmAt = now + Self.alarmMilliseconds }
            }
            let isExpiry = !unread.isEmpty && now >= state.nextExpiryAt
            if isExpiry { state.nextExpiryAt = now + Self.alarmMilliseconds }
            return (isAlarm, isExpiry, state.report.purgedUnstable)
        }
        if isAlarm, let lagging {
            counters.raise(
                AlarmLine(
                    .history, .critical, "History was purged that a member is not known to have",
                    [
                        LogKeys.peer: "\(lagging.map(\.description).joined(separator: ", "))",
                        LogKeys.count: "\(total)",
                    ]), logger)
        }
        if isExpiry {
            logger.warning(
                "History is gone that a consumer has not read",
                metadata: [LogKeys.consumer: "\(unread.joined(separator: ", "))"])
        }
    }
}

extension HistoryHold {
    /// The hold for people.
    var text: String {
        switch self {
        case .notStable(let dot): "\(dot) is not stable: a member is not known to have it."
        case .consumer(let name): "The consumer \(name) has not read it."
        case .onlyHere(let dot):
            "The log is over its limit, but no other member is known to have \(dot)."
        }
    }
}
