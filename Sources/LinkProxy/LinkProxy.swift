// A TCP proxy for one directed link of a mesh, which can be cut, disturbed and healed while it runs.
//
// Threading: the proxy may be used from any task. Its connections live on one event loop, and so
// does everything that changes (ProxiedLinks); the loop is what orders cutting and accepting.

internal import NIOCore
internal import NIOPosix

/// Passes the bytes of one directed link on, both ways and unread, until somebody cuts it or sets
/// a ``LinkFault``.
///
/// To partition a mesh, let every directed link run through a proxy of its own, and cut those
/// between the sides. The proxy knows nothing of what it carries. A proxy keeps its port until
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
    public func cut() async { await change { $0.cut() } }

    /// Holds the link up: connections stay, and new ones are accepted, but no byte passes.
    ///
    /// It is what a network does that drops packets silently. At most what the sockets' own buffers
    /// and the proxy's hold waits; it passes after ``heal()``.
    public func stall() async { await change { $0.stall() } }

    /// Breaks every open connection as a reset (RST) does, and goes on accepting new ones.
    ///
    /// Returns when those connections are gone. Bytes under way are lost.
    public func reset() async { await change { $0.reset() } }

    /// Sets what happens to the bytes of one direction from now on, in open connections and in
    /// those that come. It takes the place of what was set before for that direction; a link that
    /// was cut stays cut.
    ///
    /// - Parameters:
    ///   - fault: what happens; ``LinkFault/none`` for nothing.
    ///   - direction: to which bytes; nil for both directions.
    public func set(_ fault: LinkFault, on direction: LinkDirection? = nil) async {
        let directions = direction.map { [$0] } ?? LinkDirection.allCases
        let changed = Dictionary(uniqueKeysWithValues: directions.map { ($0, fault) })
        await change { $0.set(changed) }
    }

    /// Ends every fault: connections and bytes pass again as they come.
    public func heal() async { await change { $0.heal() } }

    /// Closes all connections and stops listening, for good.
    public func shutdown() async {
        try? await server.close()
        await cut()
    }

    private func change(
        _ body: @escaping @Sendable (ProxiedLinks) -> EventLoopFuture<Void>
    ) async {
        let links = links
        // It fails only where the loop has ended, and then nothing is open either.
        try? await server.eventLoop.flatSubmit { body(links.value) }.get()
    }
}
