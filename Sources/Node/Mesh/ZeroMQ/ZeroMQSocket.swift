// One ZeroMQ socket: options, binding, connecting, and sending and receiving without waiting.
//
// Threading: a socket belongs to the thread that polls it; nothing here may be called from another.
// The type is not Sendable, so that the compiler keeps it there.

internal import CZeroMQ
internal import Glibc

/// A ZeroMQ socket owned by one thread; closed with a linger of 0 when released.
public final class ZeroMQSocket {
    /// The patterns of socket that a node uses.
    public enum Pattern: Sendable {
        case publisher, subscriber, dealer, router, reply, pair

        var number: Int32 {
            switch self {
            case .publisher: ZMQ_PUB
            case .subscriber: ZMQ_SUB
            case .dealer: ZMQ_DEALER
            case .router: ZMQ_ROUTER
            case .reply: ZMQ_REP
            case .pair: ZMQ_PAIR
            }
        }
    }

    /// The fate of a message that was to be sent.
    public enum Sending: Sendable {
        /// The library took it; whether it arrives is not known.
        case sent
        /// The queue to the peer is full, or no peer is connected.
        case full
        /// A router does not know the receiver.
        case unreachable
    }

    /// One part of a message.
    public struct Part: Sendable {
        /// The bytes, whole.
        public var bytes: [UInt8]
        /// Whether another part of the same message follows.
        public var hasMore: Bool
        /// The name that the ZAP handler gave to the peer; nil where peers are not checked.
        public var user: String?
        /// The library's descriptor of the connection that it came over; -1 where there was none.
        var connection: Int32
    }

    let handle: UnsafeMutableRawPointer
    /// Where the system tells that the library has something for this socket: once, until it is used.
    let descriptor: Int32
    /// Whether a message may wait that ``descriptor`` has told of already, or will not tell of.
    private(set) var mayHaveInput = true
    private let context: ZeroMQContext
    private let scratch: UnsafeMutablePointer<zmq_msg_t>
    /// Where this socket's events are read, if it is watched.
    ///
    /// Kept as long as the socket, even when all else is released: the library's thread waits for
    /// ever if it has an event to report and nobody is there to take it, and all sockets of the
    /// context stand still with it.
    private var monitor: ZeroMQSocket?

    /// Makes a socket.
    ///
    /// - Throws: ``ZeroMQError`` where the context has no more sockets to give.
    public init(_ pattern: Pattern, in context: ZeroMQContext) throws(ZeroMQError) {
        guard let handle = zmq_socket(context.pointer, pattern.number) else {
            throw .last("make a socket")
        }
        self.handle = handle
        self.context = context
        descriptor = Self.descriptor(of: handle)
        scratch = .allocate(capacity: 1)
        zmq_msg_init(scratch)
        try set(ZMQ_LINGER, 0)
    }

    private static func descriptor(of handle: UnsafeMutableRawPointer) -> Int32 {
        var descriptor: Int32 = -1
        var length = MemoryLayout<Int32>.size
        zmq_getsockopt(handle, ZMQ_FD, &descriptor, &length)
        return descriptor
    }

    deinit {
        if let monitor {
            // Its thread must not wait for room once it reports nothing any more.
            while (try? monitor.receive()) != nil {}
            zmq_socket_monitor(handle, nil, 0)
        }
        zmq_msg_close(scratch)
        scratch.deallocate()
        zmq_close(handle)
    }

    /// Sets a numeric option, named by its `ZMQ_` constant.
    public func set(_ option: Int32, _ value: Int32) throws(ZeroMQError) {
        var value = value
        guard zmq_setsockopt(handle, option, &value, MemoryLayout<Int32>.size) == 0 else {
            throw .last("set option \(option) to", String(value))
        }
    }

    /// Sets a 64-bit option, such as the greatest size of a message.
    public func set(_ option: Int32, wide value: Int64) throws(ZeroMQError) {
        var value = value
        guard zmq_setsockopt(handle, option, &value, MemoryLayout<Int64>.size) == 0 else {
            throw .last("set option \(option) to", String(value))
        }
    }

    /// Sets an option of text or bytes. The value is never part of an error: it may be a secret.
    public func set(_ option: Int32, text: String) throws(ZeroMQError) {
        var text = text
        let result = text.withUTF8 { zmq_setsockopt(handle, option, $0.baseAddress, $0.count) }
        guard result == 0 else { throw .last("set option", String(option)) }
    }

