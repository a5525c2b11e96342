public import Merge
import Synchronization

extension ManagedObjectContext {
    /// Saves all pending changes as one transaction.
    ///
    /// Objects that have moved on are settled by ``mergePolicy``; what it decided is in the
    /// objects when this returns. Inserted objects have permanent IDs then, deleted ones belong
    /// to no context, and a pinned context has moved to a generation that contains the save. To
    /// be used on its queue; blocks until the save is durable.
    ///
    /// - Throws: ``CoordinatorError``, and the context stays as it was: `mergeConflict` and
    ///   `constraintConflict` with ``CoordinatorError/conflicts``, `validationFailed` with
    ///   ``CoordinatorError/failures``, `deleteDenied`, `limitExceeded` for more than
    ///   ``SaveRequest/Bounds/operations`` objects, and what the store reports.
    public func save() throws { try save(SaveOptions()) }

    /// The same, with a name to repeat it by, or with the word that it resolves conflicts
    /// or is large.
    ///
    /// Where the outcome was unknown (`outcomeUnknown`) the changes are still pending; saved again
    /// with the same ``SaveOptions/saveID`` they are done once. Objects of a save that was done
    /// before are faults afterwards, and an inserted one of which the answer does not tell any more
    /// what became of it belongs to no context.
    ///
    /// - Returns: the transaction, for which acknowledgements of other nodes can be awaited; nil
    ///   where there was nothing to save.
    /// - Throws: as ``save()``.
    @discardableResult
    public func save(_ options: SaveOptions) throws -> Dot? {
        confine()
        try throwFaultingError()
        processPendingChanges()
        propagateDeletes()
        try callWillSave()
        try throwFaultingError()
        guard hasChanges || !checked.isEmpty else { return nil }
        for (_, handler) in observers.withLock({ $0.willSave }) { handler(self) }
        processPendingChanges()
        propagateDeletes()

        let request = saveRequest(options)
        if request.operations.isEmpty {
            finish(SavedChanges(self), result: nil)
            return nil
        }
        let result = try persistentStoreCoordinator.save(request)
        let saved = SavedChanges(self)
        finish(saved, result: result)
        // Only the first answer to a save tells what its rows are like.
        if options.saveID != nil, result.rows.isEmpty { forget(saved) }
        return result.transaction
    }

    private func forget(_ saved: SavedChanges) {
        for object in saved.inserted + saved.updated where object.managedObjectContext === self {
            if object.objectID.isTemporaryID {
                detach(object)
            } else {
                refresh(object, mergeChanges: false)
            }
        }
    }

    /// Makes the next save fail, or settle, as if the object had changed here: a conflict is
    /// found where it has moved on in the store. To be used on its queue.
    ///
    /// - Precondition: The object is of this context.
    public func detectConflicts(
        for object: ManagedObject, file: StaticString = #fileID, line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        confine("detectConflicts(for:)", at: place)
        require(
            object.managedObjectContext === self,
            "\(object.objectID) is not of this context.", at: place)
        fire(object)
        if !object.isFault, !object.objectID.isTemporaryID { checked[object.objectID] = object }
    }

    /// Drops inserts and deletes, and restores changed objects to the values last fetched or
    /// saved, without reading the store. To be used on its queue.
    public func rollback() {
        confine()
        for object in sorted(inserted) {
            // Who heard of it hears that it is gone.
            if event.inserted.remove(object) == nil { event.deleted.insert(object) }
            event.updated.remove(object)
            detach(object)
        }
        for object in undelivered where object.version == nil { detach(object) }
        for object in sorted(updated) + sorted(deleted) where object.version != nil {
            event.updated.remove(object)
            event.deleted.remove(object)
            object.values = object.snapshot
            object.nullified = []
            object.change = .none
            event.refreshed.insert(object)
        }
        inserted = [:]
        updated = [:]
        deleted = [:]
        checked = [:]
        undelivered = []
        columnDeltas = [:]
        linkDeltas = [:]
        faultingError = nil
        changeCount += 1
    }

