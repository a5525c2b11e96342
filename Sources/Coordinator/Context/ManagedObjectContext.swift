import Dispatch
internal import Merge
import Synchronization

/// A scratch pad on a store: an object graph with changes of its own until they are saved. As
/// NSManagedObjectContext.
///
/// A context fetches, gives one instance a row, tracks changes on both sides of relationships
/// and saves them atomically; what has moved on meanwhile is settled by ``mergePolicy``.
///
/// Threading: a context has a private serial queue, and its objects belong to it. Everything
/// that touches the graph is done inside ``perform(_:)-(()->Result)`` or
/// ``performAndWait(_:)`` and traps with an explanation elsewhere. Names, policy and other
/// settings, observers, and `perform` itself can be used from any thread.
///
/// Sendable: all mutable state is either behind a `Mutex` or `Atomic`, or touched only on the
/// queue, which ``confine(_:)`` checks at every public entry, the objects' included.
public final class ManagedObjectContext: @unchecked Sendable {
    /// Where it reads and saves, or its outermost parent does.
    public let persistentStoreCoordinator: PersistentStoreCoordinator

    /// The context that it reads from and saves into; nil where that is the store.
    public let parent: ManagedObjectContext?

    let queue: DispatchQueue
    /// Whether the queue is the main one, and what runs there may use the context as it is.
    let usesMainQueue: Bool
    let owner = Atomic<UInt>(0)
    let settings: Mutex<Settings>
    let observers = Mutex<Observers>(Observers())
    let pendingMerge = Mutex<ContextMerger.PendingMerge>(ContextMerger.PendingMerge())

    /// The state that belongs to the queue.
    let graph: ObjectGraph

    /// The first failure to read a fault since the context was last refreshed or reset; the
    /// values of that fault read as null until then.
    ///
    /// Property access cannot throw, and null is not the answer. So nothing built on it leaves
    /// the context: fetches and saves throw this error until ``reset()``,
    /// ``refreshAllObjects()`` or ``rollback()``. To handle a failure where it arises use
    /// ``fulfillFault(_:)``.
    public var faultingError: CoordinatorError? { graph.faultingError }

    /// Makes a context on a coordinator, with the error policy.
    ///
    /// - Parameters:
    ///   - coordinator: Where it reads and saves; kept alive by the context.
    ///   - classes: The classes of entities' objects, by the entity's name; others, and those
    ///     of entities that inherit, follow ``register(_:for:)``.
    public convenience init(
        _ coordinator: PersistentStoreCoordinator, classes: [String: ManagedObject.Type] = [:]
    ) {
        self.init(coordinator, classes: classes, usesMainQueue: false)
    }

    init(
        _ coordinator: PersistentStoreCoordinator, classes: [String: ManagedObject.Type],
        usesMainQueue: Bool
    ) {
        queue = usesMainQueue ? .main : DispatchQueue(label: "tributary.context")
        self.usesMainQueue = usesMainQueue
        persistentStoreCoordinator = coordinator
        parent = nil
        graph = ObjectGraph(
            classes: classes, counting: ContextCounting(of: coordinator.instruments.contextCounting)
        )
        settings = Mutex(Settings())
    }

    /// Makes a scratch pad on another context, with that one's unsaved changes: to any depth. As
    /// NSManagedObjectContext with a parent.
    ///
    /// What it reads comes from the parent, and ``save()`` puts its changes among the parent's unsaved
    /// ones: without a conflict, in place of what the parent has changed itself. The store changes
    /// when the outermost parent saves; there the merge policy, unique constraints and counts are
    /// regarded. A child that is dropped costs nothing.
    ///
    /// Objects that the parent has inserted get permanent IDs as soon as a child reads, as by
    /// ``obtainPermanentIDs(for:)``; the child knows them by these. A child has no generation of
    /// its own: it reads by that of its outermost parent.
    ///
    /// Threading: a child has a queue of its own, and waits for the parent's where it reads or
    /// saves. A block of the parent may call ``performAndWait(_:)`` of a child that has nothing else to
    /// do, such as merging by itself; it must not wait for a child otherwise, for each would wait for
    /// the other.
    ///
    /// - Parameters:
    ///   - parent: kept alive by the child.
    ///   - classes: The classes of entities' objects, where they are others than the parent's.
    public init(parent: ManagedObjectContext, classes: [String: ManagedObject.Type] = [:]) {
        queue = DispatchQueue(label: "tributary.context")
        usesMainQueue = false
        persistentStoreCoordinator = parent.persistentStoreCoordinator
        self.parent = parent
        graph = ObjectGraph(
            classes: classes,
            counting: ContextCounting(
                of: parent.persistentStoreCoordinator.instruments.contextCounting)
        )
        graph.awaitsClasses = true
        settings = Mutex(Settings())
    }

    deinit {
        settings.withLock { $0.mergeObservation?.cancel() }
    }

    /// The schema.
    public var managedObjectModel: ManagedObjectModel { persistentStoreCoordinator.model }

    struct Settings {
        var mergePolicy = ContextMergePolicy.error
        var name: String?
        var transactionAuthor: String?
        var shouldDeleteInaccessibleFaults = true
        var propagatesDeletesAtEndOfEvent = true
        var stalenessInterval = -1.0
        var userInfo: [String: any Sendable] = [:]
        var inaccessibleFaultHandler: ((ManagedObject) -> Bool)?
        var mergeObservation: CommitObservation?
    }

