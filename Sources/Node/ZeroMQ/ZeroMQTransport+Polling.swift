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
        let ready = items.withUnsafeMutableBufferPointer {
            zmq_poll($0.baseAddress, Int32($0.count), timeoutMilliseconds)
        }
        guard ready >= 0 else {
            guard zmq_errno() == EINTR else { throw ZeroMQError.last("poll") }
            return []
        }
        guard ready > 0 else { return [] }
        var frames: [IncomingFrame] = []
        var budget = settings.limits.bytesPerPoll
        if isReady(0) { wakeup.clear() }
        var index = 1
        if let gatekeeper {
            if isReady(index) { try answerHandshakes(gatekeeper) }
            index += 1
        }
        if isReady(index) { try takeFromRouter(into: &frames, &budget) }
        index += 1
        for connection in polled {
            let node = connection.peer.node
            if isReady(index) {
                try take(from: connection.subscriber, node, .publish, into: &frames, &budget)
            }
            if isReady(index + 1) {
                try take(from: connection.dealer, node, .exchange, into: &frames, &budget)
            }
            index += 2
        }
        return frames
    }

    /// Lists what a poll waits on; called whenever the connections change.
    func listItems() {
        polled = connections.values.sorted { $0.peer.node < $1.peer.node }
        items = [
            zmq_pollitem_t(
                socket: nil, fd: wakeup.descriptor, events: Int16(ZMQ_POLLIN), revents: 0)
        ]
        var sockets = gatekeeper.map { [$0.socket] } ?? []
        sockets.append(router)
        for connection in polled { sockets += [connection.subscriber, connection.dealer] }
        for socket in sockets {
            items.append(
                zmq_pollitem_t(
                    socket: socket.handle, fd: 0, events: Int16(ZMQ_POLLIN), revents: 0))
        }
    }

    private func isReady(_ index: Int) -> Bool { items[index].revents & Int16(ZMQ_POLLIN) != 0 }

    private func answerHandshakes(_ gatekeeper: Gatekeeper) throws {
        for _ in 0..<settings.limits.framesPerSocketAndPoll {
            switch try gatekeeper.answerOne() {
            case .nothing: return
            case .admitted: statistics.handshakesAdmitted += 1
            case .refused: statistics.handshakesRefused += 1
            }
        }
    }

    private func takeFromRouter(into frames: inout [IncomingFrame], _ budget: inout Int) throws {
        for _ in 0..<settings.limits.framesPerSocketAndPoll where budget > 0 {
            guard let message = try router.receiveMessage(limit: 2) else { return }
            guard message.parts.count == 2, !message.excessive,
                let sender = RouteTable.node(ofIdentity: message.parts[0].bytes),
                gatekeeper?.proves(message.parts[1].user, is: sender) ?? true
            else {
                statistics.framesRefused += 1
                continue
            }
            let route = ReplyRoute(node: sender, identity: message.parts[0].bytes)
            routes.remember(route)
            accept(message.parts[1].bytes, sender, .exchange, route, into: &frames, &budget)
        }
    }

    private func take(
        from socket: ZeroMQSocket, _ sender: NodeID, _ channel: MeshChannel,
        into frames: inout [IncomingFrame], _ budget: inout Int
    ) throws {
        for _ in 0..<settings.limits.framesPerSocketAndPoll where budget > 0 {
            guard let message = try socket.receiveMessage(limit: 1) else { return }
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
