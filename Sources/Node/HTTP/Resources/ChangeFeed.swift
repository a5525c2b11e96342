// Wakes those who follow the log.

internal import Coordinator
internal import Synchronization

/// Tells followers that there may be something new; what it is they read from the log, so that a
/// slow one costs no memory. Thread-safe.
final class ChangeFeed: Sendable {
    private struct State {
        var next = 0
        var followers: [Int: AsyncStream<Void>.Continuation] = [:]
        var observation: CommitObservation?
        var isStopped = false
    }

    private let state = Mutex(State())

    init(_ coordinator: PersistentStoreCoordinator) {
        let observation = coordinator.observeCommits { [weak self] _ in self?.wake() }
        state.withLock { $0.observation = observation }
    }

    /// A stream with an element whenever there may be something new, which ends with the feed, and
    /// with the client.
    ///
    /// Elements that nobody has taken are one.
    func follow(for client: ClientPresence = ClientPresence()) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state -> Int? in
            guard !state.isStopped else { return nil }
            state.next += 1
            state.followers[state.next] = continuation
            return state.next
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        let leaving = client.onLeaving { continuation.finish() }
        continuation.onTermination = { [weak self] _ in
            client.forget(leaving)
            self?.state.withLock { _ = $0.followers.removeValue(forKey: id) }
        }
        return stream
    }

    /// How many follow.
    var followerCount: Int { state.withLock { $0.followers.count } }

    /// Wakes all followers.
    func wake() {
        for follower in state.withLock({ Array($0.followers.values) }) { follower.yield() }
    }

    /// Ends all streams.
    func stop() {
        let followers = state.withLock { state in
            state.isStopped = true
            state.observation = nil
            return Array(state.followers.values)
        }
        for follower in followers { follower.finish() }
    }
}
