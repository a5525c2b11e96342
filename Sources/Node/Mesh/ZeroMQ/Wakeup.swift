// A way to break a poll from another thread.
//
// Threading: `wake` from any thread; `clear` only from the thread that polls.

internal import Glibc
internal import Synchronization

/// A bell that other threads ring to end a poll early.
///
/// Ringing it again before it was heard costs one atomic exchange and no system call.
public final class Wakeup: Sendable {
    /// The descriptor that the poll waits on beside its sockets: the end of a pipe that is read.
    let descriptor: Int32
    private let writing: Int32
    private let isRung = Atomic<Bool>(false)

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
        guard !isRung.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // The flag lets at most two bytes be in the pipe at once, so that it is never full.
        var ring: UInt8 = 1
        while write(writing, &ring, 1) < 0, errno == EINTR {}
    }

    /// Hears the bell. A thread that polls calls this before it looks at its queues.
    func clear() {
        var rings: (UInt8, UInt8, UInt8, UInt8) = (0, 0, 0, 0)
        // Read first, then lower the flag: the other order would lose a ring that comes between.
        _ = read(descriptor, &rings, 4)
        _ = isRung.exchange(false, ordering: .acquiringAndReleasing)
    }
}
