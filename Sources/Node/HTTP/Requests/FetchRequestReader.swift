// A fetch, from JSON to what a store's reader takes.

internal import Coordinator

/// A fetch as a client asks for it.
struct ClientFetch: Sendable {
    var request: FetchRequest
    var entity: ManagedObjectModel.Entity
    var selection: ObjectSelection
    var generation: QueryGenerationToken?
    var after: QueryGenerationToken?
    /// The point of history that is read; nil for the present, or what ``generation`` names.
    var at: HistoryPoint?
    var timeout: Duration
    /// The request's text for status: the entity and the beginning of the predicate.
    var text: String

    /// How many characters of a predicate are shown.
    private static let shownOfPredicate = 200

    private static let fields = [
        "entity", "predicate", "substitutions", "sort", "limit", "offset", "resultType",
        "properties", "groupBy", "having", "prefetch", "versions", "generation", "after",
        "timeoutSeconds", "at",
    ]

    /// Reads a fetch.
    ///
    /// - Throws: ``HTTPError`` (malformed) and ``PredicateError``.
    init(_ json: JSONValue, model: ManagedObjectModel) throws {
        let fields = try JSONFields(json, allowed: Self.fields)
        guard let name = try fields.string("entity") else {
            throw fields.wrong("entity", "the name of an entity")
        }
        guard let entity = model.entity(named: name) else {
            throw HTTPError.malformed(model.noEntity(name))
        }
        self.entity = entity
        var request = FetchRequest(name)
        if let text = try fields.string("resultType") {
            guard let type = FetchRequest.ResultType(rawValue: text) else {
                throw fields.wrong("resultType", "objects, ids, dictionary or count")
            }
            request.resultType = type
        } else if try Self.asksForRows(fields) {
            request.resultType = .dictionary
        }
        let substitutions = try Self.substitutions(fields)
        text = name
        if let text = try fields.string("predicate") {
            self.text += ": " + text.prefix(Self.shownOfPredicate)
            request.predicate = try Predicate(format: text, substitutions: substitutions)
        }
        if let text = try fields.string("having") {
            request.havingPredicate = try Predicate(format: text, substitutions: substitutions)
        }
        request.sortDescriptors = (try fields.strings("sort") ?? []).map(SortDescriptor.init(text:))
        request.fetchLimit = try fields.count("limit") ?? 0
        request.fetchOffset = try fields.count("offset") ?? 0
        request.propertiesToGroupBy = try fields.strings("groupBy") ?? []
        request.relationshipKeyPathsForPrefetching = try fields.strings("prefetch") ?? []
        selection = ObjectSelection(includesVersions: try fields.boolean("versions"))
        if request.resultType == .dictionary {
            request.propertiesToFetch = try Self.fetchedProperties(fields)
        } else {
            selection.properties = try Self.properties(fields, entity)
            if !request.propertiesToGroupBy.isEmpty || request.havingPredicate != nil {
                throw HTTPError.malformed("\"groupBy\" and \"having\" need resultType dictionary.")
            }
        }
        try Self.checkPaths(of: request, entity, model)
        generation = try fields.token("generation")
        after = try fields.token("after")
        at = try fields.point("at")
        if at != nil, generation != nil {
            throw HTTPError.malformed("\"at\" and \"generation\" exclude each other.")
        }
        timeout = try fields.timeout()
        self.request = request
    }

    /// Whether a fetch that names no type of result asks for rows of a dictionary: groups and
    /// aggregates are nothing else.
    private static func asksForRows(_ fields: JSONFields) throws(HTTPError) -> Bool {
        if let keys = try fields.array("groupBy"), !keys.isEmpty { return true }
        guard let properties = try fields.array("properties") else { return false }
        return properties.contains { $0.object != nil }
    }

    /// Refuses key paths whose names the model does not have; what they may lead to is for the
    /// store to say.
    /// As many as a key path of a predicate may have.
    private static let maximumPrefetchedSteps = 10