    /// Calls `willSave` until nothing changes any more, as it may change values itself.
    ///
    /// - Throws: ``CoordinatorError`` `limitExceeded` after 1000 rounds, as Core Data does.
    private func callWillSave() throws {
        for _ in 0..<1000 {
            let before = changeCount
            for object in sorted(inserted) + sorted(updated) + sorted(deleted) {
                object.willSave()
            }
            if changeCount == before { return }
            processPendingChanges()
            propagateDeletes()
        }
        throw CoordinatorError(
            .limitExceeded, "Objects went on changing in willSave for 1000 rounds.")
    }

    func sorted(_ objects: [ManagedObjectID: ManagedObject]) -> [ManagedObject] {
        objects.values.sorted { $0.objectID < $1.objectID }
    }

    // MARK: The request

    private func saveRequest(_ options: SaveOptions) -> SaveRequest {
        var operations: [SaveOperation] = []
        // Temporary rows count downwards, so the first inserted comes first.
        for object in sorted(inserted).reversed() {
            operations.append(
                SaveOperation(
                    kind: .insert, entity: object.entity, row: object.objectID.row,
                    values: object.changedPositions().map { ($0, object.values[$0]) },
                    relationships: linkOperations(of: object)))
        }
        for object in sorted(updated) {
            let values = object.changedPositions().filter { !isNullified($0, of: object) }
                .map { (position: $0, value: object.values[$0]) }
            let links = linkOperations(of: object)
            if values.isEmpty, links.isEmpty, checked[object.objectID] == nil { continue }
            operations.append(
                operation(
                    values.isEmpty && links.isEmpty ? .check : .update, object, values: values,
                    relationships: links))
        }
        for object in sorted(deleted) {
            operations.append(
                operation(
                    .delete, object, values: decidingReferences(of: object),
                    relationships: linkOperations(of: object)))
        }
        for object in sorted(checked) where object.change == .none {
            operations.append(operation(.check, object))
        }
        let settings = settings.withLock { ($0.mergePolicy, $0.transactionAuthor, $0.name) }
        if options.resolvesConflicts {
            for index in operations.indices { operations[index].resolves = true }
        }
        return SaveRequest(
            operations: operations, mergePolicy: settings.0, author: settings.1,
            contextName: settings.2, saveID: options.saveID, isBulk: options.isBulk)
    }

    private func operation(
        _ kind: SaveOperation.Kind, _ object: ManagedObject,
        values: [(position: Int, value: PropertyValue)] = [],
        relationships: [RelationshipOperation] = []
    ) -> SaveOperation {
        SaveOperation(
            kind: kind, entity: object.entity, row: object.objectID.row, values: values,
            relationships: relationships, version: object.version, snapshot: object.snapshot)
    }

    /// Whether a reference is null because its target is deleted in the same save. Then it is
    /// not written: the coordinator carries the delete rules out, and knows where the
    /// projection gives nil anyway (DESIGN, section 5.4). One that was made null before is told,
    /// for then the target's rules are not for this object.
    private func isNullified(_ position: Int, of object: ManagedObject) -> Bool {
        object.nullified.contains(position) && object.values[position].isNull
            && leadsToDeleted(object.base(position), at: position, of: object)
    }

    /// Whether a value of a to-one leads to an object that is deleted here.
    func leadsToDeleted(
        _ value: PropertyValue, at position: Int, of object: ManagedObject
    ) -> Bool {
        guard case .reference(let row) = value,
            case .toOne(let destination) = object.entity.properties[position].content
        else { return false }
        return entityNamed(destination).familyNames.contains {
            deleted[ManagedObjectID(entityName: $0, row: row)] != nil
        }
    }

    /// Where the changed to-ones of a deleted object lead, for the coordinator's delete rules to
    /// follow them as those in memory did.
    private func decidingReferences(
        of object: ManagedObject
    ) -> [(position: Int, value: PropertyValue)] {
        object.changedPositions().filter { !isNullified($0, of: object) }.compactMap { position in
            guard case .toOne(let destination) = object.entity.properties[position].content else {
                return nil
            }
            let value = object.values[position]
            guard case .reference(let row) = value, row.rawValue < 0,
                registered(row, entityNamed(destination)) == nil
            else { return (position, value) }
            // An insert that was dropped since.
            return (position, .null)
        }
    }

