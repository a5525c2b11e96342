import Synchronization

/// The outcome of a job for the task that waits for it; it may be there before the task waits.
final class AwaitedOutcome<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(CheckedContinuation<Value, any Error>)
        case known(Result<Value, any Error>)
    }

    private let state = Mutex(State.open)

    /// Tells the outcome, once.
    func complete(_ result: Result<Value, any Error>) {
        let waiting = state.withLock { state in
            defer { state = .known(result) }
            if case .awaited(let continuation) = state { return Optional(continuation) }
            return nil
        }
        waiting?.resume(with: result)
    }

    /// Waits for it; asked once.
    var value: Value {
        get async throws {
            if case .known(let result) = state.withLock({ $0 }) { return try result.get() }
            return try await withCheckedThrowingContinuation { continuation in
                let known: Result<Value, any Error>? = state.withLock { state in
                    if case .known(let result) = state { return result }
                    state = .awaited(continuation)
                    return nil
                }
                if let known { continuation.resume(with: known) }
            }
        }
    }
}