    private static func checkPaths(
        of request: FetchRequest, _ entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) throws(HTTPError) {
        var aggregates = Set<String>()
        var paths = request.propertiesToGroupBy
        for property in request.propertiesToFetch {
            switch property {
            case .keyPath(let path): paths.append(path)
            case .aggregate(let name, _, let path):
                aggregates.insert(name)
                if !path.isEmpty { paths.append(path) }
            }
        }
        paths += request.sortDescriptors.map(\.keyPath).filter { !aggregates.contains($0) }
        // A period such as day(timestamp) is the compiler's matter.
        for path in paths where !path.contains("(") {
            try check(path, of: entity, model, relationshipsOnly: false)
        }
        for path in request.relationshipKeyPathsForPrefetching {
            // From each step on all objects are gone through again.
            guard path.utf8.count(where: { $0 == UInt8(ascii: ".") }) < maximumPrefetchedSteps
            else {
                throw .malformed(
                    "\"prefetch\" follows at most \(maximumPrefetchedSteps) relationships in a path."
                )
            }
            try check(path, of: entity, model, relationshipsOnly: true)
        }
    }

    private static func check(
        _ path: String, of entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel,
        relationshipsOnly: Bool
    ) throws(HTTPError) {
        var current: ManagedObjectModel.Entity? = entity
        for part in path.split(separator: ".", omittingEmptySubsequences: false) {
            // Operators such as @count, and SELF, are the compiler's matter.
            if part.hasPrefix("@") || part == "SELF", !relationshipsOnly { return }
            let name = String(part.hasPrefix("#") ? part.dropFirst() : part)
            if let relationship = current?.relationship(named: name) {
                current = model.entity(named: relationship.destination)
            } else if !relationshipsOnly, current?.columnPosition(of: name) != nil {
                current = nil
            } else {
                throw .malformed(
                    "\(current?.name ?? entity.name) has no "
                        + "\(relationshipsOnly ? "relationship" : "property") \"\(name)\""
                        + (name == path ? "." : ", as \"\(path)\" wants it."))
            }
        }
    }

    /// The values of a predicate's `$names`.
    static func substitutions(_ fields: JSONFields) throws -> [String: PredicateValue] {
        guard let value = fields["substitutions"] else { return [:] }
        guard let object = value.object else { throw fields.wrong("substitutions", "an object") }
        var result: [String: PredicateValue] = [:]
        for member in object.members {
            do {
                result[member.key] = try PredicateValue(json: member.value)
            } catch {
                throw HTTPError.malformed(
                    "\"\(fields.path)substitutions.\(member.key)\": \(error).")
            }
        }
        return result
    }

    private static func properties(
        _ fields: JSONFields, _ entity: ManagedObjectModel.Entity
    ) throws(HTTPError) -> [String]? {
        guard let names = try fields.strings("properties") else { return nil }
        var known = Set<String>()
        for name in names {
            guard
                entity.columnPosition(of: name) != nil || entity.relationship(named: name) != nil
            else { throw .malformed(entity.noProperty(name)) }
            guard known.insert(name).inserted else {
                throw .malformed("\"properties\" names \"\(name)\" twice.")
            }
        }
        return names
    }

    private static func fetchedProperties(
        _ fields: JSONFields
    ) throws(HTTPError) -> [FetchedProperty] {
        var result: [FetchedProperty] = []
        for (index, value) in (try fields.array("properties") ?? []).enumerated() {
            if let path = value.string {
                result.append(.keyPath(path))
                continue
            }
            let aggregate = try JSONFields(
                value, path: "properties[\(index)].", allowed: ["name", "function", "keyPath"])
            guard let name = try aggregate.string("name"), !name.isEmpty else {
                throw aggregate.wrong("name", "a name for the result")
            }
            guard let text = try aggregate.string("function"),
                let function = FetchedProperty.Function(rawValue: text)
            else {
                throw aggregate.wrong("function", "count, sum, average, min or max")
            }
            result.append(
                .aggregate(
                    name: name, function: function,
                    keyPath: try aggregate.string("keyPath") ?? ""))
        }
        return result
    }
}
