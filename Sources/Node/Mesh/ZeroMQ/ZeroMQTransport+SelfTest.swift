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
            let unknown = try CurveKeys.generate()
            try Gatekeeper.introduceClient(stranger, unknown, to: keys.publicKey)
            // Nobody shall look for a stranger that was ourselves.
            defer { refusals.forget(unknown.publicKey) }
            let monitor = try watch(stranger)
            if endpoint.contains("[") { try stranger.set(ZMQ_IPV6, 1) }
            try stranger.connect(endpoint)
            let wasRefused = try isRefused(monitor, until: .now + timeout)
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
            if let event = try MeshSocket.nextEvent(of: monitor),
                event.kind != ZMQ_EVENT_CONNECTED, event.kind != ZMQ_EVENT_DISCONNECTED
            {
                return event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
            }
            early += try pollSockets(timeoutMilliseconds: 5)
        }
        return false
    }
}
