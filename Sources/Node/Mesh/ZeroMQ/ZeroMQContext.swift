// The library's context: its input and output threads, and the space of `inproc` names.
//
// Threading: may be shared between threads. It ends when the last socket made in it is gone,
// since every socket holds it.

internal import CZeroMQ
internal import Glibc

/// A ZeroMQ context, ended when nothing refers to it any more.
///
/// Safety of `@unchecked Sendable`: the only state is the pointer that libzmq gave out, which never
/// changes, and libzmq documents contexts as safe to use from any thread.
public final class ZeroMQContext: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Begins a context.
    ///
    /// - Parameters:
    ///   - threads: how many threads carry bytes, 1...16. One carries about a gigabyte a second,
    ///     which is more than a node's disk takes.
    ///   - sockets: how many sockets it may hold, 1...65535; nil for the library's own bound.
    /// - Throws: ``ZeroMQError`` where the system has no more descriptors or threads to give.
    public init(threads: Int32 = 1, sockets: Int32? = nil) throws(ZeroMQError) {
        guard let pointer = zmq_ctx_new() else { throw .last("begin a context") }
        self.pointer = pointer
        zmq_ctx_set(pointer, ZMQ_IO_THREADS, max(1, min(16, threads)))
        if let sockets { zmq_ctx_set(pointer, ZMQ_MAX_SOCKETS, max(1, min(65_535, sockets))) }
    }

    deinit {
        // Every socket has been closed with a linger of 0, so that this waits for nothing.
        while zmq_ctx_term(pointer) != 0, zmq_errno() == EINTR {}
    }
}
