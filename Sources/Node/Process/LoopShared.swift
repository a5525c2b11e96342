// State that the loop shares with other threads.

internal import Merge
internal import Replication
internal import Synchronization

/// The loop's state, for other threads.
struct LoopReport: Sendable {
    var replicator: ReplicatorStatus?
    var transport = TransportStatistics()
    var keys = MeshKeyReport()
    var stability = StabilityReport()
    var startedAt: UInt64 = 0
    /// When the process first opened the node: it may have opened its store again since.
    var beganAt: UInt64 = 0
    var isRunning = false
}

/// State that the loop shares with other threads.
final class LoopShared: Sendable {
    let handover = HandoverQueue()
    let acknowledgements = Acknowledgements()
    let counters: NodeCounters
    let report = Mutex(LoopReport())
    let history: HistoryKeeper
    let orphans: OrphanKeeper

    init(history: HistoryKeeper, counters: NodeCounters, orphans: OrphanKeeper) {
        self.counters = counters
        self.orphans = orphans
        self.history = history
    }
}
