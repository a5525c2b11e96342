// Transactions of the log as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders transactions. A value; usable from any thread.
struct TransactionRenderer: Sendable {
    let renderer: ValueRenderer

    /// A transaction with all its changes.
    func json(_ transaction: Transaction) -> JSONObject {
        [
            "dot": .string(transaction.dot.description),
            "timestamp": ValueRenderer.timestamp(transaction.timestamp),
            "seen": ValueRenderer.vector(transaction.seen),
            "author": ValueRenderer.text(transaction.author),
            "context": ValueRenderer.text(transaction.contextName),
            "saveID": ValueRenderer.text(transaction.saveID),
            "changes": .array(
                transaction.changes.map { json($0, transaction.shapes[$0.shape]) }),
        ]
    }

    private func json(_ change: Change, _ shape: ChangeShape) -> JSONValue {
        switch change.kind {
        case .link, .unlink: return link(change, shape)
        case .insert, .revival:
            return change.kind == .insert
                ? row(change, shape, "insert") : row(change, shape, "insert", isRevival: true)
        case .update: return row(change, shape, "update")
        case .delete: return row(change, shape, "delete")
        }
    }

    private func row(
        _ change: Change, _ shape: ChangeShape, _ kind: String, isRevival: Bool = false
    ) -> JSONValue {
        var values = JSONObject()
        for (name, value) in zip(shape.assigned + shape.carried, change.values) {
            values[name] = renderer.value(value, entity: shape.entity, property: name)
        }
        let object = ManagedObjectID(entityName: shape.entity, row: change.row)
        var result: JSONObject = [
            "object": .string(renderer.uri(object)), "kind": .string(kind),
            "values": .object(values),
        ]
        if isRevival { result["revival"] = .boolean(true) }
        return .object(result)
    }

    /// A link made or taken away, told as an update of the object on the side that sorts first.
    private func link(_ change: Change, _ shape: ChangeShape) -> JSONValue {
        let parts = shape.entity.split(separator: ".", maxSplits: 1).map(String.init)
        let link = renderer.model.link(named: shape.entity)
        let object = ManagedObjectID(
            entityName: link?.source ?? parts.first ?? shape.entity, row: change.row)
        let member = change.target.map { target in
            renderer.uri(
                ManagedObjectID(entityName: link?.target ?? object.entityName, row: target))
        }
        var members = JSONObject()
        members[parts.last ?? shape.entity] = .array(member.map { [.string($0)] } ?? [])
        var result: JSONObject = [
            "object": .string(renderer.uri(object)), "kind": .string("update"),
            "values": .object(JSONObject()),
        ]
        result[change.kind == .link ? "add" : "remove"] = .object(members)
        return .object(result)
    }
}
