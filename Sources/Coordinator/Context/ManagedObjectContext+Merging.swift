import Merge
import Synchronization

extension ManagedObjectContext {
    // MARK: Refreshing

    /// Takes an object's values from the store anew. To be used on its queue.
    ///
    /// - Parameters:
    ///   - object: An object of this context. One that is inserted stays as it is, and one that is
    ///     deleted stays deleted.
    ///   - mergeChanges: True keeps unsaved changes, and the delete, over the new values, so that a
    ///     save does not conflict any more; false discards changes and makes the object a fault.
    public func refresh(_ object: ManagedObject, mergeChanges: Bool) {
        confine()
        guard object.managedObjectContext === self, object.change != .inserted,
            object.change != .deleted || mergeChanges
        else { return }
        if mergeChanges, !object.isFault {
            // Never an error: what cannot be read now stays as it was.
            // Where another object is shown in its place, it is gone as one that was deleted.
            if let row = try? read({ try $0.row(object.entity, object.objectID.row) }),
                row.objectID == object.objectID
            {
                rebase(object, on: row)
            } else if object.change == .none {
                turnIntoFault(object)
            }
            object.memberBases = [:]
            return
        }
        if object.change == .updated {
            rebalance(object) { object.values = object.snapshot }
            dropLinks(of: object)
            object.change = .none
            updated[object.objectID] = nil
        }
        event.updated.remove(object)
        event.refreshed.insert(object)
        if !mergeChanges { object.transients = [:] }
        turnIntoFault(object)
    }

    /// Makes clean objects faults again and takes new values below the changes of others. The
    /// generation stays. To be used on its queue.
    public func refreshAllObjects() {
        confine()
        faultingError = nil
        for object in liveObjects() {
            if object.change == .none {
                if object.isFault, !object.isInaccessible { continue }
                turnIntoFault(object)
                event.refreshed.insert(object)
            } else {
                refresh(object, mergeChanges: true)
            }
        }
    }

    /// Forgets all objects and changes; a pinned context moves to the newest generation at its
    /// next read. Earlier objects are cut off: they read as null and take no values. To be
    /// used on its queue.
    public func reset() {
        confine()
        for object in liveObjects() {
            turnIntoFault(object)
            object.change = .none
            object.managedObjectContext = nil
        }
        registry = [:]
        inserted = [:]
        updated = [:]
        deleted = [:]
        checked = [:]
        columnDeltas = [:]
        linkDeltas = [:]
        event = ContextChanges()
        undelivered = []
        faultingError = nil
        if case .pinned = generation { generation = .pinnedAtNextRead }
    }

    // MARK: Merging

    /// Takes what another context, or another node, has saved: clean objects have the new
    /// values, unsaved properties stay, and objects deleted there are deleted here even if they
    /// have changes. A pinned context moves to the newest generation. To be used on its queue.
    public func mergeChanges(fromContextDidSave changes: ContextDidSave) {
        confine()
        merge(
            affected: changes.updated.union(changes.deleted).union(changes.inserted),
            inserted: changes.inserted)
    }

    /// Whether what others save is merged by itself, on the context's queue, soon after each
    /// commit. Default false. Usable from any thread.
    public var automaticallyMergesChangesFromParent: Bool {
        get { settings.withLock { $0.commitObservation != nil } }
        set {
            let observation: CommitObservation? =
                newValue
                ? persistentStoreCoordinator.observeCommits { [weak self] in self?.enqueue($0) }
                : nil
            let former = settings.withLock { settings in
                let former = settings.commitObservation
                settings.commitObservation = observation
                return former
            }
            former?.cancel()
        }
    }

    /// What commits have changed since the last automatic merge.
    struct PendingMerge {
        /// The most IDs kept: beyond it, asking for every object at hand is cheaper, and a
        /// context whose queue is blocked costs a bounded amount of memory.
        static let limit = 10_000
        var affected: Set<ManagedObjectID> = []
        var inserted: Set<ManagedObjectID> = []
        var isEverything = false
        var isScheduled = false
    }

