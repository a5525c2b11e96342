// A batch request, from JSON to what the coordinator takes.

internal import Coordinator
internal import Merge

/// A batch request as a client asks for it.
struct ClientBatch: Sendable {
    var request: any BatchRequest
    var author: String?
    var contextName: String?
    /// Whether it only says how many objects there are to do it with.
    var isDryRun: Bool

    private static let fields = [
        "insert", "update", "delete", "resultType", "atomic", "resolves", "saveID", "author",
        "context", "dryRun",
    ]

    /// Reads a batch request.
    ///
    /// - Throws: ``HTTPError`` (malformed), ``PredicateError`` and ``CoordinatorError``
    ///   (validationFailed).
    init(_ json: JSONValue, model: ManagedObjectModel, cluster: String) throws {
        let fields = try JSONFields(json, allowed: Self.fields)
        let kinds = ["insert", "update", "delete"].filter { fields[$0] != nil }
        guard kinds.count == 1, let kind = kinds.first, let content = fields[kind] else {
            throw HTTPError.malformed(
                "The body must have one of \"insert\", \"update\" and \"delete\".")
        }
        var reader = PropertyReader(model: model, cluster: cluster)
        var request: any BatchRequest
        switch kind {
        case "insert": request = try Self.insert(content, &reader)
        case "update": request = try Self.update(content, &reader)
        default: request = try Self.delete(content, reader)
        }
        try reader.check()
        if let text = try fields.string("resultType") {
            guard let type = BatchRequestResultType(rawValue: text) else {
                throw fields.wrong("resultType", "status, count or ids")
            }
            request.resultType = type
        } else {
            request.resultType = .count
        }
        request.options = BatchOptions(
            isAtomic: try fields.boolean("atomic"), saveID: try fields.string("saveID"),
            resolvesConflicts: try fields.boolean("resolves"))
        self.request = request
        author = try fields.string("author")
        contextName = try fields.string("context")
        isDryRun = try fields.boolean("dryRun")
    }

    private static func insert(
        _ json: JSONValue, _ reader: inout PropertyReader
    ) throws -> any BatchRequest {
        let fields = try JSONFields(json, path: "insert.", allowed: ["entity", "objects"])
        let entity = try entity(fields, reader.model)
        guard let elements = try fields.array("objects") else {
            throw fields.wrong("objects", "an array of objects with values")
        }
        var objects: [[String: PropertyValue]] = []
        objects.reserveCapacity(elements.count)
        for (index, element) in elements.enumerated() {
            let name = "insert.objects[\(index)]"
            guard let object = element.object else {
                throw HTTPError.malformed("\"\(name)\" must be an object.")
            }
            objects.append(try values(object, of: entity, name, &reader))
        }
        return BatchInsertRequest(entity.name, objects: objects)
    }

    private static func update(
        _ json: JSONValue, _ reader: inout PropertyReader
    ) throws -> any BatchRequest {
        let fields = try JSONFields(
            json, path: "update.",
            allowed: ["entity", "predicate", "substitutions", "values", "subentities"])
        let entity = try entity(fields, reader.model)
        guard let object = fields["values"]?.object else {
            throw fields.wrong("values", "an object")
        }
        var request = BatchUpdateRequest(
            entity.name, predicate: try predicate(fields),
            propertiesToUpdate: try values(object, of: entity, "update.values", &reader))
        request.includesSubentities = try includesSubentities(fields)
        return request
    }

    private static func delete(
        _ json: JSONValue, _ reader: PropertyReader
    ) throws -> any BatchRequest {
        let fields = try JSONFields(
            json, path: "delete.",
            allowed: [
                "entity", "predicate", "substitutions", "sort", "limit", "offset", "subentities",
                "objects",
            ])
        if let uris = try fields.strings("objects") {
            guard fields.object.members.count == 1 else {
                throw HTTPError.malformed("\"delete.objects\" stands alone.")
            }
            return BatchDeleteRequest(
                objectIDs: try uris.map { text in
                    guard let uri = ObjectURI(text, in: reader.cluster),
                        uri.cluster == reader.cluster
                    else {
                        throw HTTPError.malformed(
                            "\"\(text)\" is no URI of an object of cluster \(reader.cluster).")
                    }
                    return uri.objectID
                })
        }
        var request = FetchRequest(
            try entity(fields, reader.model).name, predicate: try predicate(fields),
            sortDescriptors: (try fields.strings("sort") ?? []).map(SortDescriptor.init(text:)),
            fetchLimit: try fields.count("limit") ?? 0,
            fetchOffset: try fields.count("offset") ?? 0)
        request.includesSubentities = try includesSubentities(fields)
        return BatchDeleteRequest(fetchRequest: request)
    }

    private static func entity(
        _ fields: JSONFields, _ model: ManagedObjectModel
    ) throws(HTTPError) -> ManagedObjectModel.Entity {
        guard let name = try fields.string("entity") else {
            throw fields.wrong("entity", "the name of an entity")
        }
        guard let entity = model.entity(named: name) else {
            throw .malformed(model.noEntity(name))
        }
        return entity
    }

    private static func predicate(_ fields: JSONFields) throws -> Predicate? {
        try fields.string("predicate").map {
            try Predicate(format: $0, substitutions: try ClientFetch.substitutions(fields))
        }
    }

    private static func includesSubentities(_ fields: JSONFields) throws(HTTPError) -> Bool {
        fields["subentities"] == nil ? true : try fields.boolean("subentities")
    }

    private static func values(
        _ object: JSONObject, of entity: ManagedObjectModel.Entity, _ name: String,
        _ reader: inout PropertyReader
    ) throws -> [String: PropertyValue] {
        var values: [String: PropertyValue] = [:]
        for member in object.members {
            guard let position = entity.position(of: member.key) else {
                throw HTTPError.malformed(
                    "\"\(name).\(member.key)\": a batch request assigns attributes and to-ones that "
                        + "\(entity.name) stores, and that is none.")
            }
            let place = PropertyReader.Place(object: name, property: member.key)
            values[member.key] = reader.value(member.value, entity.properties[position], place)
        }
        return values
    }
}
