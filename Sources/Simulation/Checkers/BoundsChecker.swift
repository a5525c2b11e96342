internal import Coordinator
internal import Replication

/// Law 9: memory and disk stay bounded, whatever a peer does: every gauge within its limit.
struct BoundsChecker: Checker {
    let law = 9

    /// The most pins of one process: far more than a world ever takes, so that more is a leak.
    static let pins = 64
    /// The most of a write-ahead log in use that no pin holds: a checkpoint comes after a few
    /// megabytes at most, and a long transaction goes on top.
    static let writeAheadLogBytes: UInt64 = 64 << 20

    private var findings = Findings()
    /// The nodes whose log a pin holds, or has held so that it has yet to begin anew.
    private var pinned: Set<Int> = []

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .gauges(let node, let gauges): judge(gauges, of: node)
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
            pinned.insert(node)
        } else if gauges.writeAheadLogBytes <= Self.writeAheadLogBytes {
            pinned.remove(node)
        }
        let isPinned = pinned.contains(node)
        for (name, found, bound) in Self.measures(gauges, isPinned: isPinned) where found > bound {
            findings.note(
                name, "\(Telling.node(node)) \(name): expected at most \(bound), found \(found)")
        }
    }

    /// What is measured, with what was found and its bound.
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
            // One that comes and one that goes.
            ("piecesBytes", found.piecesBytes, 2 * limits.transactionBytes),
            // One an actor, for what follows waits behind it.
            ("held", gauges.held, limits.actors),
            ("pins", gauges.pins, pins),
            (
                "writeAheadLogBytes", Int(clamping: gauges.writeAheadLogBytes),
                Int(writeAheadLogBytes + (isPinned ? gauges.writeAheadLogLimit : 0))
            ),
        ]
    }
}
