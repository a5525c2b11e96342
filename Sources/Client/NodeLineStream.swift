// An answer that comes line by line: server-sent events, newline-delimited JSON.
//
// Threading: the stream may be read by one task; its channel lives on an event loop. Memory is
// bounded: where the reader is slow, the socket is not read.

internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// The lines of an answer, without their ends; to be read once.
public struct NodeLineStream: AsyncSequence, Sendable {
    /// A line, without its end.
    public typealias Element = String
    /// The errors that reading may throw: ``ClientError`` with `connectionReset` if the stream was
    /// cut off.
    public typealias Failure = any Error

    typealias Producer = NIOThrowingAsyncSequenceProducer<
        String, any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark,
        LineStreamDelegate
    >

    /// The status of the answer. The lines of an answer that is no success are its error.
    public let status: Int
    /// The head of the answer.
    public let headers: [(String, String)]
    private let producer: Producer

    init(status: Int, headers: [(String, String)], producer: Producer) {
        self.status = status
        self.headers = headers
        self.producer = producer
    }

    /// Reads the lines; may be called once.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(inner: producer.makeAsyncIterator())
    }

    /// Reads the lines one by one.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let inner: Producer.AsyncIterator

        /// The next line, or nil at the end of a whole stream.
        ///
        /// - Throws: ``ClientError`` where the stream was cut off, fell silent or is malformed.
        public mutating func next() async throws -> String? { try await inner.next() }
    }

    static func open(
        head: HTTPRequestHead, body: [UInt8]?, target: NodeAddress, security: ClientTLS?,
        limits: NodeClient.Limits, idleTimeout: Duration?, loop: any EventLoop
    ) async throws -> Self {
        let promise = loop.makePromise(of: NodeLineStream.self)
        let alarm = loop.scheduleTask(in: TimeAmount(limits.requestTimeout)) {
            promise.fail(ClientFailure.late(target))
        }
        defer { alarm.cancel() }
        let connecting = ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(limits.connectTimeout))
            .channelOption(.autoRead, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let splitter = LineSplitter(
                        promise, target: target, limit: limits.lineBytes,
                        idleTimeout: idleTimeout.map { TimeAmount($0) })
                    try security?.begin(channel)
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    try channel.pipeline.syncOperations.addHandler(splitter)
                }
            }
            .connect(host: target.host, port: Int(target.port))
        connecting.whenComplete { result in
            switch result {
            case .success(let channel):
                NodeConnection.write(head, body, to: channel)
                channel.read()
                // A caller that gave up waiting for the head also gives up the connection.
                promise.futureResult.whenFailure { _ in channel.close(promise: nil) }
            case .failure(let error):
                promise.fail(ClientFailure.connecting(to: target, error))
            }
        }
        return try await withTaskCancellationHandler {
            try await promise.futureResult.get()
        } onCancel: {
            promise.fail(ClientError(.cancelled, "The request was withdrawn"))
        }
    }
}

/// Lets the reader of a stream govern the reading of its socket.
struct LineStreamDelegate: NIOAsyncSequenceProducerDelegate {
    let channel: any Channel
    let splitter: NIOLoopBound<LineSplitter>

    func produceMore() {
        channel.eventLoop.execute {
            splitter.value.wantsMore = true
            channel.read()
        }
    }

    func didTerminate() { channel.close(promise: nil) }
}

/// Splits the body of an answer into lines that end with LF or CR LF.
final class LineSplitter: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    fileprivate(set) var wantsMore = true
    private var source: NodeLineStream.Producer.Source?
    private var rest: [UInt8] = []
    private var lastHeard = NIODeadline.now()
    private let promise: EventLoopPromise<NodeLineStream>
    private let target: NodeAddress
    private let limit: Int
    private let idleTimeout: TimeAmount?

    init(
        _ promise: EventLoopPromise<NodeLineStream>, target: NodeAddress, limit: Int,
        idleTimeout: TimeAmount?
    ) {
        self.promise = promise
        self.target = target
        self.limit = limit
        self.idleTimeout = idleTimeout
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        lastHeard = .now()
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard head.status.code >= 200 else { return }
            begin(head, context)
        case .body(let part):
            take(part, context)
        case .end:
            if !rest.isEmpty { yield([String(decoding: rest, as: UTF8.self)]) }
            rest = []
            source?.finish()
            source = nil
            context.close(promise: nil)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if wantsMore { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { end(error, context) }

    func channelInactive(context: ChannelHandlerContext) { end(nil, context) }

    private func begin(_ head: HTTPResponseHead, _ context: ChannelHandlerContext) {
        // Few lines: each may be long, and the socket's own buffer keeps the flow even.
        let sequence = NodeLineStream.Producer.makeSequence(
            backPressureStrategy: .init(lowWatermark: 16, highWatermark: 64),
            finishOnDeinit: true,
            delegate: LineStreamDelegate(
                channel: context.channel, splitter: NIOLoopBound(self, eventLoop: context.eventLoop)
            ))
        source = sequence.source
        promise.succeed(
            NodeLineStream(
                status: Int(head.status.code), headers: head.headers.map { ($0.name, $0.value) },
                producer: sequence.sequence))
        if let idleTimeout { watch(idleTimeout, context) }
    }

    private func take(_ part: ByteBuffer, _ context: ChannelHandlerContext) {
        var lines: [String] = []
        var bytes = part.readableBytesView[...]
        while let end = bytes.firstIndex(of: 0x0A) {
            rest.append(contentsOf: bytes[..<end])
            if rest.last == 0x0D { rest.removeLast() }
            lines.append(String(decoding: rest, as: UTF8.self))
            rest.removeAll(keepingCapacity: true)
            bytes = bytes[(end + 1)...]
        }
        rest.append(contentsOf: bytes)
        yield(lines)
        guard rest.count > limit else { return }
        end(
            ClientFailure.malformed(target, "has a line over \(limit) bytes", nil), context)
    }

    private func yield(_ lines: [String]) {
        guard !lines.isEmpty, let source else { return }
        switch source.yield(contentsOf: lines) {
        case .produceMore: wantsMore = true
        case .stopProducing, .dropped: wantsMore = false
        }
    }

    private func end(_ error: (any Error)?, _ context: ChannelHandlerContext) {
        let failure = ClientFailure.open(target, error)
        if let source { source.finish(failure) } else { promise.fail(failure) }
        source = nil
        context.close(promise: nil)
    }

    /// Ends a stream that has been silent for too long while its reader was waiting.
    private func watch(_ timeout: TimeAmount, _ context: ChannelHandlerContext) {
        let next = wantsMore ? lastHeard + timeout : .now() + timeout
        context.eventLoop.assumeIsolated().scheduleTask(deadline: next) { [self] in
            guard source != nil else { return }
            guard wantsMore, .now() >= lastHeard + timeout else { return watch(timeout, context) }
            end(ClientFailure.late(target), context)
        }
    }
}
