// A TCP proxy for one directed link of a mesh, which can be cut and healed while it runs.
//
// Threading: the proxy may be used from any task. Its connections live on one event loop, and so
// does everything that changes (ProxiedLinks); the loop is what orders cutting and accepting.

internal import NIOCore
internal import NIOPosix

/// Passes the bytes of one directed link on, both ways and unread, until somebody cuts it.
///
/// Who wants to partition a mesh lets every directed link run through a proxy of its own, and cuts
/// those between the sides. The proxy knows nothing of what it carries. A proxy keeps its port until
/// ``shutdown()``, which is to be called when it is no longer needed.
public final class LinkProxy: Sendable {
    /// The port that is listened on.
    public let port: Int

    private let server: any Channel
    private let links: NIOLoopBoundBox<ProxiedLinks>

    /// Listens, and begins to carry connections.
    ///
    /// - Parameters:
    ///   - listenHost: the address to listen on, an IPv4 or IPv6 address or a name.
    ///   - listenPort: the port, 0 for any that is free.
    ///   - targetHost: where connections lead. Nobody need listen there yet: as long as nobody does,
    ///     connections are accepted and closed.
    ///   - targetPort: the port there, 1...65535.
    /// - Throws: the network's error where the address cannot be listened on.
    public init(
        listenHost: String = "127.0.0.1", listenPort: Int = 0,
        targetHost: String = "127.0.0.1", targetPort: Int
    ) async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let links = NIOLoopBoundBox.makeBoxSendingValue(
            ProxiedLinks(loop: loop, targetHost: targetHost, targetPort: targetPort),
            eventLoop: loop)
        server = try await ServerBootstrap(group: loop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { links.value.accept($0) }
            .bind(host: listenHost, port: listenPort).get()
        port = server.localAddress?.port ?? listenPort
        self.links = links
    }

    /// Cuts the link: what is open is closed, and what comes is accepted and closed at once.
    ///
    /// Returns when no connection is open any more. Bytes under way are lost, as with any broken
    /// connection. Cutting what is cut changes nothing.
    public func cut() async {
        await change(to: .cut)
    }

    /// Holds the link up: connections stay, and new ones are accepted, but no byte passes.
    ///
    /// It is what a network does that drops packets silently. At most what the sockets' own buffers
    /// hold waits; it passes after ``heal()``.
    public func stall() async {
        await change(to: .stalled)
    }

    /// Lets connections and bytes pass again.
    public func heal() async {
        await change(to: .open)
    }

    /// Closes all connections and stops listening, for good.
    public func shutdown() async {
        try? await server.close()
        await change(to: .cut)
    }

    private func change(to mode: ProxiedLinks.Mode) async {
        let links = links
        // It fails only where the loop has ended, and then nothing is open either.
        try? await server.eventLoop.flatSubmit { links.value.change(to: mode) }.get()
    }
}

/// All connections of one proxy. Lives on the proxy's event loop.
///
/// Invariant: `open` holds exactly the connections accepted while the link was not cut and not
/// closed since.
private final class ProxiedLinks {
    enum Mode: Sendable { case open, stalled, cut }

    private let loop: any EventLoop
    private let targetHost: String
    private let targetPort: Int
    private var mode = Mode.open
    private var open: [ObjectIdentifier: ProxiedLink] = [:]

    init(loop: any EventLoop, targetHost: String, targetPort: Int) {
        self.loop = loop
        self.targetHost = targetHost
        self.targetPort = targetPort
    }

    /// Connects to the target for a connection that came; the future fails where it is to be closed.
    func accept(_ near: any Channel) -> EventLoopFuture<Void> {
        guard mode != .cut else { return loop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
        let link = ProxiedLink(isStalled: mode == .stalled)
        open[ObjectIdentifier(link)] = link
        let bound = NIOLoopBound(link, eventLoop: loop)
        let forget = NIOLoopBound({ self.forget(link) }, eventLoop: loop)
        near.closeFuture.whenComplete { _ in forget.value() }
        do {
            try near.pipeline.syncOperations.addHandler(link.near)
        } catch {
            return loop.makeFailedFuture(error)
        }
        return ClientBootstrap(group: loop)
            .channelOption(.autoRead, value: false)
            .channelInitializer { far in
                far.eventLoop.makeCompletedFuture {
                    try far.pipeline.syncOperations.addHandler(bound.value.far)
                }
            }
            .connect(host: targetHost, port: targetPort)
            .flatMapThrowing { far in
                // The link may have been cut while the target was being reached.
                guard !bound.value.isClosed else {
                    far.close(promise: nil)
                    throw ChannelError.ioOnClosedChannel
                }
            }
    }

    private func forget(_ link: ProxiedLink) {
        open[ObjectIdentifier(link)] = nil
        _ = link.close()
        link.near.link = nil
        link.far.link = nil
    }

    func change(to mode: Mode) -> EventLoopFuture<Void> {
        self.mode = mode
        switch mode {
        case .open, .stalled:
            for link in open.values { link.setStalled(mode == .stalled) }
            return loop.makeSucceededVoidFuture()
        case .cut:
            let closings = open.values.flatMap { $0.close() }
            return EventLoopFuture.andAllComplete(closings, on: loop)
        }
    }
}

/// One connection and its continuation to the target. Lives on the proxy's event loop.
private final class ProxiedLink {
    let near = PumpHandler()
    let far = PumpHandler()
    private(set) var isStalled: Bool
    private(set) var isClosed = false

    init(isStalled: Bool) {
        self.isStalled = isStalled
        near.link = self
        far.link = self
    }

    func other(of pump: PumpHandler) -> PumpHandler { pump === near ? far : near }

    var mayPass: Bool { !isStalled && !isClosed && near.isActive && far.isActive }

    func setStalled(_ isStalled: Bool) {
        self.isStalled = isStalled
        readMore()
    }

    /// Asks both sides for bytes, where they may pass and the other side takes them.
    func readMore() {
        near.readIfWanted()
        far.readIfWanted()
    }

    /// Closes both sides; gives what completes when they are closed.
    func close() -> [EventLoopFuture<Void>] {
        isClosed = true
        let channels = [near.channel, far.channel].compactMap(\.self)
        for channel in channels { channel.close(promise: nil) }
        return channels.map(\.closeFuture)
    }
}

/// One side of a link: hands what it reads to the other side.
///
/// Back-pressure: it reads again only when what it read before was handed over and the other side is
/// writable, so that one read and one socket's buffer are all that is kept.
private final class PumpHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Nil once the connection is forgotten, or link and pumps would keep each other alive.
    var link: ProxiedLink?
    private var context: ChannelHandlerContext?
    private var isReading = false

    var channel: (any Channel)? { context?.channel }
    var isActive: Bool { context?.channel.isActive ?? false }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) { link?.readMore() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let other = link?.other(of: self)
        other?.context?.write(wrapOutboundOut(unwrapInboundIn(data)), promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        link?.other(of: self).context?.flush()
        readIfWanted()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { link?.other(of: self).readIfWanted() }
    }

    func channelInactive(context: ChannelHandlerContext) { closeAll() }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { closeAll() }

    func readIfWanted() {
        guard !isReading, let link, link.mayPass, let context,
            link.other(of: self).channel?.isWritable == true
        else { return }
        isReading = true
        context.read()
    }

    /// One side has ended, so both do; what was not yet handed over is lost.
    private func closeAll() {
        _ = link?.close()
    }
}
