/// What a context registers its changes with, so that they can be undone: ``UndoManager``, or one of an
/// application's own. Foundation's UndoManager, where there is one, has these members too.
///
/// Threading: it is used on the context's queue, and belongs to it.
public protocol UndoManaging: AnyObject {
    /// Whether changes are registered now.
    var isUndoRegistrationEnabled: Bool { get }
    /// Registers how to take something back. While it undoes, what is registered is to be redone; while
    /// it redoes, to be undone.
    func registerUndo<Target: AnyObject>(
        withTarget target: Target, handler: @escaping (Target) -> Void)
    /// Forgets all that was registered for a target.
    func removeAllActions(withTarget target: Any)
    /// Takes the last group back. Of a context use ``ManagedObjectContext/undo()``, which ends the event
    /// first.
    func undo()
    /// Does again what was taken back last.
    func redo()
}
