// From method and path to a resource, and to the scope that a token must have for it.
//
// The lists of endpoints here are the one place that says which scope each needs, and which
// parameters it takes; an endpoint without a scope does not compile.

internal import Coordinator
internal import HTTPTypes

/// The resources by their addresses.
struct HTTPRouter: Sendable {
    typealias Handler = @Sendable (HTTPRequestParts) async throws -> HTTPAnswer

    /// The endpoint of an address for one method.
    struct Endpoint: Sendable {
        let method: String
        /// The scope that a token must have; nil if none is needed: supervisors have none.
        let scope: HTTPScope?
        /// The parameters that it takes; nil where it does not mind others.
        var parameters: [String]? = []
        /// Whether what it reads is short by its nature, so that it waits for no other read, and its
        /// answer is never refused for its length. What writes is so: it may have been done.
        var isBrief = false
        /// Whether a short request is handled in the event loop of its connection. What it reads is read,
        /// and rendered, on a thread for reading.
        var isInLoop = false
        /// Whether bodies and answers may be CBOR.
        var takesCBOR = false
        let handler: Handler
    }

    let services: HTTPServices
    private let saves: SaveResource
    private let undoing: UndoResource
    private let batches: BatchResource
    private let fetches: FetchResource
    private let objects: ObjectsResource
    private let explanations: ExplainResource
    private let generations: GenerationsResource
    private let history: HistoryResource
    private let changes: ChangesResource
    private let consumers: ConsumersResource
    private let orphans: OrphansResource
    private let conflicts: ConflictsResource
    private let verification: VerifyResource
    private let status: StatusResource
    private let advice: AdviceResource
    private let model: ModelResource
    private let health: HealthResource
    private let reloading: ReloadResource
    private let backups: BackupResource
    private let membership: MembersResource

    init(services: HTTPServices) {
        self.services = services
        saves = SaveResource(services: services)
        undoing = UndoResource(services: services)
        batches = BatchResource(services: services)
        fetches = FetchResource(services: services)
        objects = ObjectsResource(services: services)
        explanations = ExplainResource(services: services)
        generations = GenerationsResource(services: services)
        history = HistoryResource(services: services)
        changes = ChangesResource(services: services)
        consumers = ConsumersResource(services: services)
        orphans = OrphansResource(services: services)
        conflicts = ConflictsResource(services: services)
        verification = VerifyResource(services: services)
        status = StatusResource(services: services)
        advice = AdviceResource(services: services)
        model = ModelResource(services: services)
        health = HealthResource(services: services)
        reloading = ReloadResource(services: services)
        backups = BackupResource(services: services)
        membership = MembersResource(services: services)
    }

    /// The endpoint of a request, once its token is known to reach for it.
    ///
    /// - Parameters:
    ///   - segments: the parts of the path.
    ///   - access: the tokens.
    ///   - field: what the request bears in `Authorization`.
    /// - Throws: ``HTTPError``: 401 `unauthorized`, 403 `forbidden`, `notFound` and
    ///   `methodNotAllowed`. Without a token nobody learns what is there.
    func endpoint(
        _ method: String, _ segments: [String], access: HTTPAccess, field: String?
    ) throws(HTTPError) -> Endpoint {
        let endpoints = endpoints(segments)
        let endpoint = endpoints.first { $0.method == (method == "HEAD" ? "GET" : method) }
        if let endpoint, endpoint.scope == nil { return endpoint }
        try access.check(field: field, needs: endpoint?.scope)
        if let endpoint { return endpoint }
        guard HTTPMessageCheck.knownMethods.contains(method) else {
            throw HTTPMessageCheck.unknownMethod
        }
        guard !endpoints.isEmpty else { throw Self.notFound(segments) }
        let allowed = endpoints.map(\.method)
        var error = HTTPError(
            405, "methodNotAllowed",
            "\(method) is not possible here, only \(allowed.joined(separator: " and ")).")
        error.fields[.allow] = Self.list(endpoints)
        throw error
    }

    /// The methods of this node, at one address or another.
    static let everything = "GET, HEAD, POST, PUT, DELETE, OPTIONS"

