import Merge

/// The state of a context that belongs to its queue: its objects, and what is pending.
final class ObjectGraph {
    /// One instance a row, not kept alive by this table.
    var registry: [ManagedObjectID: WeakObject] = [:]
    /// Whether any object that was ever in there has a class of its own, and so hooks to be called.
    var hasSubclasses = false
    /// How large the registry may grow before entries of objects that are gone are swept out.
    var registrySweep = 1024
    var classes: [String: ManagedObject.Type]
    /// The property that a save asks an object for, with its type, if that is all its rules.
    var validated: (entity: ManagedObjectModel.Entity, position: Int, type: AttributeType)?
    /// Whether changes are processed at the end of what runs now.
    var isInEvent = false
    /// Whether the parent's classes are yet to be taken.
    var awaitsClasses = false
    /// The permanent rows of objects that are still inserted, by their temporary ones.
    var formerRows: [RowID: RowID] = [:]
    /// Whether there may be inserted objects with temporary IDs.
    var mayHaveTemporaries = false
    var inserted: [ManagedObjectID: ManagedObject] = [:]
    var updated: [ManagedObjectID: ManagedObject] = [:]
    var deleted: [ManagedObjectID: ManagedObject] = [:]
    /// The inserted and updated ones by values that were asked for.
    var pendingIndex = PendingIndex()
    var checked: [ManagedObjectID: ManagedObject] = [:]
    /// Members gained and lost by pending changes of columns at the other side.
    var columnDeltas: [MemberKey: MemberDelta] = [:]
    /// Members gained and lost by pending changes of links, from both sides.
    var linkDeltas: [MemberKey: MemberDelta] = [:]
    /// The changes that observers will hear of at the end of the event.
    var event = ContextChanges()
    /// The number of the event, and the objects changed in it with the values that they had before.
    var eventNumber: UInt32 = 1
    var before: [(object: ManagedObject, values: [PropertyValue])] = []
    /// The same of the event that observers are just being told of.
    var toldBefore: [(object: ManagedObject, values: [PropertyValue])] = []
    var toldInserted: Set<ManagedObject> = []
    /// The registered objects, where the context keeps them in use.
    var retained: Set<ManagedObject>?
    var undoManager: (any UndoManaging)?
    /// What the merge policy has settled, while a save asks it.
    var settled: SettledConflicts?
    /// What the undo manager is yet to hear of.
    var undoNotes = UndoNotes()
    /// The queries that follow the context, and what they have yet to hear.
    let live = LiveQueries()
    /// Deleted objects whose delete rules are yet to be carried out in memory.
    var undelivered: [ManagedObject] = []
    /// Counts changes, so that a save knows when its hooks changed nothing more.
    var changeCount = 0
    var isAwakening = false
    /// What the last fetches have prefetched, which is kept in use, the latest at the end.
    var prefetched: [[ManagedObject]] = []
    var generation = GenerationState.newest
    var inverseColumns: [String: [InverseColumn]] = [:]
    /// The first failure to read a fault since the context was last refreshed or reset.
    var faultingError: CoordinatorError?

    var followed = FollowedRelationships()
    var memberHolders = MemberHolders()
    /// What the context has done.
    let counting: ContextCounting

    init(classes: [String: ManagedObject.Type], counting: ContextCounting) {
        self.classes = classes
        self.counting = counting
    }
}

/// A part of a context. To be used on its queue.
protocol ContextPart {
    var context: ManagedObjectContext { get }
}

extension ContextPart {
    var graph: ObjectGraph { context.graph }
    var persistentStoreCoordinator: PersistentStoreCoordinator {
        context.persistentStoreCoordinator
    }
    var managedObjectModel: ManagedObjectModel { context.managedObjectModel }

    var objectRegistry: ObjectRegistry { ObjectRegistry(context: context) }
    var relationshipTracker: RelationshipTracker { RelationshipTracker(context: context) }
    var deletes: DeletePropagation { DeletePropagation(context: context) }
    var merger: ContextMerger { ContextMerger(context: context) }
}

extension ManagedObjectContext: ContextPart {
    var context: ManagedObjectContext { self }
    var saving: ContextSave { ContextSave(context: self) }
    var completion: SaveCompletion { SaveCompletion(context: self) }
    var pendingFetch: PendingFetch { PendingFetch(context: self) }
}
