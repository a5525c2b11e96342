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
    /// The tokens of now; they may be others at the next request.
    private let access: @Sendable () -> HTTPAccess

    enum Limits {
        /// How much more than its bound a body is read, and thrown away, so that the client gets
        /// to the answer. A longer one is cut off.
        static let excess = 64 << 20
        /// The longest address in bytes: of what clients put there tokens are the longest, some 20 bytes for
        /// each incarnation. The parser below takes 80 KiB for the address and all fields.
        static let target = 64 << 10
    }

    /// Answers longer than this are written in parts of it, each once the client has taken most of
    /// what was before: so that a slow one is not taken for idle, and a stalled one is known.
    private static let part = 64 << 10
    /// How long a client may take to make room for a part before it is cut off: what it was to be
    /// told is kept meanwhile, and with it the generation that it reads.
    private static let patience = TimeAmount.seconds(120)

    /// The connection must end, for its next bytes are still those of this request.
    private struct BodyNotRead: Error {}

    private static let lastEventID: HTTPField.Name? = HTTPField.Name("Last-Event-ID")

    init(
        router: HTTPRouter, policy: OriginPolicy, access: @escaping @Sendable () -> HTTPAccess
    ) {
        self.router = router
        self.policy = policy
        self.access = access
    }

    func respond(
        to request: Request, _ writer: consuming ResponseWriter, over channel: any Channel
    ) async throws {
        var isBodyRead = true
        let answer: HTTPAnswer
        var headers = HTTPFields()
        do {
            let origin = try checkSource(of: request)
            policy.addFields(to: &headers, allowing: origin)
            if origin != nil, request.method == .options {
                answer = Self.preflight(&headers)
            } else if request.method == .options {
                answer = try options(request, &headers)
            } else {
                answer = try await self.answer(request, writer, isBodyRead: &isBodyRead)
            }
        } catch {
            let failure = await router.services.answer(to: error)
            for field in failure.fields { headers[field.name] = field.value }
            answer = HTTPAnswer(status: failure.status, body: .whole(failure.body))
            router.services.note(
                error, answered: failure, method: request.method.rawValue,
                target: request.head.path ?? "")
        }
        if answer.status != 204 { headers[.contentType] = answer.contentType }
        headers[.cacheControl] = "no-store"
        router.services.backend.countRequest(status: answer.status)
        if answer.status == 401 { headers[.wwwAuthenticate] = "Bearer" }
        if !isBodyRead { headers[.connection] = "close" }
        let status = HTTPResponse.Status(code: answer.status)
        switch answer.body {
        case .whole(let bytes):
            headers[.contentLength] = String(bytes.count)
            let head = HTTPResponse(status: status, headerFields: headers)
            guard bytes.count > Self.part else {
                try await writer.write(
                    response: head, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
                break
            }
            let send: @Sendable (HTTPAnswer.Write) async throws -> Void = { write in
                for first in stride(from: 0, to: bytes.count, by: Self.part) {
                    let part = bytes[first..<min(first + Self.part, bytes.count)]
                    try await write(ByteBuffer(bytes: part))
                }
            }
            try await Self.send(send, try await writer.writeHead(head), channel)
        case .stream(let stream):
            // The connection lets no body through after HEAD; this one need not be made either.
            let isHead = request.method == .head
            let send: @Sendable (HTTPAnswer.Write) async throws -> Void = { write in
                if !isHead { try await stream(write) }
            }
            let body = try await writer.writeHead(
                HTTPResponse(status: status, headerFields: headers))
            try await Self.send(
                noted(send, method: request.method.rawValue, target: request.head.path ?? ""), body,
                channel)
        }
        if !isBodyRead { throw BodyNotRead() }
    }

    /// A stream of whose failures the node is told, where they are its own: its answer has begun,
    /// so that the client sees it cut off only. What a connection throws is nobody's business.
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

    private static func send(
        _ send: @Sendable (HTTPAnswer.Write) async throws -> Void,
        _ body: consuming some ResponseBodyWriter, _ channel: any Channel
    ) async throws {
        var writer = body
        try await send { part in
            let cutOff = channel.eventLoop.scheduleTask(in: patience) {
                channel.close(promise: nil)
            }
            defer { cutOff.cancel() }
            try await writer.write(part)
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

    /// The answer to `OPTIONS`: what is possible at an address, as a 405 there says; `*` is this node.
    private func options(_ request: Request, _ headers: inout HTTPFields) throws -> HTTPAnswer {
        let target = request.head.path ?? ""
        let isNode = target == "*"
        headers[.allow] =
            isNode
            ? HTTPRouter.everything
            : try router.allowed(
                RequestTarget.parse(target).segments, access: access(),
                field: request.headers[.authorization])
        return HTTPAnswer(status: 204, body: .whole([]))
    }

    private func answer(
        _ request: Request, _ writer: borrowing ResponseWriter, isBodyRead: inout Bool
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
        var parts = HTTPRequestParts(segments: segments, query: query, body: [])
        if announced > 0 { try RequestContent.check(request.headers) }
        do {
            if request.headers[.expect] != nil {
                try await writer.writeInformationalHead(HTTPResponse(status: .continue))
            }
            parts.body = try await body(of: request, announced: announced, limit: limit)
        } catch let error as BodyNotRead {
            _ = error
            isBodyRead = false
            throw Self.tooLarge(limit)
        } catch let error as HTTPError {
            throw error
        } catch {
            // The connection, and not the node, has failed: nobody is there to read an answer.
            isBodyRead = false
            throw HTTPError.malformed("The body ended before it was whole: \(type(of: error)).")
        }
        if !parts.body.isEmpty { try RequestContent.check(request.headers) }
        if let parameters = endpoint.parameters { try parts.allowParameters(parameters) }
        parts.wantsLines = request.headers[.accept]?.contains("application/x-ndjson") ?? false
        let (access, field) = (access, request.headers[.authorization])
        parts.isStillAllowed = {
            endpoint.scope == nil
                || (try? access().check(field: field, needs: endpoint.scope)) != nil
        }
        parts.lastEventID = Self.lastEventID.flatMap { request.headers[$0] }
        return try await endpoint.handler(parts)
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
