// A save, from JSON to what the coordinator takes.

internal import Coordinator
internal import Merge

/// Reads the operations of a save.
///
/// Nonsense is thrown at once; mistakes in values are collected and thrown together.
struct SaveRequestReader {
    /// A save with what the answer needs beside it.
    struct Result: Sendable {
        var request: SaveRequest
        /// The names of inserts in the order of the request, by the number below 0 they have.
        var names: [(name: String, object: ManagedObjectID)] = []
        /// The objects as the request names them, by row, for failures that the store finds.
        var objects: [RowID: String] = [:]
        var acknowledgement: Acknowledgement
        var timeout: Duration
    }

    private var reader: PropertyReader
    private var objects: [RowID: String] = [:]

    private static let fields = [
        "operations", "saveID", "mergePolicy", "author", "context", "acknowledgement",
        "timeoutSeconds", "bulk", "note",
    ]
    private static let insertFields = ["insert", "id", "values", "add", "resolves"]
    private static let updateFields = [
        "update", "values", "add", "remove", "increment", "version", "resolves", "if",
        "substitutions",
    ]
    private static let deleteFields = ["delete", "version", "resolves", "if", "substitutions"]

    /// Reads a save.
    ///
    /// - Throws: ``HTTPError`` (malformed) and ``CoordinatorError`` (validationFailed).
    static func read(
        _ json: JSONValue, model: ManagedObjectModel, cluster: String
    ) throws -> Result {
        let fields = try JSONFields(json, allowed: Self.fields)
        guard let elements = try fields.array("operations") else {
            throw fields.wrong("operations", "an array of operations")
        }
        var policy = MergePolicy.error
        if let name = try fields.string("mergePolicy") {
            guard let named = MergePolicy.allCases.first(where: { $0.rawValue == name }),
                named != .errorByRow
            else {
                throw fields.wrong(
                    "mergePolicy",
                    "error, mergeByPropertyStoreTrump, mergeByPropertyObjectTrump, rollback or "
                        + "overwrite")
            }
            policy = named
        }
        let acknowledgement = try Self.acknowledgement(fields)
        var reader = SaveRequestReader(
            reader: PropertyReader(model: model, cluster: cluster))
        var names: [(name: String, object: ManagedObjectID)] = []
        for (index, element) in elements.enumerated() {
            try reader.nameInsert(element, index: index, &names)
        }
        var operations: [SaveOperation] = []
        operations.reserveCapacity(elements.count)
        for (index, element) in elements.enumerated() {
            do {
                guard let operation = try reader.operation(element, index: index) else { continue }
                operations.append(operation)
            } catch let error as HTTPError where !error.message.contains("operations[") {
                throw error.at("operations[\(index)]")
            }
        }
        reader.noteInvalid(of: operations)
        try reader.reader.check()
        var request = SaveRequest(
            operations: operations, mergePolicy: policy, author: try fields.string("author"),
            contextName: try fields.string("context"), saveID: try fields.string("saveID"),
            note: try fields.string("note"),
            isBulk: try fields.boolean("bulk"))
        request.isWordByWord = true
        return Result(
            request: request, names: names, objects: reader.objects,
            acknowledgement: acknowledgement, timeout: try fields.timeout())
    }

    private init(reader: PropertyReader) { self.reader = reader }

    private static func acknowledgement(
        _ fields: JSONFields
    ) throws(HTTPError) -> Acknowledgement {
        switch fields["acknowledgement"] {
        case nil, .string("local")?: return .local
        case .string("majority")?: return .majority
        case .string("all")?: return .all
        case .integer(let count)? where count >= 1 && count <= 32_767: return .nodes(Int(count))
        default:
            throw fields.wrong(
                "acknowledgement", "local, majority, all or a number of nodes of at least 1")
        }
    }

    // MARK: Inserts come first, for anything may refer to them

    private mutating func nameInsert(
        _ json: JSONValue, index: Int, _ names: inout [(name: String, object: ManagedObjectID)]
    ) throws(HTTPError) {
        guard let object = json.object, let value = object["insert"] else { return }
        guard let entityName = value.string else {
            throw .malformed("\"operations[\(index)].insert\" must be the name of an entity.")
        }
        let row = RowID(Int64(-index) - 1)
        objects[row] = "operations[\(index)]"
        guard let id = object["id"], id != .null else { return }
        guard let name = id.string, name.utf8.first == UInt8(ascii: "@"), name.utf8.count > 1
        else {
            throw .malformed("\"operations[\(index)].id\" must be a name that begins with @.")
        }
        let objectID = ManagedObjectID(entityName: entityName, row: row)
        guard reader.named.updateValue(objectID, forKey: name) == nil else {
            throw .malformed("Two operations insert \"\(name)\".")
        }
        objects[row] = name
        names.append((name, objectID))
    }

