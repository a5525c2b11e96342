import Merge
import Synchronization

/// Brings a context's objects up to date once they are saved.
struct SaveCompletion: ContextPart {
    let context: ManagedObjectContext

    // MARK: Afterwards

    /// The objects of a save, kept while the context's own sets are emptied.
    struct SavedChanges {
        /// The first inserted first.
        let inserted: [ManagedObject]
        let updated: [ManagedObject]
        let deleted: [ManagedObject]
        /// The IDs of those that were only checked.
        let checked: Set<ManagedObjectID>
        /// The rows that the inserted had.
        let rows: [RowID]

        init(_ context: ManagedObjectContext) {
            inserted = context.saving.insertedInOrder()
            updated = context.sorted(context.graph.updated)
            deleted = context.sorted(context.graph.deleted)
            checked = Set(context.graph.checked.keys)
            rows = inserted.map(\.row)
        }
    }

    /// What a save has come to.
    struct Outcome {
        /// What inserted objects have become, by the rows they had.
        var identities: [RowID: ManagedObjectID] = [:]
        var rows: [SaveResult.SavedRow] = []
        var transaction: Dot?
        var token: QueryGenerationToken?
    }

    /// The rows of an outcome, to be taken one by one; of several of one object the first.
    ///
    /// A save nearly always tells its rows in the order of its objects, so that the next to be taken is
    /// the next there is.
    private struct RowsLeft {
        private let rows: [SaveResult.SavedRow]
        private var taken = 0
        private var others: [ManagedObjectID: SaveResult.SavedRow]?

        init(_ rows: [SaveResult.SavedRow]) { self.rows = rows }

        mutating func take(_ objectID: ManagedObjectID) -> SaveResult.SavedRow? {
            if others == nil, taken < rows.count, rows[taken].objectID == objectID {
                taken += 1
                return rows[taken - 1]
            }
            findOthers()
            return others?.removeValue(forKey: objectID)
        }

        /// What was not taken, in order of the objects.
        mutating func rest() -> [SaveResult.SavedRow] {
            if others == nil, taken == rows.count { return [] }
            findOthers()
            return others?.values.sorted { $0.objectID < $1.objectID } ?? []
        }

        private mutating func findOthers() {
            if others != nil { return }
            var others = Dictionary(
                rows.map { ($0.objectID, $0) }, uniquingKeysWith: { first, _ in first })
            for row in rows.prefix(taken) { others[row.objectID] = nil }
            self.others = others
        }
    }

    func outcome(_ result: SaveResult, of saved: SavedChanges) -> Outcome {
        var outcome = Outcome(
            rows: result.rows, transaction: result.transaction, token: result.token)
        for inserted in result.insertedRows {
            // A request numbers its inserts downwards from -1.
            let place = Int(-1 - inserted.temporary.rawValue)
            guard saved.inserted.indices.contains(place) else { continue }
            outcome.identities[saved.rows[place]] =
                ManagedObjectID(entityName: inserted.entityName, row: inserted.row)
        }
        return outcome
    }

    func finish(_ saved: SavedChanges, _ outcome: Outcome) {
        let identities = outcome.identities
        let permanent = identities.mapValues(\.row)
        var rows = RowsLeft(outcome.rows)

        if graph.live.isActive {
            graph.live.noteSave(
                saved.inserted + saved.updated + saved.deleted,
                Array(identities.values) + outcome.rows.map(\.objectID))
        }
        rename(saved.inserted, identities)
        var changes = ContextChanges()
        changes.inserted = Set(saved.inserted)
        changes.deleted = Set(saved.deleted)
        // A dropped object is not as it is here, and neither are the members of others that it
        // belongs to.
        var isSurprising = outcome.rows.contains(where: \.isDropped)
        // Under the rollback policy a delete can be what is given up (CD-23).
        let kept =
            saved.deleted.isEmpty
            ? []
            : Set(
                outcome.rows.lazy.filter {
                    $0.version != nil && graph.registry[$0.objectID]?.object?.change == .deleted
                }.map(\.objectID.row))
        // Objects that the save made one with others are no longer of this context.
        for object in saved.inserted where object.managedObjectContext == nil {
            changes.inserted.remove(object)
            isSurprising = true
        }
        var settled: [ManagedObject] = []
        for object in saved.inserted + saved.updated where object.managedObjectContext != nil {
            object.replaceReferences(permanent)
            if !kept.isEmpty { restoreReferences(in: object, to: kept) }
            let row = rows.take(object.objectID)
            if object.change == .updated { changes.updated.insert(object) }
            if let values = row?.values, columns(values, of: object) != object.values {
                isSurprising = true
                settled.append(object)
            }
            settle(object, row)
            // The policy dropped its changes, because it is gone, or a delete rule took it along.
            if object.managedObjectContext == nil {
                changes.updated.remove(object)
                if row?.isDropped == false { changes.deleted.insert(object) }
            }
        }
        for object in saved.deleted {
            let row = rows.take(object.objectID)
            if row?.version != nil {
                isSurprising = true
                changes.deleted.remove(object)
                settle(object, row)
                graph.event.refreshed.insert(object)
            } else {
                objectRegistry.detach(object)
            }
        }
        let rest = rows.rest()
        settleMembers(
            permanent, gone: Set(changes.deleted.map(\.objectID)),
            isSurprising: isSurprising || !rest.isEmpty)
        // Rows that the save touched besides, such as by delete rules on what was not at hand.
        let isObserved = !context.observers.withLock { $0.didSave.isEmpty }
        for row in rest {
            let objectID = row.objectID
            let known = graph.registry[objectID]?.object
            let isWritten = row.version.map { version in
                outcome.transaction.map { version.dots.contains($0) } ?? false
            }
            if isObserved, isWritten ?? !saved.checked.contains(objectID) {
                let object =
                    known
                    ?? objectRegistry.makeFault(objectID, context.entityNamed(objectID.entityName))
                if row.version != nil {
                    changes.updated.insert(object)
                } else {
                    if object.isFault { objectRegistry.markInaccessible(object) }
                    changes.deleted.insert(object)
                }
            }
            guard let object = known, !object.isFault else { continue }
            settle(object, row)
            graph.event.refreshed.insert(object)
        }
        if outcome.token != nil { objectRegistry.renewGeneration() }
        for object in settled { context.awaken(object, .mergePolicy) }
        tellSaved(saved, changes, outcome.token)
    }

