// POST /v1/conflicts/resolution: many at once.

internal import Coordinator
internal import Merge
internal import Synchronization

extension ConflictsResource {
    /// The most conflicts that an answer names.
    private static let named = 1_000
    /// The most conflicts that are resolved at once: as many as a save may have operations.
    private static let most = SaveRequest.Bounds.operations

    /// Resolves all open conflicts that are as asked for, as a policy chooses, by one save.
    func resolveMany(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let fields = try JSONFields(
            try request.json(maximumBytes: services.maximumBodyBytes),
            allowed: [
                "where", "substitutions", "entity", "state", "kind", "property", "policy", "dryRun",
                "author", "context", "note", "seen",
            ])
        guard let policy = MergePolicy(rawValue: try fields.string("policy") ?? "") else {
            throw fields.wrong("policy", "the name of a merge policy")
        }
        guard policy != .error, policy != .errorByRow else {
            throw HTTPError.malformed("Policy \(policy.rawValue) decides nothing.")
        }
        let who = SaveDescription(
            author: try fields.string("author"), contextName: try fields.string("context"),
            note: try fields.string("note"))
        try who.check()
        let choice = try Choice(fields, services)
        let isDryRun = try fields.boolean("dryRun")
        let (seen, tried) = try await services.read { reader in
            let seen = try choice.conflicts(reader, most: Self.most)
            return (seen, isDryRun ? try reader.tryResolving(seen, policy) : nil)
        }
        if let tried { return try await answer(tried, save: nil) }
        if seen.isEmpty { return try await answer(ManyResolved(), save: nil) }
        let decided = Decided()
        let result: SaveResult?
        do {
            result = try await services.backend.saving { coordinator in
                let outcome = try await coordinator.resolve(seen, policy, by: who)
                decided.outcome.withLock { $0 = outcome }
                guard let save = outcome.save else { throw NothingSaved() }
                return save
            }
        } catch is NothingSaved { result = nil }
        return try await answer(decided.outcome.withLock { $0 }, save: result)
    }

    private func answer(_ outcome: ManyResolved, save: SaveResult?) async throws -> HTTPAnswer {
        let services = services
        let renderer = ConflictRenderer(renderer: services.renderer)
        var json: JSONObject =
            try await services.read { reader in
                let digits = try reader.shortNameLength()
                let entities = ReferencedEntities(reader, services.model)
                return [
                    "count": .integer(Int64(outcome.decided.count)),
                    "conflicts": .array(
                        try outcome.decided.prefix(Self.named).map {
                            try renderer.json($0, digits: digits, entities.name)
                        }),
                    "state": .string(try reader.token.text),
                    "skipped": .array(
                        outcome.skipped.prefix(Self.named).map {
                            ["id": .string($0.id.description), "reason": .string($0.reason)]
                        }),
                ]
            }
        guard let save else {
            json["transaction"] = .null
            return .json(JSONWriter.bytes(of: .object(json)))
        }
        // The answer of a save names the conflicts settled on the way; here they are those decided.
        let members = SaveResource(services: services).members(of: save, ids: JSONObject()).members
        for member in members where json[member.key] == nil { json[member.key] = member.value }
        return .json(JSONWriter.bytes(of: .object(json)))
    }

    /// None of the conflicts can be decided so.
    private struct NothingSaved: Error {}

    /// The decision, handed out of the save.
    private final class Decided: Sendable {
        let outcome = Mutex(ManyResolved())
    }

    /// Which conflicts are to be resolved.
    private struct Choice: Sendable {
        var query = ConflictQuery(isOpen: true, limit: 10_000)
        let property: String?
        let fetch: FetchRequest?
        /// The entities of the objects; nil for all.
        private let family: Set<String>?
        /// What the one who decides had seen: other sides are nobody's to decide.
        private let seen: VersionVector?

        init(_ fields: JSONFields, _ services: HTTPServices) throws {
            switch try fields.string("state") ?? "unresolved" {
            case "all": break
            case "unresolved": query.state = .unresolved
            case "settled": query.state = .settled
            default: throw fields.wrong("state", "unresolved, settled or all")
            }
            if let text = try fields.string("kind") {
                guard let kind = ConflictKind(rawValue: text) else {
                    let kinds = ConflictKind.allCases.map(\.rawValue).joined(separator: ", ")
                    throw fields.wrong("kind", "one of \(kinds)")
                }
                query.kind = kind
            }
            property = try fields.string("property")
            let name = try fields.string("entity")
            if let name, services.model.entity(named: name) == nil {
                throw HTTPError.malformed(services.model.noEntity(name))
            }
            family = name.flatMap { services.model.entity(named: $0) }.map { Set($0.familyNames) }
            seen = try fields.token("seen")?.versionVector
            guard let text = try fields.string("where") else {
                fetch = nil
                return
            }
            guard let name else { throw HTTPError.malformed("\"where\" needs \"entity\".") }
            var request = FetchRequest(name)
            request.predicate = try Predicate(
                format: text, substitutions: try ClientFetch.substitutions(fields))
            fetch = request
        }

        func conflicts(_ reader: StoreReader, most: Int) throws -> [SeenConflict] {
            let rows = try fetch.map { Set(try reader.objectIDs($0).map(\.row)) }
            var found: [SeenConflict] = []
            var page = query
            while true {
                var last: ConflictPlace?
                var count = 0
                try reader.forEachConflict(page) { conflict, place in
                    (last, count) = (place, count + 1)
                    if let property, conflict.property != property { return true }
                    if let family, !family.contains(conflict.id.entity) { return true }
                    if let rows, !rows.contains(conflict.id.row) { return true }
                    let sides = conflict.sides.compactMap(\.dot)
                    if let seen, !sides.allSatisfy(seen.contains) { return true }
                    found.append(SeenConflict(conflict))
                    return true
                }
                guard found.count <= most else {
                    throw CoordinatorError(
                        .malformed,
                        "More than \(most) conflicts are so. Narrow it by entity, kind, property or "
                            + "where.")
                }
                guard count == page.limit, let last else { return found }
                page.after = last
            }
        }
    }
}

extension ConflictRenderer {
    /// A conflict that was decided together with others.
    fileprivate func json(
        _ decided: ManyResolved.Decided, digits: Int, _ naming: EntityNaming
    ) throws -> JSONValue {
        let whole = try json(decided.conflict, base: nil, digits: digits, naming).object
        let index = decided.conflict.sides.firstIndex(of: decided.side) ?? 0
        let side = whole?["sides"]?.array?[index].object
        return [
            "id": .string(decided.conflict.id.description), "short": whole?["short"] ?? .null,
            "object": whole?["object"] ?? .null, "property": whole?["property"] ?? .null,
            "side": side?["dot"] ?? .null, "value": side?["value"] ?? .null,
            "deleted": .boolean(decided.side.isDeleted),
        ]
    }
}
