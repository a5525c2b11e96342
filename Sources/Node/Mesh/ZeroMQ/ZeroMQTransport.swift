// The mesh over ZeroMQ: a PUB and a ROUTER bound here, a SUB and a DEALER connected to each peer.
//
// Threading: made, polled, used and released on one thread; other threads ring `wakeup`.
// Invariants: `waiting` lists the wake-up first, then the ZAP handler if there are keys, then the
// router, then the sockets of every link, in the order of the peers' NodeIDs and of their keys, then
// the monitors of what is bound here.

internal import CZeroMQ
public import Merge

/// The transport that nodes use. See ``Transport`` for its calls.
public final class ZeroMQTransport: Transport {
    /// The settings with which a transport begins.
    public struct Settings: Sendable {
        /// This node's number.
        public var node: NodeID
        /// Where to publish.
        public var publish: MeshEndpoint
        /// Where to take questions.
        public var exchange: MeshEndpoint
        /// The local address to connect from; nil lets the system choose.
        public var source: String?
        /// This node's keys; nil for a mesh without CURVE.
        public var keys: CurveKeys?
        /// Peers whose keys are listed before anything is bound: who is refused in the first
        /// moments waits before trying again.
        public var listed: [MeshPeer] = []
        /// Whether addresses off loopback may be bound without keys.
        public var isInsecure = false
        /// The bounds.
        public var limits = TransportLimits()

        /// Describes a transport without keys; set the rest afterwards.
        public init(node: NodeID, publish: MeshEndpoint, exchange: MeshEndpoint) {
            self.node = node
            self.publish = publish
            self.exchange = exchange
        }
    }

    struct Connection {
        let peer: MeshPeer
        /// One for each of its keys, in their order, and one altogether without keys; fewer where
        /// some could not be made so far.
        var links: [MeshLink]
        /// Why a link that it lacks could not be made.
        var failure: ZeroMQError?
        /// Where `waiting` begins to list its sockets.
        var firstItem = 0
    }

    /// The bound sockets.
    struct BoundSockets {
        let publisher: BoundSocket
        let router: BoundSocket
    }

    /// A socket that waits for its port.
    struct Unbound {
        let socket: ZeroMQSocket
        let endpoint: String
    }

    /// Ends a poll early, from any thread.
    public let wakeup: Wakeup
    /// The counts so far.
    public internal(set) var statistics = TransportStatistics()
    /// The endpoint actually bound for publishing, with its port.
    public let publishEndpoint: String
    /// The endpoint actually bound for exchanges, with its port.
    public let exchangeEndpoint: String

    var settings: Settings
    let context: ZeroMQContext
    var bound: BoundSockets
    let gatekeeper: Gatekeeper?
    /// Endpoints that were given up to end their connections, and are not bound again yet.
    var unbound: [Unbound] = []
    /// Whether connections that others made are still to be ended, because a key was withdrawn.
    var isEndingOwed = false
    var connections: [NodeID: Connection] = [:]
    var waiting: SocketPoll
    /// The peers in the order in which `waiting` lists their sockets.
    var polled: [Connection] = []
    /// Which of them a poll hears first.
    var turn = 0
    var routes: RouteTable
    /// The connections to our router on which a node has sent something, the newest last.
    var asking: [NodeID: [UInt64]] = [:]
    /// When connections that the library forgets may be ended again, in monotonic milliseconds.
    var nextClearingAt: UInt64 = 0
    var refusals = RefusalBook()
    /// When it is looked after what connections hold.
    var pace: WatchPace
    let memory = MemoryGauge()
    /// When what ended connections had held is given back to the system.
    var givingBackAt: UInt64?
    /// When links are next looked at that have come to nothing, in monotonic milliseconds.
    var nextRenewalAt: UInt64 = 0
    /// How many sockets have been watched: each has a name of its own.
    var watched = 0
    /// Frames that came in while the self-test was polling.
    var early: [IncomingFrame] = []
    /// This node's name at the router of each peer: number and a random part, new with every
    /// process. No peer knows the name at another one, so it cannot take over that connection.
    var identities: [NodeID: String] = [:]

    /// Binds both endpoints. Peers are connected with ``connect(to:)``.
    ///
    /// - Throws: ``NodeError`` with `notSecured` where an address off loopback was to be bound
    ///   without keys, or `addressUnavailable` where it cannot be bound.
    public init(_ settings: Settings) throws {
        try Self.checkSecurity(settings)
        self.settings = settings
        wakeup = try Wakeup()
        context = try ZeroMQContext(sockets: settings.limits.sockets)
        routes = RouteTable(capacity: settings.limits.rememberedRoutes)
        pace = WatchPace(isKeyed: settings.keys != nil)
        // The gatekeeper must stand before anything is bound: without it libzmq lets everyone in.
        gatekeeper = settings.keys == nil ? nil : try Gatekeeper(in: context)
        for peer in settings.listed { _ = gatekeeper?.admit(peer.publicKeys, as: peer.node) }
        bound = try Self.makeBound(settings, in: context, number: 0)
        publishEndpoint = try Self.bind(
            bound.publisher.socket, settings.publish, key: "mesh.publish")
        exchangeEndpoint = try Self.bind(
            bound.router.socket, settings.exchange, key: "mesh.exchange")
        waiting = SocketPoll(wakeup, [])
        listItems()
    }

    // MARK: - Sending

    /// Sends a frame to every subscriber; see ``Transport/publish(_:)``.
    @discardableResult
    public func publish(_ frame: [UInt8]) throws -> FrameOutcome {
        try checkSize(frame, isPublished: true)
        return count(frame, try bound.publisher.socket.send(frame))
    }

    /// Sends a frame over our dealer to a peer; see ``Transport/send(_:to:)``.
    @discardableResult
    public func send(_ frame: [UInt8], to node: NodeID) throws -> FrameOutcome {
        try checkSize(frame)
        var outcome = ZeroMQSocket.Sending.unreachable
        // Of a peer with two keys one link stands at the most; the other is never ready to send.
        for link in connections[node]?.links ?? [] {
            outcome = try link.dealer.socket.send(frame)
            if outcome == .sent { break }
        }
        return count(frame, outcome)
    }

    /// Sends a frame through our router; see ``Transport/reply(_:along:)``.
    @discardableResult
    public func reply(_ frame: [UInt8], along route: ReplyRoute) throws -> FrameOutcome {
        try checkSize(frame)
        let router = bound.router.socket
        let outcome = try router.send(route.identity, more: true)
        guard outcome == .sent else { return count(frame, outcome) }
        return count(frame, try router.send(frame))
    }

    /// The way back along the newest connection on which that peer has sent something.
    public func route(to node: NodeID) -> ReplyRoute? { routes.route(to: node) }

    // MARK: - Counting

    private func checkSize(_ frame: [UInt8], isPublished: Bool = false) throws(NodeError) {
        let limits = settings.limits
        let limit =
            isPublished ? min(limits.publishedFrameBytes, limits.frameBytes) : limits.frameBytes
        guard frame.count > limit else { return }
        throw NodeError(
            .frameTooLarge, "A frame of \(frame.count) bytes is over the limit of \(limit)")
    }

    private func count(_ frame: [UInt8], _ sending: ZeroMQSocket.Sending) -> FrameOutcome {
        switch sending {
        case .sent:
            statistics.framesSent += 1
            statistics.bytesSent += frame.count
            return .sent
        case .full:
            statistics.framesCongested += 1
            return .congested
        case .unreachable:
            statistics.framesUnreachable += 1
            return .unreachable
        }
    }
}
