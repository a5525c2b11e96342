import Merge

/// The changes in a context, for its observers. Its objects belong to the context's queue.
public struct ContextChanges {
    /// Objects inserted.
    public internal(set) var inserted: Set<ManagedObject> = []
    /// Objects whose values or relationships changed.
    public internal(set) var updated: Set<ManagedObject> = []
    /// Objects deleted.
    public internal(set) var deleted: Set<ManagedObject> = []
    /// Objects that took values from the store.
    public internal(set) var refreshed: Set<ManagedObject> = []

    /// Those of the refreshed objects that lost their values and changes: they are faults.
    public internal(set) var invalidated: Set<ManagedObject> = []
    /// Whether the context was reset, and all objects that it had are cut off from it.
    public internal(set) var invalidatesAll = false

    /// Whether nothing changed.
    public var isEmpty: Bool {
        inserted.isEmpty && updated.isEmpty && deleted.isEmpty && refreshed.isEmpty
            && !invalidatesAll
    }

    /// The changes that observers see of an event. An inserted or deleted object appears as that
    /// only, whatever else became of it.
    var told: ContextChanges {
        var changes = self
        changes.updated.subtract(inserted)
        changes.refreshed.subtract(inserted.union(deleted))
        changes.invalidated.formIntersection(changes.refreshed)
        return changes
    }
}

/// The changes of a context's save, by IDs, for other contexts to merge. Usable from any thread.
public struct ContextDidSave: Hashable, Sendable {
    /// Objects inserted, by their permanent IDs.
    public let inserted: Set<ManagedObjectID>
    /// Objects updated.
    public let updated: Set<ManagedObjectID>
    /// Objects deleted.
    public let deleted: Set<ManagedObjectID>
    /// The state of the store that contains the save; nil where it was made otherwise.
    public let token: QueryGenerationToken?

    /// Composes a description of changes, such as one read from history.
    public init(
        inserted: Set<ManagedObjectID> = [], updated: Set<ManagedObjectID> = [],
        deleted: Set<ManagedObjectID> = [], token: QueryGenerationToken? = nil
    ) {
        self.inserted = inserted
        self.updated = updated
        self.deleted = deleted
        self.token = token
    }

    /// The changes of a commit, made here or elsewhere.
    public init(_ notice: CommitNotice) {
        self.init(
            inserted: Set(notice.inserted), updated: Set(notice.updated),
            deleted: Set(notice.deleted), token: notice.token)
    }
}

/// An observer of a context; lives until it is cancelled or its context is gone.
public struct ContextObservation: Sendable {
    let context: WeakContext
    let number: Int

    /// Ends the observation. A notification that is being delivered still arrives.
    public func cancel() { context.value?.removeObserver(number) }
}

/// A context that is not kept alive. Immutable, and contexts are usable from any thread.
struct WeakContext: Sendable {
    private let box: Box
    var value: ManagedObjectContext? { box.context }

    init(_ context: ManagedObjectContext) { box = Box(context) }

    private final class Box: Sendable {
        weak let context: ManagedObjectContext?
        init(_ context: ManagedObjectContext) { self.context = context }
    }
}
