extension ManagedObjectContext {
    /// The saves of the context from the beginning of an iteration on, by IDs.
    ///
    ///     for await save in context.didSaves { index.update(save.inserted.union(save.updated)) }
    ///
    /// A reader is told after the save, on its own task. A slow one holds nobody back: at most
    /// ``ObservationBounds/values`` saves wait for it. Beyond that the earliest are dropped, and the
    /// next element says how many were (``Observed/missed``).
    ///
    /// An iteration ends when its task is cancelled, and when nobody keeps the context alive, behind
    /// the saves that wait; the sequence does not. Usable from any task.
    ///
    /// There is no such sequence of saves that are about to happen: told on another task it would come
    /// too late to change them. See ``observeWillSave(_:)``.
    public var didSaves: ContextSequence<ContextDidSave> {
        ContextSequence(context: WeakContext(self)) { save in
            save.inserted.count + save.updated.count + save.deleted.count
        } observe: { context, feed in
            context.observeDidSave { _, save in feed.add(save) }
        }
    }

    /// The changes of objects in the context from the beginning of an iteration on, by IDs: an element an
    /// event in which something changed, also by a merge.
    ///
    /// Otherwise as ``didSaves``. What the objects are like by the time that the reader asks may be
    /// newer than the element.
    public var objectChanges: ContextSequence<ContextDidChange> {
        ContextSequence(context: WeakContext(self)) { changes in
            changes.inserted.count + changes.updated.count + changes.deleted.count
                + changes.refreshed.count
        } observe: { context, feed in
            context.observeObjectsDidChange { feed.add(ContextDidChange($0)) }
        }
    }
}

/// The changes of an event in a context, by IDs. Usable from any thread.
public struct ContextDidChange: Hashable, Sendable {
    /// Objects inserted. Their IDs are temporary until they are saved.
    public let inserted: Set<ManagedObjectID>
    /// Objects with changed values or relationships.
    public let updated: Set<ManagedObjectID>
    /// Objects deleted.
    public let deleted: Set<ManagedObjectID>
    /// Objects that took values from the store.
    public let refreshed: Set<ManagedObjectID>
    /// Those of the refreshed objects that lost their values and changes.
    public let invalidated: Set<ManagedObjectID>
    /// Whether the context was reset, and all objects that it had are cut off from it.
    public let invalidatesAll: Bool

    /// To be used on the queue of the context.
    init(_ changes: ContextChanges) {
        inserted = Set(changes.inserted.lazy.map(\.objectID))
        updated = Set(changes.updated.lazy.map(\.objectID))
        deleted = Set(changes.deleted.lazy.map(\.objectID))
        refreshed = Set(changes.refreshed.lazy.map(\.objectID))
        invalidated = Set(changes.invalidated.lazy.map(\.objectID))
        invalidatesAll = changes.invalidatesAll
    }
}

/// What happens in a context; see ``ManagedObjectContext/didSaves`` and
/// ``ManagedObjectContext/objectChanges``.
public struct ContextSequence<Value: Sendable>: AsyncSequence, Sendable {
    /// A value, with how many were missed before it.
    public typealias Element = Observed<Value>
    /// Iterating throws nothing.
    public typealias Failure = Never

    let context: WeakContext
    var limit = ObservationBounds.values
    let measure: @Sendable (Value) -> Int
    let observe: @Sendable (ManagedObjectContext, ObservationFeed<Value>) -> ContextObservation

    /// Begins to observe.
    public func makeAsyncIterator() -> AsyncIterator {
        let buffer = ObservationBuffer(limit: limit, measure: measure)
        let feed = ObservationFeed(buffer)
        let observation = context.value.map { observe($0, feed) }
        return AsyncIterator(buffer: buffer, subscription: observation.map(Subscription.init))
    }

    /// Reads what happens.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let buffer: ObservationBuffer<Value>
        var subscription: Subscription?

        /// The next value, as soon as there is one; nil at the end.
        public mutating func next() async -> Observed<Value>? {
            // The end of a context is no failure.
            if case .success(let value?) = await buffer.next() { return value }
            subscription = nil
            return nil
        }
    }

    /// Ends the observation when the iterator is gone.
    final class Subscription: Sendable {
        private let observation: ContextObservation

        init(_ observation: ContextObservation) { self.observation = observation }

        deinit { observation.cancel() }
    }
}
