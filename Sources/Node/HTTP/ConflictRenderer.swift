// Conflicts as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders entries of the conflict journal. A value; usable from any thread.
struct ConflictRenderer: Sendable {
    let renderer: ValueRenderer

    func json(_ conflict: Conflict, base: (dot: Dot, value: PropertyValue)?) -> JSONValue {
        [
            "id": .string(conflict.id.description),
            "kind": .string(conflict.kind.rawValue),
            "state": .string(conflict.state.rawValue),
            "open": .boolean(conflict.isOpen),
            "entity": .string(conflict.id.entity),
            "object": .string(renderer.uri(conflict.object)),
            "property": ValueRenderer.text(conflict.property),
            "policy": .string(conflict.policy.rawValue),
            "sides": .array(conflict.sides.map { side($0, of: conflict) }),
            "base": base.map { base in
                [
                    "dot": .string(base.dot.description),
                    "value": value(base.value, of: conflict),
                ]
            } ?? .null,
            "reason": [
                "rule": .string(conflict.explanation.rule.rawValue),
                "text": .string(conflict.explanation.text),
            ],
            "violation": ValueRenderer.text(conflict.violation?.rawValue),
            "closedBy": ValueRenderer.text(conflict.closedBy?.description),
        ]
    }

    private func side(_ side: ConflictSide, of conflict: Conflict) -> JSONValue {
        var result: JSONObject = [
            "dot": ValueRenderer.text(side.dot?.description),
            "node": side.dot.map { .integer(Int64($0.actor.node.rawValue)) } ?? .null,
            "author": ValueRenderer.text(side.author),
            "context": ValueRenderer.text(side.contextName),
            "timestamp": ValueRenderer.timestamp(side.timestamp),
            "value": value(of: side, conflict),
            "visible": .boolean(side.isVisible),
        ]
        if side.isDeleted { result["deleted"] = .boolean(true) }
        let writes = writes(of: side)
        if !writes.members.isEmpty { result["writes"] = .object(writes) }
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

    private func value(of side: ConflictSide, _ conflict: Conflict) -> JSONValue {
        if let value = side.value { return self.value(value, of: conflict) }
        if side.isDeleted { return .null }
        var row = JSONObject()
        for entry in side.row {
            row[entry.name] = renderer.value(
                entry.value, entity: side.object?.entityName ?? conflict.id.entity,
                property: entry.name)
        }
        // Of a group each side is another object's.
        guard conflict.kind == .uniqueness, let object = side.object else { return .object(row) }
        return ["object": .string(renderer.uri(object)), "values": .object(row)]
    }

    private func value(_ value: PropertyValue, of conflict: Conflict) -> JSONValue {
        renderer.value(value, entity: conflict.id.entity, property: conflict.property ?? "")
    }
}