    /// The links made and broken, told by the side the link is named after; a relationship that
    /// is its own inverse has a link each way, told by both. Those that a delete rule broke are
    /// left out, as its nulls are.
    private func linkOperations(of object: ManagedObject) -> [RelationshipOperation] {
        if linkDeltas.isEmpty { return [] }
        var operations: [RelationshipOperation] = []
        for relationship in object.entity.relationships {
            guard case .link(_, let isFirst) = relationship.storage, isFirst,
                let delta = linkDeltas[
                    MemberKey(row: object.objectID.row, relationship: relationship.name)]
            else { continue }
            for (kind, members) in [
                (RelationshipOperation.Kind.add, delta.added),
                (.remove, delta.removed.subtracting(delta.nullified)),
            ] {
                let rows = members.map(\.row).sorted()
                if rows.isEmpty { continue }
                operations.append(
                    RelationshipOperation(name: relationship.name, kind: kind, members: rows))
            }
        }
        return operations
    }

    // MARK: Afterwards

    /// The objects of a save, kept while the context's own sets are emptied.
    struct SavedChanges {
        let inserted: [ManagedObject]
        let updated: [ManagedObject]
        let deleted: [ManagedObject]
        /// The IDs of those that were only checked.
        let checked: Set<ManagedObjectID>

        init(_ context: ManagedObjectContext) {
            inserted = context.sorted(context.inserted)
            updated = context.sorted(context.updated)
            deleted = context.sorted(context.deleted)
            checked = Set(context.checked.keys)
        }
    }

    private func finish(_ saved: SavedChanges, result: SaveResult?) {
        let identities = Dictionary(
            (result?.insertedRows ?? []).map {
                ($0.temporary, ManagedObjectID(entityName: $0.entityName, row: $0.row))
            }, uniquingKeysWith: { first, _ in first })
        let permanent = identities.mapValues(\.row)
        var rows = Dictionary(
            (result?.rows ?? []).map { ($0.objectID, $0) }, uniquingKeysWith: { first, _ in first })

        rename(saved.inserted, identities)
        var changes = ContextChanges()
        changes.inserted = Set(saved.inserted)
        changes.deleted = Set(saved.deleted)
        // What is dropped is not as it is here, and nor are the members of others that it belongs to.
        var isSurprising = result?.rows.contains(where: \.isDropped) ?? false
        // Under the rollback policy a delete can be what is given up (CD-23).
        let kept = Set(
            saved.deleted.filter { rows[$0.objectID]?.version != nil }.map(\.objectID.row))
        // Objects that the save made one with others are no longer of this context.
        for object in saved.inserted where object.managedObjectContext == nil {
            changes.inserted.remove(object)
            isSurprising = true
        }
        for object in saved.inserted + saved.updated where object.managedObjectContext != nil {
            replaceTemporaries(in: object, permanent)
            if !kept.isEmpty { restoreReferences(in: object, to: kept) }
            let row = rows.removeValue(forKey: object.objectID)
            if object.change == .updated { changes.updated.insert(object) }
            if let values = row?.values, values != object.values { isSurprising = true }
            settle(object, row)
            // The policy dropped its changes, for it is gone, or a delete rule took it along.
            if object.managedObjectContext == nil {
                changes.updated.remove(object)
                if row?.isDropped == false { changes.deleted.insert(object) }
            }
        }
        for object in saved.deleted {
            let row = rows.removeValue(forKey: object.objectID)
            if row?.version != nil {
                isSurprising = true
                changes.deleted.remove(object)
                settle(object, row)
                event.refreshed.insert(object)
            } else {
                detach(object)
            }
        }
        settleMembers(
            permanent, gone: Set(changes.deleted.map(\.objectID)),
            isSurprising: isSurprising || !rows.isEmpty)
        // Rows that the save touched besides, such as by delete rules on what was not at hand.
        let isObserved = !observers.withLock { $0.didSave.isEmpty }
        for (objectID, row) in rows.sorted(by: { $0.key < $1.key }) {
            let known = registry[objectID]?.object
            let isWritten = row.version.map { version in
                result?.transaction.map { version.dots.contains($0) } ?? false
            }
            if isObserved, isWritten ?? !saved.checked.contains(objectID) {
                let object = known ?? makeFault(objectID, entityNamed(objectID.entityName))
                if row.version != nil {
                    changes.updated.insert(object)
                } else {
                    if object.isFault { markInaccessible(object) }
                    changes.deleted.insert(object)
                }
            }
            guard let object = known, !object.isFault else { continue }
            settle(object, row)
            event.refreshed.insert(object)
        }
        let ids = ContextDidSave(
            inserted: Set(changes.inserted.map(\.objectID)),
            updated: Set(changes.updated.map(\.objectID)),
            deleted: Set(changes.deleted.map(\.objectID)), token: result?.token)
        if result != nil { renewGeneration() }
        for object in saved.inserted + saved.updated + saved.deleted { object.didSave() }
        for (_, handler) in observers.withLock({ $0.didSave }) { handler(changes, ids) }
    }

