// Blame, an object's log and differences as the client interface writes them.

internal import Coordinator
internal import Merge

/// Renders why values are what they are. A value; usable from any thread.
struct ExplainRenderer: Sendable {
    typealias EntityNaming = ValueRenderer.EntityNaming

    let renderer: ValueRenderer
    /// How many digits of short names are shown.
    let digits: Int

    // MARK: Saves

    /// The heading of a save; null where there is none.
    func json(_ heading: SaveHeading?) -> JSONValue {
        guard let heading else { return .null }
        return [
            "dot": .string(heading.dot.description),
            "node": .integer(Int64(heading.dot.actor.node.rawValue)),
            "author": ValueRenderer.text(heading.description.author),
            "context": ValueRenderer.text(heading.description.contextName),
            "note": ValueRenderer.text(heading.description.note),
            "saveID": ValueRenderer.text(heading.saveID),
            "timestamp": ValueRenderer.timestamp(heading.timestamp),
        ]
    }

    // MARK: Blame

    /// Why an object's values are what they are.
    func json(_ blame: ObjectBlame, _ naming: EntityNaming) rethrows -> JSONObject {
        let entity = renderer.model.entity(named: blame.object.entityName)
        var properties: [JSONValue] = []
        for property in blame.properties {
            guard let stored = entity?.properties[property.position] else { continue }
            properties.append(try json(property, stored, naming))
        }
        return [
            "object": .string(renderer.uri(blame.object)),
            "entity": .string(blame.object.entityName),
            "alive": .boolean(blame.isAlive),
            "version": ValueRenderer.text(blame.version?.description),
            "inserted": json(blame.inserted), "deleted": json(blame.deleted),
            "properties": .array(properties),
        ]
    }

    private func json(
        _ property: ObjectBlame.Property, _ stored: ManagedObjectModel.Property,
        _ naming: EntityNaming
    ) rethrows -> JSONValue {
        var previous = JSONValue.null
        if let before = property.previous {
            previous = [
                "value": try renderer.value(before.value, stored.content, naming),
                "write": json(before.write),
            ]
        }
        var beaten: [JSONValue] = []
        for loser in property.beaten {
            var value = JSONValue.null
            let own = loser.side.value ?? loser.side.row.first { $0.name == stored.name }?.value
            if let own { value = try renderer.value(own, stored.content, naming) }
            beaten.append([
                "conflict": .string(loser.conflict.description),
                "short": .string(String(loser.conflict.shortName.prefix(digits))),
                "state": .string(loser.state.rawValue),
                "write": json(loser.side), "value": value,
                "deleted": .boolean(loser.side.isDeleted),
                "rule": .string(loser.explanation.rule.rawValue),
                "text": .string(loser.explanation.text),
            ])
        }
        return [
            "property": .string(stored.name),
            "value": try renderer.value(property.value, stored.content, naming),
            "write": json(property.write),
            "seen": property.write?.seen.map(ValueRenderer.vector) ?? .null,
            "previous": previous, "beat": .array(beaten), "undo": json(property.remedy),
        ]
    }

    private func json(_ side: ConflictSide) -> JSONValue {
        [
            "dot": ValueRenderer.text(side.dot?.description),
            "node": side.dot.map { .integer(Int64($0.actor.node.rawValue)) } ?? .null,
            "author": ValueRenderer.text(side.author),
            "context": ValueRenderer.text(side.contextName),
            "timestamp": ValueRenderer.timestamp(side.timestamp),
        ]
    }

    private func json(_ remedy: ObjectBlame.Property.Remedy?) -> JSONValue {
        switch remedy {
        case nil: .null
        case .conflict(let id)?:
            [
                "kind": .string("conflict"), "conflict": .string(id.description),
                "short": .string(String(id.shortName.prefix(digits))),
            ]
        case .save(let dot)?:
            ["kind": .string("save"), "transaction": .string(dot.description)]
        }
    }

    // MARK: Log

    /// An object's life.
    func json(
        _ log: ObjectLog, of object: ManagedObjectID, _ naming: EntityNaming
    ) rethrows -> JSONObject {
        var entries: [JSONValue] = []
        for entry in log.entries {
            var json = self.json(SaveHeading(entry.transaction)).object ?? JSONObject()
            let kinds = entry.transaction.changes.filter { $0.row == object.row }.map(\.kind)
            let kind =
                kinds.contains { $0 == .insert || $0 == .revival }
                ? "insert" : kinds.contains(.delete) ? "delete" : "update"
            json["kind"] = .string(kind)
            try append(entry.transaction, of: object, to: &json, naming)
            json["after"] = .array(entry.after.map { .string($0.description) })
            entries.append(.object(json))
        }
        return [
            "object": .string(renderer.uri(object)), "entries": .array(entries),
            "complete": .boolean(log.isComplete),
        ]
    }

    /// The values of a save, and the members that it added to relationships and removed from them.
    private func append(
        _ transaction: Transaction, of object: ManagedObjectID, to json: inout JSONObject,
        _ naming: EntityNaming
    ) rethrows {
        var (values, added, removed) = (JSONObject(), JSONObject(), JSONObject())
        for change in transaction.changes {
            let shape = transaction.shapes[change.shape]
            guard let target = change.target else {
                if change.kind == .delete { continue }
                for (name, value) in zip(shape.assigned + shape.carried, change.values) {
                    values[name] = try renderer.value(
                        value, entity: shape.entity, property: name, naming)
                }
                continue
            }
            guard let end = end(of: shape.entity, isFirst: change.row == object.row, object)
            else { continue }
            let member = ManagedObjectID(
                entityName: end.destination, row: change.row == object.row ? target : change.row)
            let uri = JSONValue.string(try renderer.resolvedURI(member, naming))
            if change.kind == .link {
                added[end.name] = .array((added[end.name]?.array ?? []) + [uri])
            } else {
                removed[end.name] = .array((removed[end.name]?.array ?? []) + [uri])
            }
        }
        json["values"] = .object(values)
        if !added.members.isEmpty { json["add"] = .object(added) }
        if !removed.members.isEmpty { json["remove"] = .object(removed) }
    }

    /// The relationship by which an object sees a link.
    private func end(
        of link: String, isFirst: Bool, _ object: ManagedObjectID
    ) -> ManagedObjectModel.Relationship? {
        renderer.model.entity(named: object.entityName)?.relationships.first { relationship in
            guard case .link(let name, let side) = relationship.storage else { return false }
            return name == link && side == isFirst
        }
    }

    // MARK: Differences

    /// An object that differs.
    func json(_ object: DifferingObject, _ naming: EntityNaming) rethrows -> JSONValue {
        [
            "object": .string(renderer.uri(object.object)),
            "entity": .string(object.object.entityName),
            "kind": .string(object.kind.rawValue),
            "properties": try renderer.snapshot(
                object.values, entity: object.object.entityName, naming),
            "relationships": .array(object.relationships.sorted().map { .string($0) }),
            "transactions": .array(object.transactions.map { .string($0.description) }),
        ]
    }
}
