// The conflict journal: list, one, resolution, undo.

internal import Coordinator
internal import Merge

/// Conflicts between nodes, and their resolution.
struct ConflictsResource: Sendable {
    let services: HTTPServices
    private let renderer: ConflictRenderer

    /// Bounds of a list, above all of the former values in it: each is looked for in the log,
    /// newest first, and a client that watches asks for a list again and again.
    enum Limits {
        /// So many bytes of conflicts end a page, as of history.
        static let bytes = HistoryResource.Limits.bytes
        /// So many conflicts of a list, all of one without a limit, come with former values.
        static let listedWithBases = 100
        /// How many transactions are looked through for each.
        static let transactionsForBase = 1_000
        /// How many bytes of them.
        static let bytesForBase = 1 << 20
        /// For how long that may go on in one list; it keeps one of the threads for reading.
        static let timeForBases = Duration.milliseconds(250)
    }

    init(services: HTTPServices) {
        self.services = services
        renderer = ConflictRenderer(renderer: services.renderer)
    }

    // MARK: Reading

    func list(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        var query = try query(request)
        let limit = query.limit
        // One more than wanted shows whether there is more.
        query.limit += 1
        let asked = query
        let renderer = renderer
        return .json(
            try await services.read { reader in
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                let digits = try reader.shortNameLength()
                let deadline = ContinuousClock.now + Limits.timeForBases
                var output = Array("{\"conflicts\":[".utf8)
                var (count, last, next): (Int, ConflictPlace?, ConflictPlace?) = (0, nil, nil)
                try reader.forEachConflict(asked) { conflict, place in
                    if count == limit || output.count >= Limits.bytes {
                        next = last
                        return false
                    }
                    var base: (dot: Dot, value: PropertyValue)?
                    if count < Limits.listedWithBases, ContinuousClock.now < deadline {
                        base = try reader.base(
                            of: conflict, scanLimit: Limits.transactionsForBase,
                            byteLimit: Limits.bytesForBase)
                    }
                    if count > 0 { output.append(UInt8(ascii: ",")) }
                    let json = try renderer.json(
                        conflict, base: base, digits: digits, entities.name)
                    JSONWriter.append(json, to: &output)
                    (count, last) = (count + 1, place)
                    return true
                }
                output.append(contentsOf: "],\"next\":".utf8)
                JSONWriter.append(ValueRenderer.text(next?.description), to: &output)
                output.append(UInt8(ascii: "}"))
                return output
            })
    }

    private func query(_ request: HTTPRequestParts) throws(HTTPError) -> ConflictQuery {
        var query = ConflictQuery()
        if let text = request.parameter("state"), text != "all" {
            guard let state = ConflictState(rawValue: text) else {
                throw .malformed("\"state\" must be unresolved, settled, resolved or all.")
            }
            query.state = state
        }
        if let text = request.parameter("kind") {
            guard let kind = ConflictKind(rawValue: text) else {
                let kinds = ConflictKind.allCases.map(\.rawValue).joined(separator: ", ")
                throw .malformed("\"kind\" must be one of \(kinds).")
            }
            query.kind = kind
        }
        if let text = request.parameter("violation") {
            guard let violation = ConflictViolation(rawValue: text) else {
                let rules = ConflictViolation.allCases.map(\.rawValue).joined(separator: ", ")
                throw .malformed("\"violation\" must be one of \(rules).")
            }
            query.violation = violation
        }
        if let name = request.parameter("entity") {
            guard services.model.entity(named: name) != nil else {
                throw .malformed(services.model.noEntity(name))
            }
            query.entity = name
        }
        if let text = request.parameter("object") {
            guard let uri = ObjectURI(text, in: services.cluster), uri.cluster == services.cluster
            else {
                throw .malformed("\"object\" must be the URI of an object of this cluster.")
            }
            query.object = uri.objectID
        }
        query.isOpen = try request.boolean("open")
        if let text = request.parameter("after") {
            guard let place = ConflictPlace(text) else {
                throw .malformed("\"after\" must be the \"next\" of a list of conflicts.")
            }
            query.after = place
        }
        if let limit = try request.count("limit", atLeast: 1) { query.limit = min(limit, 10_000) }
        return query
    }

    func get(_ text: String) async throws -> HTTPAnswer {
        let id = try await services.conflictID(text)
        let renderer = renderer
        return .json(
            try await services.read { reader in
                let conflict = try id.conflict(in: reader)
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                return JSONWriter.bytes(
                    of: try renderer.json(
                        conflict, base: try reader.base(of: conflict),
                        digits: try reader.shortNameLength(), entities.name))
            })
    }

    // MARK: Deciding

    func resolve(_ text: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let id = try await services.conflictID(text)
        let fields = try JSONFields(
            try request.json(maximumBytes: services.maximumBodyBytes),
            allowed: [
                "side", "object", "values", "policy", "delete", "change", "sides", "author",
                "context", "note",
            ])
        let resolution = try await resolution(of: id, fields)
        let sides = try await sides(fields)
        let author = try fields.string("author")
        let context = try fields.string("context")
        let note = try fields.string("note")
        let result = try await services.backend.saving {
            try await $0.resolve(
                id, resolution, sides: sides, author: author, contextName: context, note: note)
        }
        return try await SaveResource(services: services).answer(to: result)
    }

