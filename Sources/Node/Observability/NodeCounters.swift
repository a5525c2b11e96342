// A node's counters: few numbers behind one lock, taken by all threads.

internal import Coordinator
internal import Synchronization

/// A histogram of fixed buckets, as Prometheus has them.
struct Histogram: Hashable, Sendable {
    /// The upper bounds of the buckets, rising; one more without a bound follows.
    let bounds: [Double]
    /// How many values fell into each bucket.
    private(set) var counts: [UInt64]
    /// The sum of all values.
    private(set) var sum = 0.0

    /// Makes an empty histogram; the bounds must rise.
    init(bounds: [Double]) {
        self.bounds = bounds
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    /// Counts a value.
    mutating func record(_ value: Double) {
        let index = bounds.firstIndex { value <= $0 } ?? bounds.count
        counts[index] += 1
        sum += value
    }

    /// How many values were counted.
    var count: UInt64 { counts.reduce(0, +) }
}

/// The counters of a node. Thread-safe.
package final class NodeCounters: Sendable {
    /// All of them at one moment.
    struct Values: Hashable, Sendable {
        /// Saves that were committed.
        var saves: UInt64 = 0
        /// Saves that were refused or failed.
        var failedSaves: UInt64 = 0
        /// Local transactions committed.
        var committed: UInt64 = 0
        /// Other nodes' transactions applied.
        var applied: UInt64 = 0
        /// Siblings that collapsed, since they are stable.
        var collapsed: UInt64 = 0
        /// Tombstones and links taken away that were collected, since they are stable.
        var collected: UInt64 = 0
        /// Alarms raised.
        var alarms: UInt64 = 0
        /// Those that were raised last, the latest at the end.
        var lastAlarms: [RaisedAlarm] = []
        /// Copies of members' stores that took this one's place.
        var transfersInstalled: UInt64 = 0
        /// Copies that were whole and could not.
        var transfersFailed: UInt64 = 0
        /// Saves that can never be applied and that there was no room to keep.
        var orphansLeftOut: UInt64 = 0
        /// Saves that were not acknowledged by enough nodes in time.
        var unacknowledged: UInt64 = 0
        /// Answered requests by HTTP status.
        var requests: [Int: UInt64] = [:]
        /// Open connections of the HTTP interface.
        var connections = 0
        /// Connections of it that the node ended, by reason.
        var connectionsEnded: [ConnectionEnding: UInt64] = [:]
        /// Seconds from a save's call to its answer; 100 microseconds to 10 seconds.
        var saveSeconds = Histogram(bounds: [
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
            2.5, 5, 10,
        ])
        /// Saves in a group that was committed together.
        var groupSize = Histogram(bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    }

    private let state = Mutex(Values())

    /// Begins at nothing.
    package init() {}

    var values: Values { state.withLock { $0 } }

    /// Counts an answered HTTP request by its status, 100...599; others are not counted.
    package func countRequest(status: Int) {
        guard (100...599).contains(status) else { return }
        state.withLock { $0.requests[status, default: 0] += 1 }
    }

    /// Notes how many connections of the HTTP interface are open.
    func countConnections(open count: Int) { state.withLock { $0.connections = count } }

    /// Counts a connection that the node ended.
    func countConnection(ended ending: ConnectionEnding) {
        state.withLock { $0.connectionsEnded[ending, default: 0] += 1 }
    }

    /// Counts a save that was done, and how long it took.
    func countSave(seconds: Double) {
        state.withLock {
            $0.saves += 1
            $0.saveSeconds.record(seconds)
        }
    }

    func countFailedSave() { state.withLock { $0.failedSaves += 1 } }
    func countUnacknowledged() { state.withLock { $0.unacknowledged += 1 } }

    /// Counts an alarm. Keeps one entry for each name and peer, with its latest text and a count,
    /// and the latest ``alarmsKept`` entries.
    func countAlarm(_ line: AlarmLine, now: UInt64) {
        let name = line.name.rawValue
        let peer = line.metadata[LogKeys.peer].map { "\($0)" }
        let text = line.text
        state.withLock { state in
            state.alarms += 1
            let place = state.lastAlarms.firstIndex { $0.name == name && $0.peer == peer }
            let count = place.map { state.lastAlarms.remove(at: $0).count } ?? 0
            if state.lastAlarms.count == Self.alarmsKept { state.lastAlarms.removeFirst() }
            state.lastAlarms.append(
                RaisedAlarm(
                    name: name, peer: peer, text: text, count: count + 1, raisedAt: now))
        }
    }

    /// How many alarms status shows: each is a line for people.
    static let alarmsKept = 20

    func countTransfer(isInstalled: Bool) {
        state.withLock {
            if isInstalled { $0.transfersInstalled += 1 } else { $0.transfersFailed += 1 }
        }
    }

    func countCollected(_ result: CollectionResult) {
        state.withLock {
            $0.collapsed += UInt64(result.siblingsCollapsed)
            $0.collected += UInt64(result.tombstonesCollected + result.linksCollected)
        }
    }

    func countOrphansLeftOut(_ count: Int) {
        state.withLock { $0.orphansLeftOut += UInt64(count) }
    }

    func countApplied(_ count: Int) { state.withLock { $0.applied += UInt64(count) } }

    /// Counts the transactions of one group commit.
    func countGroup(_ count: Int) {
        guard count > 0 else { return }
        state.withLock {
            $0.committed += UInt64(count)
            $0.groupSize.record(Double(count))
        }
    }
}
