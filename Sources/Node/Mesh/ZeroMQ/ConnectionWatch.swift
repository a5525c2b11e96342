// The memory that libzmq holds for peers' frames, connection by connection.
//
// libzmq bounds the parts of a message and the messages that wait. It does not bound how many parts one
// message has, nor what a publisher's subscribers subscribe to, nor how many connections one peer
// makes: each of these may take all memory, and nothing of it is given out to count. So the system is
// asked how much came over a connection, and what was given out of it is taken off; what leaves
// more than a queue's worth is ended. Who keeps to the protocol is never near it.
//
// A part of a message costs the library 64 bytes beside its own, however short it is. Under CURVE it is
// 35 bytes on the wire at the least, without keys 2: there what came may be 32 times as much in memory,
// and so only what a peer may ask at once may be held, and the looks are closer together.
//
// Threading: belongs to the transport's thread.

internal import CZeroMQ
internal import Glibc

/// The TCP connections of one socket, and how much of what came over each is still in the library.
struct ConnectionWatch {
    /// From when on connections are ended.
    struct Bounds {
        /// How many bytes that came over a connection may not have been given out.
        var heldBytes: Int
        /// The same of all together.
        var totalBytes = Int.max
        /// For how long a connection is young, in milliseconds: after that it has proven a key.
        var youngMilliseconds: UInt64 = 0
        /// How many young ones there may be, and how many others.
        var young = Int.max
        var grown = Int.max
    }

    /// A connection, as one look found it.
    struct Look {
        /// Which, by its number here.
        var number: UInt64
        /// The network at its other end.
        var address: [UInt8]
        /// How long it has been there, in milliseconds.
        var age: UInt64
        /// The bytes that came and were not given out.
        var heldBytes: Int
    }

    /// The connections to end, given all, oldest first.
    ///
    /// A young connection may be anybody's: so young ones never cost another its place. Of too
    /// many, the oldest of whichever address has most goes first.
    static func excessive(_ looks: [Look], _ bounds: Bounds) -> Set<UInt64> {
        var ended = Set(looks.filter { $0.heldBytes > bounds.heldBytes }.map(\.number))
        var total = 0
        for look in looks where !ended.contains(look.number) { total += look.heldBytes }
        for look in looks.sorted(by: { ($1.heldBytes, $0.number) < ($0.heldBytes, $1.number) })
        where total > bounds.totalBytes && !ended.contains(look.number) {
            total -= look.heldBytes
            ended.insert(look.number)
        }
        let left = looks.filter { !ended.contains($0.number) }
        let (young, grown) = (
            left.filter { $0.age < bounds.youngMilliseconds },
            left.filter { $0.age >= bounds.youngMilliseconds }
        )
        return ended.union(surplus(young, bounds.young)).union(surplus(grown, bounds.grown))
    }

    private static func surplus(_ looks: [Look], _ bound: Int) -> Set<UInt64> {
        guard looks.count > bound else { return [] }
        // Each address's in its turn, the newest first: what is beyond the bound then is ended.
        var turns: [(turn: Int, look: Look)] = []
        for (_, ofAddress) in Dictionary(grouping: looks, by: \.address) {
            turns += ofAddress.reversed().enumerated().map { ($0, $1) }
        }
        turns.sort { ($0.turn, $0.look.number) < ($1.turn, $1.look.number) }
        return Set(turns[bound...].map(\.look.number))
    }

    private struct Connection {
        let number: UInt64
        /// The library's descriptor of it.
        let descriptor: Int32
        let address: [UInt8]
        let beganAt: UInt64
        /// The bytes of what was given out, as they came.
        var givenOut: Int64 = 0
        /// Whether it was ended here.
        var isEnded = false
        /// Since when it is known to be closed at its other end.
        var closedSince: UInt64?
    }

    private let bounds: Bounds
    /// In the order in which they began; until the library has closed them.
    private var connections: [Connection] = []
    /// How many have begun.
    private(set) var lastNumber: UInt64 = 0
    /// How many the library keeps though they have been closed for a second, by the last look.
    ///
    /// It forgets to close a connection whose name another has taken over, once it has stopped reading it.
    private(set) var forgottenCount = 0

    /// The most that one of them held, by the last look.
    private(set) var mostHeld = 0

    private static let forgottenMilliseconds: UInt64 = 1_000

    init(_ bounds: Bounds) { self.bounds = bounds }

    /// How many connections there are, as far as events were taken.
    var count: Int { connections.count { !$0.isEnded } }

    /// The bytes that each holds, oldest first.
    var heldBytes: [Int] { connections.map { Self.look($0, now: 0).look.heldBytes } }

    /// The number of the connection that a part of a message came over; nil where it is gone.
    func number(of part: ZeroMQSocket.Part) -> UInt64? {
        connections.first { $0.descriptor == part.connection }?.number
    }

