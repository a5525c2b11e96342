// The HTTP server of a node.
//
// Threading: may be used from any task. Requests are parsed on the event loops; what blocks runs
// on threads of its own (HTTPServices).

internal import Coordinator
internal import Glibc
internal import HTTPTypes
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// The client interface of a node, version 1.
///
/// ```swift
/// let server = try await HTTPServer.start(backend: node)
/// print(server.port)
/// await server.stop()
/// ```
package final class HTTPServer: Sendable {
    /// How a server is set up.
    package struct Options: Sendable {
        /// Where it listens; port 0 takes any free one.
        package var listen = HostAddress(host: "127.0.0.1", port: 7100)
        /// A token for everything, beside `tokens`; nil for none.
        package var token: String?
        /// The tokens that requests must bear in `Authorization`. Without any token, anybody may
        /// ask for anything.
        package var tokens: [HTTPToken] = []
        /// The key and certificate of HTTPS; nil for HTTP.
        package var identity: TLSIdentity?
        /// The greatest body of a request in bytes; by default 16 MiB.
        package var maximumBodyBytes = 16 << 20
        /// The longest answer to a fetch that is made in memory, in bytes; by default 64 MiB. One that
        /// comes to more is refused.
        package var maximumAnswerBytes = 64 << 20
        /// How many bytes all answers may have that are being made or sent, but for those of at most
        /// 64 KiB; by default 128 MiB, and at least ``maximumAnswerBytes``. What comes to more is
        /// refused (503), to be asked for again.
        package var maximumAnswersBytes = 128 << 20
        /// For how long a client may take nothing of its answer before it is cut off; by default
        /// 30 seconds.
        package var slowClientTimeout: Duration = .seconds(30)
        /// The same for the answer that has waited longest for its client, where others are refused for
        /// want of room; by default 2 seconds.
        package var busyClientTimeout: Duration = .seconds(2)
        /// How many reads may wait; more are refused (503).
        package var maximumWaitingReads = 512
        /// How many long reads may wait, beside those.
        package var maximumWaitingLongReads = 256
        /// For how long a read is taken for short; by default 250 milliseconds. Long ones hold half of
        /// the threads at the most while others wait.
        package var shortRead: Duration = .milliseconds(250)
        /// For how long a request may keep one of the threads that read; by default 60 seconds.
        package var readTimeout: Duration = .seconds(60)
        /// Whether the inspector's page is served at `/`; by default it is.
        package var servesInspector = true
        /// Names and addresses under which a node without tokens answers, beside those of loopback
        /// and `listen`.
        package var hosts: [String] = []
        /// Pages of other origins that may ask, such as `https://shop.example`; what is no origin of
        /// HTTP is left out.
        package var origins: [String] = []
        /// How many connections may be open; at that many the longest idle one makes room.
        package var maximumConnections = 1_024
        /// How many more there may be for what supervisors ask, where requests are under way on all.
        package var reservedConnections = 16
        /// How long a request's header may take, from its first byte or from connecting.
        package var headerTimeout: Duration = .seconds(10)
        /// How long a request's body may take, beside a second for each 16 KiB of it.
        package var bodyTimeout: Duration = .seconds(60)
        /// Threads for reading at once, 1...64; half of them are for long reads, one of each kind at
        /// least.
        package var readingThreads = 4
        /// How long requests under way may go on when the server stops.
        package var stopGrace: Duration = .seconds(5)

        /// The defaults.
        package init() {}

        var allTokens: [HTTPToken] {
            tokens + (token.map { [HTTPToken(secret: $0, scope: .admin)] } ?? [])
        }
    }

    private typealias Service = Server<SecuredChannel>

    /// The settings that may change while the server runs.
    private final class Security: Sendable {
        let access: Mutex<HTTPAccess>
        let identity: Mutex<TLSIdentity?>

        init(_ options: Options) {
            access = Mutex(HTTPAccess(options.allTokens))
            identity = Mutex(options.identity)
        }
    }

    /// The port that was bound.
    package let port: Int
    let services: HTTPServices
    private let security: Security
    private let service: Service
    private let running: Task<Void, any Error>
    private let ticking: Task<Void, any Error>
    private let grace: Duration

    /// How often leases are looked at, and followers of the change feed woken.
    private static let tick = Duration.seconds(5)
    /// How often writes are looked at.
    private static let writeTick = Duration.milliseconds(250)
    /// How long a connection may be idle before it is closed.
    private static let idleTimeout = TimeAmount.seconds(120)

    /// Binds the address and begins to answer.
    ///
    /// - Throws: ``NodeError``: `addressUnavailable`.
    package static func start(
        backend: any NodeBackend, options: Options = Options()
    ) async throws -> HTTPServer {
        let services = HTTPServices(
            backend: backend, maximumBodyBytes: options.maximumBodyBytes,
            maximumAnswerBytes: options.maximumAnswerBytes, readTimeout: options.readTimeout,
            readingThreads: min(max(options.readingThreads, 1), 64), bounds: HTTPBounds(options),
            servesInspector: options.servesInspector)
        let security = Security(options)
        let policy = OriginPolicy(
            listen: options.listen, hosts: options.hosts,
            origins: options.origins.compactMap(RequestOrigin.init),
            isSecure: options.identity != nil)
        let clients = ConnectedClients()
        let responder = HTTPResponder(
            router: HTTPRouter(services: services), policy: policy, clients: clients
        ) {
            security.access.withLock { $0 }
        }
        let connections = connections(options, backend)
        let bound = AsyncStream.makeStream(of: Int.self)
        let service = Service(
            childChannelSetup: SecuredChannel(
                base: HTTP1Channel(
                    responder: { request, writer, channel in
                        try await responder.respond(to: request, writer, over: channel)
                    },
                    configuration: .init(
                        additionalChannelHandlers: [ClientWatch(clients)],
                        idleTimeout: idleTimeout)),
                identity: { security.identity.withLock { $0 } }, connections: connections),
            configuration: ServerConfiguration(
                address: .hostname(
                    options.listen.host == "*" ? "::" : options.listen.host,
                    port: Int(options.listen.port)),
                backlog: 1_024,
                // Those that are closed take some time to go.
                availableConnectionsDelegate: MaximumAvailableConnections(
                    options.maximumConnections + options.reservedConnections + closingConnections)),
            onServerRunning: { channel in
                bound.continuation.yield(channel.localAddress?.port ?? 0)
                bound.continuation.finish()
            }, eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: quietLogger())
        let running = Task {
            defer { bound.continuation.finish() }
            try await service.run()
        }
        for await port in bound.stream {
            return HTTPServer(
                port: port, services: services, security: security, service: service,
                running: running, grace: options.stopGrace)
        }
        await services.stop()
        do {
            try await running.value
        } catch {
            throw NodeError(
                .addressUnavailable,
                "The HTTP interface cannot listen on \(options.listen): \(Self.reason(error))",
                context: ["key": "http.listen"], cause: error)
        }
        throw NodeError(
            .addressUnavailable, "The HTTP interface cannot listen on \(options.listen).")
    }

    /// How many connections that are being closed there may be beside the others.
    private static let closingConnections = 64

    private static func connections(
        _ options: Options, _ backend: any NodeBackend
    ) -> HTTPConnections {
        let limits = HTTPConnections.Limits(
            maximum: max(options.maximumConnections, 1),
            reserve: max(options.reservedConnections, 0),
            header: TimeAmount(options.headerTimeout), body: TimeAmount(options.bodyTimeout))
        return HTTPConnections(
            limits: limits, countAnswer: { backend.countRequest(status: $0) },
            note: { backend.noteConnections($0) })
    }

    /// Why an address could not be bound, in the system's words where they are its.
    private static func reason(_ error: any Error) -> String {
        (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)"
    }

    private init(
        port: Int, services: HTTPServices, security: Security, service: Service,
        running: Task<Void, any Error>, grace: Duration
    ) {
        self.port = port
        self.services = services
        self.security = security
        self.service = service
        self.running = running
        self.grace = grace
        ticking = Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while true {
                        try await Task.sleep(for: Self.tick)
                        services.leases.sweep()
                        services.feed.wake()
                    }
                }
                group.addTask {
                    while true {
                        try await Task.sleep(for: Self.writeTick)
                        services.writes.sweep()
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    /// Goes on with other tokens, from the next request on, open connections included.
    ///
    /// A feed of changes whose token does not reach any more ends; an answer under way is finished.
    ///
    /// - Parameter tokens: none lets anybody ask for anything; for loopback only.
    package func update(tokens: [HTTPToken]) {
        security.access.withLock { $0 = HTTPAccess(tokens) }
        services.feed.wake()
    }

    /// Goes on with another certificate, from the next connection on.
    ///
    /// - Parameter identity: nil where the server was started without one; a server does not
    ///   change between HTTP and HTTPS while it runs.
    package func update(identity: TLSIdentity?) {
        security.identity.withLock { current in
            if current != nil, identity != nil { current = identity }
        }
    }

    /// Accepts no new connections, lets requests under way end, and closes.
    ///
    /// Requests that take longer than the grace are cut off. If one still runs on a thread of its
    /// own, as a backup or a verification that reads the whole store, it is left behind: it ends
    /// with the process, which must not wait for it.
    package func stop() async {
        ticking.cancel()
        services.feed.stop()
        let waiting = Mutex<CheckedContinuation<Void, Never>?>(nil)
        let goOn: @Sendable () -> Void = {
            waiting.withLock { $0.take() }?.resume()
        }
        await withCheckedContinuation { continuation in
            waiting.withLock { $0 = continuation }
            Task {
                await shutDown()
                goOn()
            }
            Task {
                try? await Task.sleep(for: grace + Self.cuttingOff)
                goOn()
            }
        }
    }

    /// How long it may take that what runs over the grace is cut off.
    private static let cuttingOff = Duration.seconds(1)

    private func shutDown() async {
        let running = running
        let grace = grace
        let guillotine = Task {
            try await Task.sleep(for: grace)
            running.cancel()
        }
        try? await service.shutdownGracefully()
        _ = try? await running.value
        guillotine.cancel()
        await services.stop()
    }

    /// Nothing is logged per request, and addresses of clients are nobody's business.
    private static func quietLogger() -> Logger {
        var logger = Logger(label: "tributary.http")
        logger.logLevel = .error
        return logger
    }
}
