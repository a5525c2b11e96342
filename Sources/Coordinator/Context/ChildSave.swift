import Merge

/// A child's save: its changes become unsaved changes of its parent.
///
/// The parent knows no conflicts: what the child changed replaces what the parent has changed itself.
/// Only an object that the parent has deleted stays deleted.
struct ChildSave: ContextPart {
    let context: ManagedObjectContext

    /// What a child has changed, by permanent identities.
    private struct Changes {
        /// The first inserted first.
        var inserted: [SaveOperation] = []
        var updated: [SaveOperation] = []
        var deleted: [SaveOperation] = []
        var checked: [ManagedObjectID] = []
    }

    /// Saves into the parent.
    ///
    /// - Returns: how the parent shows the objects now.
    /// - Throws: ``CoordinatorError`` where no identities can be had, or the parent cannot read; then
    ///   nothing is changed.
    func save(into parent: ManagedObjectContext) throws -> SaveCompletion.Outcome {
        try IdentityGiver(context: context).giveToInserted()
        let changes = changes()
        let (outcome, shown) = try parent.shown { shown in
            try ChildSave(context: shown.context).take(changes, of: context)
        }
        for object in shown { graph.registry[object.objectID]?.object?.shown = object }
        return outcome
    }

    private func changes() -> Changes {
        let saving = context.saving
        var changes = Changes()
        for object in saving.insertedInOrder() {
            // With what was assigned without tracking it.
            let properties = object.entity.properties
            let values = properties.indices.filter {
                object.assigned.contains($0) || object.values[$0] != properties[$0].defaultValue
            }
            changes.inserted.append(
                SaveOperation(
                    kind: .insert, entity: object.entity, row: object.row,
                    values: values.map { ($0, object.values[$0]) },
                    relationships: saving.linkOperations(of: object)))
        }
        for object in context.sorted(graph.updated) {
            let values = object.changedPositions().filter { !saving.isNullified($0, of: object) }
            changes.updated.append(
                SaveOperation(
                    kind: .update, entity: object.entity, row: object.row,
                    values: values.map { ($0, object.values[$0]) },
                    relationships: saving.linkOperations(of: object)))
        }
        for object in context.sorted(graph.deleted) {
            var deletion = SaveOperation(
                kind: .delete, entity: object.entity, row: object.row,
                values: saving.decidingReferences(of: object),
                relationships: saving.linkOperations(of: object))
            deletion.isByRule = object.isDeletedByRule
            changes.deleted.append(deletion)
        }
        changes.checked = graph.checked.keys.sorted()
        return changes
    }

    // MARK: In the parent

    /// Takes what a child has changed. To be used in the parent.
    ///
    /// - Returns: how its objects are now, and these.
    private func take(
        _ changes: Changes, of child: ManagedObjectContext
    ) throws -> (SaveCompletion.Outcome, [ManagedObject]) {
        // What cannot be read is not gone: nothing is changed then.
        let known = (changes.updated + changes.deleted).compactMap { object(of: $0) }
        try objectRegistry.throwFaultingError()
        for operation in changes.inserted {
            // Somebody may have a fault of it already.
            let known = objectRegistry.registered(operation.row, operation.entity)
            let object =
                known
                ?? context.objectClass(of: operation.entity)
                .init(entity: operation.entity, insertInto: nil)
            object.row = operation.row
            context.take(object)
        }
        let written = changes.inserted + changes.updated + changes.deleted
        for operation in written { write(operation) }
        for operation in written { link(operation) }
        for operation in changes.deleted {
            guard let object = object(of: operation) else { continue }
            context.delete(object)
            object.isDeletedByRule = operation.isByRule
        }
        context.processPendingChanges()
        for objectID in changes.checked {
            let object = context.object(with: objectID)
            if !object.isDeleted { context.detectConflicts(for: object) }
        }
        let rows = written.map(savedRow)
        context.tellChildren(
            Set(rows.lazy.map(\.objectID)),
            inserted: Set(changes.inserted.map { objectID(of: $0) }), but: child)
        let inserted = changes.inserted.compactMap { object(of: $0) }
        return (SaveCompletion.Outcome(rows: rows), inserted + known.filter { !$0.isDeleted })
    }

    private func objectID(of operation: SaveOperation) -> ManagedObjectID {
        ManagedObjectID(entityName: operation.entity.name, row: operation.row)
    }

    /// The parent's object, realised; nil where it is gone, or deleted here.
    private func object(of operation: SaveOperation) -> ManagedObject? {
        let object = context.object(with: objectID(of: operation))
        objectRegistry.fire(object)
        return object.isDeleted || object.isFault ? nil : object
    }

    private func write(_ operation: SaveOperation) {
        guard let object = object(of: operation) else { return }
        for (position, value) in operation.values {
            object.write(isGone(value, position, operation.entity) ? .null : value, position)
        }
    }

    /// Whether a to-one leads to an object that is deleted here.
    private func isGone(
        _ value: PropertyValue, _ position: Int, _ entity: ManagedObjectModel.Entity
    ) -> Bool {
        guard case .reference(let row) = value,
            case .toOne(let destination) = entity.properties[position].content
        else { return false }
        return objectRegistry.resolve(row, destination: destination)?.isDeleted ?? true
    }

    private func link(_ operation: SaveOperation) {
        guard !operation.relationships.isEmpty, let object = object(of: operation) else { return }
        for change in operation.relationships {
            guard let relationship = object.entity.relationship(named: change.name) else {
                continue
            }
            for row in change.members {
                guard
                    let member = objectRegistry.resolve(row, destination: relationship.destination),
                    !member.isDeleted
                else { continue }
                relationshipTracker.setLink(
                    of: object, relationship, to: member, isMember: change.kind == .add)
            }
        }
    }

    private func savedRow(_ operation: SaveOperation) -> SaveResult.SavedRow {
        let objectID = objectID(of: operation)
        guard operation.kind != .delete, let object = object(of: operation) else {
            return .init(objectID: objectID, version: nil, values: nil)
        }
        let row = ShownObjects(context: context).snapshot(of: object)
        return .init(
            objectID: objectID, version: row.version,
            values: Array(row.values.prefix(object.entity.properties.count)))
    }
}