    /// Takes note of an event of the socket's monitor.
    ///
    /// - Parameters:
    ///   - value: what the event names: the descriptor of the connection.
    ///   - now: monotonic milliseconds, here as elsewhere.
    mutating func note(_ event: Int32, _ value: Int32, now: UInt64) {
        switch event {
        case ZMQ_EVENT_ACCEPTED, ZMQ_EVENT_CONNECTED:
            connections.removeAll { $0.descriptor == value }
            guard let address = Self.address(of: value) else { return }
            lastNumber += 1
            connections.append(
                Connection(
                    number: lastNumber, descriptor: value, address: address, beganAt: now))
        case ZMQ_EVENT_DISCONNECTED:
            connections.removeAll { $0.descriptor == value }
        default: break
        }
    }

    /// Takes note of a part of a message that the library gave out.
    ///
    /// The waiting bytes of a closed connection count for whichever has its descriptor next: a
    /// queue's worth at the most, and once.
    ///
    /// - Returns: whether the connection is known; where it is not, its beginning is still to be taken
    ///   from the monitor.
    @discardableResult
    mutating func note(_ part: ZeroMQSocket.Part, isEncrypted: Bool) -> Bool {
        guard let index = connections.firstIndex(where: { $0.descriptor == part.connection })
        else { return part.connection < 0 }
        connections[index].givenOut += Int64(
            Self.bytesOnWire(part.bytes.count, isEncrypted: isEncrypted))
        return true
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
    /// - Returns: how many were ended.
    mutating func endExcessive(now: UInt64) -> Int {
        var looks: [Look] = []
        forgottenCount = 0
        for index in connections.indices {
            let (look, isClosed) = Self.look(connections[index], now: now)
            let since = isClosed ? connections[index].closedSince ?? now : nil
            connections[index].closedSince = since
            if let since, now >= since + Self.forgottenMilliseconds { forgottenCount += 1 }
            if !connections[index].isEnded { looks.append(look) }
        }
        mostHeld = looks.map(\.heldBytes).max() ?? 0
        let excessive = Self.excessive(looks, bounds)
        var ended = 0
        for number in excessive.sorted() where end(number) { ended += 1 }
        return ended
    }

    /// Ends a connection.
    ///
    /// It is cut and not closed, because it is the library's. The library finds it ended and gives
    /// up what it holds of it. What the system has of it is dropped: from two bytes the library
    /// could still make 64. A descriptor that the library has closed since may belong to another
    /// connection by now. So its other end is asked for once more. In the moment that is left, the
    /// worst is that a connection ends that is then made again.
    ///
    /// - Returns: whether it was there, and was not ended before.
    mutating func end(_ number: UInt64) -> Bool {
        guard let index = connections.firstIndex(where: { $0.number == number }),
            !connections[index].isEnded
        else { return false }
        connections[index].isEnded = true
        let (descriptor, address) = (connections[index].descriptor, connections[index].address)
        guard Self.address(of: descriptor) == address else { return false }
        if tributary_cut(descriptor) != 0 { shutdown(descriptor, Int32(SHUT_RDWR)) }
        return true
    }

    private static func look(
        _ connection: Connection, now: UInt64
    ) -> (look: Look, isClosed: Bool) {
        var bytes: Int64 = 0
        let state = tributary_connection(connection.descriptor, &bytes)
        let held = state < 0 ? 0 : max(0, bytes - connection.givenOut)
        let look = Look(
            number: connection.number, address: connection.address,
            age: now - min(now, connection.beganAt), heldBytes: Int(held))
        return (look, state == 1)
    }

    /// The network at the other end of a connection, without its port; nil where there is none any more.
    ///
    /// Of version 6 the first half, because one machine may have all addresses that differ in the
    /// other.
    private static func address(of descriptor: Int32) -> [UInt8]? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { pointer -> [UInt8]? in
            let isNamed = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getpeername(descriptor, $0, &length) == 0
            }
            guard isNamed else { return nil }
            switch Int32(pointer.pointee.ss_family) {
            case AF_INET:
                return pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
                }
            case AF_INET6:
                let bytes = pointer.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                    withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }
                }
                // Of version 4 in the clothes of version 6 it is the last four that count.
                let isMapped = bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xFF
                return Array(isMapped ? bytes.suffix(4) : bytes.prefix(8))
            default: return nil
            }
        }
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
    func takeEvents(limit: Int, now: UInt64) throws(ZeroMQError) -> Bool {
        for _ in 0..<limit {
            guard let event = try MeshSocket.nextEvent(of: monitor) else { return true }
            watch.note(event.kind, event.value, now: now)
        }
        return false
    }
}