    private func rename(_ objects: [ManagedObject], _ identities: [RowID: ManagedObjectID]) {
        for object in objects {
            guard let objectID = identities[object.objectID.row] else { continue }
            registry[object.objectID] = nil
            if objectID.entityName != object.entity.name
                || registered(objectID.row, rootEntity(of: object)) != nil
            {
                // The save made it one with an object of another entity, which it cannot become,
                // or with one that is here already.
                object.change = .none
                object.memberBases = [:]
                object.managedObjectContext = nil
                continue
            }
            object.objectID = objectID
            register(object)
        }
        inserted = [:]
        updated = [:]
        deleted = [:]
        checked = [:]
    }

    private func rootEntity(of object: ManagedObject) -> ManagedObjectModel.Entity {
        entityNamed(object.entity.root)
    }

    private func replaceTemporaries(in object: ManagedObject, _ permanent: [RowID: RowID]) {
        for position in object.values.indices {
            if case .reference(let row) = object.values[position], let row = permanent[row] {
                object.values[position] = .reference(row)
            }
        }
    }

    /// Takes back what the deletes of objects that are still there had taken out of another's
    /// references: the save did not write it, so the store has them as before.
    private func restoreReferences(in object: ManagedObject, to kept: Set<RowID>) {
        for position in object.nullified.sorted() where object.values[position].isNull {
            guard case .reference(let row) = object.base(position), kept.contains(row) else {
                continue
            }
            object.values[position] = .reference(row)
            event.refreshed.insert(object)
        }
    }

    /// Makes an object clean, with what the store holds of it now.
    private func settle(_ object: ManagedObject, _ row: SaveResult.SavedRow?) {
        object.change = .none
        object.assigned = []
        object.nullified = []
        if let row, row.version == nil {
            event.deleted.insert(object)
            return detach(object)
        }
        if let values = row?.values, values != object.values {
            object.values = values
            event.refreshed.insert(object)
        }
        object.snapshot = object.values
        if let version = row?.version { object.version = version }
    }

    /// Takes the pending members into those read; or, where the store decided otherwise than
    /// the context asked, forgets what was read.
    private func settleMembers(
        _ permanent: [RowID: RowID], gone: Set<ManagedObjectID>, isSurprising: Bool
    ) {
        let deltas = columnDeltas.merging(linkDeltas) { first, _ in first }
        columnDeltas = [:]
        linkDeltas = [:]
        if deltas.isEmpty, gone.isEmpty, !isSurprising { return }
        let renamed = Dictionary(
            permanent.map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        let map = { (members: Set<ManagedObjectID>) in
            Set(
                members.map {
                    ManagedObjectID(entityName: $0.entityName, row: permanent[$0.row] ?? $0.row)
                })
        }
        for object in registry.values.compactMap(\.object) {
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
}
