import Merge

extension ManagedObjectContext {
    /// Takes an object's values from the store again. To be used on its queue.
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
        if graph.undoManager != nil { processPendingChanges() }
        if mergeChanges, !object.isFault {
            // Never an error: what cannot be read now stays as it was.
            // Where another object is shown in its place, it is gone as one that was deleted.
            if let row = try? objectRegistry.readRow(object.objectID.row, of: object.entity),
                row.objectID == object.objectID
            {
                merger.rebase(object, on: row)
                awaken(object, .refresh)
            } else if object.change == .none {
                objectRegistry.turnIntoFault(object)
            }
            object.memberBases = [:]
            return
        }
        if object.change == .updated {
            relationshipTracker.rebalance(object) { object.values = object.snapshot }
            relationshipTracker.dropLinks(of: object)
            object.change = .none
            graph.updated[object.objectID] = nil
        }
        graph.event.updated.remove(object)
        graph.event.refreshed.insert(object)
        graph.event.invalidated.insert(object)
        if !mergeChanges { object.transients = [:] }
        objectRegistry.turnIntoFault(object)
    }

    /// Tells an object that it has other values.
    func awaken(_ object: ManagedObject, _ events: SnapshotEventType) {
        let wasAwakening = graph.isAwakening
        graph.isAwakening = true
        object.awake(fromSnapshotEvents: events)
        graph.isAwakening = wasAwakening
    }

    /// Makes clean objects faults again and takes new values below the changes of others. The
    /// generation stays. To be used on its queue.
    public func refreshAllObjects() {
        confine()
        graph.live.noteEverything()
        graph.faultingError = nil
        for object in objectRegistry.liveObjects() {
            if object.change == .none {
                if object.isFault, !object.isInaccessible {
                    // Members are known of faults too.
                    object.memberBases = [:]
                    continue
                }
                objectRegistry.turnIntoFault(object)
                graph.event.refreshed.insert(object)
            } else {
                refresh(object, mergeChanges: true)
            }
        }
    }

    /// Forgets all objects and changes; a pinned context moves to the newest generation at its
    /// next read. Earlier objects are cut off: they read as null and take no values. Observers hear of
    /// ``ContextChanges/invalidatesAll``. To be used on its queue.
    public func reset() {
        confine()
        graph.live.noteEverything()
        for object in objectRegistry.liveObjects() {
            objectRegistry.turnIntoFault(object)
            object.change = .none
            object.managedObjectContext = nil
        }
        graph.registry = [:]
        graph.registrySweep = 1024
        graph.formerRows = [:]
        graph.inserted = [:]
        graph.updated = [:]
        graph.deleted = [:]
        graph.checked = [:]
        graph.pendingIndex = PendingIndex()
        graph.columnDeltas = [:]
        graph.linkDeltas = [:]
        graph.event = ContextChanges()
        graph.event.invalidatesAll = true
        graph.before = []
        if graph.retained != nil { graph.retained = [] }
        forgetUndo()
        graph.undelivered = []
        graph.prefetched = []
        graph.faultingError = nil
        if case .pinned = graph.generation { graph.generation = .pinnedAtNextRead }
    }

    /// Drops inserts and deletes, and restores changed objects to the values last fetched or
    /// saved, without reading the store. To be used on its queue.
    public func rollback() {
        confine()
        var restored: [ManagedObject] = []
        // What could not be read may be read from now on.
        if graph.faultingError != nil { graph.live.noteEverything() }
        for object in sorted(graph.inserted) {
            // An observer that heard of it hears that it is gone.
            if graph.event.inserted.remove(object) == nil { graph.event.deleted.insert(object) }
            graph.event.updated.remove(object)
            objectRegistry.detach(object)
        }
        for object in graph.undelivered where object.version == nil {
            objectRegistry.detach(object)
        }
        for object in sorted(graph.updated) + sorted(graph.deleted) where object.version != nil {
            graph.event.updated.remove(object)
            graph.event.deleted.remove(object)
            object.values = object.snapshot
            object.nullified = []
            object.change = .none
            graph.event.refreshed.insert(object)
            restored.append(object)
        }
        graph.formerRows = [:]
        graph.inserted = [:]
        graph.updated = [:]
        graph.deleted = [:]
        graph.checked = [:]
        graph.pendingIndex = PendingIndex()
        graph.undelivered = []
        graph.columnDeltas = [:]
        graph.linkDeltas = [:]
        graph.faultingError = nil
        graph.changeCount += 1
        for object in restored { awaken(object, .rollback) }
        forgetUndo()
    }

    /// Forgets what could be undone of this context.
    private func forgetUndo() {
        graph.before = []
        graph.eventNumber &+= 1
        graph.undoNotes = UndoNotes()
        graph.undoManager?.removeAllActions(withTarget: self)
    }
}