    /// Calls the objects' hooks, then the observers.
    private func tellSaved(
        _ saved: SavedChanges, _ changes: ContextChanges, _ token: QueryGenerationToken?
    ) {
        for objects in [saved.inserted, saved.updated, saved.deleted] {
            for object in objects { object.didSave() }
        }
        let handlers = context.observers.withLock { $0.didSave }
        // Nobody hears of them: to gather the IDs would be in vain.
        if handlers.isEmpty { return }
        let ids = ContextDidSave(
            inserted: Set(changes.inserted.map(\.objectID)),
            updated: Set(changes.updated.map(\.objectID)),
            deleted: Set(changes.deleted.map(\.objectID)), token: token)
        for (_, handler) in handlers { handler(changes, ids) }
    }

    func rename(_ objects: [ManagedObject], _ identities: [RowID: ManagedObjectID]) {
        for object in objects {
            guard let objectID = identities[object.objectID.row] else { continue }
            graph.registry[object.objectID] = nil
            if objectID.entityName != object.entity.name
                || objectRegistry.registered(objectID.row, rootEntity(of: object)) != nil
            {
                // The save made it one with an object of another entity, which it cannot become,
                // or with one that is here already.
                object.change = .none
                object.memberBases = [:]
                object.managedObjectContext = nil
                continue
            }
            object.row = objectID.row
            objectRegistry.register(object)
        }
        graph.formerRows = [:]
        graph.inserted = [:]
        graph.updated = [:]
        graph.deleted = [:]
        graph.checked = [:]
        graph.pendingIndex = PendingIndex()
    }

    private func rootEntity(of object: ManagedObject) -> ManagedObjectModel.Entity {
        context.entityNamed(object.entity.root)
    }

    /// Takes back what the deletes of objects that are still there had taken out of another's
    /// references: the save did not write it, so the store has them as before.
    func restoreReferences(in object: ManagedObject, to kept: Set<RowID>) {
        for position in object.nullified.sorted() where object.values[position].isNull {
            guard case .reference(let row) = object.base(position), kept.contains(row) else {
                continue
            }
            object.values[position] = .reference(row)
            graph.event.refreshed.insert(object)
        }
    }

    /// What a save left in an object's properties. Its derived attributes stay as they were read.
    private func columns(_ properties: [PropertyValue], of object: ManagedObject) -> [PropertyValue]
    {
        properties + object.values.dropFirst(properties.count)
    }

    /// Makes an object clean, with what the store holds of it now.
    func settle(_ object: ManagedObject, _ row: SaveResult.SavedRow?) {
        object.change = .none
        object.assigned = []
        object.nullified = []
        if let row, row.version == nil {
            graph.event.deleted.insert(object)
            return objectRegistry.detach(object)
        }
        if let values = row?.values.map({ columns($0, of: object) }), values != object.values {
            object.values = values
            graph.event.refreshed.insert(object)
        }
        object.snapshot = object.values
        if let version = row?.version { object.version = version }
    }

    /// Takes the pending members into those read; or, where the store decided otherwise than
    /// the context asked, forgets what was read.
    private func settleMembers(
        _ permanent: [RowID: RowID], gone: Set<ManagedObjectID>, isSurprising: Bool
    ) {
        let deltas = graph.columnDeltas.merging(graph.linkDeltas) { first, _ in first }
        graph.columnDeltas = [:]
        graph.linkDeltas = [:]
        if deltas.isEmpty, gone.isEmpty, !isSurprising { return }
        let renamed = Dictionary(
            permanent.map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        let map = { (members: Set<ManagedObjectID>) in
            Set(
                members.map {
                    ManagedObjectID(entityName: $0.entityName, row: permanent[$0.row] ?? $0.row)
                })
        }
        for object in graph.memberHolders.inUse {
            if isSurprising {
                object.memberBases = [:]
                continue
            }
            let row = renamed[object.objectID.row] ?? object.objectID.row
            for (name, base) in object.memberBases {
                let delta = deltas[MemberKey(row: row, relationship: name)] ?? MemberDelta()
                if delta.isEmpty, base.isDisjoint(with: gone) { continue }
                object.memberBases[name] = base.subtracting(delta.removed).subtracting(gone)
                    .union(map(delta.added))
            }
        }
    }

    func forget(_ saved: SavedChanges) {
        for object in saved.inserted + saved.updated where object.managedObjectContext === context {
            if object.objectID.isTemporaryID {
                objectRegistry.detach(object)
            } else {
                context.refresh(object, mergeChanges: false)
            }
        }
    }
}
