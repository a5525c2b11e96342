// Waiting on many sockets with one system call.
//
// `zmq_poll` asks the library about every socket at every call, which costs two system calls for each.
// Here the system is asked about all descriptors at once, and the library only about sockets with a
// descriptor that has spoken. A descriptor speaks once: a socket that was used since must be asked until it
// has nothing more (`ZeroMQSocket.mayHaveInput`; see ZMQ_FD in zmq_getsockopt(3)).
//
// Threading: belongs to the transport's thread.

internal import Glibc

/// The sockets that a poll waits on, and the bell before them.
struct SocketPoll {
    /// The place of the bell; the sockets follow.
    static let bell = 0

    private let bell: Wakeup
    private var entries: [pollfd]
    private let sockets: [ZeroMQSocket]

    /// Lists a bell and sockets.
    init(_ bell: Wakeup, _ sockets: [ZeroMQSocket]) {
        self.bell = bell
        self.sockets = sockets
        entries = ([bell.descriptor] + sockets.map(\.descriptor)).map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
    }

    /// How many places there are.
    var count: Int { entries.count }

    /// Waits until something may be ready, a signal comes or so many milliseconds are over.
    ///
    /// - Returns: whether something may be ready.
    mutating func wait(milliseconds: Int) throws(ZeroMQError) -> Bool {
        let mayWait = bell.sleep() && !sockets.contains(where: \.mayHaveInput)
        let ready = poll(
            &entries, nfds_t(entries.count), mayWait ? Int32(clamping: milliseconds) : 0)
        let failure = errno
        if ready < 0 { for index in entries.indices { entries[index].revents = 0 } }
        bell.rise(isReady: entries[Self.bell].revents != 0)
        guard ready >= 0 || failure == EINTR else {
            throw ZeroMQError(operation: "poll", number: failure)
        }
        return ready != 0 || !mayWait
    }

    /// Whether a message waits at a place of a socket; asks the library.
    func hasInput(_ index: Int) -> Bool { sockets[index - 1].hasInput }

    /// Whether something may wait at a place, by the last wait.
    func isReady(_ index: Int) -> Bool {
        entries[index].revents != 0
            || (index > Self.bell && sockets[index - 1].mayHaveInput)
    }
}
