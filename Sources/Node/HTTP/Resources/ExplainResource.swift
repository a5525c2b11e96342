// GET /v1/objects/{entity}/{p}/blame and /log, GET /v1/diff.

internal import Coordinator
internal import Merge

/// Why values are what they are, and how they came to be.
struct ExplainResource: Sendable {
    let services: HTTPServices

    /// Bounds of a difference.
    enum Limits {
        /// The most objects of a page.
        static let objects = 10_000
    }

    func blame(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let object = try object(request)
        let property = request.parameter("property")
        let lookback = try request.count("lookback", atLeast: 0) ?? StoreReader.blameLookback
        let renderer = services.renderer
        return .json(
            try await services.read { reader in
                let blame = try reader.blame(object, property: property, lookback: lookback)
                let entities = ReferencedEntities(reader, renderer.model)
                var json = try ExplainRenderer(
                    renderer: renderer, digits: try reader.shortNameLength()
                ).json(blame, entities.name)
                json["token"] = .string(try reader.token.text)
                return JSONWriter.bytes(of: .object(json))
            })
    }

    func log(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let object = try object(request)
        let limit = try request.count("limit", atLeast: 1) ?? 100
        let renderer = services.renderer
        return .json(
            try await services.read { reader in
                let log = try reader.log(of: object, limit: limit)
                let entities = ReferencedEntities(reader, renderer.model)
                var json = try ExplainRenderer(renderer: renderer, digits: 0).json(
                    log, of: object, entities.name)
                json["token"] = .string(try reader.token.text)
                return JSONWriter.bytes(of: .object(json))
            })
    }

    func difference(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        guard let from = try request.point("from") else {
            throw HTTPError.malformed("\"from\" must be \(HistoryPoint.expectation).")
        }
        let begin = try await services.vector(of: from)
        let to = try request.point("to")
        let end: VersionVector
        if let to {
            end = try await services.vector(of: to)
        } else {
            end = try await services.read { try $0.token.versionVector }
        }
        let entity = request.parameter("entity")
        let limit = min(try request.count("limit", atLeast: 1) ?? 1_000, Limits.objects)
        let after = try request.count("after", atLeast: 1) ?? 0
        let renderer = ExplainRenderer(renderer: services.renderer, digits: 0)
        return .json(
            try await services.read { reader in
                let all = try reader.difference(from: begin, to: end, entity: entity)
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                let page = try all.dropFirst(after).prefix(limit).map {
                    try renderer.json($0, entities.name)
                }
                func count(_ kind: DifferingObject.Kind) -> JSONValue {
                    .integer(Int64(all.count { $0.kind == kind }))
                }
                let next = after + page.count
                return JSONWriter.bytes(of: [
                    "from": ValueRenderer.vector(begin), "to": ValueRenderer.vector(end),
                    "objects": .array(page),
                    "counts": [
                        "insert": count(.insert), "update": count(.update),
                        "delete": count(.delete),
                    ],
                    "next": next < all.count ? .string(String(next)) : .null,
                ])
            })
    }

    /// What another policy would have shown.
    func tryPolicy(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let fields = try JSONFields(
            try request.json(maximumBytes: services.maximumBodyBytes),
            allowed: ["entity", "policy", "property", "limit"])
        guard let entity = try fields.string("entity") else {
            throw fields.wrong("entity", "the name of an entity")
        }
        guard let policy = MergePolicy(rawValue: try fields.string("policy") ?? "") else {
            throw fields.wrong("policy", "the name of a merge policy")
        }
        if case .named = policy {
            throw HTTPError.malformed("A policy of an application's own cannot be tried.")
        }
        let property = try fields.string("property")
        let limit = min(try fields.count("limit") ?? 100, Limits.objects)
        let renderer = services.renderer
        return .json(
            try await services.read { reader in
                let trial = try reader.tryPolicy(
                    policy, entity: entity, property: property, limit: limit)
                let digits = try reader.shortNameLength()
                let entities = ReferencedEntities(reader, renderer.model)
                let conflicts = ConflictRenderer(renderer: renderer)
                return JSONWriter.bytes(of: [
                    "conflicts": .integer(Int64(trial.looked)),
                    "changed": .integer(Int64(trial.changed)),
                    "items": .array(
                        try trial.changes.map {
                            try conflicts.json($0, digits: digits, entities.name)
                        }),
                ])
            })
    }

    /// The object of a path, by its entity and row.
    private func object(_ request: HTTPRequestParts) throws(HTTPError) -> ManagedObjectID {
        let name = request.segments[2]
        guard services.model.entity(named: name) != nil else {
            throw .malformed(services.model.noEntity(name))
        }
        guard let row = RowID(request.segments[3]) else {
            throw .malformed("\"\(request.segments[3])\" is no object; expected p1234.")
        }
        return ManagedObjectID(entityName: name, row: row)
    }
}