    /// The methods of an address, and the types of bodies that a POST takes there; nil where there
    /// is none. Any token may ask for them.
    ///
    /// - Throws: ``HTTPError``: 401 `unauthorized` and 404 `notFound`.
    func options(
        _ segments: [String], access: HTTPAccess, field: String?
    ) throws(HTTPError) -> (allow: String, acceptPost: String?) {
        try access.check(field: field, needs: nil)
        let endpoints = endpoints(segments)
        guard !endpoints.isEmpty else { throw Self.notFound(segments) }
        let post = endpoints.first { $0.method == "POST" }
        return (
            Self.list(endpoints), post.map { RequestContent.accepted(takesCBOR: $0.takesCBOR) }
        )
    }

    private static func list(_ endpoints: [Endpoint]) -> String {
        let methods = endpoints.map { $0.method == "GET" ? "GET, HEAD" : $0.method }
        return methods.joined(separator: ", ") + ", OPTIONS"
    }

    private static func notFound(_ segments: [String]) -> HTTPError {
        HTTPError(404, "notFound", "There is nothing at /\(segments.joined(separator: "/")).")
    }

    func endpoints(_ segments: [String]) -> [Endpoint] {
        switch segments.count {
        case 1:
            switch segments[0] {
            case "": return page("index.html")
            // Supervisors and scrapers may be set up to add parameters of their own.
            case "healthz": return [Endpoint(open: "GET", nil) { _ in health.health() }]
            case "readyz": return [Endpoint(open: "GET", nil) { _ in try health.readiness() }]
            case "metrics":
                return [Endpoint(brief: "GET", nil) { _ in try await health.metrics() }]
            default: return []
            }
        case 2 where segments[0] == "inspector": return page(segments[1])
        case 2 where segments[0] == "v1": return collection(segments[1])
        case 3 where segments[0] == "v1": return member(segments[1], segments[2])
        case 4 where segments[0] == "v1":
            switch (segments[1], segments[3]) {
            case ("objects", _):
                let parameters = ["generation", "after", "versions", "timeoutSeconds", "at"]
                return [Endpoint("GET", .read, parameters) { try await objects.get($0) }.inLoop]
            case ("conflicts", "resolution"):
                return [Endpoint("POST", .write) { try await conflicts.resolve(segments[2], $0) }]
            case ("members", "departure"):
                return [
                    Endpoint("POST", .admin) { try await membership.depart(segments[2], $0) }
                ]
            case ("saves", "undo"):
                return [Endpoint("POST", .write) { try await undoing.post(segments[2], $0) }]
            case ("conflicts", "undo"):
                return [Endpoint("POST", .write) { try await conflicts.undo(segments[2], $0) }]
            default: return []
            }
        case 5 where segments[0] == "v1" && segments[1] == "objects":
            switch segments[4] {
            case "blame":
                return [
                    Endpoint("GET", .read, ["property", "lookback"]) {
                        try await explanations.blame($0)
                    }
                ]
            case "log":
                return [Endpoint("GET", .read, ["limit"]) { try await explanations.log($0) }]
            default: return []
            }
        default: return []
        }
    }

    /// A file of the inspector's page. It holds no data, so that anybody may have it.
    private func page(_ name: String) -> [Endpoint] {
        guard services.servesInspector, let file = InspectorPage.file(name) else { return [] }
        return [
            Endpoint(open: "GET", nil) { InspectorPage.answer(with: file, to: $0.knownVersion) }
        ]
    }

