import Foundation
import Synchronization

/// How many asynchronous fetches of a coordinator's contexts are under way.
public struct AsynchronousFetchGauge: Hashable, Sendable {
    /// Those that read.
    public var running = 0
    /// Those that wait for their turn.
    public var waiting = 0
    /// How many may wait; a fetch beyond it fails at once.
    public var limit = 0
}

/// Runs reads beside the queues of contexts, a few at once. The others wait in the order they came.
///
/// Each has a thread of its own. Dispatch and Swift's tasks share about as many threads as there are
/// processors, so long reads on these would keep contexts and tasks from running.
///
/// Thread-safe.
final class ReadingTurns: Sendable {
    typealias Work = @Sendable () -> Void

    private struct State {
        var running = 0
        var waiting: [(key: ObjectIdentifier, work: Work)] = []
    }

    /// How many may wait by default.
    static let mostWaiting = 1_000

    private let limit: Int
    private let mostWaiting: Int
    private let state = Mutex(State())

    /// - Parameter readers: how many connections for reading the store has. Half of them stay free
    ///   for those who wait for what they read.
    init(ofReaders readers: Int, mostWaiting: Int = ReadingTurns.mostWaiting) {
        limit = max(1, readers / 2)
        self.mostWaiting = mostWaiting
    }

    /// Runs some work when its turn comes.
    ///
    /// - Parameter key: what is read; the work keeps it.
    /// - Returns: false where too many wait already; then it never runs.
    func run(for key: AsynchronousFetch, _ work: @escaping Work) -> Bool {
        let hasTurn: Bool? = state.withLock { state in
            if state.running < limit {
                state.running += 1
                return true
            }
            guard state.waiting.count < mostWaiting else { return nil }
            state.waiting.append((ObjectIdentifier(key), work))
            return false
        }
        guard let hasTurn else { return false }
        if hasTurn {
            Thread.detachNewThread {
                work()
                while let next = self.next() { next() }
            }
        }
        return true
    }

    /// Forgets work that waits for its turn.
    func forget(_ key: AsynchronousFetch) {
        state.withLock { state in state.waiting.removeAll { $0.key == ObjectIdentifier(key) } }
    }

    var gauge: AsynchronousFetchGauge {
        state.withLock {
            AsynchronousFetchGauge(
                running: $0.running, waiting: $0.waiting.count, limit: mostWaiting)
        }
    }

    /// Whether nothing is read.
    var isIdle: Bool { state.withLock { $0.running == 0 } }

    private func next() -> Work? {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.running -= 1
                return nil
            }
            return state.waiting.removeFirst().work
        }
    }
}

extension PersistentStoreCoordinator {
    /// How many asynchronous fetches of its contexts are under way. Usable from any thread.
    public var asynchronousFetchGauge: AsynchronousFetchGauge { asynchronousFetches.gauge }
}