    // MARK: Operations

    /// An operation; nil, and a failure, where it is one on an object that the request does not
    /// have.
    private mutating func operation(_ json: JSONValue, index: Int) throws -> SaveOperation? {
        let path = "operations[\(index)]."
        guard let object = json.object else {
            throw HTTPError.malformed("operations[\(index)] must be an object.")
        }
        let kinds = ["insert", "update", "delete"].filter { object[$0] != nil }
        guard kinds.count == 1 else {
            throw HTTPError.malformed(
                "operations[\(index)] must have one of insert, update and delete.")
        }
        switch kinds[0] {
        case "insert":
            let fields = try JSONFields(json, path: path, allowed: Self.insertFields)
            let entity = try entity(try fields.string("insert") ?? "")
            guard !entity.isAbstract else {
                throw HTTPError.malformed("\(entity.name) is abstract: insert a sub-entity.")
            }
            return try changes(
                of: SaveOperation(
                    kind: .insert, entity: entity, row: RowID(Int64(-index) - 1),
                    name: object["id"]?.string),
                fields)
        case "update":
            let fields = try JSONFields(json, path: path, allowed: Self.updateFields)
            guard let (entity, row) = try target(fields, "update") else { return nil }
            var operation = try changes(
                of: SaveOperation(kind: .update, entity: entity, row: row), fields)
            operation.increments = try increments(of: operation, fields)
            operation.condition = try condition(fields, entity)
            return operation
        default:
            let fields = try JSONFields(json, path: path, allowed: Self.deleteFields)
            guard let (entity, row) = try target(fields, "delete") else { return nil }
            var operation = SaveOperation(
                kind: .delete, entity: entity, row: row, version: try version(fields),
                resolves: try fields.boolean("resolves"))
            operation.condition = try condition(fields, entity)
            return operation
        }
    }

    private func entity(_ name: String) throws(HTTPError) -> ManagedObjectModel.Entity {
        guard let entity = reader.model.entity(named: name) else {
            throw .malformed(reader.model.noEntity(name))
        }
        return entity
    }

    /// The object of an update or delete; nil, and a failure, where there cannot be one.
    private mutating func target(
        _ fields: JSONFields, _ key: String
    ) throws(HTTPError) -> (ManagedObjectModel.Entity, RowID)? {
        let text = try fields.string(key) ?? ""
        if let object = reader.named[text] {
            return (try entity(object.entityName), object.row)
        }
        let place = PropertyReader.Place(object: text, property: key)
        if text.utf8.first == UInt8(ascii: "@") {
            reader.fail(place, .danglingReference, "The request does not insert \(text).")
            return nil
        }
        guard let uri = ObjectURI(text, in: reader.cluster) else {
            throw fields.wrong(key, "an object's URI")
        }
        guard uri.cluster == reader.cluster else {
            reader.fail(
                place, .danglingReference,
                "\(text) is an object of another cluster; this is \(reader.cluster).")
            return nil
        }
        objects[uri.row] = text
        return (try entity(uri.entityName), uri.row)
    }

    private func version(_ fields: JSONFields) throws(HTTPError) -> RowVersion? {
        guard let text = try fields.string("version") else { return nil }
        guard let version = RowVersion(text) else {
            throw fields.wrong("version", "a version as a fetch gives it")
        }
        return version
    }

    /// The condition of an update or a delete, in the predicate language of a fetch.
    private func condition(
        _ fields: JSONFields, _ entity: ManagedObjectModel.Entity
    ) throws -> SaveCondition? {
        guard let text = try fields.string("if") else {
            guard fields["substitutions"] == nil else {
                throw HTTPError.malformed(
                    "\"\(fields.path)substitutions\" are for \"if\", which is not there.")
            }
            return nil
        }
        let substitutions = try ClientFetch.substitutions(fields)
        do {
            return try SaveCondition(
                Predicate(format: text, substitutions: substitutions), entity: entity,
                model: reader.model, cluster: reader.cluster)
        } catch {
            throw HTTPError(
                400, CoordinatorError.Code.invalidPredicate.rawValue,
                "\"\(fields.path)if\": \(error)",
                details: ["offset": .integer(Int64(error.offset))])
        }
    }

