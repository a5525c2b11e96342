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
        /// The members of `values`, each with its key and colon as bytes.
        let members: [(key: [UInt8], content: Content)]
    }

    private let reader: StoreReader
    private let renderer: ValueRenderer
    private let selection: ObjectSelection
    private var layouts: [String: Layout] = [:]
    private let entities: ReferencedEntities

    init(_ reader: StoreReader, renderer: ValueRenderer, selection: ObjectSelection) {
        self.reader = reader
        self.renderer = renderer
        self.selection = selection
        entities = ReferencedEntities(reader, renderer.model)
    }

    /// Writes an object with its braces.
    mutating func append(_ row: RowSnapshot, to output: inout [UInt8]) throws {
        output.append(UInt8(ascii: "{"))
        try appendMembers(row, to: &output)
        output.append(UInt8(ascii: "}"))
    }

    /// Writes an object's members without braces.
    mutating func appendMembers(_ row: RowSnapshot, to output: inout [UInt8]) throws {
        let layout = try layout(row.objectID.entityName)
        output.append(contentsOf: "\"id\":\"\(renderer.uri(row.objectID))\",\"entity\":\"".utf8)
        output.append(contentsOf: layout.entity.name.utf8)
        output.append(contentsOf: "\",\"version\":\"\(row.version)\",\"conflicted\":".utf8)
        output.append(contentsOf: (row.isConflicted ? "true" : "false").utf8)
        output.append(contentsOf: ",\"values\":{".utf8)
        for (index, member) in layout.members.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output.append(contentsOf: member.key)
            switch member.content {
            case .property(let position, let content):
                JSONWriter.append(try value(row.values[position], content), to: &output)
            case .related(let relationship):
                try append(relationship, of: row, layout.entity, to: &output)
            }
        }
        output.append(UInt8(ascii: "}"))
        if selection.includesVersions {
            output.append(contentsOf: ",\"versions\":".utf8)
            JSONWriter.append(try versions(row, layout.entity), to: &output)
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
                if let position = entity.position(of: name) {
                    members.append((name, .property(position, entity.properties[position].content)))
                } else if let relationship = entity.relationship(named: name) {
                    members.append((name, .related(relationship)))
                }
            }
        } else {
            for (position, property) in entity.properties.enumerated() {
                members.append((property.name, .property(position, property.content)))
            }
            for relationship in derived {
                members.append((relationship.name, .related(relationship)))
            }
        }
        let layout = Layout(
            entity: entity,
            members: members.map {
                (JSONWriter.bytes(of: .string($0.name)) + [UInt8(ascii: ":")], $0.content)
            })
        layouts[name] = layout
        return layout
    }

    private func value(
        _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content
    ) throws -> JSONValue {
        guard case .reference(let row) = value, case .toOne(let destination) = content else {
            return value.jsonValue { $0.description }
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
            JSONWriter.append(
                ValueRenderer.text(members.first.map(renderer.uri)), to: &output)
            return
        }
        output.append(UInt8(ascii: "["))
        for (index, member) in members.enumerated() {
            output.append(contentsOf: (index > 0 ? ",\"" : "\"").utf8)
            output.append(contentsOf: renderer.uri(member).utf8)
            output.append(UInt8(ascii: "\""))
        }
        output.append(UInt8(ascii: "]"))
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
