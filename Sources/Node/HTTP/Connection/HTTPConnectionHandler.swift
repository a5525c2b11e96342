// One connection: which of its requests are let through, how long they may take, and how it ends.
//
// Threading: confined to the event loop of its channel.

internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1

/// Stands between the parser and what answers requests.
///
/// A message that the parser or `HTTPMessageCheck` refuses is answered here, after the answers that
/// are still due, and the connection ends: where the next message begins is not known then.
final class HTTPConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// A request whose answer is due.
    private struct Exchange {
        let isHead: Bool
        let isOld: Bool
        /// Whether the connection ends after it.
        var isLast: Bool
        /// Whether the client waits for the word to send the body.
        var awaitsContinue: Bool
        var isBegun = false
    }

    private let connections: HTTPConnections
    private let admission: HTTPConnections.Admission
    private var context: ChannelHandlerContext?
    private var exchanges = CircularBuffer<Exchange>(initialCapacity: 1)
    /// Whether a request's header is through, and its end is not.
    private var isReceiving = false
    /// Whether nothing of the next request has come. A new connection owes one.
    private var isBetween = false
    private var hasBytes = false
    private var line = HTTPFirstLine()
    /// When the header or the body that comes has begun.
    private var begun = NIODeadline.now()
    private var bodyBytes = 0
    /// The bytes of a body that may still come after its answer.
    private var excess: Int
    /// Whether nothing more is let through.
    private var isEnding = false
    /// The refusal to send once no other answer is due.
    private var refusal: (error: HTTPError, isHead: Bool)?
    /// Whether the last answer is written.
    private var isEnded = false
    private var alarm: (task: Scheduled<Void>, deadline: NIODeadline)?

    /// How long a client may go on sending once it was sent the last of the last answer.
    private static let farewell = TimeAmount.seconds(1)
    /// How fast a body must come once its time is over, in bytes a second.
    private static let leastRate = 16 << 10
    /// The paths that are answered also on connections in reserve.
    private static let reserved: Set = ["/healthz", "/readyz", "/metrics"]

    init(_ connections: HTTPConnections, admission: HTTPConnections.Admission) {
        self.connections = connections
        self.admission = admission
        excess = connections.limits.excess
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { begin(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        alarm?.task.cancel()
        alarm = nil
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        begin(context)
        context.fireChannelActive()
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard admission != .refused else {
            connections.noteEnding(.full)
            return context.close(promise: nil)
        }
        begun = .now()
        watch()
    }

    // MARK: - What comes

    /// Whether what comes is still parsed. After a request that is not upgraded as it asks the parser takes
    /// nothing more, and would keep it all.
    var takesBytes: Bool { !isEnding || isReceiving }

    /// Bytes have come, and are parsed next.
    func received(_ bytes: ByteBufferView) {
        // An empty line between requests is no request (RFC 9112, 2.2).
        if isBetween, bytes.allSatisfy({ $0 == 13 || $0 == 10 }) { return }
        if isBetween || !hasBytes {
            if isBetween { begun = .now() }
            isBetween = false
            hasBytes = true
            line = HTTPFirstLine()
        }
        if !isReceiving { line.append(bytes) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard !isEnding else { return }
            receive(head, context)
        case .body(let part):
            guard isReceiving else { return }
            bodyBytes += part.readableBytes
            guard exchanges.isEmpty else { return context.fireChannelRead(data) }
            excess -= part.readableBytes
            if excess < 0 { return context.close(promise: nil) }
            context.fireChannelRead(data)
        case .end:
            guard isReceiving else { return }
            isReceiving = false
            isBetween = true
            line = HTTPFirstLine()
            connections.note(context.channel, exchanges.isEmpty ? .waiting : .answering)
            context.fireChannelRead(data)
        }
    }

    private func receive(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        var head = head
        do throws(HTTPError) {
            try HTTPMessageCheck.normalise(&head)
            let path = head.uri.prefix { $0 != "?" }
            if admission == .reserve, !Self.reserved.contains(String(path)) { throw Self.noRoom }
        } catch {
            return refuse(error, isHead: head.method == .HEAD)
        }
        let isOld = head.version.major == 1 && head.version.minor == 0
        exchanges.append(
            Exchange(
                isHead: head.method == .HEAD, isOld: isOld,
                // After an upgrade that is not made the parser reads no further.
                isLast: isOld || !head.isKeepAlive || admission == .reserve
                    || head.method == .CONNECT || head.headers.contains(name: "Upgrade"),
                awaitsContinue: head.headers.contains(name: "Expect")))
        isEnding = exchanges.last?.isLast == true
        isReceiving = true
        begun = .now()
        bodyBytes = 0
        excess = connections.limits.excess
        connections.note(context.channel, .receiving)
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    private static let noRoom: HTTPError = {
        var error = HTTPError(
            503, "limitExceeded",
            "Requests are under way on all connections that this node has room for; try again.")
        error.fields[.retryAfter] = "1"
        return error
    }()

    func channelReadComplete(context: ChannelHandlerContext) {
        watch()
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
        guard refusal == nil, !isEnded else { return }
        // A client that has said all it had to say may close while its answer is made.
        if isEnding, !isReceiving { return }
        refuse(
            HTTPMessageCheck.refusal(error, line: line), isHead: false, cause: error)
    }

    /// Ends the connection with an answer, once those that are due before it are given.
    ///
    /// - Parameter cause: the error for the reader of a body that will never be whole.
    private func refuse(
        _ error: HTTPError, isHead: Bool, cause: HTTPParserError = .invalidEOFState
    ) {
        guard let context, refusal == nil, !isEnded else { return }
        isEnding = true
        guard isReceiving else {
            refusal = (error, isHead)
            if exchanges.isEmpty { end(context) }
            return
        }
        isReceiving = false
        // The body of this one will not be whole: it is answered here, where it is not yet.
        if let last = exchanges.last, !last.isBegun {
            exchanges.removeLast()
            refusal = (error, last.isHead)
        } else if !exchanges.isEmpty {
            exchanges[exchanges.index(before: exchanges.endIndex)].isLast = true
        }
        if exchanges.isEmpty { end(context) }
        context.fireErrorCaught(cause)
    }

    // MARK: - What goes

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        guard !isEnded, let exchange = exchanges.first else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(let head) where head.status.code < 200:
            exchanges[exchanges.startIndex].awaitsContinue = false
            context.write(data, promise: promise)
        case .head(var head):
            let isReceivingIt = isReceiving && exchanges.count == 1
            if exchange.isLast || (isReceivingIt && exchange.awaitsContinue)
                || head.headers["Connection"].contains("close")
            {
                exchanges[exchanges.startIndex].isLast = true
                isEnding = true
                head.headers.replaceOrAdd(name: "Connection", value: "close")
            }
            exchanges[exchanges.startIndex].isBegun = true
            if exchange.isOld { head.version = .http1_0 }
            Self.addDate(to: &head.headers)
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            guard !exchange.isHead else {
                promise?.succeed()
                return
            }
            context.write(data, promise: promise)
        case .end:
            // After a head alone there is no end to be written, not even that of chunks.
            if exchange.isHead { promise?.succeed() } else { context.write(data, promise: promise) }
            exchanges.removeFirst()
            context.flush()
            if exchange.isLast || (exchanges.isEmpty && refusal != nil) {
                end(context)
            } else if exchanges.isEmpty, !isReceiving {
                connections.note(context.channel, .waiting)
            }
        }
    }

    private static func addDate(to headers: inout HTTPHeaders) {
        headers.replaceOrAdd(
            name: "Date", value: HTTPDate.text(MonotonicClock.wallMilliseconds / 1000))
    }

    /// Writes what is refused, and ends: first by saying so, so that what was written is read before
    /// the client's own bytes, which nobody takes any more, break the connection.
    private func end(_ context: ChannelHandlerContext) {
        guard !isEnded else { return }
        isEnded = true
        // The next client need not wait until it is gone.
        connections.note(context.channel, .waiting)
        if let refusal { write(refusal.error, isHead: refusal.isHead, context) }
        let written = context.eventLoop.makePromise(of: Void.self)
        context.close(mode: .output, promise: written)
        // Until all is taken the connection is an idle one, which is closed in the end.
        written.futureResult.assumeIsolated().whenComplete { [self] result in
            guard let context = self.context else { return }
            guard case .success = result else { return context.close(promise: nil) }
            context.eventLoop.assumeIsolated().scheduleTask(in: Self.farewell) { [self] in
                self.context?.close(promise: nil)
            }
        }
    }

    private func write(_ error: HTTPError, isHead: Bool, _ context: ChannelHandlerContext) {
        let body = error.body
        var headers = HTTPHeaders([
            ("Content-Type", "application/json"), ("Cache-Control", "no-store"),
            ("Content-Length", "\(body.count)"), ("Connection", "close"),
        ])
        for field in error.fields { headers.add(name: field.name.rawName, value: field.value) }
        Self.addDate(to: &headers)
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: error.status),
            headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !isHead {
            let part = ByteBuffer(bytes: body)
            context.write(wrapOutboundOut(.body(.byteBuffer(part))), promise: nil)
        }
        context.flush()
        connections.countAnswer(error.status)
    }

    // MARK: - How long it may take

    /// When what comes must be there; nil where nothing is owed.
    private var deadline: NIODeadline? {
        guard !isEnded else { return nil }
        if isReceiving {
            let seconds = Int64(bodyBytes / Self.leastRate)
            return begun + connections.limits.body + .seconds(seconds)
        }
        return isBetween || isEnding ? nil : begun + connections.limits.header
    }

    private func watch() {
        // One that is set for earlier looks again when it goes off.
        guard let context, let deadline, alarm.map({ deadline < $0.deadline }) ?? true else {
            return
        }
        alarm?.task.cancel()
        let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
            alarm = nil
            guard let deadline = self.deadline else { return }
            guard deadline <= .now() else { return watch() }
            cutOff()
        }
        alarm = (task, deadline)
    }

    private func cutOff() {
        let isBody = isReceiving
        connections.noteEnding(isBody ? .body : .header)
        // A client that has sent nothing gets no answer.
        guard hasBytes else {
            context?.close(promise: nil)
            return
        }
        refuse(
            HTTPError(
                408, "requestTimeout",
                "The \(isBody ? "body" : "header") of the request did not come in time."),
            isHead: false)
    }
}

/// Tells of bytes before the parser takes them, and drops what it will not take.
final class HTTPByteWatch: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let handler: HTTPConnectionHandler

    init(_ handler: HTTPConnectionHandler) { self.handler = handler }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard handler.takesBytes else { return }
        handler.received(unwrapInboundIn(data).readableBytesView)
        context.fireChannelRead(data)
    }
}
