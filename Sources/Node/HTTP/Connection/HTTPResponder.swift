// One request to one answer: checks the token, reads the body within its bound, writes the answer.

internal import Coordinator
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// Answers requests. A value; usable from any task.
struct HTTPResponder: Sendable {
    let router: HTTPRouter
    /// Which pages it answers, and under which names.
    let policy: OriginPolicy
    /// The clients of the connections.
    let clients: ConnectedClients
    /// The tokens of now; they may be others at the next request.
    private let access: @Sendable () -> HTTPAccess

    enum Limits {
        /// How much more than its bound a body is read, and thrown away, so that the client gets
        /// to the answer. A longer one is cut off.
        static let excess = 64 << 20
        /// The longest body of a request that needs no token, in bytes.
        static let openBody = 64 << 10
        /// The longest address in bytes: of what clients put there tokens are the longest, some 20 bytes for
        /// each incarnation. The parser below takes 80 KiB for the address and all fields.
        static let target = 64 << 10
        /// The longest body of a request that is handled in the event loop, in bytes: reading its JSON
        /// keeps other connections waiting.
        static let bodyInLoop = 32 << 10
    }

    /// The connection must end, because its next bytes are still those of this request.
    private struct BodyNotRead: Error {}

    private static let acceptPost: HTTPField.Name? = HTTPField.Name("Accept-Post")
    private static let lastEventID: HTTPField.Name? = HTTPField.Name("Last-Event-ID")

    init(
        router: HTTPRouter, policy: OriginPolicy, clients: ConnectedClients,
        access: @escaping @Sendable () -> HTTPAccess
    ) {
        self.router = router
        self.policy = policy
        self.clients = clients
        self.access = access
    }

    func respond(
        to request: Request, _ writer: consuming ResponseWriter, over channel: any Channel
    ) async throws {
        var isBodyRead = true
        var answer: HTTPAnswer
        var headers = HTTPFields()
        var origin = ReadOrigin(
            client: clients.client(of: channel), text: Self.text(of: request))
        do {
            let page = try checkSource(of: request)
            policy.addFields(to: &headers, allowing: page)
            if page != nil, request.method == .options {
                answer = Self.preflight(&headers)
            } else if request.method == .options {
                answer = try options(request, &headers)
            } else {
                answer = try await self.answer(request, writer, &origin, isBodyRead: &isBodyRead)
            }
        } catch let error as ClientGone {
            throw error
        } catch {
            let format = answerFormat(of: request)
            let failure = await router.services.answer(to: error, as: format)
            for field in failure.fields { headers[field.name] = field.value }
            answer = HTTPAnswer(
                status: failure.status, contentType: format.mediaType,
                body: .whole(failure.body(as: format)))
            router.services.note(
                error, answered: failure, method: request.method.rawValue,
                target: request.head.path ?? "")
        }
        try budget(&answer, isOptional: false)
        if answer.status != 204 { headers[.contentType] = answer.contentType }
        headers[.cacheControl] = "no-store"
        for field in answer.fields { headers[field.name] = field.value }
        router.services.backend.countRequest(status: answer.status)
        if answer.status == 401 { headers[.wwwAuthenticate] = "Bearer" }
        if !isBodyRead { headers[.connection] = "close" }
        try await write(
            answer, headers, writer, channel, origin, method: request.method.rawValue,
            target: request.head.path ?? "")
        if !isBodyRead { throw BodyNotRead() }
    }

    /// The text that status shows of a request that reads.
    private static func text(of request: Request) -> String {
        "\(request.method.rawValue) \((request.head.path ?? "").prefix { $0 != "?" }.prefix(200))"
    }

