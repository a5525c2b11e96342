import Merge

/// What an application changed of a context in an event, as far as it is noted for an undo.
struct UndoNotes {
    /// Objects with the values that they had; of several the first.
    var before: [(object: ManagedObject, values: [PropertyValue])] = []
    var inserted: [ManagedObject] = []
    var deleted: [ManagedObject] = []
    var links: [UndoStep.Link] = []
}

/// How to take an event of a context back. It names objects as such, and not by their rows: these change
/// by a save, or where a deleted object is inserted again.
struct UndoStep {
    /// A value that an object had.
    struct Value {
        let position: Int
        let value: PropertyValue
        /// Where a to-one led.
        let target: ManagedObject?
    }

    struct Link {
        let owner: ManagedObject
        let relationship: ManagedObjectModel.Relationship
        let member: ManagedObject
        let wasMember: Bool
    }

    var inserted: [ManagedObject] = []
    var deleted: [(object: ManagedObject, values: [Value])] = []
    var changed: [(object: ManagedObject, values: [Value])] = []
    var links: [Link] = []

    var isEmpty: Bool {
        inserted.isEmpty && deleted.isEmpty && changed.isEmpty && links.isEmpty
    }
}

/// Registers a context's events with its undo manager, and takes them back.
struct ContextUndo: ContextPart {
    let context: ManagedObjectContext

    /// Registers what was changed in the event that ends.
    func registerEvent() {
        guard let manager = graph.undoManager else { return }
        let notes = graph.undoNotes
        graph.undoNotes = UndoNotes()
        guard manager.isUndoRegistrationEnabled else { return }
        let step = step(of: notes)
        if step.isEmpty { return }
        manager.registerUndo(withTarget: context) { $0.undoing.takeBack(step) }
    }

    private func step(of notes: UndoNotes) -> UndoStep {
        var step = UndoStep()
        // What came and went within the event never was.
        let inserted = Set(notes.inserted)
        let deleted = Dictionary(
            notes.deleted.map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
        let gone = inserted.intersection(notes.deleted)
        step.inserted = notes.inserted.filter { !gone.contains($0) }
        var former: [ManagedObject: [PropertyValue]] = [:]
        for (object, values) in notes.before where former[object] == nil {
            former[object] = values
        }
        for object in notes.deleted where !inserted.contains(object) {
            let values = former[object] ?? object.values
            let positions = object.entity.properties.indices.filter { $0 < values.count }
            step.deleted.append((object, positions.map { value(values[$0], $0, object, deleted) }))
        }
        for (object, _) in notes.before
        where !inserted.contains(object) && deleted[object.row] == nil {
            guard let values = former.removeValue(forKey: object) else { continue }
            let positions = object.entity.properties.indices.filter {
                $0 < values.count && $0 < object.values.count && values[$0] != object.values[$0]
            }
            if positions.isEmpty { continue }
            step.changed.append((object, positions.map { value(values[$0], $0, object, deleted) }))
        }
        step.links = notes.links.filter { !gone.contains($0.owner) && !gone.contains($0.member) }
        return step
    }

    private func value(
        _ value: PropertyValue, _ position: Int, _ object: ManagedObject,
        _ deleted: [RowID: ManagedObject]
    ) -> UndoStep.Value {
        guard case .reference(let row) = value,
            case .toOne(let destination) = object.entity.properties[position].content
        else { return UndoStep.Value(position: position, value: value, target: nil) }
        // An insert that was deleted in this event is registered no more.
        return UndoStep.Value(
            position: position, value: value,
            target: deleted[row] ?? objectRegistry.resolve(row, destination: destination))
    }

    /// Takes an event back. What this changes is an event itself, which is registered to be redone.
    private func takeBack(_ step: UndoStep) {
        context.confine("undo()", at: SourcePlace(#fileID, #line))
        context.processPendingChanges()
        for (object, _) in step.deleted { revive(object) }
        for (object, values) in step.deleted + step.changed
        where object.managedObjectContext === context && !object.isDeleted {
            for value in values { restore(value, of: object) }
        }
        for link in step.links.reversed() { restore(link) }
        for object in step.inserted.reversed() where object.managedObjectContext === context {
            context.delete(object)
        }
        awaken(step)
        context.processPendingChanges()
    }

    /// Makes a deleted object one of the context again. If the delete was saved it is inserted as a new
    /// row; what others deleted stays so.
    private func revive(_ object: ManagedObject) {
        if object.managedObjectContext === context {
            if object.change == .deleted { context.insert(object) }
            return
        }
        guard object.managedObjectContext == nil else { return }
        object.row = TemporaryRows.next()
        graph.mayHaveTemporaries = true
        context.take(object)
    }

    private func restore(_ value: UndoStep.Value, of object: ManagedObject) {
        guard case .reference = value.value else {
            return object.write(value.value, value.position)
        }
        guard let target = value.target, target.managedObjectContext === context, !target.isDeleted
        else { return object.write(.null, value.position) }
        object.write(.reference(target.row), value.position)
    }

    private func restore(_ link: UndoStep.Link) {
        for end in [link.owner, link.member]
        where end.managedObjectContext !== context || end.isDeleted {
            return
        }
        relationshipTracker.setLink(
            of: link.owner, link.relationship, to: link.member, isMember: link.wasMember)
    }

    private func awaken(_ step: UndoStep) {
        for object in step.inserted { context.awaken(object, .undoInsertion) }
        for (object, _) in step.deleted where object.managedObjectContext === context {
            context.awaken(object, .undoDeletion)
        }
        for (object, _) in step.changed where object.managedObjectContext === context {
            context.awaken(object, .undoUpdate)
        }
    }
}

extension ManagedObjectContext {
    var undoing: ContextUndo { ContextUndo(context: self) }

    /// What changes are registered with so that they can be undone; nil, the default, for nothing. To be
    /// used on its queue.
    ///
    /// Each event is a group: a block, or what ``processPendingChanges()`` ends. A save leaves what can
    /// be undone as it is: an undo after it is a new change, to be saved as others. So an object is
    /// inserted again, with a new ID, if its delete was saved. ``rollback()`` and ``reset()`` forget what was
    /// registered. What others have deleted meanwhile stays deleted, and a change of it has nothing to
    /// undo.
    public var undoManager: (any UndoManaging)? {
        get {
            confine()
            return graph.undoManager
        }
        set {
            confine()
            processPendingChanges()
            graph.undoNotes = UndoNotes()
            graph.undoManager = newValue
        }
    }

    /// Takes the last group of changes back; does nothing without an ``undoManager``. To be used on its
    /// queue.
    public func undo() {
        confine()
        processPendingChanges()
        graph.undoManager?.undo()
    }

    /// Does again what was undone last; does nothing without an ``undoManager``. To be used on its queue.
    public func redo() {
        confine()
        processPendingChanges()
        graph.undoManager?.redo()
    }
}