    private func collection(_ name: String) -> [Endpoint] {
        switch name {
        case "save":
            return [Endpoint("POST", .write) { try await saves.post($0) }.inLoop.withCBOR]
        case "batch": return [Endpoint("POST", .write) { try await batches.post($0) }]
        case "fetch":
            return [Endpoint("POST", .read) { try await fetches.post($0) }.inLoop.withCBOR]
        case "status": return [Endpoint(brief: "GET") { _ in try await status.get() }]
        case "model": return [Endpoint("GET", .read) { _ in model.get() }]
        case "advice": return [Endpoint("GET", .read) { _ in try await advice.get() }]
        case "generations": return [Endpoint(brief: "POST") { try await generations.post($0) }]
        case "history":
            return [
                Endpoint(
                    "GET", .read, ["after", "limit", "order", "before"] + HistoryResource.filters
                ) {
                    try await history.get($0)
                },
                Endpoint("DELETE", .admin, ["before"]) { try await history.delete($0) },
            ]
        case "changes":
            return [
                Endpoint("GET", .read, ["after"] + HistoryResource.filters) {
                    try await changes.get($0)
                }
            ]
        case "consumers": return [Endpoint("GET", .read) { _ in try await consumers.list() }]
        case "diff":
            return [
                Endpoint("GET", .read, ["from", "to", "entity", "limit", "after"]) {
                    try await explanations.difference($0)
                }
            ]
        case "discards": return [Endpoint("GET", .read) { _ in try await orphans.discards() }]
        case "orphans":
            return [Endpoint("GET", .read, ["after", "limit"]) { try await orphans.list($0) }]
        case "conflicts":
            let parameters = [
                "state", "entity", "object", "kind", "violation", "open", "after", "limit",
            ]
            return [Endpoint("GET", .read, parameters) { try await conflicts.list($0) }]
        case "verify": return [Endpoint("POST", .read) { try await verification.post($0) }]
        case "reload": return [Endpoint("POST", .admin) { try await reloading.post($0) }]
        case "backup": return [Endpoint("POST", .admin) { try await backups.post($0) }]
        case "members":
            return [
                Endpoint("GET", .read) { _ in try await membership.get() },
                Endpoint("POST", .admin) { try await membership.post($0) },
            ]
        default: return []
        }
    }

    private func member(_ name: String, _ key: String) -> [Endpoint] {
        switch name {
        case "saves": return [Endpoint(brief: "GET") { _ in try await saves.get(key) }]
        case "generations":
            return [Endpoint("DELETE", .read) { _ in try generations.delete(key) }]
        case "policies" where key == "try":
            return [Endpoint("POST", .read) { try await explanations.tryPolicy($0) }]
        case "conflicts" where key == "resolution":
            return [Endpoint("POST", .write) { try await conflicts.resolveMany($0) }]
        case "conflicts": return [Endpoint("GET", .read) { _ in try await conflicts.get(key) }]
        case "consumers":
            return [
                Endpoint("GET", .read) { _ in try await consumers.get(key) },
                Endpoint("PUT", .write) { try await consumers.put(key, $0) },
                Endpoint("DELETE", .write) { _ in try await consumers.delete(key) },
            ]
        case "orphans":
            return [
                Endpoint("GET", .read) { _ in try await orphans.get(key) },
                Endpoint("DELETE", .admin, ["author", "context", "note"]) {
                    try await orphans.delete(key, $0)
                },
            ]
        default: return []
        }
    }
}

extension HTTPRouter.Endpoint {
    /// The same, handled in the event loop where the request is short.
    fileprivate var inLoop: Self {
        var endpoint = self
        endpoint.isInLoop = true
        return endpoint
    }

    /// The same, with bodies and answers in CBOR too.
    fileprivate var withCBOR: Self {
        var endpoint = self
        endpoint.takesCBOR = true
        return endpoint
    }

    /// An endpoint that needs a token of at least that scope.
    init(
        _ method: String, _ scope: HTTPScope, _ parameters: [String]? = [],
        _ handler: @escaping HTTPRouter.Handler
    ) {
        self.init(
            method: method, scope: scope, parameters: parameters, isBrief: scope != .read,
            handler: handler)
    }

    /// An endpoint for which a token for reading is enough, and which reads little.
    init(
        brief method: String, _ parameters: [String]? = [],
        _ handler: @escaping HTTPRouter.Handler
    ) {
        self.init(
            method: method, scope: .read, parameters: parameters, isBrief: true, handler: handler)
    }

    /// An endpoint for anybody.
    init(
        open method: String, _ parameters: [String]? = [],
        _ handler: @escaping HTTPRouter.Handler
    ) {
        self.init(
            method: method, scope: nil, parameters: parameters, isBrief: true, handler: handler)
    }
}
