public import Merge
import Synchronization

/// Those who wait until a store covers a vector: read your writes, anywhere. Thread-safe.
final class VectorWaiters: Sendable {
    private struct State {
        var next = 0
        var waiters: [Int: (VersionVector, CheckedContinuation<Bool, Never>)] = [:]
        var isEnded = false
    }

    private let state = Mutex(State())

    enum Limits {
        /// Requests that may wait at once, each with a vector.
        static let waiters = 10_000
    }

    /// A commit has reached a vector.
    func advance(to vector: VersionVector) {
        let ready = state.withLock { state in
            let ready = state.waiters.filter { vector.covers($0.value.0) }
            for id in ready.keys { state.waiters[id] = nil }
            return ready.values.map(\.1)
        }
        for continuation in ready { continuation.resume(returning: true) }
    }

    /// Waits for a vector.
    ///
    /// - Returns: whether it was reached in time.
    func wait(
        for vector: VersionVector, timeout: Duration, isCovered: @Sendable () -> Bool
    ) async -> Bool {
        if isCovered() { return true }
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        let timer = Mutex<Task<Void, Never>?>(nil)
        defer { timer.withLock { $0?.cancel() } }
        return await withCheckedContinuation { continuation in
            let isFull = state.withLock { state in
                if state.isEnded || state.waiters.count >= Limits.waiters { return true }
                state.waiters[id] = (vector, continuation)
                return false
            }
            if isFull { return continuation.resume(returning: false) }
            // From now on only: a timer that ends before there is somebody to tell tells nobody.
            timer.withLock { timer in
                timer = Task { [self] in
                    try? await Task.sleep(for: timeout)
                    finish(id, reached: false)
                }
            }
            // A commit between the first look and the registration would be missed otherwise.
            if isCovered() { finish(id, reached: true) }
        }
    }

    /// Ends all waiting, and lets nobody wait any more.
    func end() {
        let left = state.withLock { state in
            state.isEnded = true
            defer { state.waiters = [:] }
            return state.waiters.values.map(\.1)
        }
        for continuation in left { continuation.resume(returning: false) }
    }

    private func finish(_ id: Int, reached: Bool) {
        let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
        waiter?.1.resume(returning: reached)
    }
}

extension PersistentStoreCoordinator {
    /// Waits until the store covers a vector.
    ///
    /// - Parameter timeout: how long at the most.
    /// - Throws: ``CoordinatorError``: `generationTimeout` where it does not in time, where waiting
    ///   was ended, and at once where the store is open for reading only: nothing comes to it.
    public func waitUntilCovered(_ vector: VersionVector, timeout: Duration) async throws {
        let isCovered: @Sendable () -> Bool = { [self] in
            (try? currentToken.versionVector.covers(vector)) ?? false
        }
        guard writer != nil || isCovered() else {
            throw CoordinatorError(
                .generationTimeout,
                "\(storePath) lacks some of what the token names, and a file does not come to have it. "
                    + "Ask a running node.")
        }
        guard await waiters.wait(for: vector, timeout: timeout, isCovered: isCovered) else {
            throw CoordinatorError(
                .generationTimeout,
                "The node has not seen everything the token names within \(timeout).")
        }
    }

    /// Ends all waiting for vectors, as if they were not reached in time, because the node stops
    /// and nothing more will come. Later waits end at once.
    public func endWaiting() { waiters.end() }
}
