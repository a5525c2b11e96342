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
    private struct Observer {
        let id: Int
        let body: @Sendable (CommitNotice) -> Void
        /// Told once that no commit follows, with what stopped the coordinator if something did.
        let onEnd: (@Sendable (CoordinatorError?) -> Void)?
    }

    private struct State {
        var next = 0
        var observers: [Observer] = []
        var stopBodies: [@Sendable (CoordinatorError) -> Void] = []
        var isEnded = false
        var error: CoordinatorError?
    }

    private let state = Mutex(State())

    func add(
        _ body: @escaping @Sendable (CommitNotice) -> Void,
        onEnd: (@Sendable (CoordinatorError?) -> Void)? = nil
    ) -> CommitObservation {
        let (id, isEnded, error) = state.withLock { state in
            state.next += 1
            if !state.isEnded || onEnd == nil {
                state.observers.append(Observer(id: state.next, body: body, onEnd: onEnd))
            }
            return (state.next, state.isEnded, state.error)
        }
        if isEnded { onEnd?(error) }
        return CommitObservation { [weak self] in
            self?.state.withLock { $0.observers.removeAll { $0.id == id } }
        }
    }

    /// How many there are.
    var count: Int { state.withLock(\.observers.count) }

    func onStop(_ body: @escaping @Sendable (CoordinatorError) -> Void) {
        state.withLock { $0.stopBodies.append(body) }
    }

    func notify(_ notice: CommitNotice) {
        for observer in state.withLock({ $0.observers }) { observer.body(notice) }
    }

    func stop(_ error: CoordinatorError) {
        for body in state.withLock({ $0.stopBodies }) { body(error) }
        end(error)
    }

    /// Tells that no commit follows; after the first time it does nothing.
    ///
    /// - Parameter error: what stopped the coordinator; nil if it was closed.
    func end(_ error: CoordinatorError? = nil) {
        let ended = state.withLock { state in
            if state.isEnded { return [] as [Observer] }
            state.isEnded = true
            state.error = error
            let ended = state.observers.filter { $0.onEnd != nil }
            state.observers.removeAll { $0.onEnd != nil }
            return ended
        }
        for observer in ended { observer.onEnd?(error) }
    }

    deinit { end() }
}
