// The one connection of a client: connects when needed, and makes requests one after the other.
//
// Threading: lives on one event loop; nothing here may be called from elsewhere.
// Invariants: `current` is set only while `state` is open; `waiting` is in order of arrival.

internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// A request that waits for the connection or for its answer.
final class PendingRequest {
    let head: HTTPRequestHead
    let body: [UInt8]?
    let deadline: NIODeadline
    let promise: EventLoopPromise<NodeClient.Response>
    var alarm: Scheduled<Void>?
    var isDone = false
    var wasRepeated = false

    init(
        head: HTTPRequestHead, body: [UInt8]?, deadline: NIODeadline,
        promise: EventLoopPromise<NodeClient.Response>
    ) {
        self.head = head
        self.body = body
        self.deadline = deadline
        self.promise = promise
    }

    func finish(_ result: Result<NodeClient.Response, ClientError>) {
        guard !isDone else { return }
        isDone = true
        alarm?.cancel()
        promise.completeWith(result.mapError { $0 as any Error })
    }
}

/// See the head of this file.
final class NodeConnection {
    private enum State {
        case idle, connecting, closed
        case open(ResponseCollector, any Channel)
    }

    private let loop: any EventLoop
    private let target: NodeAddress
    private let security: ClientTLS?
    private let limits: NodeClient.Limits
    private var state = State.idle
    private var waiting: CircularBuffer<PendingRequest> = []
    private var current: PendingRequest?
    /// How many answers came over the connection that is open.
    private var served = 0

    init(
        loop: any EventLoop, target: NodeAddress, security: ClientTLS?, limits: NodeClient.Limits
    ) {
        self.loop = loop
        self.target = target
        self.security = security
        self.limits = limits
    }

    func add(_ request: PendingRequest) {
        guard !request.isDone else { return }
        if case .closed = state {
            return request.finish(
                .failure(ClientError(.clientUnavailable, "The client of \(target) was closed")))
        }
        guard waiting.count < limits.waitingRequests else {
            return request.finish(
                .failure(
                    ClientError(
                        .clientUnavailable, "Too many requests wait for an answer of \(target)")))
        }
        request.alarm = loop.assumeIsolated().scheduleTask(deadline: request.deadline) {
            self.withdraw(request, ClientFailure.late(self.target))
        }
        waiting.append(request)
        advance()
    }

    func cancel(_ request: PendingRequest) {
        withdraw(request, ClientError(.cancelled, "The request was withdrawn"))
    }

    func close() {
        let failure = ClientError(.clientUnavailable, "The client of \(target) was closed")
        dropChannel()
        state = .closed
        current?.finish(.failure(failure))
        current = nil
        failWaiting(failure)
    }

    // MARK: - What the channel tells

    func received(_ response: NodeClient.Response, keepAlive: Bool) {
        served += 1
        let request = current
        current = nil
        if !keepAlive { dropChannel() }
        request?.finish(.success(response))
        advance()
    }

    /// The channel has ended, or has brought something that makes it useless.
    func ended(_ error: (any Error)?, hadBegun: Bool) {
        let request = current
        let wasReused = served > 0
        current = nil
        dropChannel()
        if let request, !request.isDone {
            let mayRepeat = request.head.method == .GET && !request.wasRepeated
            if mayRepeat, wasReused, !hadBegun {
                request.wasRepeated = true
                waiting.prepend(request)
            } else {
                request.finish(.failure(ClientFailure.open(target, error)))
            }
        }
        advance()
    }

    // MARK: - Moving on

    private func advance() {
        guard current == nil, !waiting.isEmpty else { return }
        switch state {
        case .idle: connect()
        case .connecting, .closed: break
        case .open(_, let channel):
            let request = waiting.removeFirst()
            current = request
            Self.write(request.head, request.body, to: channel)
        }
    }

    static func write(_ head: HTTPRequestHead, _ body: [UInt8]?, to channel: any Channel) {
        let pipeline = channel.pipeline.syncOperations
        pipeline.write(NIOAny(HTTPClientRequestPart.head(head)), promise: nil)
        if let body, !body.isEmpty {
            let part = HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body)))
            pipeline.write(NIOAny(part), promise: nil)
        }
        pipeline.writeAndFlush(NIOAny(HTTPClientRequestPart.end(nil)), promise: nil)
    }

    private func connect() {
        state = .connecting
        let collector = ResponseCollector(self, target: target, limit: limits.responseBytes)
        let bound = NIOLoopBound(collector, eventLoop: loop)
        let security = security
        ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(limits.connectTimeout))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try security?.begin(channel)
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    try channel.pipeline.syncOperations.addHandler(bound.value)
                }
            }
            .connect(host: target.host, port: Int(target.port))
            .assumeIsolated()
            .whenComplete { self.connected($0, collector) }
    }

    private func connected(_ result: Result<any Channel, any Error>, _ collector: ResponseCollector)
    {
        guard case .connecting = state else {
            collector.connection = nil
            if case .success(let channel) = result { channel.close(promise: nil) }
            return
        }
        switch result {
        case .success(let channel):
            served = 0
            guard channel.isActive else {
                state = .idle
                return failWaiting(ClientFailure.reset(target, nil))
            }
            state = .open(collector, channel)
            advance()
        case .failure(let error):
            state = .idle
            collector.connection = nil
            failWaiting(ClientFailure.connecting(to: target, error))
        }
    }

    private func withdraw(_ request: PendingRequest, _ failure: ClientError) {
        guard !request.isDone else { return }
        if current === request {
            // Its answer may still come; on this connection it would be taken for the next one's.
            current = nil
            dropChannel()
        } else {
            waiting.removeAll { $0 === request }
        }
        request.finish(.failure(failure))
        advance()
    }

    private func dropChannel() {
        guard case .open(let collector, let channel) = state else { return }
        state = .idle
        collector.connection = nil
        channel.close(promise: nil)
    }

    private func failWaiting(_ failure: ClientError) {
        let failed = waiting
        waiting = []
        for request in failed { request.finish(.failure(failure)) }
    }
}

/// Puts the parts of an answer together.
final class ResponseCollector: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    /// The connection to report to; nil once it has been given up.
    var connection: NodeConnection?
    private let target: NodeAddress
    private let limit: Int
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []

    init(_ connection: NodeConnection, target: NodeAddress, limit: Int) {
        self.connection = connection
        self.target = target
        self.limit = limit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard head.status.code >= 200 else { return }
            self.head = head
            body = []
        case .body(let part):
            guard body.count + part.readableBytes <= limit else {
                return end(
                    ClientFailure.malformed(target, "is larger than \(limit) bytes", nil), context)
            }
            body.append(contentsOf: part.readableBytesView)
        case .end:
            guard let head else { return }
            self.head = nil
            let response = (
                status: Int(head.status.code), headers: head.headers.map { ($0.name, $0.value) },
                body: body
            )
            body = []
            connection?.received(response, keepAlive: head.isKeepAlive)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { end(error, context) }

    func channelInactive(context: ChannelHandlerContext) { end(nil, context) }

    private func end(_ error: (any Error)?, _ context: ChannelHandlerContext) {
        let connection = connection
        self.connection = nil
        connection?.ended(error, hadBegun: head != nil)
        context.close(promise: nil)
    }
}
