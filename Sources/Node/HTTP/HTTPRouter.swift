// From method and path to a resource.

internal import Coordinator

/// The resources by their addresses.
struct HTTPRouter: Sendable {
    typealias Handler = @Sendable (HTTPRequestParts) async throws -> HTTPAnswer

    let services: HTTPServices
    private let saves: SaveResource
    private let fetches: FetchResource
    private let objects: ObjectsResource
    private let generations: GenerationsResource
    private let history: HistoryResource
    private let changes: ChangesResource
    private let conflicts: ConflictsResource
    private let verification: VerifyResource
    private let status: StatusResource
    private let model: ModelResource
    private let health: HealthResource

    init(services: HTTPServices) {
        self.services = services
        saves = SaveResource(services: services)
        fetches = FetchResource(services: services)
        objects = ObjectsResource(services: services)
        generations = GenerationsResource(services: services)
        history = HistoryResource(services: services)
        changes = ChangesResource(services: services)
        conflicts = ConflictsResource(services: services)
        verification = VerifyResource(services: services)
        status = StatusResource(services: services)
        model = ModelResource(services: services)
        health = HealthResource(services: services)
    }

    /// Whether an address is answered to anyone, token or not: supervisors have none.
    static func isPublic(_ segments: [String]) -> Bool {
        segments == ["healthz"] || segments == ["readyz"]
    }

    /// Answers a request.
    ///
    /// - Throws: ``HTTPError``: `notFound` and `methodNotAllowed`, and whatever the resource does.
    func answer(_ method: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let handlers = handlers(request.segments)
        guard !handlers.isEmpty else {
            throw HTTPError(
                404, "notFound",
                "There is nothing at /\(request.segments.joined(separator: "/")).")
        }
        guard let handler = handlers.first(where: { $0.method == method })?.handler else {
            let allowed = handlers.map(\.method)
            var error = HTTPError(
                405, "methodNotAllowed",
                "\(method) is not possible here, only \(allowed.joined(separator: " and ")).")
            error.allowedMethods = allowed
            throw error
        }
        return try await handler(request)
    }

    private func handlers(_ segments: [String]) -> [(method: String, handler: Handler)] {
        switch segments.count {
        case 1:
            switch segments[0] {
            case "healthz": return [("GET", { _ in health.health() })]
            case "readyz": return [("GET", { _ in try health.readiness() })]
            case "metrics": return [("GET", { _ in await health.metrics() })]
            default: return []
            }
        case 2 where segments[0] == "v1": return collection(segments[1])
        case 3 where segments[0] == "v1": return member(segments[1], segments[2])
        case 4 where segments[0] == "v1":
            switch (segments[1], segments[3]) {
            case ("objects", _): return [("GET", { try await objects.get($0) })]
            case ("conflicts", "resolution"):
                return [("POST", { try await conflicts.resolve(segments[2], $0) })]
            case ("conflicts", "undo"):
                return [("POST", { try await conflicts.undo(segments[2], $0) })]
            default: return []
            }
        default: return []
        }
    }

    private func collection(_ name: String) -> [(method: String, handler: Handler)] {
        switch name {
        case "save": return [("POST", { try await saves.post($0) })]
        case "fetch": return [("POST", { try await fetches.post($0) })]
        case "status": return [("GET", { _ in try await status.get() })]
        case "model": return [("GET", { _ in model.get() })]
        case "generations": return [("POST", { try await generations.post($0) })]
        case "history":
            return [
                ("GET", { try await history.get($0) }),
                ("DELETE", { try await history.delete($0) }),
            ]
        case "changes": return [("GET", { try await changes.get($0) })]
        case "conflicts": return [("GET", { try await conflicts.list($0) })]
        case "verify": return [("POST", { try await verification.post($0) })]
        case "backup":
            return [
                (
                    "POST",
                    { _ in
                        throw HTTPError.notSupported(
                            "This node cannot make backups while it runs.")
                    }
                )
            ]
        case "members":
            let refuse: Handler = { _ in
                throw HTTPError.notSupported(
                    "The membership cannot be changed here; change the nodes' configurations.")
            }
            return [("GET", refuse), ("POST", refuse), ("DELETE", refuse)]
        default: return []
        }
    }

    private func member(_ name: String, _ key: String) -> [(method: String, handler: Handler)] {
        switch name {
        case "saves": return [("GET", { _ in try await saves.get(key) })]
        case "generations": return [("DELETE", { _ in try generations.delete(key) })]
        case "conflicts": return [("GET", { _ in try await conflicts.get(key) })]
        default: return []
        }
    }
}
