import Merge

/// Delete rules among the objects at hand.
struct DeletePropagation: ContextPart {
    let context: ManagedObjectContext

    // MARK: Delete rules

    /// Carries out delete rules among the objects at hand. Objects deleted on the way join the
    /// list, so cycles end. What cannot be read is left to the coordinator, which carries the
    /// rules out on the store whatever happens here; the failure is noted.
    func propagateDeletes() {
        var dropped = Set<ManagedObjectID>()
        var index = 0
        while index < graph.undelivered.count {
            let object = graph.undelivered[index]
            index += 1
            // One that was deleted elsewhere meanwhile is none of this context's deletes.
            guard object.change == .deleted else { continue }
            for relationship in object.entity.relationships {
                propagate(relationship, of: object)
                noteOwner(relationship, of: object)
            }
            if wasNeverSaved(object) {
                dropped.insert(object.objectID)
                graph.deleted[object.objectID] = nil
                objectRegistry.detach(object)
            }
        }
        graph.undelivered = []
        if !dropped.isEmpty { forget(dropped) }
    }

    /// An object that a deleted one led to has a member less.
    private func noteOwner(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject
    ) {
        guard case .column(let position) = relationship.storage,
            relationship.description.inverse != nil,
            case .reference(let row) = object.values[position],
            let owner = objectRegistry.resolve(row, destination: relationship.destination)
        else { return }
        context.noteChange(of: owner)
    }

    /// Takes objects that are gone out of unsaved changes: inserts that were dropped out of what has no
    /// inverse by which their delete rules would have come there, and what was deleted elsewhere.
    func forget(_ gone: Set<ManagedObjectID>) {
        for (key, delta) in graph.linkDeltas
        where !gone.isDisjoint(with: delta.added) || !gone.isDisjoint(with: delta.removed) {
            var delta = delta
            delta.added.subtract(gone)
            delta.removed.subtract(gone)
            delta.nullified.subtract(gone)
            graph.linkDeltas[key] = delta.isEmpty ? nil : delta
        }
        let rows = Set(gone.map(\.row))
        for object in context.sorted(graph.inserted) + context.sorted(graph.updated) {
            for relationship in object.entity.relationships {
                guard case .column(let position) = relationship.storage,
                    case .reference(let row) = object.values[position], rows.contains(row)
                else { continue }
                if object.base(position) == object.values[position] {
                    // It reads as null in the store by now: nobody changed it.
                    relationshipTracker.rebalance(object) {
                        object.values[position] = .null
                        object.snapshot[position] = .null
                    }
                    graph.event.refreshed.insert(object)
                } else {
                    object.write(.null, position)
                }
            }
        }
    }

    func propagate(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject
    ) {
        var rule = relationship.description.deleteRule
        // Of what was never saved nothing stays that others could lead to.
        if wasNeverSaved(object), rule != .cascade { rule = .nullify }
        switch rule {
        case .noAction, .deny: return
        case .cascade, .nullify: break
        }
        for member in relatedForDeletion(relationship, of: object) {
            if rule == .cascade {
                guard member.change != .deleted else { continue }
                context.delete(member)
                member.isDeletedByRule = true
            } else {
                nullify(relationship, of: object, at: member)
            }
        }
    }

    func wasNeverSaved(_ object: ManagedObject) -> Bool {
        object.snapshot.isEmpty && object.version == nil
    }

    private func relatedForDeletion(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject
    ) -> [ManagedObject] {
        if case .column(let position) = relationship.storage {
            guard relationship.description.deleteRule == .cascade,
                case .reference(let row) = object.values[position],
                let target = objectRegistry.resolve(row, destination: relationship.destination)
            else { return [] }
            return [target]
        }
        let members = relationshipTracker.members(of: object, relationship).sorted().map {
            context.object(with: $0)
        }
        readTogether(members)
        return members
    }

    /// The most objects that are read by one statement.
    private static let batchSize = 1_000

    /// Has faults that are about to be deleted, or changed, read by one statement for many.
    private func readTogether(_ objects: [ManagedObject]) {
        let faults = objects.filter { object in
            guard object.isFault, object.change == .none, !object.isInaccessible,
                case .none = object.source
            else { return false }
            return true
        }
        // A parent is asked for each as it fires.
        if faults.count < 2 || context.parent != nil { return }
        for start in stride(from: 0, to: faults.count, by: Self.batchSize) {
            let part = faults[start..<min(start + Self.batchSize, faults.count)]
            let batch = FaultBatch(part.map(\.objectID))
            for object in part { object.source = .batch(batch) }
        }
    }

    /// Takes a deleted object out of another's relationship.
    func nullify(
        _ relationship: ManagedObjectModel.Relationship, of object: ManagedObject,
        at member: ManagedObject
    ) {
        switch relationship.storage {
        case .column: break
        case .inverseColumn(_, let property):
            let value: PropertyValue = member[property]
            guard value == .reference(object.objectID.row) else { return }
            member[property] = .null
            if let position = member.entity.position(of: property) {
                member.nullified.insert(position)
            }
        case .link:
            relationshipTracker.setLink(
                of: object, relationship, to: member, isMember: false, isNullified: true)
        }
    }
}
