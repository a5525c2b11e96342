// Waiting for frames and taking them in, fairly and within bounds.

internal import CZeroMQ
internal import Merge

extension ZeroMQTransport {
    /// Waits for frames, the wake-up or the time-out; see ``Transport/poll(timeoutMilliseconds:)``.
    public func poll(timeoutMilliseconds: Int) throws -> [IncomingFrame] {
        if !early.isEmpty {
            defer { early = [] }
            return early
        }
        return try pollSockets(timeoutMilliseconds: timeoutMilliseconds)
    }

    func pollSockets(timeoutMilliseconds: Int) throws -> [IncomingFrame] {
        var timeout = timeoutMilliseconds
        if !unbound.isEmpty, !bindAgain() {
            timeout =
                timeout < 0 ? Self.bindingMilliseconds : min(timeout, Self.bindingMilliseconds)
        }
        let isReady = try wait(milliseconds: timeout)
        let now = MonotonicClock.milliseconds
        if now >= nextRenewalAt {
            nextRenewalAt = now + Self.renewalPauseMilliseconds
            let wasEndingOwed = isEndingOwed
            if wasEndingOwed { endIncomingConnections() }
            // Another list is polled then; the next poll finds what waits.
            if renewLostLinks(now: now) || wasEndingOwed { return [] }
        }
        if now >= pace.nextAt, try look(now: now) { return [] }
        guard isReady else { return [] }
        var frames: [IncomingFrame] = []
        for (place, socket) in [bound.publisher, bound.router].enumerated()
        where waiting.isReady(waiting.count - 2 + place) {
            _ = try takeEvents(of: socket, now: now)
        }
        var index = 1
        if let gatekeeper {
            if waiting.isReady(index) { try answerHandshakes(gatekeeper) }
            index += 1
        }
        // Half is the router's, however much waits there, and what it leaves is the others' too:
        // who floods the one way in is no reason not to hear anybody on the other.
        let share = settings.limits.bytesPerPoll / 2
        var routed = share
        if waiting.isReady(index) { try takeFromRouter(into: &frames, &routed) }
        var budget = settings.limits.bytesPerPoll - share + max(0, routed)
        // Each poll begins with another peer, because who comes late may find nothing left.
        turn = polled.isEmpty ? 0 : (turn + 1) % polled.count
        for offset in polled.indices {
            try take(
                from: polled[(turn + offset) % polled.count], into: &frames, &budget)
        }
        return frames
    }

    /// Waits until a socket is ready, or for so long, and looks at connections meanwhile: a message that
    /// never ends wakes nobody.
    private func wait(milliseconds: Int) throws -> Bool {
        var now = MonotonicClock.milliseconds
        let end = milliseconds < 0 ? .max : now + UInt64(milliseconds)
        while true {
            let left = min(end - min(end, now), pace.nextAt - min(pace.nextAt, now))
            if try waiting.wait(milliseconds: Int(left)) { return true }
            now = MonotonicClock.milliseconds
            guard now < end else { return false }
            if now >= pace.nextAt, try look(now: now) { return false }
        }
    }

    /// Ends connections that are too much, and gives back what was held for those that were.
    ///
    /// - Returns: as ``endExcessiveConnections(now:)``.
    private func look(now: UInt64) throws -> Bool {
        giveBackMemory(now: now)
        guard pace.mustAsk(pages: memory.pages, now: now) else { return false }
        let (isListAnother, mostHeld) = try endExcessiveConnections(now: now)
        pace.noteHeld(mostHeld, now: now)
        return isListAnother
    }

    /// How long after connections were ended for what they held the library has given it up, in
    /// milliseconds.
    private static let givingBackMilliseconds: UInt64 = 200

    /// Gives the system back what connections had held that were ended: the allocator keeps it otherwise.
    private func giveBackMemory(now: UInt64) {
        guard let due = givingBackAt, now >= due else { return }
        givingBackAt = nil
        tributary_give_back_memory()
    }
    /// How many events of what is bound here are taken at once: so many connections begin and end.
    private static let eventsAtOnce = 10_000

