// The mesh over ZeroMQ: a PUB and a ROUTER bound here, a SUB and a DEALER connected to each peer.
//
// Threading: made, polled, used and released on one thread; other threads ring `wakeup`.
// Invariants: `items` lists the wake-up first, then the ZAP handler if there are keys, then the
// router, then every peer's two sockets in the order of their NodeIDs.

internal import CZeroMQ
public import Merge

/// The transport that nodes use. See ``Transport`` for its calls.
public final class ZeroMQTransport: Transport {
    /// What a transport needs to begin.
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
        let subscriber: ZeroMQSocket
        let dealer: ZeroMQSocket
    }

    /// Ends a poll early, from any thread.
    public let wakeup: Wakeup
    /// What was counted so far.
    public internal(set) var statistics = TransportStatistics()
    /// The endpoint actually bound for publishing, with its port.
    public let publishEndpoint: String
    /// The endpoint actually bound for exchanges, with its port.
    public let exchangeEndpoint: String

    let settings: Settings
    let context: ZeroMQContext
    let publisher: ZeroMQSocket
    let router: ZeroMQSocket
    var gatekeeper: Gatekeeper?
    var connections: [NodeID: Connection] = [:]
    var items: [zmq_pollitem_t] = []
    /// The peers in the order in which `items` lists their sockets.
    var polled: [Connection] = []
    var routes: RouteTable
    /// Frames that came in while the self-test was polling.
    var early: [IncomingFrame] = []
    /// Who we are to the routers of our peers: number and a random part, new with every process.
    let identity: String

    /// Binds both endpoints. Peers are connected with ``connect(to:)``.
    ///
    /// - Throws: ``NodeError`` with `notSecured` where an address off loopback was to be bound
    ///   without keys, or `addressUnavailable` where it cannot be bound.
    public init(_ settings: Settings) throws {
        try Self.checkSecurity(settings)
        self.settings = settings
        wakeup = try Wakeup()
        context = try ZeroMQContext()
        identity = RouteTable.identity(of: settings.node)
        routes = RouteTable(capacity: settings.limits.rememberedRoutes)
        // The gatekeeper must stand before anything is bound: without it libzmq lets everyone in.
        gatekeeper = settings.keys == nil ? nil : try Gatekeeper(in: context)
        publisher = try ZeroMQSocket(.publisher, in: context)
        router = try ZeroMQSocket(.router, in: context)
        publishEndpoint = try Self.bind(
            publisher, settings.publish, key: "mesh.publish", settings,
            queue: settings.limits.publishQueueFrames)
        try router.set(ZMQ_ROUTER_MANDATORY, 1)
        // A peer whose old connection is half dead takes its name over with its new one.
        try router.set(ZMQ_ROUTER_HANDOVER, 1)
        exchangeEndpoint = try Self.bind(
            router, settings.exchange, key: "mesh.exchange", settings,
            queue: settings.limits.exchangeQueueFrames)
        listItems()
    }

    // MARK: - Sending

    /// Sends a frame to every subscriber; see ``Transport/publish(_:)``.
    @discardableResult
    public func publish(_ frame: [UInt8]) throws -> FrameOutcome {
        try checkSize(frame)
        return count(frame, try publisher.send(frame))
    }

    /// Sends a frame over our dealer to a peer; see ``Transport/send(_:to:)``.
    @discardableResult
    public func send(_ frame: [UInt8], to node: NodeID) throws -> FrameOutcome {
        try checkSize(frame)
        guard let connection = connections[node] else { return count(frame, .unreachable) }
        return count(frame, try connection.dealer.send(frame))
    }

    /// Sends a frame through our router; see ``Transport/reply(_:along:)``.
    @discardableResult
    public func reply(_ frame: [UInt8], along route: ReplyRoute) throws -> FrameOutcome {
        try checkSize(frame)
        let outcome = try router.send(route.identity, more: true)
        guard outcome == .sent else { return count(frame, outcome) }
        return count(frame, try router.send(frame))
    }

    /// The way back along the newest connection on which that peer has sent something.
    public func route(to node: NodeID) -> ReplyRoute? { routes.route(to: node) }

    // MARK: - Peers

    /// Connects to a peer, or to its new addresses; see ``Transport/connect(to:)``.
    public func connect(to peer: MeshPeer) throws {
        guard connections[peer.node]?.peer != peer else { return }
        if settings.keys != nil, peer.publicKey == nil {
            throw NodeError(
                .configurationInvalid,
                "Node \(peer.node) has no public key, and this node talks with CURVE only",
                context: ["node": "\(peer.node)"])
        }
        disconnect(from: peer.node)
        if let key = peer.publicKey { gatekeeper?.admit(key, as: peer.node) }
        let subscriber = try ZeroMQSocket(.subscriber, in: context)
        try prepare(subscriber, for: peer.publish, of: peer)
        try subscriber.set(ZMQ_RCVHWM, settings.limits.publishQueueFrames)
        try subscriber.set(ZMQ_SUBSCRIBE, text: "")
        let dealer = try ZeroMQSocket(.dealer, in: context)
        try prepare(dealer, for: peer.exchange, of: peer)
        try dealer.set(ZMQ_SNDHWM, settings.limits.exchangeQueueFrames)
        try dealer.set(ZMQ_RCVHWM, settings.limits.exchangeQueueFrames)
        // What cannot be sent now is dropped: a queue for a peer that is away would grow stale.
        try dealer.set(ZMQ_IMMEDIATE, 1)
        try dealer.set(ZMQ_ROUTING_ID, text: identity)
        try subscriber.connect(peer.publish.connectable(from: settings.source))
        try dealer.connect(peer.exchange.connectable(from: settings.source))
        connections[peer.node] = Connection(peer: peer, subscriber: subscriber, dealer: dealer)
        listItems()
    }

    /// Ends the connections to a peer, and takes its key off the list.
    public func disconnect(from node: NodeID) {
        gatekeeper?.forget(node)
        routes.forget(node)
        guard connections.removeValue(forKey: node) != nil else { return }
        listItems()
    }

    /// The nodes that are connected or being connected to, lowest first.
    public var peers: [NodeID] { polled.map(\.peer.node) }

    // MARK: - Preparing sockets

    private static func checkSecurity(_ settings: Settings) throws(NodeError) {
        guard settings.keys == nil, !settings.isInsecure else { return }
        for (key, endpoint) in [
            ("mesh.publish", settings.publish), ("mesh.exchange", settings.exchange),
        ] where !endpoint.address.isLoopback {
            throw NodeError(
                .notSecured,
                "\(key): \(endpoint) can be reached from other machines: "
                    + "set mesh.secretKeyFile (`tributary keygen`), or mesh.insecure to allow it",
                context: ["key": key, "endpoint": "\(endpoint)"])
        }
    }

    private static func bind(
        _ socket: ZeroMQSocket, _ endpoint: MeshEndpoint, key: String, _ settings: Settings,
        queue: Int32
    ) throws -> String {
        try applyLimits(settings.limits, to: socket)
        try socket.set(ZMQ_SNDHWM, queue)
        try socket.set(ZMQ_RCVHWM, queue)
        if endpoint.needsVersion6 { try socket.set(ZMQ_IPV6, 1) }
        if let keys = settings.keys { try Gatekeeper.guardServer(socket, keys) }
        do {
            return try socket.bind(endpoint.bindable)
        } catch {
            throw NodeError(
                .addressUnavailable, "\(key): \(endpoint) cannot be bound: \(error.reason)",
                context: ["key": key, "endpoint": "\(endpoint)"], cause: error)
        }
    }

    private func prepare(
        _ socket: ZeroMQSocket, for endpoint: MeshEndpoint, of peer: MeshPeer
    ) throws(ZeroMQError) {
        try Self.applyLimits(settings.limits, to: socket)
        try socket.set(ZMQ_RECONNECT_IVL, settings.limits.reconnectMilliseconds)
        try socket.set(ZMQ_RECONNECT_IVL_MAX, settings.limits.reconnectMaximumMilliseconds)
        try socket.set(ZMQ_CONNECT_TIMEOUT, settings.limits.heartbeatTimeoutMilliseconds)
        if endpoint.needsVersion6 { try socket.set(ZMQ_IPV6, 1) }
        if let keys = settings.keys, let server = peer.publicKey {
            try Gatekeeper.introduceClient(socket, keys, to: server)
        }
    }

    static func applyLimits(
        _ limits: TransportLimits, to socket: ZeroMQSocket
    ) throws(ZeroMQError) {
        try socket.set(ZMQ_MAXMSGSIZE, wide: Int64(limits.frameBytes))
        try socket.set(ZMQ_HANDSHAKE_IVL, limits.handshakeMilliseconds)
        try socket.set(ZMQ_HEARTBEAT_IVL, limits.heartbeatMilliseconds)
        try socket.set(ZMQ_HEARTBEAT_TIMEOUT, limits.heartbeatTimeoutMilliseconds)
        try socket.set(ZMQ_HEARTBEAT_TTL, limits.heartbeatTimeoutMilliseconds)
    }

    // MARK: - Counting

    private func checkSize(_ frame: [UInt8]) throws(NodeError) {
        guard frame.count > settings.limits.frameBytes else { return }
        throw NodeError(
            .frameTooLarge,
            "A frame of \(frame.count) bytes is over the limit of \(settings.limits.frameBytes)")
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
