// Transactions of the log as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders transactions. A value; usable from any thread.
struct TransactionRenderer: Sendable {
    typealias EntityNaming = ValueRenderer.EntityNaming

    let renderer: ValueRenderer

    /// A transaction with all its changes.
    ///
    /// - Parameters:
    ///   - derived: what it changed without writing it.
    ///   - wanted: the objects that it may tell of.
    ///   - naming: gives the entities of the objects that it refers to.
    func json(
        _ transaction: Transaction, derived: [DerivedChange] = [], wanted: WantedObjects = .all,
        _ naming: EntityNaming
    ) rethrows -> JSONObject {
        var changes: [JSONValue] = []
        changes.reserveCapacity(transaction.changes.count)
        for change in transaction.changes where wanted.has(change.row, change.target) {
            changes.append(try json(change, transaction.shapes[change.shape], naming))
        }
        for change in derived where wanted.has(change.object.row) {
            changes.append(try json(change, naming))
        }
        var result: JSONObject = [
            "dot": .string(transaction.dot.description),
            "timestamp": ValueRenderer.timestamp(transaction.timestamp),
            "seen": ValueRenderer.vector(transaction.seen),
            "author": ValueRenderer.text(transaction.author),
            "context": ValueRenderer.text(transaction.contextName),
            "saveID": ValueRenderer.text(transaction.saveID),
            "changes": .array(changes),
        ]
        if let note = transaction.note { result["note"] = .string(note) }
        return result
    }

    private func json(
        _ change: Change, _ shape: ChangeShape, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        switch change.kind {
        case .link, .unlink: return try link(change, shape, naming)
        case .insert: return try row(change, shape, "insert", naming)
        case .revival: return try row(change, shape, "insert", naming, isRevival: true)
        case .update: return try row(change, shape, "update", naming)
        case .delete: return try row(change, shape, "delete", naming)
        }
    }

    /// The change of a row; a transaction names it by its own entity.
    private func row(
        _ change: Change, _ shape: ChangeShape, _ kind: String, _ naming: EntityNaming,
        isRevival: Bool = false
    ) rethrows -> JSONValue {
        var values = JSONObject()
        for (name, value) in zip(shape.assigned + shape.carried, change.values) {
            values[name] = try renderer.value(value, entity: shape.entity, property: name, naming)
        }
        let object = ManagedObjectID(entityName: shape.entity, row: change.row)
        var result: JSONObject = [
            "object": .string(renderer.uri(object)), "kind": .string(kind),
            "values": .object(change.kind == .delete ? JSONObject() : values),
        ]
        if change.kind == .delete, !values.members.isEmpty {
            result["tombstone"] = .object(values)
        }
        if isRevival { result["revival"] = .boolean(true) }
        return .object(result)
    }

    /// A reference that leads elsewhere since, told as an update of the object that has it.
    private func json(
        _ change: DerivedChange, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        var values = JSONObject()
        values[change.property] = try renderer.value(
            change.target.map { .reference($0) } ?? .null, entity: change.object.entityName,
            property: change.property, naming)
        return [
            "object": .string(renderer.uri(change.object)), "kind": .string("update"),
            "values": .object(values), "derived": .boolean(true),
        ]
    }

    /// A link made or taken away, told as an update of the object on the side that sorts first. A
    /// transaction names its ends by the entities that the relationship is between.
    private func link(
        _ change: Change, _ shape: ChangeShape, _ naming: EntityNaming
    ) rethrows -> JSONValue {
        let parts = shape.entity.split(separator: ".", maxSplits: 1).map(String.init)
        let link = renderer.model.link(named: shape.entity)
        let object = ManagedObjectID(
            entityName: link?.source ?? parts.first ?? shape.entity, row: change.row)
        var targets: [JSONValue] = []
        if let target = change.target {
            let member = ManagedObjectID(
                entityName: link?.target ?? object.entityName, row: target)
            targets.append(.string(try renderer.resolvedURI(member, naming)))
        }
        var members = JSONObject()
        members[parts.last ?? shape.entity] = .array(targets)
        var result: JSONObject = [
            "object": .string(try renderer.resolvedURI(object, naming)),
            "kind": .string("update"), "values": .object(JSONObject()),
        ]
        result[change.kind == .link ? "add" : "remove"] = .object(members)
        return .object(result)
    }
}