    /// How long after all connections were ended for some that are forgotten they may be so again, in
    /// milliseconds.
    static let clearingMilliseconds: UInt64 = 10_000

    /// Ends the connections that have the library hold more than a peer that keeps to the protocol
    /// ever does; see ``ConnectionWatch``.
    ///
    /// - Returns: whether all that others made were ended, so that what is polled is another list now, and
    ///   the most that one held, in bytes.
    private func endExcessiveConnections(
        now: UInt64
    ) throws -> (isListAnother: Bool, mostHeld: Int) {
        var ended = 0
        var forgotten = 0
        var mostHeld = 0
        for socket in [bound.publisher, bound.router]
        where try takeEvents(of: socket, now: now) {
            ended += socket.watch.endExcessive(now: now)
            mostHeld = max(mostHeld, socket.watch.mostHeld)
            forgotten += socket.watch.forgottenCount
        }
        for link in polled.flatMap(\.links) {
            for socket in [link.subscriber, link.dealer] {
                try takeEvents(of: socket)
                ended += socket.watch.endExcessive(now: now)
                mostHeld = max(mostHeld, socket.watch.mostHeld)
            }
        }
        statistics.connectionsEnded += ended
        if ended > 0 { givingBackAt = givingBackAt ?? now + Self.givingBackMilliseconds }
        guard forgotten > settings.limits.forgottenConnections, now >= nextClearingAt else {
            return (false, mostHeld)
        }
        nextClearingAt = now + Self.clearingMilliseconds
        statistics.connectionsEnded += forgotten
        endIncomingConnections()
        return (true, mostHeld)
    }

    /// Takes note of the connection on which a node asks, and ends the oldest of too many.
    private func noteAsking(_ node: NodeID, over part: ZeroMQSocket.Part) {
        guard let number = bound.router.watch.number(of: part),
            asking[node]?.contains(number) != true
        else { return }
        asking[node, default: []].append(number)
        while let oldest = asking[node]?.first,
            asking[node]?.count ?? 0 > settings.limits.connectionsOfNode
        {
            asking[node]?.removeFirst()
            if bound.router.watch.end(oldest) { statistics.connectionsEnded += 1 }
        }
    }

    private func take(
        from connection: Connection, into frames: inout [IncomingFrame], _ budget: inout Int
    ) throws {
        let node = connection.peer.node
        var index = connection.firstItem
        for link in connection.links {
            for (place, socket) in [link.subscriber, link.dealer].enumerated()
            where waiting.isReady(index + 2 + place) { try takeEvents(of: socket) }
            if waiting.isReady(index) {
                try take(from: link.subscriber, node, .publish, into: &frames, &budget)
            }
            if waiting.isReady(index + 1) {
                try take(from: link.dealer, node, .exchange, into: &frames, &budget)
            }
            index += MeshLink.socketCount
        }
    }

    /// Lists what a poll waits on; called whenever the connections change.
    func listItems() {
        polled = connections.values.sorted { $0.peer.node < $1.peer.node }
        var sockets = gatekeeper.map { [$0.socket] } ?? []
        sockets.append(bound.router.socket)
        for place in polled.indices {
            polled[place].firstItem = SocketPoll.bell + 1 + sockets.count
            for link in polled[place].links { sockets += link.sockets }
        }
        sockets += [bound.publisher.monitor, bound.router.monitor]
        waiting = SocketPoll(wakeup, sockets)
    }

    /// - Returns: whether those were all that waited.
    private func takeEvents(of socket: BoundSocket, now: UInt64) throws(ZeroMQError) -> Bool {
        let former = socket.watch.lastNumber
        defer { if socket.watch.lastNumber != former { pace.makeHaste(now: now) } }
        return try socket.takeEvents(limit: Self.eventsAtOnce, now: now)
    }

