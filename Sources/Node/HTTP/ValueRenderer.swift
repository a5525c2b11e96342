// Values, versions, vectors and errors as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders what resources have in common. A value; usable from any thread.
struct ValueRenderer: Sendable {
    let model: ManagedObjectModel
    let cluster: String

    func uri(_ object: ManagedObjectID) -> String {
        object.uriRepresentation(cluster: cluster)
    }

    /// A value of a property; references by the property's destination.
    func value(
        _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content
    ) -> JSONValue {
        guard case .toOne(let destination) = content else {
            return value.jsonValue { $0.description }
        }
        return value.jsonValue(cluster: cluster, destination: destination)
    }

    /// A value of a property that the model may or may not have.
    func value(_ value: PropertyValue, entity: String, property: String) -> JSONValue {
        guard case .reference = value, let entity = model.entity(named: entity) else {
            return value.jsonValue { $0.description }
        }
        if let position = entity.position(of: property) {
            return self.value(value, entity.properties[position].content)
        }
        let destination = entity.relationship(named: property)?.destination ?? entity.name
        return value.jsonValue(cluster: cluster, destination: destination)
    }

    /// Values by name, sorted by name.
    func snapshot(_ values: [String: PropertyValue]?, entity: String) -> JSONValue {
        guard let values else { return .null }
        var object = JSONObject()
        for (name, value) in values.sorted(by: { $0.key < $1.key }) {
            object[name] = self.value(value, entity: entity, property: name)
        }
        return .object(object)
    }

    func mergeConflict(_ conflict: MergeConflict) -> JSONValue {
        let entity = conflict.object.entityName
        return [
            "object": .string(uri(conflict.object)),
            "property": conflict.properties.first.map { .string($0) } ?? .null,
            "properties": .array(conflict.properties.map { .string($0) }),
            "oldVersion": Self.text(conflict.oldVersion?.description),
            "newVersion": Self.text(conflict.newVersion?.description),
            "objectSnapshot": snapshot(conflict.objectSnapshot, entity: entity),
            "cachedSnapshot": snapshot(conflict.cachedSnapshot, entity: entity),
            "persistedSnapshot": snapshot(conflict.persistedSnapshot, entity: entity),
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

    /// What every reading answer says of the state it came from, as members without braces.
    static func appendState(_ token: QueryGenerationToken, to output: inout [UInt8]) {
        output.append(contentsOf: "\"generation\":\(token.generation),\"vector\":".utf8)
        JSONWriter.append(vector(token.versionVector), to: &output)
        output.append(contentsOf: ",\"token\":\"".utf8)
        output.append(contentsOf: token.text.utf8)
        output.append(UInt8(ascii: "\""))
    }
}
