// A small HTTP/1.1 client for talking to a node: the command line, tests and benchmarks use it.
//
// Threading: may be used from any task. One client keeps one connection alive, on which requests
// go one after the other; who wants several at once makes several clients. All state lives on the
// connection's event loop (NodeConnection.swift).

internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// A client of one node, with one connection that is kept alive.
public final class NodeClient: Sendable {
    /// The whole answer to a request.
    public typealias Response = (status: Int, headers: [(String, String)], body: [UInt8])

    /// The bounds of a client.
    public struct Limits: Hashable, Sendable {
        /// How long connecting may take; by default 5 seconds.
        public var connectTimeout: Duration = .seconds(5)
        /// How long a request may take from its sending to the end of its answer; by default 30
        /// seconds.
        public var requestTimeout: Duration = .seconds(30)
        /// The greatest body of an answer in bytes; by default 256 MiB.
        public var responseBytes = 256 << 20
        /// The longest line of a stream in bytes; by default 64 MiB, as one object may hold files.
        public var lineBytes = 64 << 20
        /// How many requests may wait for the connection; by default 1,024. More are refused.
        public var waitingRequests = 1024

        /// The defaults.
        public init() {}
    }

    let target: NodeAddress
    let security: ClientTLS?
    let limits: Limits
    let fixedHeaders: [(String, String)]
    private let eventLoop: any EventLoop
    private let connection: NIOLoopBoundBox<NodeConnection>

    /// Makes a client; it connects with its first request.
    ///
    /// - Parameters:
    ///   - url: the node's base, such as `http://127.0.0.1:7100` or `https://n1.example:7100`.
    ///   - token: what to bear in `Authorization`; nil for none.
    ///   - trust: which certificates are believed of an `https` URL.
    ///   - limits: the bounds.
    /// - Throws: ``ClientError`` with `requestInvalid` where the URL is something else, or
    ///   where the roots of trust cannot be read.
    public convenience init(
        url: String, token: String? = nil, trust: TLSTrust = .system, limits: Limits = Limits()
    ) throws(ClientError) {
        let target = try NodeAddress(url: url)
        self.init(
            target: target,
            security: target.isSecure ? try ClientTLS(trust, host: target.host) : nil,
            token: token, limits: limits)
    }

    private init(target: NodeAddress, security: ClientTLS?, token: String?, limits: Limits) {
        self.target = target
        self.security = security
        self.limits = limits
        var headers = [("Host", target.description)]
        if let token { headers.append(("Authorization", "Bearer \(token)")) }
        fixedHeaders = headers
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        eventLoop = loop
        connection = .makeBoxSendingValue(
            NodeConnection(loop: loop, target: target, security: security, limits: limits),
            eventLoop: loop)
    }

    deinit {
        let connection = connection
        eventLoop.execute { connection.value.close() }
    }

    /// Makes a request and gives the whole answer, whatever its status.
    ///
    /// A GET that meets a connection which the node had just closed is made once more; nothing else
    /// is ever repeated, since the node may have done it.
    ///
    /// - Parameters:
    ///   - method: such as "GET".
    ///   - path: begins with "/"; with its query, percent-encoded.
    ///   - body: sent with its length; nil for none.
    ///   - headers: beside `Host`, `Content-Length` and the token. A body is JSON where they do not
    ///     say otherwise.
    ///   - timeout: how long it may take; nil for the client's limit.
    /// - Throws: ``ClientError``: `connectionRefused`, `connectionReset`, `timedOut`,
    ///   `hostUnreachable`, `notTrusted`, `responseMalformed`, `clientUnavailable` or `cancelled`.
    public func request(
        _ method: String, _ path: String, body: [UInt8]? = nil,
        headers: [(String, String)] = [], timeout: Duration? = nil
    ) async throws -> Response {
        let request = try head(method, path, body, headers)
        let promise = eventLoop.makePromise(of: Response.self)
        let connection = connection
        let deadline = NIODeadline.now() + TimeAmount(timeout ?? limits.requestTimeout)
        let bound = NIOLoopBoundBox.makeBoxSendingValue(
            PendingRequest(head: request, body: body, deadline: deadline, promise: promise),
            eventLoop: eventLoop)
        return try await withTaskCancellationHandler {
            eventLoop.execute { connection.value.add(bound.value) }
            return try await promise.futureResult.get()
        } onCancel: {
            eventLoop.execute { connection.value.cancel(bound.value) }
        }
    }

    /// Makes a request with a body in CBOR (RFC 8949), and makes it again with JSON if the node
    /// refuses CBOR.
    ///
    /// A node answers 415 on a route that takes no CBOR, and has done nothing then. Where `headers`
    /// accept nothing but CBOR, it answers 406 there, which is returned. Saves and fetches take it. Their answers are CBOR too, unless `headers` has another `Accept`; the
    /// field `Content-Type` of the answer says which it is.
    ///
    /// - Parameters:
    ///   - method: such as "POST".
    ///   - path: begins with "/"; with its query, percent-encoded.
    ///   - cbor: the body.
    ///   - json: gives the same body as JSON; called only if it is needed.
    ///   - headers: beside `Host`, `Content-Length`, `Content-Type` and the token.
    ///   - timeout: how long each of the two requests may take; nil for the client's limit.
    /// - Throws: ``ClientError``, as ``request(_:_:body:headers:timeout:)`` does, and what `json`
    ///   throws.
    public func request(
        _ method: String, _ path: String, cbor: [UInt8], orJSON json: () throws -> [UInt8],
        headers: [(String, String)] = [], timeout: Duration? = nil
    ) async throws -> Response {
        var fields = headers
        if !fields.contains(where: { $0.0.lowercased() == "accept" }) {
            fields.append(("Accept", "application/cbor, application/json"))
        }
        let answer = try await request(
            method, path, body: cbor, headers: fields + [("Content-Type", "application/cbor")],
            timeout: timeout)
        guard answer.status == 415 else { return answer }
        return try await request(
            method, path, body: try json(),
            headers: fields + [("Content-Type", "application/json")], timeout: timeout)
    }

    /// Makes a request whose answer is a stream of lines, on a connection of its own.
    ///
    /// For server-sent events and newline-delimited JSON. The connection ends with the stream.
    ///
    /// - Parameters:
    ///   - method: such as "GET".
    ///   - path: begins with "/"; with its query, percent-encoded.
    ///   - body: sent with its length; nil for none.
    ///   - headers: beside `Host`, `Content-Length` and the token. A body is JSON where they do not
    ///     say otherwise.
    ///   - idleTimeout: how long the node may be silent; nil for as long as it likes, once the head
    ///     of its answer has come.
    /// - Throws: ``ClientError``, as ``request(_:_:body:headers:timeout:)`` does.
    public func stream(
        _ method: String, _ path: String, body: [UInt8]? = nil,
        headers: [(String, String)] = [], idleTimeout: Duration? = nil
    ) async throws -> NodeLineStream {
        try await NodeLineStream.open(
            head: try head(method, path, body, headers), body: body, target: target,
            security: security, limits: limits, idleTimeout: idleTimeout, loop: eventLoop)
    }

    /// Closes the connection; requests under way fail, and later ones are refused.
    public func close() async {
        let connection = connection
        try? await eventLoop.submit { connection.value.close() }.get()
    }
}