    /// How a save settles objects that have moved on. Default ``ContextMergePolicy/error``. A save
    /// into a parent knows no conflicts, so only the outermost parent's counts. Usable from any thread.
    public var mergePolicy: ContextMergePolicy {
        get { settings.withLock { $0.mergePolicy } }
        set { settings.withLock { $0.mergePolicy = newValue } }
    }

    /// The context's name, noted in the history of its saves. Usable from any thread.
    public var name: String? {
        get { settings.withLock { $0.name } }
        set { settings.withLock { $0.name = newValue } }
    }

    /// The author of saves, in the application's words, noted in history. Usable from any thread.
    public var transactionAuthor: String? {
        get { settings.withLock { $0.transactionAuthor } }
        set { settings.withLock { $0.transactionAuthor = newValue } }
    }

    /// Whether a fault whose row is missing becomes a deleted object with null values. Default
    /// true; else it is a ``faultingError``. Usable from any thread.
    public var shouldDeleteInaccessibleFaults: Bool {
        get { settings.withLock { $0.shouldDeleteInaccessibleFaults } }
        set { settings.withLock { $0.shouldDeleteInaccessibleFaults = newValue } }
    }

    /// Whether delete rules are carried out in memory at the end of the event (true, the
    /// default) or at the save. Usable from any thread.
    public var propagatesDeletesAtEndOfEvent: Bool {
        get { settings.withLock { $0.propagatesDeletesAtEndOfEvent } }
        set { settings.withLock { $0.propagatesDeletesAtEndOfEvent = newValue } }
    }

    /// How old a row that the coordinator's contexts have read may be, in seconds, to serve a fault. Below
    /// 0, the default, it may be of any age: a row that a commit has touched since never serves. With 0
    /// every fault asks the store. Usable from any thread.
    public var stalenessInterval: Double {
        get { settings.withLock { $0.stalenessInterval } }
        set { settings.withLock { $0.stalenessInterval = newValue } }
    }

    /// What the context has fetched, read and saved so far. Usable from any thread.
    public var counters: ContextCounters { graph.counting.counters }

    // MARK: The graph

    /// The objects it knows that are still in use. To be used on its queue.
    public var registeredObjects: Set<ManagedObject> {
        confine()
        return Set(graph.registry.values.compactMap(\.object))
    }

    /// The objects the next save inserts. To be used on its queue.
    public var insertedObjects: Set<ManagedObject> {
        confine()
        return Set(graph.inserted.values)
    }

    /// The objects changed since they were fetched or saved. To be used on its queue.
    public var updatedObjects: Set<ManagedObject> {
        confine()
        return Set(graph.updated.values)
    }

    /// The objects the next save deletes. To be used on its queue.
    public var deletedObjects: Set<ManagedObject> {
        confine()
        return Set(graph.deleted.values)
    }

    /// Whether there is anything a save would look at. To be used on its queue.
    public var hasChanges: Bool {
        confine()
        return !(graph.inserted.isEmpty && graph.updated.isEmpty && graph.deleted.isEmpty)
    }

    /// Gives the objects of an entity a class, as its managedObjectClassName does in Core Data.
    ///
    /// Entities that inherit from it take the class too, unless they have one of their own. To
    /// be used on the queue, before objects of that entity are fetched.
    ///
    /// - Precondition: The model has such an entity.
    public func register(
        _ type: ManagedObject.Type, for entityName: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        confine("register(_:for:)", at: place)
        graph.classes[entityNamed(entityName, at: place).name] = type
    }

    /// The entity of that name.
    ///
    /// - Precondition: The model has it; names in code are the programmer's.
    func entityNamed(
        _ name: String, at place: SourcePlace = SourcePlace(#fileID, #line)
    ) -> ManagedObjectModel.Entity {
        guard let entity = managedObjectModel.entity(named: name) else {
            misuse("The model has no entity \(name).", at: place)
        }
        return entity
    }

    func entity(
        for type: ManagedObject.Type, at place: SourcePlace
    ) -> ManagedObjectModel.Entity {
        takeClasses()
        let names = graph.classes.filter { $0.value == type }.map(\.key).sorted()
        require(
            names.count < 2,
            "\(type) is the class of \(names.joined(separator: ", ")); name the entity instead.",
            at: place)
        return entityNamed(names.first ?? String(describing: type), at: place)
    }

    /// Takes the classes that the parent has, where it has none of its own.
    private func takeClasses() {
        guard graph.awaitsClasses, let parent else { return }
        graph.awaitsClasses = false
        let inherited = parent.performAndWait {
            parent.takeClasses()
            return parent.graph.classes
        }
        graph.classes.merge(inherited) { own, _ in own }
    }

    func objectClass(of entity: ManagedObjectModel.Entity) -> ManagedObject.Type {
        takeClasses()
        if graph.classes.isEmpty { return ManagedObject.self }
        var candidate: ManagedObjectModel.Entity? = entity
        while let current = candidate {
            if let type = graph.classes[current.name] { return type }
            candidate = current.parent.flatMap { managedObjectModel.entity(named: $0) }
        }
        return ManagedObject.self
    }
}