    private func write(
        _ answer: HTTPAnswer, _ fields: HTTPFields, _ writer: consuming ResponseWriter,
        _ channel: any Channel, _ origin: ReadOrigin, method: String, target: String
    ) async throws {
        var fields = fields
        let status = HTTPResponse.Status(code: answer.status)
        switch answer.body {
        case .whole(let bytes):
            // Of a 304 it would be the length of what is not sent.
            if answer.status != 304 { fields[.contentLength] = String(bytes.count) }
            let write = begin(writingTo: channel)
            defer { router.services.writes.end(write) }
            try await writer.write(
                response: HTTPResponse(status: status, headerFields: fields),
                body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
        case .budgeted(let bytes):
            fields[.contentLength] = String(bytes.count)
            let body = try await writeHead(
                HTTPResponse(status: status, headerFields: fields), writer, channel)
            try await send({ try await bytes.send($0) }, body, channel, isLarge: true)
        case .stream(let stream):
            let body = try await writeHead(
                HTTPResponse(status: status, headerFields: fields), writer, channel)
            // The connection lets no body through after HEAD; this one need not be made either.
            let isHead = method == "HEAD"
            let noted = noted(
                { if !isHead { try await stream($0) } }, method: method, target: target)
            try await ReadOrigin.$current.withValue(origin) {
                try await withTaskExecutorPreference(globalConcurrentExecutor) {
                    try await send(noted, body, channel, isLarge: false)
                }
            }
        }
    }

    private func writeHead(
        _ head: HTTPResponse, _ writer: consuming ResponseWriter, _ channel: any Channel
    ) async throws -> some ResponseBodyWriter {
        let write = begin(writingTo: channel)
        defer { router.services.writes.end(write) }
        return try await writer.writeHead(head)
    }

    /// A client that takes nothing for too long is cut off: its answer is kept meanwhile, and with
    /// it the generation that it reads.
    private func begin(writingTo channel: any Channel, isLarge: Bool = false) -> Int {
        router.services.writes.begin(isOfLargeAnswer: isLarge) { channel.close(promise: nil) }
    }

    /// A stream that reports its failures to the node if they are the node's own: its answer has
    /// begun, so that the client only sees it cut off. A connection's errors are nobody's business.
    private func noted(
        _ send: @escaping @Sendable (HTTPAnswer.Write) async throws -> Void, method: String,
        target: String
    ) -> @Sendable (HTTPAnswer.Write) async throws -> Void {
        let services = router.services
        return { write in
            do {
                try await send(write)
            } catch let error as CoordinatorError {
                services.note(
                    error, answered: HTTPError(describing: error, renderer: services.renderer),
                    method: method, target: target)
                throw error
            }
        }
    }

    private func send(
        _ send: @Sendable (HTTPAnswer.Write) async throws -> Void,
        _ body: some ResponseBodyWriter, _ channel: any Channel, isLarge: Bool
    ) async throws {
        var writer = body
        let writes = router.services.writes
        try await send { part in
            let write = begin(writingTo: channel, isLarge: isLarge)
            defer { writes.end(write) }
            try await writer.write(part)
            // Only the event loop knows whether the client makes room. Where it gets no turn for a while,
            // as on a busy machine, all of the answer would be handed to it meanwhile.
            try await channel.eventLoop.submit {}.get()
        }
        try await writer.finish(nil)
    }

    /// Refuses requests of foreign pages, and on a node that asks for no token those under foreign
    /// names too.
    ///
    /// - Returns: the origin of a page that may ask; nil for the node's own pages and for programs.
    private func checkSource(of request: Request) throws(HTTPError) -> String? {
        let authority = request.head.authority
        if access().isOpen { try policy.check(authority: authority) }
        return try policy.allowedOrigin(request.headers[.origin], authority: authority)
    }

    /// The answer to what a browser asks before a page's request.
    private static func preflight(_ headers: inout HTTPFields) -> HTTPAnswer {
        for (name, value) in OriginPolicy.preflight { headers[name] = value }
        return HTTPAnswer(status: 204, body: .whole([]))
    }

    /// The form of an error: CBOR if the client wants it and the route has it, whatever the method.
    private func answerFormat(of request: Request) -> BodyFormat {
        let accepted = AcceptedFormats(request.headers[.accept])
        guard accepted.format == .cbor, let target = request.head.path,
            let segments = try? RequestTarget.parse(target).segments,
            router.endpoints(segments).contains(where: \.takesCBOR)
        else { return .json }
        return .cbor
    }

    /// The answer to `OPTIONS`: what is possible at an address, as a 405 there says; `*` is this node.
    private func options(_ request: Request, _ headers: inout HTTPFields) throws -> HTTPAnswer {
        let target = request.head.path ?? ""
        guard target != "*" else {
            headers[.allow] = HTTPRouter.everything
            return HTTPAnswer(status: 204, body: .whole([]))
        }
        let options = try router.options(
            RequestTarget.parse(target).segments, access: access(),
            field: request.headers[.authorization])
        headers[.allow] = options.allow
        if let name = Self.acceptPost { headers[name] = options.acceptPost }
        return HTTPAnswer(status: 204, body: .whole([]))
    }

    private func answer(
        _ request: Request, _ writer: borrowing ResponseWriter, _ origin: inout ReadOrigin,
        isBodyRead: inout Bool
    ) async throws -> HTTPAnswer {
        let limit = router.services.maximumBodyBytes
        let announced = request.headers[.contentLength].flatMap { Int($0) } ?? 0
        if announced > limit + Limits.excess
            || (announced > limit && request.headers[.expect] != nil)
        {
            isBodyRead = false
            throw Self.tooLarge(limit)
        }
        let target = request.head.path ?? ""
        guard target.utf8.count <= Limits.target else {
            throw HTTPError.addressTooLong
        }
        let (segments, query) = try RequestTarget.parse(target)
        let endpoint = try router.endpoint(
            request.method.rawValue, segments, access: access(),
            field: request.headers[.authorization])
        // A client that needs no token may not have the node keep much either.
        let own = endpoint.scope == nil ? min(limit, Limits.openBody) : limit
        var parts = HTTPRequestParts(segments: segments, query: query, body: [])
        let accepted = AcceptedFormats(request.headers[.accept])
        if endpoint.takesCBOR { parts.answerFormat = accepted.format }
        if accepted.isOnlyCBOR, !endpoint.takesCBOR { throw HTTPError.onlyJSON }
        let takesCBOR = endpoint.takesCBOR
        if announced > 0 {
            parts.format = try RequestContent.check(request.headers, takesCBOR: takesCBOR)
        }
        do {
            if request.headers[.expect] != nil {
                try await writer.writeInformationalHead(HTTPResponse(status: .continue))
            }
            parts.body = try await body(of: request, announced: announced, limit: own)
        } catch let error as BodyNotRead {
            _ = error
            isBodyRead = false
            throw Self.tooLarge(own)
        } catch let error as HTTPError {
            throw error
        } catch {
            // The connection, and not the node, has failed. If somebody is left to hear of it,
            // HTTPConnectionHandler says so.
            throw ClientGone()
        }
        if !parts.body.isEmpty {
            parts.format = try RequestContent.check(request.headers, takesCBOR: takesCBOR)
        }
        if let parameters = endpoint.parameters { try parts.allowParameters(parameters) }
        parts.wantsLines = request.headers[.accept]?.contains("application/x-ndjson") ?? false
        let (access, field) = (access, request.headers[.authorization])
        parts.isStillAllowed = {
            endpoint.scope == nil
                || (try? access().check(field: field, needs: endpoint.scope)) != nil
        }
        parts.lastEventID = Self.lastEventID.flatMap { request.headers[$0] }
        parts.knownVersion = request.headers[.ifNoneMatch]
        origin.isBrief = endpoint.isBrief
        var answer = try await ReadOrigin.$current.withValue(origin) {
            if endpoint.isInLoop, parts.body.count <= Limits.bodyInLoop {
                return try await endpoint.handler(parts)
            }
            return try await withTaskExecutorPreference(globalConcurrentExecutor) {
                try await endpoint.handler(parts)
            }
        }
        try budget(&answer, isOptional: !endpoint.isBrief)
        return answer
    }

    /// Sees that a long answer is in the budget of all.
    private func budget(_ answer: inout HTTPAnswer, isOptional: Bool) throws(HTTPError) {
        guard case .whole(let bytes) = answer.body, bytes.count > AnswerWriter.small else { return }
        let budgeted = BudgetedAnswer(router.services.answers)
        try budgeted.append(bytes, isOptional: isOptional)
        answer.body = .budgeted(budgeted)
    }

    /// The whole body; never keeps more than the limit.
    private func body(
        of request: Request, announced: Int, limit: Int
    ) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(announced, limit))
        var count = 0
        for try await buffer in request.body {
            count += buffer.readableBytes
            if count <= limit {
                bytes.append(contentsOf: buffer.readableBytesView)
            } else {
                bytes = []
                if count > limit + Limits.excess { throw BodyNotRead() }
            }
        }
        guard count <= limit else { throw Self.tooLarge(limit) }
        return bytes
    }

    private static func tooLarge(_ limit: Int) -> HTTPError {
        HTTPError(
            413, "bodyTooLarge", "The body has more than \(limit) bytes; send it in parts.",
            details: ["limit": .integer(Int64(limit))])
    }
}
