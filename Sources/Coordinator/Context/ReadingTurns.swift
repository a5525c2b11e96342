import Foundation
import Synchronization

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

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter readers: how many connections for reading the store has. Half of them stay free
    ///   for those who wait for what they read.
    init(ofReaders readers: Int) { limit = max(1, readers / 2) }

    /// Runs some work when its turn comes.
    ///
    /// - Parameter key: what is read; the work keeps it.
    func run(for key: AsynchronousFetch, _ work: @escaping Work) {
        let hasTurn = state.withLock { state in
            if state.running < limit {
                state.running += 1
                return true
            }
            state.waiting.append((ObjectIdentifier(key), work))
            return false
        }
        guard hasTurn else { return }
        Thread.detachNewThread {
            work()
            while let next = self.next() { next() }
        }
    }

    /// Forgets work that waits for its turn.
    func forget(_ key: AsynchronousFetch) {
        state.withLock { state in state.waiting.removeAll { $0.key == ObjectIdentifier(key) } }
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
