// Values, versions, vectors and errors as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders what resources have in common. A value; usable from any thread.
struct ValueRenderer: Sendable {
    /// Gives the entity of a row that something leads to, of an entity or one that inherits from
    /// it: what ``ReferencedEntities`` finds out.
    typealias EntityNaming = (_ row: RowID, _ destination: String) throws -> String

    let model: ManagedObjectModel
    let cluster: String
    /// The form of what is written.
    var format = BodyFormat.json

    /// The same for another form.
    func writing(_ format: BodyFormat) -> Self {
        var renderer = self
        renderer.format = format
        return renderer
    }

    func uri(_ object: ManagedObjectID) -> String {
        object.uriRepresentation(cluster: cluster)
    }

    /// The URI of an object that may be named by an entity which its own inherits from.
    func resolvedURI(_ object: ManagedObjectID, _ naming: EntityNaming) rethrows -> String {
        let name = try naming(object.row, object.entityName)
        return uri(ManagedObjectID(entityName: name, row: object.row))
    }

    /// A value that is no reference. CBOR has bytes as they are.
    func value(_ value: PropertyValue) -> JSONValue {
        if format == .cbor, case .binary(let bytes) = value { return .bytes(bytes) }
        return value.jsonValue { $0.description }
    }

    /// A value of a property.
    func value(
        _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content,
        _ naming: EntityNaming
    ) rethrows -> JSONValue {
        guard case .reference(let row) = value, case .toOne(let destination) = content else {
            return self.value(value)
        }
        let name = try naming(row, destination)
        return value.jsonValue(cluster: cluster, destination: name)
    }

    /// A value of a property that the model may or may not have.
    func value(
        _ value: PropertyValue, entity: String, property: String, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        guard case .reference(let row) = value, let entity = model.entity(named: entity) else {
            return self.value(value)
        }
        if let position = entity.position(of: property) {
            return try self.value(value, entity.properties[position].content, naming)
        }
        let destination = entity.relationship(named: property)?.destination ?? entity.name
        let name = try naming(row, destination)
        return value.jsonValue(cluster: cluster, destination: name)
    }

    /// Values by name, sorted by name.
    func snapshot(
        _ values: [String: PropertyValue]?, entity: String, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        guard let values else { return .null }
        var object = JSONObject()
        for (name, value) in values.sorted(by: { $0.key < $1.key }) {
            object[name] = try self.value(value, entity: entity, property: name, naming)
        }
        return .object(object)
    }

    func mergeConflict(
        _ conflict: MergeConflict, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        let entity = conflict.object.entityName
        return [
            "object": .string(conflict.name ?? uri(conflict.object)),
            "property": conflict.properties.first.map { .string($0) } ?? .null,
            "properties": .array(conflict.properties.map { .string($0) }),
            "oldVersion": Self.text(conflict.oldVersion?.description),
            "newVersion": Self.text(conflict.newVersion?.description),
            "objectSnapshot": try snapshot(conflict.objectSnapshot, entity: entity, naming),
            "cachedSnapshot": try snapshot(conflict.cachedSnapshot, entity: entity, naming),
            "persistedSnapshot": try snapshot(conflict.persistedSnapshot, entity: entity, naming),
        ]
    }

    func failure(_ failure: ValidationFailure) -> JSONValue {
        [
            "object": .string(failure.object), "property": .string(failure.property),
            "code": .integer(Int64(failure.code.rawValue)), "message": .string(failure.message),
        ]
    }

    static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }

    /// A count; above what JSON numbers of ours hold it stays at the greatest.
    static func count(_ count: UInt64) -> JSONValue {
        .integer(Int64(clamping: count))
    }

    static func vector(_ vector: VersionVector) -> JSONValue {
        var object = JSONObject()
        for entry in vector.entries { object[entry.actor.description] = count(entry.sequence) }
        return .object(object)
    }

    static func timestamp(_ timestamp: HybridTimestamp?) -> JSONValue {
        guard let timestamp else { return .null }
        return [
            "milliseconds": count(timestamp.milliseconds),
            "counter": .integer(Int64(timestamp.counter)),
        ]
    }

    /// The state that a reading answer came from, as three members that follow others.
    func appendState(_ token: QueryGenerationToken, to output: inout [UInt8]) {
        format.append(key: "generation", to: &output)
        format.append(Self.count(token.generation), to: &output)
        format.append(key: "vector", to: &output)
        format.append(Self.vector(token.versionVector), to: &output)
        format.append(key: "token", to: &output)
        format.append(plain: token.text, to: &output)
    }
}
