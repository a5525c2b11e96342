// The sockets to one peer under one of its keys, and what their handshakes have come to.
//
// libzmq gives a connection up for good when the other end refuses its key, or speaks something
// else: it would never find out that the key is listed by now. So handshakes are watched here, and
// sockets that libzmq gave up are made again. Threading: belongs to the transport's thread.

internal import CZeroMQ
internal import Merge

/// A socket that connects, and what its monitor has told.
final class MeshSocket {
    let socket: ZeroMQSocket
    let monitor: ZeroMQSocket
    /// How the last handshake ended.
    private(set) var state = MeshKeyReport.Handshake.none
    /// Whether the library has given the connection up.
    private var isGivenUp = false
    /// When the state became what it is, in monotonic milliseconds.
    private var since: UInt64
    /// Its connection, and what the peer makes it hold.
    var watch: ConnectionWatch

    init(
        _ socket: ZeroMQSocket, monitor: ZeroMQSocket, _ bounds: ConnectionWatch.Bounds, now: UInt64
    ) {
        self.socket = socket
        self.monitor = monitor
        watch = ConnectionWatch(bounds)
        since = now
    }

    private static let events = Int32(
        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
            | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED)

    /// Begins to watch a socket.
    ///
    /// - Parameter name: unlike that of any other monitor of the context.
    static func watch(
        _ socket: ZeroMQSocket, name: String
    ) throws(ZeroMQError) -> ZeroMQSocket {
        try socket.watch(events, name: name)
    }

    /// A monitor's next message, if one waits: the event, and what it names.
    static func nextEvent(
        of monitor: ZeroMQSocket
    ) throws(ZeroMQError) -> (kind: Int32, value: Int32)? {
        // An event is 16 bits of kind and 32 of value, in this machine's order; then a name.
        guard let event = try monitor.receiveMessage(limit: 2)?.parts.first?.bytes,
            event.count >= 6
        else { return nil }
        return event.withUnsafeBytes {
            (
                Int32($0.loadUnaligned(as: UInt16.self)),
                $0.loadUnaligned(fromByteOffset: 2, as: Int32.self)
            )
        }
    }

    /// Takes note of what the monitor has to tell, at most so many events.
    func takeEvents(limit: Int, now: UInt64) throws(ZeroMQError) {
        for _ in 0..<limit {
            guard let event = try Self.nextEvent(of: monitor) else { return }
            watch.note(event.kind, event.value, now: now)
            switch event.kind {
            case Int32(ZMQ_EVENT_CONNECTED): break
            case Int32(ZMQ_EVENT_HANDSHAKE_SUCCEEDED): enter(.succeeded, now)
            case Int32(ZMQ_EVENT_HANDSHAKE_FAILED_AUTH):
                enter(.refusedThere, now)
                isGivenUp = true
            case Int32(ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL):
                enter(.failed, now)
                isGivenUp = true
            case Int32(ZMQ_EVENT_DISCONNECTED):
                // After a handshake that failed it says nothing new.
                if state == .succeeded { enter(.none, now) }
            default: enter(.failed, now)
            }
        }
    }

    private func enter(_ next: MeshKeyReport.Handshake, _ now: UInt64) {
        isGivenUp = false
        guard next != state else { return }
        state = next
        since = now
    }

    /// Whether a new socket must take this one's place.
    func isLost(_ limits: TransportLimits, now: UInt64) -> Bool {
        guard state != .succeeded else { return false }
        return now >= since
            + UInt64(isGivenUp ? limits.refusedMilliseconds : limits.renewalMilliseconds)
    }
}

/// A subscriber and a dealer that believe one key of a peer.
///
/// A peer that changes its key is listed with two, and gets a link for each: only the one whose
/// key the peer really holds comes to stand, so nothing arrives twice.
final class MeshLink {
    /// The key that the other end must prove; nil for a mesh without CURVE.
    let serverKey: CurvePublicKey?
    let subscriber: MeshSocket
    let dealer: MeshSocket

    init(serverKey: CurvePublicKey?, subscriber: MeshSocket, dealer: MeshSocket) {
        self.serverKey = serverKey
        self.subscriber = subscriber
        self.dealer = dealer
    }

    /// How many sockets are polled for a link.
    static let socketCount = 4

    /// The sockets in the order in which they are polled.
    var sockets: [ZeroMQSocket] {
        [subscriber.socket, dealer.socket, subscriber.monitor, dealer.monitor]
    }

    /// How the handshakes stand: the dealer's, but for a subscriber that is worse off.
    var state: MeshKeyReport.Handshake {
        dealer.state == .succeeded && subscriber.state == .refusedThere
            ? .refusedThere : dealer.state
    }
}
