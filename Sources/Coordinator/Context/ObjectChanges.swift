public import Merge
import Synchronization

/// How unsaved changes alter the members of a to-many.
public struct ChangedMembers: Hashable, Sendable {
    /// Members that it has not had when it was last fetched or saved.
    public let added: Set<ManagedObjectID>
    /// Members that it had then.
    public let removed: Set<ManagedObjectID>
}

extension ManagedObject {
    /// The attributes and to-ones that were assigned since observers last heard of changes, with the
    /// values from before. Inside an observer's handler those that it is being told of. To be used on the
    /// context's queue.
    public func changedValuesForCurrentEvent() -> [String: PropertyValue] {
        guard let context = usableContext() else { return [:] }
        let graph = context.graph
        let isNew =
            graph.event.inserted.contains(self)
            || graph.toldInserted.contains(self)
        if isNew {
            return assigned.sorted().reduce(into: [:]) { result, position in
                result[entity.properties[position].name] =
                    entity.properties[position].defaultValue
            }
        }
        let noted = notedEvent == graph.eventNumber ? graph.before : graph.toldBefore
        let place = Int(notedPlace)
        guard place < noted.count, noted[place].object === self else { return [:] }
        let before = noted[place].values
        return entity.properties.indices.reduce(into: [:]) { result, position in
            guard position < before.count, position < values.count,
                before[position] != values[position]
            else { return }
            result[entity.properties[position].name] = before[position]
        }
    }

    /// The to-manys that unsaved changes alter, by name, with the members gained and lost. To be used on
    /// the context's queue.
    ///
    /// A to-many is no value of its object, so ``changedValues()`` does not have it.
    public func changedMembers() -> [String: ChangedMembers] {
        guard let context = usableContext() else { return [:] }
        let graph = context.graph
        return entity.relationships.reduce(into: [:]) { result, relationship in
            let key = MemberKey(row: row, relationship: relationship.name)
            guard relationship.isToMany,
                let delta = graph.columnDeltas[key] ?? graph.linkDeltas[key]
            else { return }
            result[relationship.name] = ChangedMembers(added: delta.added, removed: delta.removed)
        }
    }

    /// The members of a to-many as it was last fetched or saved, sorted. To be used on the context's
    /// queue.
    ///
    /// - Precondition: The entity has a to-many of that name.
    public func committedObjectIDs(
        forRelationshipNamed name: String, file: StaticString = #fileID, line: UInt = #line
    ) -> [ManagedObjectID] {
        guard let relationship = entity.relationship(named: name), relationship.isToMany else {
            misuse(
                "\(entity.name) has no to-many relationship \(name).",
                at: SourcePlace(file, line))
        }
        guard let context = usableContext() else { return [] }
        return context.relationshipTracker.memberBase(of: self, relationship).sorted()
    }
}

extension ManagedObjectContext {
    /// What an application keeps with the context. Usable from any thread.
    public var userInfo: [String: any Sendable] {
        get { settings.withLock { $0.userInfo } }
        set { settings.withLock { $0.userInfo = newValue } }
    }

    /// Whether all objects that the context knows are kept in use, and not only those with unsaved
    /// changes. Default false. To be used on its queue.
    public var retainsRegisteredObjects: Bool {
        get {
            confine()
            return graph.retained != nil
        }
        set {
            confine()
            graph.retained = newValue ? registeredObjects : nil
        }
    }

    /// Says of a fault without a row whether it becomes a deleted object with null values; else it
    /// is a ``faultingError``. Called on the context's queue; nil for what
    /// ``shouldDeleteInaccessibleFaults`` says. Usable from any thread.
    public func shouldHandleInaccessibleFault(
        _ handler: (@Sendable (ManagedObject) -> Bool)?
    ) {
        settings.withLock { $0.inaccessibleFaultHandler = handler }
    }

    /// Takes what was saved elsewhere into several contexts, each on its queue: parents before their
    /// children. Waits for them. Usable from any thread that none of the queues waits for.
    public static func mergeChanges(
        fromRemoteContextSave changes: ContextDidSave, into contexts: [ManagedObjectContext]
    ) {
        func depth(_ context: ManagedObjectContext) -> Int {
            context.parent.map { depth($0) + 1 } ?? 0
        }
        let sorted = contexts.enumerated().sorted {
            (depth($0.element), $0.offset) < (depth($1.element), $1.offset)
        }
        for (_, context) in sorted {
            context.performAndWait { context.mergeChanges(fromContextDidSave: changes) }
        }
    }

    /// When a block runs. As NSManagedObjectContext.ScheduledTaskType.
    public enum ScheduledTaskType: Hashable, Sendable {
        /// At once where the caller is inside a block of the context, else after what is queued already.
        case immediate
        /// After what is queued already.
        case enqueued
    }

    /// Runs a block on the context's queue and gives its result. Usable from any task.
    ///
    /// - Throws: What the block throws.
    public func perform<Result: Sendable, Failure: Error>(
        schedule: ScheduledTaskType,
        _ block: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        if schedule == .immediate, isOnQueue { return try block() }
        return try await perform(block)
    }
}