    func undo(_ text: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let id = try await services.conflictID(text)
        let json =
            request.body.isEmpty
            ? JSONValue.object(JSONObject())
            : try request.json(maximumBytes: services.maximumBodyBytes)
        let fields = try JSONFields(json, allowed: ["sides", "author", "context", "note"])
        let sides = try await sides(fields)
        let author = try fields.string("author")
        let context = try fields.string("context")
        let note = try fields.string("note")
        let result = try await services.backend.saving {
            try await $0.undo(
                id, sides: sides, author: author, contextName: context, note: note)
        }
        return try await SaveResource(services: services).answer(to: result)
    }

    /// The transactions that somebody has seen.
    func sides(_ fields: JSONFields) async throws -> [Dot]? {
        guard let texts = try fields.strings("sides") else { return nil }
        var dots: [Dot] = []
        for text in texts {
            dots.append(
                try await services.dot(text, orThrow: fields.wrong("sides", "an array of dots")))
        }
        return dots
    }

    func resolution(
        of id: ConflictID, _ fields: JSONFields
    ) async throws -> ConflictResolution {
        let kinds = ["side", "values", "policy", "delete", "change"].filter { fields[$0] != nil }
        guard kinds.count == 1 else {
            throw HTTPError.malformed(
                "A resolution has one of side, values, policy, delete and change.")
        }
        guard fields["object"] == nil || kinds[0] == "side" else {
            throw HTTPError.malformed("\"object\" belongs to \"side\", and says whose it is.")
        }
        switch kinds[0] {
        case "side":
            if let number = fields["side"]?.integer {
                guard fields["object"] == nil, let number = Int(exactly: number) else {
                    throw HTTPError.malformed("A side's number names its object by itself.")
                }
                return .sideNumber(number)
            }
            let dot = try await services.dot(
                try fields.string("side") ?? "",
                orThrow: fields.wrong("side", "the dot or the number of a side"))
            return try object(fields).map { .sideOf($0, dot) } ?? .side(dot)
        case "policy":
            guard let policy = MergePolicy(rawValue: try fields.string("policy") ?? "") else {
                throw fields.wrong("policy", "the name of a merge policy")
            }
            return .policy(policy)
        case "delete":
            guard try fields.boolean("delete") else { throw fields.wrong("delete", "true") }
            return .delete
        case "values":
            var reader = PropertyReader(model: services.model, cluster: services.cluster)
            let entity = try await entity(of: id)
            let object = ManagedObjectID(entityName: entity.name, row: id.row)
            let values = try Self.values(
                fields["values"] ?? .null, of: entity, path: "values",
                object: services.renderer.uri(object), &reader)
            try reader.check()
            return .values(values)
        default: return .change(try changes(fields))
        }
    }

    private func object(_ fields: JSONFields) throws(HTTPError) -> ManagedObjectID? {
        guard let text = try fields.string("object") else { return nil }
        guard let uri = ObjectURI(text, in: services.cluster), uri.cluster == services.cluster,
            services.model.entity(named: uri.entityName) != nil
        else { throw fields.wrong("object", "the URI of an object of this cluster") }
        return uri.objectID
    }

    /// The entity of the row in dispute, which may inherit from the one the ID names.
    private func entity(of id: ConflictID) async throws -> ManagedObjectModel.Entity {
        guard let named = services.model.entity(named: id.entity) else {
            throw CoordinatorError(.conflictNotFound, "There is no conflict \(id).")
        }
        guard named.familyNames.count > 1 else { return named }
        let name = try await services.read { try $0.row(named, id.row)?.objectID.entityName }
        return name.flatMap { services.model.entity(named: $0) } ?? named
    }

    private func changes(
        _ fields: JSONFields
    ) throws -> [ManagedObjectID: [String: PropertyValue]] {
        guard let object = fields["change"]?.object else {
            throw fields.wrong("change", "an object with URIs as its keys")
        }
        var reader = PropertyReader(model: services.model, cluster: services.cluster)
        var changes: [ManagedObjectID: [String: PropertyValue]] = [:]
        for member in object.members {
            guard let uri = ObjectURI(member.key, in: services.cluster),
                uri.cluster == services.cluster,
                let entity = services.model.entity(named: uri.entityName)
            else { throw fields.wrong("change", "an object with URIs of this cluster as keys") }
            changes[uri.objectID] = try Self.values(
                member.value, of: entity, path: "change.\(member.key)", object: member.key,
                &reader)
        }
        try reader.check()
        return changes
    }

    private static func values(
        _ json: JSONValue, of entity: ManagedObjectModel.Entity, path: String, object: String,
        _ reader: inout PropertyReader
    ) throws(HTTPError) -> [String: PropertyValue] {
        guard let members = json.object?.members else {
            throw .malformed("\"\(path)\" must be an object.")
        }
        var values: [String: PropertyValue] = [:]
        for member in members {
            guard let position = entity.position(of: member.key) else {
                throw .malformed(entity.noProperty(member.key, kind: "stored property"))
            }
            values[member.key] = reader.value(
                member.value, entity.properties[position],
                PropertyReader.Place(object: object, property: member.key))
        }
        return values
    }
}
