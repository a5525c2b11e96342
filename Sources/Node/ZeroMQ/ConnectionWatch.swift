// What peers make libzmq hold of what they send, connection by connection.
//
// libzmq bounds the parts of a message and the messages that wait. It does not bound how many parts one
// message has, nor what a publisher's subscribers subscribe to, nor how many connections one peer
// makes: each of these may take all memory, and nothing of it is given out to count. So the system is
// asked how much came over a connection, and what was given out of it is taken off; a connection
// that leaves more than a queue's worth is ended. Who keeps to the protocol is never near it.
//
// Threading: belongs to the transport's thread.

internal import CZeroMQ
internal import Glibc

/// The TCP connections of one socket, and how much of what came over each is still in the library.
struct ConnectionWatch {
    /// What is watched for, and from when on a connection is ended.
    struct Bounds {
        /// How many bytes that came over a connection may not have been given out.
        var heldBytes: Int
        /// How many connections there may be; above it the longest of whichever address has most end.
        var connections = Int.max
    }

    private struct Connection {
        /// The library's descriptor of it.
        let descriptor: Int32
        /// The machine at its other end.
        let address: String
        /// The bytes of what was given out, as they came.
        var givenOut: Int64 = 0

        /// What came and was not given out; negative where the system does not tell.
        var heldBytes: Int64 { tributary_bytes_read(descriptor) - givenOut }
    }

    private let bounds: Bounds
    /// In the order in which they began.
    private var connections: [Connection] = []

    init(_ bounds: Bounds) { self.bounds = bounds }

    /// How many connections there are, as far as events were taken.
    var count: Int { connections.count }

    /// What each holds, oldest first.
    var heldBytes: [Int64] { connections.map(\.heldBytes) }

    /// Takes note of an event of the socket's monitor.
    ///
    /// - Parameter value: what the event names: the descriptor of the connection.
    mutating func note(_ event: Int32, _ value: Int32) {
        switch event {
        case ZMQ_EVENT_ACCEPTED, ZMQ_EVENT_CONNECTED:
            connections.removeAll { $0.descriptor == value }
            guard let address = Self.address(of: value) else { return }
            connections.append(Connection(descriptor: value, address: address))
        case ZMQ_EVENT_DISCONNECTED:
            connections.removeAll { $0.descriptor == value }
        default: break
        }
    }

    /// Takes note of a part of a message that the library gave out.
    mutating func note(_ part: ZeroMQSocket.Part, isEncrypted: Bool) {
        guard let index = connections.firstIndex(where: { $0.descriptor == part.connection })
        else { return }
        connections[index].givenOut += Int64(
            Self.bytesOnWire(part.bytes.count, isEncrypted: isEncrypted))
    }

    /// How many bytes a part of a message is on the wire: ZMTP 3.1 puts a flag and a length before it, CURVE
    /// a name, a nonce and a code, and flags of its own (rfc.zeromq.org/spec/37 and 26).
    static func bytesOnWire(_ count: Int, isEncrypted: Bool) -> Int {
        let body = count + (isEncrypted ? 33 : 0)
        return body + (body > 255 ? 9 : 2)
    }

    /// Ends the connections that hold too much, and those that are too many; the events that wait must
    /// have been taken just before.
    ///
    /// They are shut down and not closed, for they are the library's: it finds them ended and gives up
    /// what it holds of them. A descriptor that the library has closed since may be another's by now;
    /// so each is asked for its other end once more, and in the moment that is left the worst is that
    /// a connection ends that is made anew.
    ///
    /// - Returns: how many were ended.
    mutating func endExcessive() -> Int {
        var ended = 0
        for connection in connections
        where connection.heldBytes > bounds.heldBytes { ended += end(connection) }
        while connections.count > bounds.connections {
            let counts = Dictionary(grouping: connections, by: \.address).mapValues(\.count)
            let most = counts.values.max() ?? 0
            guard let excessive = connections.first(where: { counts[$0.address] == most }) else {
                break
            }
            ended += end(excessive)
        }
        return ended
    }

    private mutating func end(_ connection: Connection) -> Int {
        connections.removeAll { $0.descriptor == connection.descriptor }
        guard Self.address(of: connection.descriptor) == connection.address else { return 0 }
        shutdown(connection.descriptor, Int32(SHUT_RDWR))
        return 1
    }

    /// The address at the other end of a connection, without its port; nil where there is none any more.
    private static func address(of descriptor: Int32) -> String? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let isNamed = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getpeername(descriptor, $0, &length) == 0
                    && getnameinfo(
                        $0, length, &host, socklen_t(host.count), nil, 0, NI_NUMERICHOST) == 0
            }
        }
        guard isNamed else { return nil }
        return String(decoding: host.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// A socket that is bound here, with a watch on who has connected to it.
final class BoundSocket {
    let socket: ZeroMQSocket
    let monitor: ZeroMQSocket
    var watch: ConnectionWatch

    /// Begins to watch a socket that is not bound yet.
    ///
    /// - Parameter name: unlike that of any other monitor of the context.
    init(
        _ socket: ZeroMQSocket, _ bounds: ConnectionWatch.Bounds, name: String
    ) throws(ZeroMQError) {
        self.socket = socket
        monitor = try socket.watch(
            Int32(ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED), name: name)
        watch = ConnectionWatch(bounds)
    }

    /// Takes note of what the monitor has to tell, at most so many events.
    ///
    /// - Returns: whether that was all.
    func takeEvents(limit: Int) throws(ZeroMQError) -> Bool {
        for _ in 0..<limit {
            guard let event = try MeshSocket.nextEvent(of: monitor) else { return true }
            watch.note(event.kind, event.value)
        }
        return false
    }
}