    private func takeEvents(of socket: MeshSocket) throws(ZeroMQError) {
        let former = socket.watch.lastNumber
        defer {
            if socket.watch.lastNumber != former {
                pace.makeHaste(now: MonotonicClock.milliseconds)
            }
        }
        try socket.takeEvents(
            limit: settings.limits.framesPerSocketAndPoll, now: MonotonicClock.milliseconds)
    }

    private func answerHandshakes(_ gatekeeper: Gatekeeper) throws {
        for _ in 0..<settings.limits.framesPerSocketAndPoll {
            switch try gatekeeper.answerOne() {
            case .nothing: return
            case .admitted: statistics.handshakesAdmitted += 1
            case .refused(let key, let address):
                statistics.handshakesRefused += 1
                refusals.note(
                    .keyNotListed, key, of: nil, address: address, now: MonotonicClock.milliseconds)
            }
        }
    }

    private func takeFromRouter(into frames: inout [IncomingFrame], _ budget: inout Int) throws {
        for _ in 0..<settings.limits.framesPerSocketAndPoll where budget > 0 {
            // The name of the sender, which the library puts first, did not come with the message.
            var isName = true
            let message = try bound.router.socket.receiveMessage(limit: 2) {
                part throws(ZeroMQError) in
                defer { isName = false }
                if isName { return }
                if bound.router.watch.note(part, isEncrypted: settings.keys != nil) { return }
                _ = try takeEvents(of: bound.router, now: MonotonicClock.milliseconds)
                bound.router.watch.note(part, isEncrypted: settings.keys != nil)
            }
            guard let message else { return }
            guard message.parts.count == 2, !message.excessive,
                let sender = RouteTable.node(ofIdentity: message.parts[0].bytes),
                proves(message.parts[1].user, is: sender)
            else {
                statistics.framesRefused += 1
                continue
            }
            let route = ReplyRoute(node: sender, identity: message.parts[0].bytes)
            routes.remember(route)
            noteAsking(sender, over: message.parts[1])
            accept(message.parts[1].bytes, sender, .exchange, route, into: &frames, &budget)
        }
    }

    /// Whether a frame came under a key of the node that its sender claims to be.
    private func proves(_ user: String?, is sender: NodeID) -> Bool {
        guard let gatekeeper else { return true }
        let holder = gatekeeper.node(ofUser: user)
        guard holder != sender else { return true }
        if let holder {
            refusals.note(
                .claimsToBe(sender), user.flatMap { CurvePublicKey($0) }, of: holder, address: "",
                now: MonotonicClock.milliseconds)
        }
        return false
    }

    private func take(
        from socket: MeshSocket, _ sender: NodeID, _ channel: MeshChannel,
        into frames: inout [IncomingFrame], _ budget: inout Int
    ) throws {
        for _ in 0..<settings.limits.framesPerSocketAndPoll where budget > 0 {
            let message = try socket.socket.receiveMessage(limit: 1) { part throws(ZeroMQError) in
                if socket.watch.note(part, isEncrypted: settings.keys != nil) { return }
                try takeEvents(of: socket)
                socket.watch.note(part, isEncrypted: settings.keys != nil)
            }
            guard let message else { return }
            guard !message.excessive else {
                statistics.framesRefused += 1
                continue
            }
            accept(message.parts[0].bytes, sender, channel, nil, into: &frames, &budget)
        }
    }

    private func accept(
        _ bytes: [UInt8], _ sender: NodeID, _ channel: MeshChannel, _ route: ReplyRoute?,
        into frames: inout [IncomingFrame], _ budget: inout Int
    ) {
        budget -= bytes.count
        statistics.framesReceived += 1
        statistics.bytesReceived += bytes.count
        frames.append(
            IncomingFrame(bytes: bytes, sender: sender, channel: channel, route: route))
    }
}