    /// What an update adds to numbers.
    private mutating func increments(
        of operation: SaveOperation, _ fields: JSONFields
    ) throws -> [(position: Int, amount: PropertyValue)] {
        let entity = operation.entity
        var result: [(position: Int, amount: PropertyValue)] = []
        for member in try members(fields, "increment") {
            let position = entity.position(of: member.key)
            if position == nil { _ = try relationship(member.key, of: entity) }
            guard let position,
                case .attribute(let type) = entity.properties[position].content,
                let amountType = type.typeOfIncrements
            else {
                throw HTTPError.malformed(
                    "\"\(fields.path)increment\": \(entity.name).\(member.key) is no number.")
            }
            guard fields["values"]?.object?[member.key] == nil else {
                throw HTTPError.malformed(
                    "\"\(fields.path)increment\": \(entity.name).\(member.key) is among the "
                        + "\"values\" as well.")
            }
            let place = PropertyReader.Place(
                object: objects[operation.row] ?? operation.row.description, property: member.key)
            if let amount = reader.amount(member.value, amountType, place) {
                result.append((position, amount))
            }
        }
        return result
    }

    private mutating func changes(
        of operation: SaveOperation, _ fields: JSONFields
    ) throws -> SaveOperation {
        var operation = operation
        operation.version = try version(fields)
        operation.resolves = try fields.boolean("resolves")
        let entity = operation.entity
        let name = objects[operation.row] ?? operation.row.description
        for member in try members(fields, "values") {
            let place = PropertyReader.Place(object: name, property: member.key)
            if let position = entity.position(of: member.key) {
                if let value = reader.value(member.value, entity.properties[position], place) {
                    operation.values.append((position, value))
                }
                continue
            }
            let relationship = try relationship(member.key, of: entity)
            let members: [RowID]?
            if relationship.isToMany {
                members = reader.references(
                    member.value, destination: relationship.destination, place)
            } else {
                members =
                    member.value == .null
                    ? []
                    : reader.reference(
                        member.value, destination: relationship.destination, place
                    ).map { [$0] }
            }
            if let members {
                operation.relationships.append(
                    RelationshipOperation(name: member.key, kind: .replace, members: members))
            }
        }
        for (key, kind) in [("add", RelationshipOperation.Kind.add), ("remove", .remove)] {
            for member in try members(fields, key) {
                let relationship = try relationship(member.key, of: entity)
                guard relationship.isToMany else {
                    throw HTTPError.malformed(
                        "\"\(fields.path)\(key)\": \(entity.name).\(member.key) is no to-many.")
                }
                let place = PropertyReader.Place(object: name, property: member.key)
                if let members = reader.references(
                    member.value, destination: relationship.destination, place)
                {
                    operation.relationships.append(
                        RelationshipOperation(name: member.key, kind: kind, members: members))
                }
            }
        }
        return operation
    }

    /// Lists also the values that do not fit the model and the mandatory attributes that nothing is
    /// given for, where something else is wrong already: the store, which finds them otherwise, is
    /// not asked then.
    private mutating func noteInvalid(of operations: [SaveOperation]) {
        var places = Set(reader.failures.map { [$0.object, $0.property] })
        guard !places.isEmpty else { return }
        var given: [RowID: [Int: PropertyValue]] = [:]
        for operation in operations {
            for (position, value) in operation.values {
                given[operation.row, default: [:]][position] = value
            }
        }
        for operation in operations where operation.kind != .delete {
            let object = objects[operation.row] ?? operation.row.description
            for (position, property) in operation.entity.properties.enumerated()
            where !property.isReference {
                // A property that an update does not mention stays as it is.
                let value =
                    given[operation.row]?[position]
                    ?? (operation.kind == .insert ? property.defaultValue : nil)
                guard let value,
                    let failure = ValueValidation.failure(value, of: property, object: object),
                    places.insert([object, property.name]).inserted
                else { continue }
                reader.fail(
                    PropertyReader.Place(object: object, property: property.name), failure.code,
                    failure.message)
            }
        }
    }

    private func members(
        _ fields: JSONFields, _ key: String
    ) throws(HTTPError) -> [JSONObject.Member] {
        guard let value = fields[key] else { return [] }
        guard let object = value.object else { throw fields.wrong(key, "an object") }
        return object.members
    }

    private func relationship(
        _ name: String, of entity: ManagedObjectModel.Entity
    ) throws(HTTPError) -> ManagedObjectModel.Relationship {
        if let relationship = entity.relationship(named: name) { return relationship }
        if entity.derivedAttribute(named: name) != nil {
            throw .malformed("\(entity.name).\(name) is derived; the store computes it.")
        }
        if entity.attribute(named: name) != nil {
            throw .malformed("\(entity.name).\(name) is transient, or no relationship.")
        }
        throw .malformed(entity.noProperty(name))
    }
}
