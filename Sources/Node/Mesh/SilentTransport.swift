// The transport of a node by itself: nothing goes out and nothing comes in, but it can be woken.
//
// Threading: as every transport, used on one thread; other threads ring `wakeup`.

internal import Glibc
public import Merge

/// A transport that reaches nobody, so that a node without a mesh runs the very same loop.
public final class SilentTransport: Transport {
    /// Ends a poll early, from any thread.
    public let wakeup: Wakeup
    /// Always nothing but the frames that reached nobody.
    public private(set) var statistics = TransportStatistics()

    /// Makes a transport.
    ///
    /// - Throws: ``NodeError`` with `resourcesExhausted` where no descriptor is left.
    public init() throws(NodeError) { wakeup = try Wakeup() }

    /// Waits for the wake-up or the time-out; never gives a frame.
    public func poll(timeoutMilliseconds: Int) -> [IncomingFrame] {
        var item = pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0)
        let mayWait = wakeup.sleep()
        let ready = Glibc.poll(&item, 1, mayWait ? Int32(clamping: timeoutMilliseconds) : 0)
        wakeup.rise(isReady: ready > 0)
        return []
    }

    /// Drops the frame.
    @discardableResult
    public func publish(_ frame: [UInt8]) -> FrameOutcome { .sent }

    /// Drops the frame.
    @discardableResult
    public func send(_ frame: [UInt8], to node: NodeID) -> FrameOutcome { drop() }

    /// Drops the frame.
    @discardableResult
    public func reply(_ frame: [UInt8], along route: ReplyRoute) -> FrameOutcome { drop() }

    /// There is no way to anybody.
    public func route(to node: NodeID) -> ReplyRoute? { nil }

    /// Does nothing.
    public func connect(to peer: MeshPeer) {}

    /// Does nothing.
    public func disconnect(from node: NodeID, hearing keys: [CurvePublicKey]) {}

    private func drop() -> FrameOutcome {
        statistics.framesUnreachable += 1
        return .unreachable
    }
}
