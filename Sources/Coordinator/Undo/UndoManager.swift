import Merge

/// Keeps how to take changes back, in groups. As NSUndoManager, which Linux lacks.
///
/// A context registers each of its events as a group, unless one was begun by hand. At most
/// ``levelsOfUndo`` groups are kept; the oldest go first.
///
/// Threading: it belongs to its context's queue.
public final class UndoManager: UndoManaging {
    private struct Action {
        weak let target: AnyObject?
        let run: () -> Void
    }

    private enum Work { case none, undoing, redoing }

    private var undone: [[Action]] = []
    private var done: [[Action]] = []
    /// The group that is open; nil where none is.
    private var open: [Action]?
    private var depth = 0
    private var disabled = 0
    private var work = Work.none

    /// Makes one that has nothing to undo.
    public init() {}

    /// The most groups that can be undone, from 1 on. Default 100.
    public var levelsOfUndo = 100 {
        didSet {
            require(
                levelsOfUndo > 0, "An undo manager keeps at least one level, not \(levelsOfUndo).",
                at: SourcePlace(#fileID, #line))
            trim()
        }
    }

    /// How many groups can be undone.
    public var undoCount: Int { done.count }
    /// How many groups can be redone.
    public var redoCount: Int { undone.count }
    /// Whether there is a group to undo.
    public var canUndo: Bool { !done.isEmpty || !(open ?? []).isEmpty }
    /// Whether there is a group to redo.
    public var canRedo: Bool { !undone.isEmpty }
    /// Whether it is undoing now.
    public var isUndoing: Bool { work == .undoing }
    /// Whether it is redoing now.
    public var isRedoing: Bool { work == .redoing }
    /// How many groups are begun and not ended.
    public var groupingLevel: Int { depth }
    /// Whether changes are registered now.
    public var isUndoRegistrationEnabled: Bool { disabled == 0 }

    /// Has nothing registered until ``enableUndoRegistration()`` was called as often. A context registers
    /// where an event ends, so its ``ManagedObjectContext/processPendingChanges()`` is called before
    /// either.
    public func disableUndoRegistration() { disabled += 1 }

    /// Takes one ``disableUndoRegistration()`` back.
    ///
    /// - Precondition: Registration is disabled.
    public func enableUndoRegistration(file: StaticString = #fileID, line: UInt = #line) {
        require(
            disabled > 0, "Undo registration was enabled without having been disabled.",
            at: SourcePlace(file, line))
        disabled -= 1
    }

    /// Begins a group: all that is registered until its end is undone together. Groups in groups are one.
    public func beginUndoGrouping() {
        depth += 1
        if open == nil { open = [] }
    }

    /// Ends the group that was begun last.
    ///
    /// - Precondition: A group was begun.
    public func endUndoGrouping(file: StaticString = #fileID, line: UInt = #line) {
        require(
            depth > 0, "An undo group was ended that was not begun.", at: SourcePlace(file, line))
        depth -= 1
        guard depth == 0, let group = open else { return }
        open = nil
        keep(group)
    }

    /// Registers how to take something back, in the open group or in one of its own.
    ///
    /// - Parameters:
    ///   - target: not kept alive; without it there is nothing to do.
    ///   - handler: is run by ``undo()``, on its thread.
    public func registerUndo<Target: AnyObject>(
        withTarget target: Target, handler: @escaping (Target) -> Void
    ) {
        guard isUndoRegistrationEnabled else { return }
        let action = Action(target: target) { [weak target] in
            if let target { handler(target) }
        }
        if open != nil { open?.append(action) } else { keep([action]) }
    }

    /// Forgets all that was registered for a target.
    public func removeAllActions(withTarget target: Any) {
        let target = target as AnyObject
        func others(_ group: [Action]) -> [Action] { group.filter { $0.target !== target } }
        done = done.map(others).filter { !$0.isEmpty }
        undone = undone.map(others).filter { !$0.isEmpty }
        open = open.map(others)
    }

    /// Forgets all.
    public func removeAllActions() { (done, undone, open) = ([], [], open.map { _ in [] }) }

    /// Takes the last group back; does nothing where there is none. A single group that is open ends.
    /// Of a context use ``ManagedObjectContext/undo()``, which ends the event first.
    ///
    /// - Precondition: No group is open in another.
    public func undo() {
        if depth == 1, work == .none { endUndoGrouping() }
        requireNoGroup("undo()")
        guard work == .none, let group = done.popLast() else { return }
        run(group, .undoing)
    }

    /// Does again what was taken back last; does nothing where there is nothing. What is registered
    /// otherwise ends redoing.
    ///
    /// - Precondition: No group is open.
    public func redo() {
        requireNoGroup("redo()")
        guard work == .none, let group = undone.popLast() else { return }
        run(group, .redoing)
    }

    private func requireNoGroup(_ call: String) {
        require(
            depth == 0, "\(call) was called while an undo group is open; end it first.",
            at: SourcePlace(#fileID, #line))
    }

    private func run(_ group: [Action], _ kind: Work) {
        work = kind
        beginUndoGrouping()
        for action in group.reversed() { action.run() }
        endUndoGrouping()
        work = .none
    }

    private func keep(_ group: [Action]) {
        if group.isEmpty { return }
        switch work {
        case .undoing: undone.append(group)
        case .redoing: done.append(group)
        case .none:
            done.append(group)
            undone = []
        }
        trim()
    }

    private func trim() {
        if done.count > levelsOfUndo { done.removeFirst(done.count - levelsOfUndo) }
        if undone.count > levelsOfUndo { undone.removeFirst(undone.count - levelsOfUndo) }
    }
}
