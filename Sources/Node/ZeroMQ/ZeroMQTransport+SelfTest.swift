// The test at start that a stranger is refused: a list of keys that lets everyone in looks, from
// the inside, just like one that works.

internal import CZeroMQ

extension ZeroMQTransport {
    /// Tries to come in with a random key at both endpoints, and sees that it is refused.
    ///
    /// Does nothing where there are no keys. Frames that come meanwhile are kept for the next poll.
    ///
    /// - Parameter timeout: how long a refusal may take.
    /// - Throws: ``NodeError`` with `strangersAdmitted` where the stranger came in, or where it was
    ///   not refused in time.
    public func testThatStrangersAreRefused(timeout: Duration = .seconds(5)) throws {
        guard let keys = settings.keys else { return }
        for (pattern, endpoint) in [
            (ZeroMQSocket.Pattern.dealer, exchangeEndpoint), (.subscriber, publishEndpoint),
        ] {
            let stranger = try ZeroMQSocket(pattern, in: context)
            try Gatekeeper.introduceClient(stranger, .generate(), to: keys.publicKey)
            let name = "inproc://stranger-\(pattern)"
            let events = Int32(ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            guard zmq_socket_monitor(stranger.handle, name, events) == 0 else {
                throw ZeroMQError.last("watch a socket")
            }
            let monitor = try ZeroMQSocket(.pair, in: context)
            try monitor.connect(name)
            if endpoint.contains("[") { try stranger.set(ZMQ_IPV6, 1) }
            try stranger.connect(endpoint)
            let wasRefused = try isRefused(monitor, until: .now + timeout)
            _ = zmq_socket_monitor(stranger.handle, nil, 0)
            guard wasRefused else {
                throw NodeError(
                    .strangersAdmitted, "\(endpoint) does not refuse a key that is not listed",
                    context: ["endpoint": endpoint])
            }
        }
    }

    private func isRefused(
        _ monitor: ZeroMQSocket, until deadline: ContinuousClock.Instant
    ) throws -> Bool {
        while ContinuousClock.now < deadline {
            // An event is 16 bits of kind and 32 of value, in this machine's order; then a name.
            if let event = try monitor.receiveMessage(limit: 2)?.parts.first?.bytes,
                event.count >= 2
            {
                let kind = event.withUnsafeBytes { $0.loadUnaligned(as: UInt16.self) }
                return Int32(kind) == Int32(ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            }
            early += try pollSockets(timeoutMilliseconds: 5)
        }
        return false
    }
}