    private func enqueue(_ notice: CommitNotice) {
        let mustSchedule = pendingMerge.withLock { pending in
            if !pending.isEverything {
                pending.affected.formUnion(notice.updated)
                pending.affected.formUnion(notice.deleted)
                pending.affected.formUnion(notice.inserted)
                pending.inserted.formUnion(notice.inserted)
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
        perform { [weak self] in
            guard let self else { return }
            let pending = pendingMerge.withLock { pending in
                defer { pending = PendingMerge() }
                return pending
            }
            merge(
                affected: pending.isEverything ? nil : pending.affected,
                inserted: pending.inserted)
        }
    }

    /// - Parameter affected: nil for whatever is at hand.
    private func merge(affected: Set<ManagedObjectID>?, inserted: Set<ManagedObjectID>) {
        renewGeneration()
        let targets = pendingTargets(among: affected)
        let affected =
            affected?.union(targets.map(\.objectID)) ?? Set(liveObjects().map(\.objectID))
        let isObserved = !observers.withLock { $0.didChange.isEmpty }
        var byEntity: [String: [ManagedObject]] = [:]
        for objectID in affected.sorted() {
            // A link's end may be named by an entity that its own inherits from.
            let object =
                registry[objectID]?.object
                ?? managedObjectModel.entity(named: objectID.entityName).flatMap {
                    registered(objectID.row, $0)
                }
            guard let object, object.change != .inserted else { continue }
            byEntity[object.objectID.entityName, default: []].append(object)
        }
        for name in byEntity.keys.sorted() {
            mergeRows(byEntity[name] ?? [], of: entityNamed(name))
        }
        forgetGone(targets)
        if isObserved { noteMembers(affected) }
        // Members are derived from rows of other objects, any of which may have changed.
        for object in registry.values.compactMap(\.object) { object.memberBases = [:] }
        guard isObserved else { return }
        for objectID in inserted.sorted() where registry[objectID]?.object == nil {
            guard managedObjectModel.entity(named: objectID.entityName) != nil else { continue }
            event.inserted.insert(object(with: objectID))
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
        for object in [inserted, updated].joined().map(\.value) {
            for relationship in object.entity.relationships {
                guard case .column(let position) = relationship.storage,
                    case .reference(let row) = object.values[position], isAskedFor(row),
                    let target = resolve(row, destination: relationship.destination)
                else { continue }
                targets.insert(target)
            }
        }
        for delta in linkDeltas.values {
            for member in delta.added.union(delta.removed) where isAskedFor(member.row) {
                targets.insert(object(with: member))
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
                if try read({ try $0.row(target.entity, target.objectID.row) }) == nil {
                    gone.insert(target.objectID)
                }
            } catch { note(error) }
        }
        if !gone.isEmpty { forget(gone) }
    }

    /// Tells observers of the objects that have other members than were read of them: their own
    /// rows say nothing of it.
    private func noteMembers(_ affected: Set<ManagedObjectID>) {
        let holders = liveObjects().filter { !$0.memberBases.isEmpty }
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
                    return try base
                        != Set(
                            read {
                                try $0.members(
                                    of: relationship, entity: holder.entity,
                                    row: holder.objectID.row)
                            })
                }
                if isChanged { event.refreshed.insert(holder) }
            }
        } catch { note(error) }
    }

    /// Which of some objects the store has, and what their references lead to: the members that
    /// they are.
    private func rows(
        _ objectIDs: Set<ManagedObjectID>
    ) throws -> (found: Set<RowID>, leading: [MemberKey: Set<RowID>]) {
        var found = Set<RowID>()
        var leading: [MemberKey: Set<RowID>] = [:]
        for (name, objectIDs) in Dictionary(grouping: objectIDs, by: \.entityName) {
            guard let entity = managedObjectModel.entity(named: name) else { continue }
            for row in try read({ try $0.rows(entity, objectIDs.map(\.row)) }) {
                found.insert(row.objectID.row)
                for column in inverseColumns(of: entityNamed(row.objectID.entityName)) {
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
            rows = try read { try $0.rows(entity, objects.map(\.objectID.row)) }
        } catch { return note(error) }
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
        rebalance(object) {
            var values = row.values
            for position in changed {
                // A null in the place of what is deleted here is no change of the object: where the
                // store leads elsewhere by now, so does the object.
                if object.nullified.contains(position), object.values[position].isNull,
                    !leadsToDeleted(values[position], at: position, of: object)
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
        event.refreshed.insert(object)
    }

    /// Follows a delete made elsewhere, even of an object with changes.
    private func takeAway(_ object: ManagedObject) {
        if object.isInaccessible { return }
        rebalance(object) {
            object.change = .none
            markInaccessible(object)
        }
        dropLinks(of: object)
        updated[object.objectID] = nil
        deleted[object.objectID] = nil
        checked[object.objectID] = nil
        event.updated.remove(object)
        if event.inserted.remove(object) == nil { event.deleted.insert(object) }
    }

    /// Gives up the pending links of an object, at both sides.
    private func dropLinks(of object: ManagedObject) {
        for relationship in object.entity.relationships {
            let key = MemberKey(row: object.objectID.row, relationship: relationship.name)
            guard let delta = linkDeltas.removeValue(forKey: key),
                let inverse = relationship.description.inverse
            else { continue }
            for member in delta.added.union(delta.removed) {
                let key = MemberKey(row: member.row, relationship: inverse)
                linkDeltas[key]?.added.remove(object.objectID)
                linkDeltas[key]?.removed.remove(object.objectID)
                linkDeltas[key]?.nullified.remove(object.objectID)
                if linkDeltas[key]?.isEmpty == true { linkDeltas[key] = nil }
            }
        }
    }
}
