// Connecting to peers, and going on with other keys.

internal import CZeroMQ
public import Merge

extension ZeroMQTransport {
    /// Connects to a peer, or to its new addresses; see ``Transport/connect(to:)``.
    public func connect(to peer: MeshPeer) throws {
        try checkKeys(of: peer)
        if join(peer, replacingAll: false) { endIncomingConnections() }
        makeLinks(to: peer.node)
        listItems()
        if let failure = connections[peer.node]?.failure { throw failure }
    }

    /// Ends the connections to a peer; see ``Transport/disconnect(from:hearing:)``.
    public func disconnect(from node: NodeID, hearing keys: [CurvePublicKey]) throws {
        gatekeeper?.hear(keys, ofDeparted: node)
        if leave(node) { endIncomingConnections() }
        listItems()
    }

    /// Goes on with other keys and peers; see ``Transport/update(_:)``.
    public func update(_ change: MeshChange) throws {
        guard (change.keys == nil) == (settings.keys == nil) else {
            throw NodeError(
                .configurationInvalid, "A mesh begins or ends to use keys only with a new start",
                context: ["key": "mesh.secretKeyFile"])
        }
        for peer in change.peers { try checkKeys(of: peer) }
        let isNewKey = change.keys?.publicKey != settings.keys?.publicKey
        settings.keys = change.keys
        var isWithdrawn = isNewKey
        let named = Set(change.peers.map(\.node))
        for node in connections.keys.sorted() where !named.contains(node) {
            if leave(node) { isWithdrawn = true }
        }
        for peer in change.peers where join(peer, replacingAll: isNewKey) { isWithdrawn = true }
        if isWithdrawn { endIncomingConnections() }
        // Links that are given up are released before others are made in their place.
        listItems()
        for peer in change.peers { makeLinks(to: peer.node) }
        listItems()
    }

    /// The nodes that are connected or being connected to, lowest first.
    public var peers: [NodeID] { polled.map(\.peer.node) }

    /// Where the keys stand; see ``Transport/keyReport``.
    public var keyReport: MeshKeyReport {
        var report = MeshKeyReport()
        report.publicKey = settings.keys?.publicKey
        report.isListening = unbound.isEmpty && !isEndingOwed
        report.refusals = refusals.refusals
        report.peers = polled.map { connection in
            let best =
                connection.links.first { $0.state == .succeeded }
                ?? connection.links.first { $0.state == .refusedThere }
                ?? connection.links.first { $0.state == .failed } ?? connection.links.first
            return MeshKeyReport.Peer(
                node: connection.peer.node, handshake: best?.state ?? .none,
                publicKey: best?.state == .succeeded ? best?.serverKey : nil,
                failure: connection.failure.map { "\($0)" })
        }
        return report
    }

    private func checkKeys(of peer: MeshPeer) throws(NodeError) {
        guard settings.keys != nil, peer.publicKeys.isEmpty else { return }
        throw NodeError(
            .configurationInvalid,
            "Node \(peer.node) has no public key, and this node talks with CURVE only",
            context: ["node": "\(peer.node)"])
    }

    /// Takes a peer up, with the links that it has already and still needs; the others are to be
    /// made.
    ///
    /// - Parameter replacingAll: whether no link can stay, because our own key is another one.
    /// - Returns: whether a key was withdrawn, so that what others opened under it must be ended.
    private func join(_ peer: MeshPeer, replacingAll: Bool) -> Bool {
        let former = connections[peer.node]
        guard former?.peer != peer || replacingAll else { return false }
        let isMoved =
            former?.peer.publish != peer.publish || former?.peer.exchange != peer.exchange
        if isMoved || replacingAll { routes.forget(peer.node) }
        let kept = isMoved || replacingAll ? [] : former?.links ?? []
        connections[peer.node] = Connection(
            peer: peer,
            links: keys(of: peer).compactMap { key in kept.first { $0.serverKey == key } })
        return gatekeeper?.admit(peer.publicKeys, as: peer.node) ?? false
    }

    /// The keys of a peer. It has a link for each.
    private func keys(of peer: MeshPeer) -> [CurvePublicKey?] {
        settings.keys == nil ? [nil] : peer.publicKeys
    }

    /// Makes the links that a peer lacks. What is refused is noted, and tried again at the next
    /// pause: the process may have run out of descriptors for a while, and who cannot be connected
    /// to is no reason to keep the others waiting.
    private func makeLinks(to node: NodeID) {
        guard var connection = connections[node] else { return }
        let keys = keys(of: connection.peer)
        connection.failure = nil
        do {
            for (place, key) in keys.enumerated()
            where place >= connection.links.count || connection.links[place].serverKey != key {
                connection.links.insert(
                    try link(to: connection.peer, key, isOnly: keys.count == 1), at: place)
            }
        } catch { connection.failure = error }
        connections[node] = connection
    }

