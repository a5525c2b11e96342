// Objects, transactions and conflicts of a store's file as the client interface writes them.

import Coordinator
import Merge

/// Encodes what a reader reads; to be used within one read.
struct StoreEncoder {
    let reader: StoreReader
    let model: ManagedObjectModel
    let cluster: String
    /// The properties wanted; nil for all.
    var properties: [String]?
    var includesVersions = false

    static func count(_ number: UInt64) -> JSONValue { .integer(Int64(clamping: number)) }

    static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }

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

    func uri(_ object: ManagedObjectID) -> String { object.uriRepresentation(cluster: cluster) }

    func value(
        _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content
    ) -> JSONValue {
        guard case .reference(let row) = value, case .toOne(let destination) = content else {
            return value.jsonValue { $0.description }
        }
        return value.jsonValue(
            cluster: cluster, destination: entityName(of: row, destination: destination))
    }

    /// The entity of an object that something leads to, which may inherit from the destination: an
    /// object has one URI only. Where there is no such row, or another is shown for it, it is the
    /// destination.
    private func entityName(of row: RowID, destination: String) -> String {
        guard let entity = model.entity(named: destination), entity.familyNames.count > 1,
            let found = try? reader.row(entity, row)?.objectID, found.row == row
        else { return destination }
        return found.entityName
    }

    /// An object that may be named by an entity which its own inherits from.
    private func named(_ object: ManagedObjectID) -> ManagedObjectID {
        ManagedObjectID(
            entityName: entityName(of: object.row, destination: object.entityName),
            row: object.row)
    }

    func value(_ value: PropertyValue, entity name: String, property: String) -> JSONValue {
        guard case .reference(let row) = value, let entity = model.entity(named: name) else {
            return value.jsonValue { $0.description }
        }
        if let position = entity.position(of: property) {
            return self.value(value, entity.properties[position].content)
        }
        let destination = entity.relationship(named: property)?.destination ?? name
        return value.jsonValue(
            cluster: cluster, destination: entityName(of: row, destination: destination))
    }

    // MARK: Objects

    func object(_ row: RowSnapshot) throws -> JSONObject {
        guard let entity = model.entity(named: row.objectID.entityName) else {
            throw CoordinatorError(
                .storeDamaged, "The store has an object of entity \(row.objectID.entityName).")
        }
        let derived = entity.relationships.map(\.name).filter { entity.position(of: $0) == nil }
        var values = JSONObject()
        for name in properties ?? entity.properties.map(\.name) + derived {
            if let position = entity.position(of: name) {
                values[name] = value(row.values[position], entity.properties[position].content)
            } else if let relationship = entity.relationship(named: name) {
                let members = try reader.members(
                    of: relationship, entity: entity, row: row.objectID.row)
                values[name] =
                    relationship.isToMany
                    ? .array(members.map { .string(uri($0)) })
                    : Self.text(members.first.map(uri))
            }
        }
        var object: JSONObject = [
            "id": .string(uri(row.objectID)), "entity": .string(entity.name),
            "version": .string(row.version.description),
            "conflicted": .boolean(row.isConflicted), "values": .object(values),
        ]
        if includesVersions { object["versions"] = try versions(row, entity) }
        return object
    }

    private func versions(
        _ row: RowSnapshot, _ entity: ManagedObjectModel.Entity
    ) throws -> JSONValue {
        guard let registers = try reader.shownRegisters(entity, row.objectID.row) else {
            return .null
        }
        var result = JSONObject()
        for (position, property) in entity.properties.enumerated() {
            if let properties, !properties.contains(property.name) { continue }
            guard let register = registers[position] else { continue }
            let visible = register.visible
            let siblings = register.siblings.map { ($0.stamp, $0.value) }
            result[property.name] = [
                "dot": .string(visible.dot.description),
                "timestamp": Self.timestamp(visible.stamp.timestamp),
                "siblings": .array(
                    siblings.map { stamp, value in
                        [
                            "dot": .string(stamp.dot.description),
                            "timestamp": Self.timestamp(stamp.timestamp),
                            "value": self.value(value, property.content),
                        ]
                    }),
            ]
        }
        return .object(result)
    }

    // MARK: Transactions

    func transaction(
        _ transaction: Transaction, derived: [DerivedChange] = []
    ) -> JSONObject {
        [
            "dot": .string(transaction.dot.description),
            "timestamp": Self.timestamp(transaction.timestamp),
            "seen": Self.vector(transaction.seen), "author": Self.text(transaction.author),
            "context": Self.text(transaction.contextName),
            "saveID": Self.text(transaction.saveID),
            "changes": .array(
                transaction.changes.map { .object(change($0, transaction.shapes[$0.shape])) }
                    + derived.map { .object(change($0)) }),
        ]
    }

    /// A reference that leads elsewhere since, told as an update of the object that has it.
    private func change(_ change: DerivedChange) -> JSONObject {
        var values = JSONObject()
        values[change.property] = value(
            change.target.map { .reference($0) } ?? .null, entity: change.object.entityName,
            property: change.property)
        return [
            "object": .string(uri(change.object)), "kind": .string("update"),
            "values": .object(values), "derived": .boolean(true),
        ]
    }

    private func change(_ change: Change, _ shape: ChangeShape) -> JSONObject {
        if let target = change.target { return link(change, target, shape.entity) }
        var values = JSONObject()
        for (name, value) in zip(shape.assigned + shape.carried, change.values) {
            values[name] = self.value(value, entity: shape.entity, property: name)
        }
        let kind =
            switch change.kind {
            case .insert, .revival: "insert"
            case .delete: "delete"
            case .update, .link, .unlink: "update"
            }
        var result: JSONObject = [
            "object": .string(uri(ManagedObjectID(entityName: shape.entity, row: change.row))),
            "kind": .string(kind), "values": .object(values),
        ]
        if change.kind == .revival { result["revival"] = .boolean(true) }
        return result
    }

    /// A link made or taken away, told as an update of the object on the side that sorts first.
    private func link(_ change: Change, _ target: RowID, _ name: String) -> JSONObject {
        let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
        let link = model.link(named: name)
        let object = ManagedObjectID(
            entityName: link?.source ?? parts.first ?? name, row: change.row)
        let member = ManagedObjectID(entityName: link?.target ?? object.entityName, row: target)
        var members = JSONObject()
        members[parts.last ?? name] = .array([.string(uri(named(member)))])
        return [
            "object": .string(uri(named(object))), "kind": .string("update"),
            "values": .object(JSONObject()),
            change.kind == .link ? "add" : "remove": .object(members),
        ]
    }

    // MARK: Conflicts

    func conflict(
        _ conflict: Conflict, base: (dot: Dot, value: PropertyValue)?
    ) -> JSONObject {
        [
            "id": .string(conflict.id.description), "kind": .string(conflict.kind.rawValue),
            "state": .string(conflict.state.rawValue), "open": .boolean(conflict.isOpen),
            "entity": .string(conflict.id.entity), "object": .string(uri(named(conflict.object))),
            "property": Self.text(conflict.property), "policy": .string(conflict.policy.rawValue),
            "sides": .array(conflict.sides.map { .object(side($0, conflict)) }),
            "base": base.map { base in
                [
                    "dot": .string(base.dot.description),
                    "value": value(
                        base.value, entity: conflict.id.entity,
                        property: conflict.property ?? ""),
                ]
            } ?? .null,
            "reason": [
                "rule": .string(conflict.explanation.rule.rawValue),
                "text": .string(conflict.explanation.text),
            ],
            "violation": Self.text(conflict.violation?.rawValue),
            "closedBy": Self.text(conflict.closedBy?.description),
            "decision": conflict.decision.map { decision in
                [
                    "by": .integer(Int64(decision.dot.actor.node.rawValue)),
                    "author": Self.text(decision.author),
                    "context": Self.text(decision.contextName), "note": .null,
                    "timestamp": Self.timestamp(decision.timestamp),
                    "dot": .string(decision.dot.description),
                ]
            } ?? .null,
        ]
    }

    private func side(_ side: ConflictSide, _ conflict: Conflict) -> JSONObject {
        var result: JSONObject = [
            "dot": Self.text(side.dot?.description),
            "node": side.dot.map { .integer(Int64($0.actor.node.rawValue)) } ?? .null,
            "author": Self.text(side.author), "context": Self.text(side.contextName),
            "timestamp": Self.timestamp(side.timestamp), "value": value(of: side, conflict),
            "visible": .boolean(side.isVisible),
        ]
        if side.isDeleted { result["deleted"] = .boolean(true) }
        // Of objects shown as one, each has sides of its own.
        if conflict.kind == .update, let object = side.object {
            result["object"] = .string(uri(object))
        }
        // Who wrote the values that are not the side's own, and when.
        var writes = JSONObject()
        for entry in side.row {
            guard let stamp = entry.stamp else { continue }
            writes[entry.name] = [
                "dot": .string(stamp.dot.description),
                "node": .integer(Int64(stamp.dot.actor.node.rawValue)),
                "timestamp": Self.timestamp(stamp.timestamp),
            ]
        }
        if !writes.members.isEmpty { result["writes"] = .object(writes) }
        var relationships = JSONObject()
        let entity = model.entity(named: conflict.id.entity)
        for change in side.relationships {
            let destination =
                entity?.relationship(named: change.name)?.destination ?? conflict.id.entity
            var changes = relationships[change.name]?.object ?? JSONObject()
            changes[change.kind.rawValue] = .array(
                change.members.map {
                    .string(uri(named(ManagedObjectID(entityName: destination, row: $0))))
                })
            relationships[change.name] = .object(changes)
        }
        if !relationships.members.isEmpty { result["relationships"] = .object(relationships) }
        return result
    }

    private func value(of side: ConflictSide, _ conflict: Conflict) -> JSONValue {
        // One that took a link away still knows where that led.
        if side.isDeleted { return .null }
        if let value = side.value {
            return self.value(
                value, entity: conflict.id.entity, property: conflict.property ?? "")
        }
        var row = JSONObject()
        for entry in side.row {
            row[entry.name] = value(
                entry.value, entity: side.object?.entityName ?? conflict.id.entity,
                property: entry.name)
        }
        // Of a group each side is another object's.
        guard conflict.kind == .uniqueness, let object = side.object else { return .object(row) }
        return ["object": .string(uri(object)), "values": .object(row)]
    }
}
