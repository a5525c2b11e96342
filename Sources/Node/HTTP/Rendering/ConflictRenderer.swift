// Conflicts as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders entries of the conflict journal. A value; usable from any thread.
struct ConflictRenderer: Sendable {
    typealias EntityNaming = ValueRenderer.EntityNaming

    let renderer: ValueRenderer

    /// An entry.
    ///
    /// - Parameters:
    ///   - base: what was there before the sides; nil where it is not known.
    ///   - digits: how many digits of its short name are shown.
    ///   - naming: gives the entities of the objects that it refers to.
    func json(
        _ conflict: Conflict, base: (dot: Dot, value: PropertyValue)?, digits: Int,
        _ naming: EntityNaming
    ) rethrows -> JSONValue {
        var sides: [JSONValue] = []
        for side in conflict.sides { sides.append(try json(side, of: conflict, naming)) }
        var before = JSONValue.null
        if let base {
            before = [
                "dot": .string(base.dot.description),
                "value": try value(base.value, of: conflict, naming),
            ]
        }
        return [
            "id": .string(conflict.id.description),
            "kind": .string(conflict.kind.rawValue),
            "state": .string(conflict.state.rawValue),
            "open": .boolean(conflict.isOpen),
            "entity": .string(conflict.id.entity),
            "object": .string(try renderer.resolvedURI(conflict.object, naming)),
            "property": ValueRenderer.text(conflict.property),
            "policy": .string(conflict.policy.rawValue),
            "sides": .array(sides),
            "base": before,
            "reason": [
                "rule": .string(conflict.explanation.rule.rawValue),
                "text": .string(conflict.explanation.text),
            ],
            "violation": ValueRenderer.text(conflict.violation?.rawValue),
            "closedBy": ValueRenderer.text(conflict.closedBy?.description),
            "decision": try decision(of: conflict, naming),
            "short": .string(String(conflict.id.shortName.prefix(digits))),
        ]
    }

    /// A value that another policy would show otherwise.
    func json(
        _ change: PolicyTrial.Change, digits: Int, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        let conflict = change.conflict
        return [
            "conflict": .string(conflict.id.description),
            "short": .string(String(conflict.id.shortName.prefix(digits))),
            "object": .string(try renderer.resolvedURI(conflict.object, naming)),
            "property": ValueRenderer.text(conflict.property),
            "state": .string(conflict.state.rawValue),
            "shown": try change.shown.map { try json($0, of: conflict, naming) } ?? .null,
            "would": try change.would.map { try json($0, of: conflict, naming) } ?? .null,
        ]
    }

    private func decision(of conflict: Conflict, _ naming: EntityNaming) rethrows -> JSONValue {
        guard let decision = conflict.decision else { return .null }
        guard let value = decision.value, var json = Self.json(decision).object else {
            return Self.json(decision)
        }
        json["value"] = try self.value(value, of: conflict, naming)
        return .object(json)
    }

    /// A conflict's resolution: `by` is the node where it was done.
    static func json(_ decision: ConflictDecision) -> JSONValue {
        [
            "by": .integer(Int64(decision.dot.actor.node.rawValue)),
            "author": ValueRenderer.text(decision.author),
            "context": ValueRenderer.text(decision.contextName),
            "note": ValueRenderer.text(decision.note),
            "timestamp": ValueRenderer.timestamp(decision.timestamp),
            "dot": .string(decision.dot.description),
        ]
    }

    private func json(
        _ side: ConflictSide, of conflict: Conflict, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        var result: JSONObject = [
            "dot": ValueRenderer.text(side.dot?.description),
            "node": side.dot.map { .integer(Int64($0.actor.node.rawValue)) } ?? .null,
            "author": ValueRenderer.text(side.author),
            "context": ValueRenderer.text(side.contextName),
            "timestamp": ValueRenderer.timestamp(side.timestamp),
            "value": try value(of: side, conflict, naming),
            "visible": .boolean(side.isVisible),
        ]
        if side.isDeleted { result["deleted"] = .boolean(true) }
        // Of objects shown as one, each has sides of its own.
        if conflict.kind == .update, let object = side.object {
            result["object"] = .string(renderer.uri(object))
        }
        let writes = writes(of: side)
        if !writes.members.isEmpty { result["writes"] = .object(writes) }
        if !side.relationships.isEmpty {
            result["relationships"] = try relationships(of: side, conflict, naming)
        }
        return .object(result)
    }

    /// The changes of to-manys that a save's policy discarded.
    private func relationships(
        of side: ConflictSide, _ conflict: Conflict, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        var result = JSONObject()
        let entity = renderer.model.entity(named: conflict.id.entity)
        for change in side.relationships {
            let destination = entity?.relationship(named: change.name)?.destination
            var members: [JSONValue] = []
            for member in change.members {
                let object = ManagedObjectID(
                    entityName: destination ?? conflict.id.entity, row: member)
                members.append(.string(try renderer.resolvedURI(object, naming)))
            }
            var changes = result[change.name]?.object ?? JSONObject()
            changes[change.kind.rawValue] = .array(members)
            result[change.name] = .object(changes)
        }
        return .object(result)
    }

    /// The writes that a side stands on: who wrote the values that are not its own, and when.
    private func writes(of side: ConflictSide) -> JSONObject {
        var writes = JSONObject()
        for entry in side.row {
            guard let stamp = entry.stamp else { continue }
            writes[entry.name] = [
                "dot": .string(stamp.dot.description),
                "node": .integer(Int64(stamp.dot.actor.node.rawValue)),
                "timestamp": ValueRenderer.timestamp(stamp.timestamp),
            ]
        }
        return writes
    }

    private func value(
        of side: ConflictSide, _ conflict: Conflict, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        // One that took a link away still knows where that led.
        if side.isDeleted { return .null }
        if let value = side.value { return try self.value(value, of: conflict, naming) }
        var row = JSONObject()
        for entry in side.row {
            row[entry.name] = try renderer.value(
                entry.value, entity: side.object?.entityName ?? conflict.id.entity,
                property: entry.name, naming)
        }
        // Of a group each side is another object's.
        guard conflict.kind == .uniqueness, let object = side.object else { return .object(row) }
        return ["object": .string(renderer.uri(object)), "values": .object(row)]
    }

    private func value(
        _ value: PropertyValue, of conflict: Conflict, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        try renderer.value(
            value, entity: conflict.id.entity, property: conflict.property ?? "", naming)
    }
}
