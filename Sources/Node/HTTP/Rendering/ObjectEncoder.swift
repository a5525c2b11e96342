// Objects as the client interface writes them.

internal import Coordinator
internal import Merge

/// Which of an object's properties are written.
struct ObjectSelection: Sendable {
    /// The properties by name; nil for all.
    var properties: [String]?
    /// Whether registers are written too.
    var includesVersions = false
}

/// Writes objects of one generation; to be used within one read.
struct ObjectEncoder {
    private enum Content {
        case property(Int, ManagedObjectModel.Property.Content)
        case related(ManagedObjectModel.Relationship)
    }

    private struct Layout {
        let entity: ManagedObjectModel.Entity
        /// The members of `values`, each with its key as bytes.
        let members: [(key: [UInt8], content: Content)]
    }

    private let reader: StoreReader
    private let renderer: ValueRenderer
    private let selection: ObjectSelection
    private var layouts: [String: Layout] = [:]
    private let entities: ReferencedEntities
    private var format: BodyFormat { renderer.format }

    init(_ reader: StoreReader, renderer: ValueRenderer, selection: ObjectSelection) {
        self.reader = reader
        self.renderer = renderer
        self.selection = selection
        entities = ReferencedEntities(reader, renderer.model)
    }

    /// Writes an object with its braces.
    mutating func append(_ row: RowSnapshot, to output: inout [UInt8]) throws {
        format.beginObject(selection.includesVersions ? 6 : 5, in: &output)
        try appendMembers(row, to: &output)
        format.endObject(in: &output)
    }

    /// Writes an object's members without braces.
    mutating func appendMembers(_ row: RowSnapshot, to output: inout [UInt8]) throws {
        let format = format
        let layout = try layout(row.objectID.entityName)
        format.append(key: "id", isFirst: true, to: &output)
        format.append(plain: renderer.uri(row.objectID), to: &output)
        format.append(key: "entity", to: &output)
        format.append(plain: layout.entity.name, to: &output)
        format.append(key: "version", to: &output)
        format.append(plain: row.version.description, to: &output)
        format.append(key: "conflicted", to: &output)
        format.append(.boolean(row.isConflicted), to: &output)
        format.append(key: "values", to: &output)
        format.beginObject(layout.members.count, in: &output)
        for (index, member) in layout.members.enumerated() {
            format.separate(isFirst: index == 0, in: &output)
            output.append(contentsOf: member.key)
            switch member.content {
            case .property(let position, let content):
                format.append(try value(row.values[position], content), to: &output)
            case .related(let relationship):
                try append(relationship, of: row, layout.entity, to: &output)
            }
        }
        format.endObject(in: &output)
        if selection.includesVersions {
            format.append(key: "versions", to: &output)
            format.append(try versions(row, layout.entity), to: &output)
        }
    }

    private mutating func layout(_ name: String) throws -> Layout {
        if let layout = layouts[name] { return layout }
        guard let entity = renderer.model.entity(named: name) else {
            throw CoordinatorError(.storeDamaged, "The store has an object of entity \(name).")
        }
        var members: [(name: String, content: Content)] = []
        let derived = entity.relationships.filter { entity.position(of: $0.name) == nil }
        if let properties = selection.properties {
            for name in properties {
                if let position = entity.columnPosition(of: name) {
                    members.append((name, .property(position, entity.columns[position].content)))
                } else if let relationship = entity.relationship(named: name) {
                    members.append((name, .related(relationship)))
                }
            }
        } else {
            for (position, property) in entity.columns.enumerated() {
                members.append((property.name, .property(position, property.content)))
            }
            for relationship in derived {
                members.append((relationship.name, .related(relationship)))
            }
        }
        let layout = Layout(
            entity: entity,
            members: members.map { (format.bytes(ofKey: $0.name), $0.content) })
        layouts[name] = layout
        return layout
    }

    private func value(
        _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content
    ) throws -> JSONValue {
        guard case .reference(let row) = value, case .toOne(let destination) = content else {
            return renderer.value(value)
        }
        let name = try entities.name(of: row, destination: destination)
        return value.jsonValue(cluster: renderer.cluster, destination: name)
    }

    private func append(
        _ relationship: ManagedObjectModel.Relationship, of row: RowSnapshot,
        _ entity: ManagedObjectModel.Entity, to output: inout [UInt8]
    ) throws {
        let members = try reader.members(of: relationship, entity: entity, row: row.objectID.row)
        guard relationship.isToMany else {
            format.append(ValueRenderer.text(members.first.map(renderer.uri)), to: &output)
            return
        }
        format.beginArray(members.count, in: &output)
        for (index, member) in members.enumerated() {
            format.separate(isFirst: index == 0, in: &output)
            format.append(plain: renderer.uri(member), to: &output)
        }
        format.endArray(in: &output)
    }

    /// The registers of an object's stored properties, by name.
    private func versions(
        _ row: RowSnapshot, _ entity: ManagedObjectModel.Entity
    ) throws -> JSONValue {
        guard let registers = try reader.shownRegisters(entity, row.objectID.row) else {
            return .null
        }
        var result = JSONObject()
        for (position, property) in entity.properties.enumerated() {
            if let wanted = selection.properties, !wanted.contains(property.name) { continue }
            guard let register = registers[position] else { continue }
            let visible = register.visible
            let siblings = try register.siblings.map {
                try sibling($0.stamp, $0.value, property.content)
            }
            result[property.name] = [
                "dot": .string(visible.dot.description),
                "timestamp": ValueRenderer.timestamp(visible.stamp.timestamp),
                "siblings": .array(siblings),
            ]
        }
        return .object(result)
    }

    private func sibling(
        _ stamp: Stamp, _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content
    ) throws -> JSONValue {
        [
            "dot": .string(stamp.dot.description),
            "timestamp": ValueRenderer.timestamp(stamp.timestamp),
            "value": try self.value(value, content),
        ]
    }
}