    /// Binds to an endpoint and gives the one actually bound (port 0 takes any free port).
    public func bind(_ endpoint: String) throws(ZeroMQError) -> String {
        guard zmq_bind(handle, endpoint) == 0 else { throw .last("bind", endpoint) }
        var buffer = [UInt8](repeating: 0, count: 256)
        var count = buffer.count
        guard zmq_getsockopt(handle, ZMQ_LAST_ENDPOINT, &buffer, &count) == 0 else {
            throw .last("name the endpoint of", endpoint)
        }
        return String(decoding: buffer.prefix(max(0, count - 1)), as: UTF8.self)
    }

    /// Begins to connect to an endpoint, and goes on trying until released.
    public func connect(_ endpoint: String) throws(ZeroMQError) {
        guard zmq_connect(handle, endpoint) == 0 else { throw .last("connect to", endpoint) }
    }

    /// Has the library tell events of this socket, once, before it is bound or connected.
    ///
    /// - Parameters:
    ///   - name: unlike that of any other monitor of the context.
    ///   - events: which, named by their `ZMQ_EVENT_` constants.
    /// - Returns: where they are read. Nothing is reported once this socket is released.
    func watch(_ events: Int32, name: String) throws(ZeroMQError) -> ZeroMQSocket {
        let endpoint = "inproc://\(name)"
        let monitor = try ZeroMQSocket(.pair, in: context)
        guard zmq_socket_monitor(handle, endpoint, events) == 0 else {
            throw .last("watch a socket")
        }
        self.monitor = monitor
        try monitor.connect(endpoint)
        return monitor
    }

    /// Sends one part of a message without waiting. The library copies the bytes once.
    ///
    /// - Throws: ``ZeroMQError`` only where the socket itself is at fault.
    public func send(_ bytes: [UInt8], more: Bool = false) throws(ZeroMQError) -> Sending {
        mayHaveInput = true
        let flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)
        while true {
            let sent = bytes.withUnsafeBytes {
                zmq_send(handle, $0.baseAddress, $0.count, flags)
            }
            if sent >= 0 { return .sent }
            switch zmq_errno() {
            case EINTR: continue
            case EAGAIN: return .full
            case EHOSTUNREACH: return .unreachable
            default: throw .last("send")
            }
        }
    }

    /// Whether a message waits; asks the library.
    var hasInput: Bool {
        mayHaveInput = true
        var events: Int32 = 0
        var length = MemoryLayout<Int32>.size
        zmq_getsockopt(handle, ZMQ_EVENTS, &events, &length)
        return events & ZMQ_POLLIN != 0
    }

    /// Takes one part of a waiting message without waiting; nil where none waits.
    public func receive() throws(ZeroMQError) -> Part? {
        while zmq_msg_recv(scratch, handle, ZMQ_DONTWAIT) < 0 {
            switch zmq_errno() {
            case EINTR: continue
            case EAGAIN:
                mayHaveInput = false
                return nil
            default: throw .last("receive")
            }
        }
        mayHaveInput = true
        let bytes = [UInt8](
            UnsafeRawBufferPointer(start: zmq_msg_data(scratch), count: zmq_msg_size(scratch)))
        let user = zmq_msg_gets(scratch, "User-Id").map { String(cString: $0) }
        let hasMore = zmq_msg_more(scratch) == 1
        return Part(
            bytes: bytes, hasMore: hasMore, user: user,
            connection: zmq_msg_get(scratch, ZMQ_SRCFD))
    }

    /// Takes one whole message, at most `limit` parts of it; the parts beyond are thrown away.
    ///
    /// - Parameter each: called with each part, also with those that are thrown away.
    /// - Returns: the parts and whether there were more than `limit`; nil where none waits.
    func receiveMessage(
        limit: Int, each: (Part) throws(ZeroMQError) -> Void = { _ in }
    ) throws(ZeroMQError) -> (parts: [Part], excessive: Bool)? {
        guard let first = try receive() else { return nil }
        try each(first)
        var parts = [first]
        var hasMore = first.hasMore
        var excessive = false
        while hasMore, let next = try receive() {
            try each(next)
            hasMore = next.hasMore
            if parts.count < limit { parts.append(next) } else { excessive = true }
        }
        return (parts, excessive)
    }
}