    private func leave(_ node: NodeID) -> Bool {
        routes.forget(node)
        connections[node] = nil
        identities[node] = nil
        return gatekeeper?.forget(node) ?? false
    }

    /// How often links are looked at that have come to nothing, in milliseconds.
    static let renewalPauseMilliseconds: UInt64 = 200

    /// Makes the sockets of links again that the library has given up, and those that could not be
    /// made before.
    ///
    /// - Returns: whether there were any, so that what is polled is another list now.
    func renewLostLinks(now: UInt64) -> Bool {
        var lacking: [NodeID] = []
        for (node, connection) in connections {
            let links = connection.links.filter {
                !$0.subscriber.isLost(settings.limits, now: now)
                    && !$0.dealer.isLost(settings.limits, now: now)
            }
            guard links.count < keys(of: connection.peer).count else { continue }
            connections[node]?.links = links
            lacking.append(node)
        }
        guard !lacking.isEmpty else { return false }
        // All that are lost are released before any is made again, or there would be twice as many.
        listItems()
        for node in lacking.sorted() { makeLinks(to: node) }
        listItems()
        return true
    }

    // MARK: - Making sockets

    private func link(
        to peer: MeshPeer, _ key: CurvePublicKey?, isOnly: Bool
    ) throws(ZeroMQError) -> MeshLink {
        let limits = settings.limits
        let subscriber = try ZeroMQSocket(.subscriber, in: context)
        try prepare(subscriber, for: peer.publish, key, isOnly: isOnly)
        try subscriber.set(
            ZMQ_MAXMSGSIZE, wide: Int64(min(limits.publishedFrameBytes, limits.frameBytes)))
        try subscriber.set(ZMQ_RCVHWM, limits.subscribedFrames)
        try subscriber.set(ZMQ_SUBSCRIBE, text: "")
        let dealer = try ZeroMQSocket(.dealer, in: context)
        try prepare(dealer, for: peer.exchange, key, isOnly: isOnly)
        try dealer.set(ZMQ_SNDHWM, limits.questionQueueFrames)
        try dealer.set(ZMQ_RCVHWM, limits.exchangedFrames)
        // A frame that cannot be sent now is dropped: a queue for a peer that is away would grow
        // stale.
        try dealer.set(ZMQ_IMMEDIATE, 1)
        try dealer.set(ZMQ_ROUTING_ID, text: identity(for: peer.node))
        let link = MeshLink(
            serverKey: key, subscriber: try watched(subscriber), dealer: try watched(dealer))
        try subscriber.connect(peer.publish.connectable(from: settings.source))
        try dealer.connect(peer.exchange.connectable(from: settings.source))
        return link
    }

    /// This process's name at a peer: the same for each link to it. A new link takes the place of
    /// the one before at once.
    private func identity(for peer: NodeID) -> String {
        if let known = identities[peer] { return known }
        let identity = RouteTable.identity(of: settings.node)
        identities[peer] = identity
        return identity
    }

    private func watched(_ socket: ZeroMQSocket) throws(ZeroMQError) -> MeshSocket {
        MeshSocket(
            socket, monitor: try watch(socket),
            ConnectionWatch.Bounds(heldBytes: settings.limits.heldBytes),
            now: MonotonicClock.milliseconds)
    }

    private func prepare(
        _ socket: ZeroMQSocket, for endpoint: MeshEndpoint, _ key: CurvePublicKey?, isOnly: Bool
    ) throws(ZeroMQError) {
        let limits = settings.limits
        try Self.applyLimits(limits, to: socket)
        try socket.set(
            ZMQ_RECONNECT_IVL,
            isOnly ? limits.reconnectMilliseconds : limits.reconnectOfManyMilliseconds)
        try socket.set(ZMQ_RECONNECT_IVL_MAX, limits.reconnectMaximumMilliseconds)
        try socket.set(ZMQ_CONNECT_TIMEOUT, limits.connectionTimeoutMilliseconds)
        if endpoint.needsVersion6 { try socket.set(ZMQ_IPV6, 1) }
        if let keys = settings.keys, let key {
            try Gatekeeper.introduceClient(socket, keys, to: key)
        }
    }

    /// Begins to watch how a socket's handshakes end.
    func watch(_ socket: ZeroMQSocket) throws(ZeroMQError) -> ZeroMQSocket {
        watched += 1
        return try MeshSocket.watch(socket, name: "handshakes-\(watched)")
    }
}
