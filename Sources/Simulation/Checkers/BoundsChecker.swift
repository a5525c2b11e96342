internal import Coordinator
internal import Replication

/// Law 9: memory and disk stay bounded, whatever a peer does: every gauge within its limit.
struct BoundsChecker: Checker {
    let law = 9

    private static let logName = "writeAheadLogBytes"

    /// The most pins of one process: far more than a world ever takes, so that more is a leak.
    static let pins = 64
    /// The most of a write-ahead log in use that no pin holds: a checkpoint comes after a few
    /// megabytes at most, and a long transaction goes on top.
    static let writeAheadLogBytes: UInt64 = 64 << 20

    private var findings = Findings()
    /// A node whose log a pin holds, or has held so that it has yet to start over.
    private struct PinnedLog {
        /// Whether something was committed since it was last looked at: only then the log can start
        /// over.
        var hasGrown = false
        /// How often more it may be found too long: a pin a second is given up for its sake.
        var patience: Int?
    }

    private var pinned: [Int: PinnedLog] = [:]

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .gauges(let node, let gauges): judge(gauges, of: node)
        case .committed(let node, _): pinned[node]?.hasGrown = true
        case .ended(let node, _): pinned[node] = nil
        case .tended(let node, let limits, let tending, let status) where tending.isDone:
            judge(status, limits, tending.hold, of: node)
        default: break
        }
        return findings.take()
    }

    /// History that is over its limit is what nobody else is known to have, or a single transaction.
    private mutating func judge(
        _ status: HistoryStatus, _ limits: HistoryLimits, _ hold: HistoryHold?, of node: Int
    ) {
        func note(_ name: String, _ found: UInt64, _ bound: UInt64) {
            guard found > bound else { return }
            findings.note(
                name, "\(Telling.node(node)) \(name): expected at most \(bound), found \(found)")
        }
        note("closedRecords", UInt64(status.closedRecords), UInt64(limits.maximumRecords))
        if case .onlyHere = hold { return }
        if status.transactions > 1 { note("historyBytes", status.bytes, limits.maximumBytes) }
    }

    private mutating func judge(_ gauges: ProcessGauges, of node: Int) {
        if gauges.pins > 0 {
            pinned[node] = pinned[node] ?? PinnedLog()
        } else if gauges.writeAheadLogBytes <= Self.writeAheadLogBytes {
            pinned[node] = nil
        }
        let measures = Self.measures(gauges, isPinned: pinned[node] != nil)
        let mayWait = mayWait(node, gauges, measures)
        for (name, found, bound) in measures where found > bound {
            if mayWait, name == Self.logName { continue }
            findings.note(
                name, "\(Telling.node(node)) \(name): expected at most \(bound), found \(found)")
        }
    }

    /// Whether a log that is too long may be so for now: what is written in a second while a pin
    /// holds it has no bound, and one pin goes a second. A commit after the last then starts it
    /// over.
    private mutating func mayWait(
        _ node: Int, _ gauges: ProcessGauges, _ measures: [(name: String, found: Int, bound: Int)]
    ) -> Bool {
        guard var log = pinned[node] else { return false }
        defer { pinned[node] = log }
        let isLong = measures.contains { $0.name == Self.logName && $0.found > $0.bound }
        let patience = log.patience ?? gauges.pins + 1
        let hasGrown = log.hasGrown
        log = PinnedLog(patience: isLong ? patience - (hasGrown ? 1 : 0) : nil)
        return isLong && patience > 0
    }

    /// The measures, each with the value found and its bound.
    ///
    /// - Parameter isPinned: whether a pin may hold the log: it does up to the log's limit.
    static func measures(
        _ gauges: ProcessGauges, isPinned: Bool
    ) -> [(name: String, found: Int, bound: Int)] {
        let (found, limits) = (gauges.replicator, gauges.limits)
        // One page may come on top of a backlog that is just not full, and all that waits for one
        // transaction becomes ready with it.
        let applyingCount = limits.waitingCount + limits.backlogCount + limits.transactionsInFrame
        let applyingBytes =
            limits.waitingBytes + limits.backlogBytes + limits.frameBytes + limits.transactionBytes
        return [
            ("waitingCount", found.waitingCount, limits.waitingCount),
            ("waitingBytes", found.waitingBytes, limits.waitingBytes),
            ("applyingCount", found.applyingCount, applyingCount),
            ("applyingBytes", found.applyingBytes, applyingBytes),
            ("pullsOutstanding", found.pullsOutstanding, limits.peers),
            ("readsOutstanding", found.readsOutstanding, limits.peers),
            ("orphanBytes", found.orphanBytes, limits.orphanBytes),
            // One that comes and those that go.
            ("piecesBytes", found.piecesBytes, limits.transactionBytes + limits.outgoingBytes),
            // One an actor, because what follows waits behind it.
            ("held", gauges.held, limits.actors),
            ("pins", gauges.pins, pins),
            (
                logName, Int(clamping: gauges.writeAheadLogBytes),
                Int(writeAheadLogBytes + (isPinned ? gauges.writeAheadLogLimit : 0))
            ),
        ]
    }
}
