import Synchronization

/// An observation of commits; it ends when cancelled or released.
public final class CommitObservation: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    /// Ends the observation; a call in progress is not waited for.
    public func cancel() { end() }

    deinit { end() }
}

/// The observers of commits. Thread-safe.
final class CommitObservers: Sendable {
    private struct State {
        var next = 0
        var bodies: [(id: Int, body: @Sendable (CommitNotice) -> Void)] = []
        var stopBodies: [@Sendable (CoordinatorError) -> Void] = []
    }

    private let state = Mutex(State())

    func add(_ body: @escaping @Sendable (CommitNotice) -> Void) -> CommitObservation {
        let id = state.withLock { state in
            state.next += 1
            state.bodies.append((state.next, body))
            return state.next
        }
        return CommitObservation { [weak self] in
            self?.state.withLock { $0.bodies.removeAll { $0.id == id } }
        }
    }

    func onStop(_ body: @escaping @Sendable (CoordinatorError) -> Void) {
        state.withLock { $0.stopBodies.append(body) }
    }

    func notify(_ notice: CommitNotice) {
        for (_, body) in state.withLock({ $0.bodies }) { body(notice) }
    }

    func stop(_ error: CoordinatorError) {
        for body in state.withLock({ $0.stopBodies }) { body(error) }
    }
}
