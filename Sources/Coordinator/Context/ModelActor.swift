import Merge

/// Runs an actor's work on a context's queue, so that the actor may use the context and its objects as
/// they are. As SwiftData's ModelExecutor.
///
/// Each piece of work between two suspensions is an event of the context: its changes are processed when
/// it ends.
public final class ContextExecutor: SerialExecutor {
    /// The context.
    public let managedObjectContext: ManagedObjectContext

    /// Makes an executor for a context, which may be used besides through its `perform`.
    public init(_ context: ManagedObjectContext) { managedObjectContext = context }

    /// Has work done on the context's queue, after what is queued already.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        managedObjectContext.perform {
            job.runSynchronously(on: self.asUnownedSerialExecutor())
        }
    }

    /// Stops where the caller is not on the context's queue.
    public func checkIsolated() {
        managedObjectContext.confine("An actor's context", at: SourcePlace(#fileID, #line))
    }
}

/// An actor that works on a context. As SwiftData's ModelActor.
///
/// ```swift
/// actor Notes: ModelActor {
///     nonisolated let modelExecutor: ContextExecutor
///
///     init(_ container: PersistentContainer) {
///         modelExecutor = ContextExecutor(container.newBackgroundContext())
///     }
///
///     func add(_ title: String) throws -> ManagedObjectID {
///         let note = managedObjectContext.insert("Note")
///         note["title"] = title
///         try managedObjectContext.save()
///         return note.objectID
///     }
/// }
/// ```
public protocol ModelActor: Actor {
    /// What runs the actor's work.
    nonisolated var modelExecutor: ContextExecutor { get }
}

extension ModelActor {
    /// The executor, as Swift asks for it.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        modelExecutor.asUnownedSerialExecutor()
    }

    /// The context that the actor works on.
    public nonisolated var managedObjectContext: ManagedObjectContext {
        modelExecutor.managedObjectContext
    }
}
