// A way to break a poll from another thread.
//
// Threading: `wake` from any thread; the rest only from the thread that polls.

internal import Glibc
internal import Synchronization

/// A bell that other threads ring to end a poll early.
///
/// Ringing it again before it was heard, or while nobody polls, costs one atomic exchange and no system
/// call.
public final class Wakeup: Sendable {
    /// The descriptor that the poll waits on beside its sockets: the end of a pipe that is read.
    let descriptor: Int32
    private let writing: Int32
    private let state = Atomic(State.awake.rawValue)

    private enum State: UInt8 {
        /// The thread waits in a poll: it must be rung for.
        case asleep
        /// It does something else.
        case awake
        /// It was rung for, and shall not wait.
        case rung
    }

    /// Makes a bell.
    ///
    /// - Throws: ``NodeError`` with the code `resourcesExhausted` where the process may open no more
    ///   descriptors.
    public init() throws(NodeError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw NodeError(.resourcesExhausted, "No descriptor is left for the wake-up pipe")
        }
        for end in ends {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        descriptor = ends[0]
        writing = ends[1]
    }

    deinit {
        close(descriptor)
        close(writing)
    }

    /// Ends the poll under way, or the next one. Put work in its queue before ringing.
    public func wake() {
        let former = state.exchange(State.rung.rawValue, ordering: .sequentiallyConsistent)
        guard former == State.asleep.rawValue else { return }
        // Each poll lets one byte into the pipe and takes what is there, so that it is never full.
        var ring: UInt8 = 1
        while write(writing, &ring, 1) < 0, errno == EINTR {}
    }

    /// Begins a poll.
    ///
    /// - Returns: whether it may wait: nobody has rung since the last poll.
    func sleep() -> Bool {
        state.exchange(State.asleep.rawValue, ordering: .sequentiallyConsistent)
            != State.rung.rawValue
    }

    /// Ends a poll.
    ///
    /// - Parameter isReady: whether ``descriptor`` was ready.
    func rise(isReady: Bool) {
        state.store(State.awake.rawValue, ordering: .sequentiallyConsistent)
        guard isReady else { return }
        var rings: (UInt8, UInt8, UInt8, UInt8) = (0, 0, 0, 0)
        _ = read(descriptor, &rings, 4)
    }

    /// Hears what was rung so far. Between two polls a thread calls this before it looks at its
    /// queues; then the next one may wait all the same.
    func hear() { state.store(State.awake.rawValue, ordering: .sequentiallyConsistent) }
}
