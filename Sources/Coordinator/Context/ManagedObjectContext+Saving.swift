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
    /// A context with a parent puts its changes among the parent's unsaved ones instead, without a
    /// conflict; what the parent has deleted meanwhile is deleted here too.
    ///
    /// - Throws: ``CoordinatorError``, and the context stays as it was: `mergeConflict` and
    ///   `constraintConflict` with ``CoordinatorError/conflicts``, `validationFailed` with
    ///   ``CoordinatorError/failures``, `deleteDenied`, `limitExceeded` for more than
    ///   ``SaveRequest/Bounds/operations`` objects, and what the store reports; what a policy of
    ///   one's own throws.
    public func save() throws { try save(SaveOptions()) }

    /// The same, with a name to repeat it by, or with the word that it resolves conflicts
    /// or is large.
    ///
    /// If the outcome was unknown (`outcomeUnknown`), the changes are still pending. Saved again
    /// with the same ``SaveOptions/saveID``, they are done once. If the save had been done before,
    /// its objects are faults afterwards. An inserted object belongs to no context if the answer
    /// does not say what became of it.
    ///
    /// - Precondition: A context with a parent gives no save ID, and resolves nothing.
    /// - Returns: the transaction, for which acknowledgements of other nodes can be awaited; nil
    ///   where there was nothing to save.
    /// - Throws: as ``save()``.
    @discardableResult
    public func save(
        _ options: SaveOptions, file: StaticString = #fileID, line: UInt = #line
    ) throws -> Dot? {
        confine()
        require(
            graph.settled == nil, "A merge policy must not save the context that asks it.",
            at: SourcePlace(file, line))
        require(
            parent == nil || options.saveID == nil && !options.resolvesConflicts,
            "A context with a parent saves into it: a save ID, and resolving conflicts, are for the "
                + "save of the outermost parent.", at: SourcePlace(file, line))
        try objectRegistry.throwFaultingError()
        deletes.propagateDeletes()
        processPendingChanges()
        deletes.propagateDeletes()
        try saving.callWillSave()
        try objectRegistry.throwFaultingError()
        guard hasChanges || !graph.checked.isEmpty else { return nil }
        for (_, handler) in observers.withLock({ $0.willSave }) { handler(self) }
        deletes.propagateDeletes()
        processPendingChanges()
        deletes.propagateDeletes()
        try ContextValidation(context: self).validate()

        if let parent {
            let saved = SaveCompletion.SavedChanges(self)
            let outcome = try ChildSave(context: self).save(into: parent)
            graph.counting.countSave()
            completion.finish(saved, outcome)
            return nil
        }
        guard let result = try PolicySave(context: self).save(options) else {
            completion.finish(SaveCompletion.SavedChanges(self), SaveCompletion.Outcome())
            return nil
        }
        let saved = SaveCompletion.SavedChanges(self)
        graph.counting.countSave()
        completion.finish(saved, completion.outcome(result, of: saved))
        tellChildren(Set(result.rows.lazy.map(\.objectID)))
        // Only the first answer to a save tells what its rows are like.
        if options.saveID != nil, result.rows.isEmpty { completion.forget(saved) }
        return result.transaction
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
        objectRegistry.fire(object)
        if !object.isFault, !object.objectID.isTemporaryID {
            graph.checked[object.objectID] = object
        }
    }

    // MARK: Merging

    /// Takes what another context, or another node, has saved: clean objects have the new
    /// values, unsaved properties stay, and objects deleted there are deleted here even if they
    /// have changes. A pinned context moves to the newest generation. To be used on its queue.
    public func mergeChanges(fromContextDidSave changes: ContextDidSave) {
        confine()
        merger.merge(
            affected: changes.updated.union(changes.deleted).union(changes.inserted),
            inserted: changes.inserted)
    }

    /// Whether what others save is merged by itself, on the context's queue, soon after each
    /// commit; with a parent, what the parent has saved and merged, and what other children have saved
    /// into it. Default false. Usable from any thread.
    public var automaticallyMergesChangesFromParent: Bool {
        get { settings.withLock { $0.mergeObservation != nil } }
        set {
            let observation: CommitObservation? = newValue ? observeOthers() : nil
            let former = settings.withLock { settings in
                let former = settings.mergeObservation
                settings.mergeObservation = observation
                return former
            }
            former?.cancel()
        }
    }

    private func observeOthers() -> CommitObservation {
        if let parent {
            return parent.observeShown(by: self) { [weak self] affected, inserted in
                self?.merger.enqueue(affected, inserted: inserted)
            }
        }
        return persistentStoreCoordinator.observeCommits { [weak self] notice in
            var affected = Set(notice.updated)
            affected.formUnion(notice.deleted)
            affected.formUnion(notice.inserted)
            self?.merger.enqueue(affected, inserted: Set(notice.inserted))
        }
    }
}
