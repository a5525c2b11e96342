// The two sockets that are bound here: made, bound, and given up to end their connections.

internal import CZeroMQ

extension ZeroMQTransport {
    /// How long a poll lasts at the most while a port is waited for.
    static let bindingMilliseconds = 5

    static func checkSecurity(_ settings: Settings) throws(NodeError) {
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

    /// Makes the two sockets that are to be bound.
    ///
    /// - Parameter number: how many sockets were watched before.
    static func makeBound(
        _ settings: Settings, in context: ZeroMQContext, number: Int
    ) throws -> BoundSockets {
        let limits = settings.limits
        return BoundSockets(
            publisher: try BoundSocket(
                try makePublisher(settings, in: context),
                watchBounds(settings, heldBytes: limits.subscriptionBytes),
                name: "publisher-\(number)"),
            router: try BoundSocket(
                try makeRouter(settings, in: context),
                watchBounds(settings, heldBytes: limits.heldBytes),
                name: "router-\(number)"))
    }

    private static func watchBounds(
        _ settings: Settings, heldBytes: Int
    ) -> ConnectionWatch.Bounds {
        let limits = settings.limits
        let most = settings.keys == nil ? limits.unkeyedBytes : limits.heldBytesTogether
        return ConnectionWatch.Bounds(
            heldBytes: min(heldBytes, most), totalBytes: most,
            // A second more than the library gives a handshake.
            youngMilliseconds: UInt64(max(0, limits.handshakeMilliseconds)) + 1_000,
            young: limits.handshakes, grown: limits.connections)
    }

    private static func makePublisher(
        _ settings: Settings, in context: ZeroMQContext
    ) throws -> ZeroMQSocket {
        let socket = try ZeroMQSocket(.publisher, in: context)
        try prepareServer(
            socket, settings.publish, settings, at: .publish,
            queues: (settings.limits.publishQueueFrames, settings.limits.subscribedFrames))
        // All that comes here is the handshake and what is subscribed to, which is everything: the
        // library keeps each topic, and looks through all of them at each message.
        try socket.set(ZMQ_MAXMSGSIZE, wide: 4_096)
        return socket
    }

    private static func makeRouter(
        _ settings: Settings, in context: ZeroMQContext
    ) throws -> ZeroMQSocket {
        let socket = try ZeroMQSocket(.router, in: context)
        try socket.set(ZMQ_ROUTER_MANDATORY, 1)
        // A peer whose old connection is half dead takes its name over with its new one.
        try socket.set(ZMQ_ROUTER_HANDOVER, 1)
        try prepareServer(
            socket, settings.exchange, settings, at: .exchange,
            queues: (settings.limits.answerQueueFrames, settings.limits.exchangedFrames))
        return socket
    }

    private static func prepareServer(
        _ socket: ZeroMQSocket, _ endpoint: MeshEndpoint, _ settings: Settings,
        at entrance: Gatekeeper.Entrance, queues: (sent: Int32, received: Int32)
    ) throws(ZeroMQError) {
        try applyLimits(settings.limits, to: socket)
        try socket.set(ZMQ_SNDHWM, queues.sent)
        try socket.set(ZMQ_RCVHWM, queues.received)
        if endpoint.needsVersion6 { try socket.set(ZMQ_IPV6, 1) }
        if settings.keys == nil {
            try socket.set(
                ZMQ_MAXMSGSIZE,
                wide: Int64(min(settings.limits.frameBytes, settings.limits.unkeyedBytes)))
        }
        if let keys = settings.keys { try Gatekeeper.guardServer(socket, keys, at: entrance) }
    }

    static func bind(
        _ socket: ZeroMQSocket, _ endpoint: MeshEndpoint, key: String
    ) throws -> String {
        do {
            return try socket.bind(endpoint.bindable)
        } catch {
            throw NodeError(
                .addressUnavailable, "\(key): \(endpoint) cannot be bound: \(error.reason)",
                context: ["key": key, "endpoint": "\(endpoint)"], cause: error)
        }
    }

    static func applyLimits(
        _ limits: TransportLimits, to socket: ZeroMQSocket
    ) throws(ZeroMQError) {
        try socket.set(ZMQ_MAXMSGSIZE, wide: Int64(limits.frameBytes))
        try socket.set(ZMQ_HANDSHAKE_IVL, limits.handshakeMilliseconds)
        try socket.set(ZMQ_TCP_KEEPALIVE, 1)
        try socket.set(ZMQ_TCP_KEEPALIVE_IDLE, limits.keepaliveSeconds)
        try socket.set(ZMQ_TCP_KEEPALIVE_INTVL, limits.keepaliveSeconds)
        try socket.set(ZMQ_TCP_KEEPALIVE_CNT, limits.keepaliveQuestions)
        try socket.set(ZMQ_TCP_MAXRT, limits.connectionTimeoutMilliseconds)
    }

    // MARK: - Ending connections that others made

    /// Gives up both endpoints and binds them again, so that every connected node must prove a key
    /// once more.
    ///
    /// libzmq asks about a key when a connection begins and never again, and has no call to end one
    /// connection of a publisher: a node that was let in once would go on reading. Ending all of
    /// them costs the others some tens of milliseconds; what is published meanwhile they pull.
    ///
    /// Where there are no sockets for that, it is owed: a poll tries again at the next pause.
    func endIncomingConnections() {
        let former = bound
        do {
            watched += 1
            bound = try Self.makeBound(settings, in: context, number: watched)
        } catch {
            isEndingOwed = true
            return
        }
        isEndingOwed = false
        unbound = [
            Unbound(socket: bound.publisher.socket, endpoint: publishEndpoint),
            Unbound(socket: bound.router.socket, endpoint: exchangeEndpoint),
        ]
        routes = RouteTable(capacity: settings.limits.rememberedRoutes)
        asking = [:]
        // Frames that wait in the router, or were taken by the self-test, are not looked at.
        early = []
        listItems()
        withExtendedLifetime(former) {}
    }

    /// Binds what was given up; the library closes sockets in a thread of its own, so that a port
    /// may be taken for some milliseconds more.
    ///
    /// Any other obstacle is tried again: a node that others cannot reach still takes saves and
    /// asks its peers, and the report says that it does not listen.
    ///
    /// - Returns: whether all is bound.
    func bindAgain() -> Bool {
        while let next = unbound.first {
            guard (try? next.socket.bind(next.endpoint)) != nil else { return false }
            unbound.removeFirst()
        }
        return true
    }
}
