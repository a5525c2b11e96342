import Merge
import Synchronization

/// Takes what others have saved into a context.
struct ContextMerger: ContextPart {
    let context: ManagedObjectContext

    /// Notes what is to be merged soon. Usable from any thread.
    ///
    /// - Parameter affected: the inserted ones too; nil for whatever is at hand.
    func enqueue(_ affected: Set<ManagedObjectID>?, inserted: Set<ManagedObjectID>) {
        let mustSchedule = context.pendingMerge.withLock { pending in
            if !pending.isEverything {
                pending.affected.formUnion(affected ?? [])
                pending.inserted.formUnion(inserted)
                if affected == nil { pending.isEverything = true }
            }
            if pending.affected.count > PendingMerge.limit {
                pending.affected = []
                pending.inserted = []
                pending.isEverything = true
            }
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        guard mustSchedule else { return }
        queueMerge()
    }

    private func queueMerge() {
        context.perform { [weak context] in
            guard let context else { return }
            let pending = context.pendingMerge.withLock { pending in
                defer { pending = PendingMerge() }
                return pending
            }
            context.merger.merge(
                affected: pending.isEverything ? nil : pending.affected,
                inserted: pending.inserted)
        }
    }

    /// - Parameter affected: nil for whatever is at hand.
    func merge(affected: Set<ManagedObjectID>?, inserted: Set<ManagedObjectID>) {
        // What others have changed is not to be undone.
        if graph.undoManager != nil { context.processPendingChanges() }
        objectRegistry.renewGeneration()
        graph.live.noteMerge(affected)
        defer { context.tellChildren(affected, inserted: inserted) }
        let targets = pendingTargets(among: affected)
        let affected =
            affected?.union(targets.map(\.objectID))
            ?? Set(objectRegistry.liveObjects().map(\.objectID))
        let isObserved =
            graph.live.isActive || !context.observers.withLock { $0.didChange.isEmpty }
        var byEntity: [String: [ManagedObject]] = [:]
        for objectID in affected.sorted() {
            // A link's end may be named by an entity that its own inherits from.
            let object =
                graph.registry[objectID]?.object
                ?? managedObjectModel.entity(named: objectID.entityName).flatMap {
                    objectRegistry.registered(objectID.row, $0)
                }
            guard let object, object.change != .inserted else { continue }
            byEntity[object.objectID.entityName, default: []].append(object)
        }
        for name in byEntity.keys.sorted() {
            mergeRows(byEntity[name] ?? [], of: context.entityNamed(name))
        }
        forgetGone(targets)
        if isObserved { noteMembers(affected) }
        // Members are derived from rows of other objects, and each of those may have changed.
        for object in graph.registry.values.compactMap(\.object) { object.memberBases = [:] }
        guard isObserved else { return }
        for objectID in inserted.sorted() where graph.registry[objectID]?.object == nil {
            guard managedObjectModel.entity(named: objectID.entityName) != nil else { continue }
            graph.event.inserted.insert(context.object(with: objectID))
        }
    }

    /// The objects that unsaved references and links lead to: a merge has to look for them, though a
    /// reference keeps nobody in use.
    ///
    /// - Parameter affected: those that are asked for; nil for all.
    private func pendingTargets(among affected: Set<ManagedObjectID>?) -> [ManagedObject] {
        let rows = affected.map { Set($0.lazy.map(\.row)) }
        func isAskedFor(_ row: RowID) -> Bool { row.rawValue > 0 && rows?.contains(row) ?? true }
        var targets = Set<ManagedObject>()
        for object in [graph.inserted, graph.updated].joined().map(\.value) {
            for relationship in object.entity.relationships {
                guard case .column(let position) = relationship.storage,
                    case .reference(let row) = object.values[position], isAskedFor(row),
                    let target = objectRegistry.resolve(row, destination: relationship.destination)
                else { continue }
                targets.insert(target)
            }
        }
        for delta in graph.linkDeltas.values {
            for member in delta.added.union(delta.removed) where isAskedFor(member.row) {
                targets.insert(context.object(with: member))
            }
        }
        return targets.sorted { $0.objectID < $1.objectID }
    }

    /// Takes objects that were found deleted elsewhere out of unsaved changes, as their delete rules
    /// would have done here.
    private func forgetGone(_ targets: [ManagedObject]) {
        var gone = Set<ManagedObjectID>()
        for target in targets where target.isInaccessible {
            do {
                // Where another object is shown in its place, a save leads there.
                if try objectRegistry.readRow(target.objectID.row, of: target.entity) == nil {
                    gone.insert(target.objectID)
                }
            } catch { objectRegistry.note(error) }
        }
        if !gone.isEmpty { deletes.forget(gone) }
    }

    /// Tells observers of the objects that have other members than were read of them: their own
    /// rows say nothing of it.
    private func noteMembers(_ affected: Set<ManagedObjectID>) {
        let holders = objectRegistry.liveObjects().filter { !$0.memberBases.isEmpty }
        if holders.isEmpty { return }
        let touched = Set(affected.map(\.row))
        do {
            let (found, leading) = try rows(affected)
            for holder in holders {
                let isChanged = try holder.memberBases.contains { name, base in
                    guard let relationship = holder.entity.relationship(named: name) else {
                        return false
                    }
                    let members = Set(base.lazy.map(\.row).filter { touched.contains($0) })
                    guard case .link = relationship.storage else {
                        let key = MemberKey(row: holder.objectID.row, relationship: name)
                        return members != leading[key] ?? []
                    }
                    if !members.isSubset(of: found) { return true }
                    guard touched.contains(holder.objectID.row) else { return false }
                    return try base != objectRegistry.readMembers(of: relationship, holder)
                }
                if isChanged { graph.event.refreshed.insert(holder) }
            }
        } catch { objectRegistry.note(error) }
    }

    /// Which of some objects the store has, and what their references lead to: the members that
    /// they are.
    func rows(
        _ objectIDs: Set<ManagedObjectID>
    ) throws -> (found: Set<RowID>, leading: [MemberKey: Set<RowID>]) {
        var found = Set<RowID>()
        var leading: [MemberKey: Set<RowID>] = [:]
        for (name, objectIDs) in Dictionary(grouping: objectIDs, by: \.entityName) {
            guard let entity = managedObjectModel.entity(named: name) else { continue }
            for row in try objectRegistry.readRows(objectIDs.map(\.row), of: entity) {
                found.insert(row.objectID.row)
                for column in relationshipTracker.inverseColumns(
                    of: context.entityNamed(row.objectID.entityName))
                {
                    guard case .reference(let target) = row.values[column.position] else {
                        continue
                    }
                    leading[MemberKey(row: target, relationship: column.inverse), default: []]
                        .insert(row.objectID.row)
                }
            }
        }
        return (found, leading)
    }

    private func mergeRows(_ objects: [ManagedObject], of entity: ManagedObjectModel.Entity) {
        let rows: [RowSnapshot]
        do {
            rows = try objectRegistry.readRows(objects.map(\.objectID.row), of: entity)
        } catch { return objectRegistry.note(error) }
        let found = Dictionary(
            rows.map { ($0.objectID, $0) }, uniquingKeysWith: { first, _ in first })
        for object in objects {
            if let row = found[object.objectID] {
                rebase(object, on: row)
            } else {
                takeAway(object)
            }
        }
    }

    /// Puts new values of the store below an object's unsaved changes.
    func rebase(_ object: ManagedObject, on row: RowSnapshot) {
        if object.isFault {
            object.isInaccessible = false
            return
        }
        if object.version == row.version, object.snapshot == row.values { return }
        let changed = object.change == .updated ? object.changedPositions() : []
        relationshipTracker.rebalance(object) {
            var values = row.values
            for position in changed {
                // A null in the place of what is deleted here is no change of the object: where the
                // store leads elsewhere by now, so does the object.
                if object.nullified.contains(position), object.values[position].isNull,
                    !ContextSave(context: context).leadsToDeleted(
                        values[position], at: position, of: object)
                {
                    object.nullified.remove(position)
                    continue
                }
                values[position] = object.values[position]
            }
            object.values = values
            object.snapshot = row.values
            object.version = row.version
        }
        graph.event.refreshed.insert(object)
    }

    /// Follows a delete made elsewhere, even of an object with changes.
    private func takeAway(_ object: ManagedObject) {
        if object.isInaccessible { return }
        relationshipTracker.rebalance(object) {
            object.change = .none
            objectRegistry.markInaccessible(object)
        }
        relationshipTracker.dropLinks(of: object)
        graph.updated[object.objectID] = nil
        graph.deleted[object.objectID] = nil
        graph.checked[object.objectID] = nil
        graph.event.updated.remove(object)
        if graph.event.inserted.remove(object) == nil { graph.event.deleted.insert(object) }
    }

    /// The changes of commits since the last automatic merge.
    struct PendingMerge {
        /// The most IDs kept: beyond it, asking for every object at hand is cheaper, and a
        /// context whose queue is blocked costs a bounded amount of memory.
        static let limit = 10_000
        var affected: Set<ManagedObjectID> = []
        var inserted: Set<ManagedObjectID> = []
        var isEverything = false
        var isScheduled = false
    }
}
