// Lets the store keep what can be applied no more.
//
// Threading: told by the loop; answers come on the writer's queue; read by all threads.

internal import Coordinator
internal import Logging
internal import Merge
internal import Synchronization

/// Hands orphans to the store, a few at a time so that saves wait little for them, and again later where
/// the store could not take them: the replicator has let go of them.
final class OrphanKeeper: Sendable {
    /// How soon it is tried again after a failure, such as a full disk.
    static let retryMilliseconds: UInt64 = 10_000
    /// How many bytes are written at once, unless a single one is longer.
    static let bytesAtOnce = 1 << 20

    private struct State {
        /// What is not in the store yet, and its bytes.
        var waiting: [EncodedTransaction] = []
        var bytes = 0
        var isWriting = false
        var nextAt: UInt64 = 0
        /// What there was no room for, by name, sorted.
        var leftOut: [Dot] = []
    }

    private let bounds: OrphanedTransaction.Bounds
    private let counters: NodeCounters
    private let state = Mutex(State())

    /// - Parameter bounds: of what waits here too, so that a full disk does not fill memory.
    init(bounds: OrphanedTransaction.Bounds = .init(), counters: NodeCounters) {
        self.bounds = bounds
        self.counters = counters
    }

    /// What is not in the store, for it could not be written yet or has no room; by dot.
    var notKept: [Dot] {
        state.withLock { ($0.waiting.map(\.dot) + $0.leftOut).sorted() }
    }

    /// Takes orphans over, and tells of them; ``tend(_:now:logger:)`` has them written.
    func take(_ orphans: [EncodedTransaction], logger: Logger) {
        let (taken, leftOut) = state.withLock { state in
            var (taken, leftOut): ([Dot], [Dot]) = ([], [])
            for orphan in orphans {
                guard state.waiting.count < bounds.count,
                    state.bytes + orphan.bytes.count <= bounds.bytes
                else {
                    leftOut.append(orphan.dot)
                    continue
                }
                state.waiting.append(orphan)
                state.bytes += orphan.bytes.count
                taken.append(orphan.dot)
            }
            return (taken, leftOut)
        }
        if let first = taken.first {
            counters.raise(
                AlarmLine(
                    "orphaned", .error,
                    "Saves that can be applied no more are kept: an earlier one of their node is lost",
                    [LogKeys.transaction: "\(first)", LogKeys.count: "\(taken.count)"]), logger)
        }
        leaveOut(leftOut, logger: logger)
    }

    /// Tells of what there was no room for, and remembers its names for status, within bounds.
    func leaveOut(_ dots: [Dot], logger: Logger) {
        guard let first = dots.first else { return }
        state.withLock { state in
            let known = Set(state.leftOut)
            let news = dots.filter { !known.contains($0) }
            state.leftOut += news.prefix(bounds.count - min(bounds.count, known.count))
            state.leftOut.sort()
        }
        counters.countOrphansLeftOut(dots.count)
        counters.raise(
            AlarmLine(
                "orphansNotKept", .error,
                "There is no room to keep saves that can be applied no more",
                [LogKeys.transaction: "\(first)", LogKeys.count: "\(dots.count)"]), logger)
    }

    /// Writes the next ones, where there are any and the last are done; to be called each tick.
    func tend(_ coordinator: PersistentStoreCoordinator, now: UInt64, logger: Logger) {
        let next = state.withLock { state -> [EncodedTransaction] in
            guard !state.isWriting, now >= state.nextAt, !state.waiting.isEmpty else { return [] }
            state.isWriting = true
            var (count, bytes) = (0, 0)
            for orphan in state.waiting {
                bytes += orphan.bytes.count
                if count > 0, bytes > Self.bytesAtOnce { break }
                count += 1
            }
            return Array(state.waiting.prefix(count))
        }
        guard !next.isEmpty else { return }
        coordinator.keepOrphans(next) { [self] in finish(next.count, $0, logger) }
    }

    private func finish(
        _ count: Int, _ result: Result<OrphanKeeping, any Error>, _ logger: Logger
    ) {
        switch result {
        case .success(let keeping):
            state.withLock { state in
                state.isWriting = false
                for orphan in state.waiting.prefix(count) { state.bytes -= orphan.bytes.count }
                state.waiting.removeFirst(count)
            }
            leaveOut(keeping.leftOut, logger: logger)
        case .failure(let error):
            state.withLock {
                $0.isWriting = false
                $0.nextAt = MonotonicClock.milliseconds + Self.retryMilliseconds
            }
            // A store that was closed, with the node, is no failure.
            if (error as? CoordinatorError)?.code == .notWritable { return }
            logger.error(
                "Orphans could not be kept; it is tried again",
                metadata: [LogKeys.count: "\(count)", LogKeys.error: "\(error)"])
        }
    }
}
