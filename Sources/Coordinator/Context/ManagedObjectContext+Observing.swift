import Merge
import Synchronization

extension ManagedObjectContext {
    /// The handlers that observers gave, by number, so that they are called in order.
    struct Observers {
        var willSave: [(Int, @Sendable (ManagedObjectContext) -> Void)] = []
        var didSave: [(Int, @Sendable (ContextChanges, ContextDidSave) -> Void)] = []
        var didChange: [(Int, @Sendable (ContextChanges) -> Void)] = []
        var last = 0

        mutating func next() -> Int {
            last += 1
            return last
        }
    }

    /// Calls a handler on the context's queue before each save. Usable from any thread.
    @discardableResult
    public func observeWillSave(
        _ handler: @escaping @Sendable (ManagedObjectContext) -> Void
    ) -> ContextObservation {
        observation { observers, number in observers.willSave.append((number, handler)) }
    }

    /// Calls a handler on the context's queue after each save and before `save` returns, with
    /// the objects and with their IDs. Usable from any thread.
    @discardableResult
    public func observeDidSave(
        _ handler: @escaping @Sendable (ContextChanges, ContextDidSave) -> Void
    ) -> ContextObservation {
        observation { observers, number in observers.didSave.append((number, handler)) }
    }

    /// Calls a handler on the context's queue once an event in which objects changed. Usable
    /// from any thread.
    @discardableResult
    public func observeObjectsDidChange(
        _ handler: @escaping @Sendable (ContextChanges) -> Void
    ) -> ContextObservation {
        observation { observers, number in observers.didChange.append((number, handler)) }
    }

    func removeObserver(_ number: Int) {
        observers.withLock { observers in
            observers.willSave.removeAll { $0.0 == number }
            observers.didSave.removeAll { $0.0 == number }
            observers.didChange.removeAll { $0.0 == number }
        }
    }

    private func observation(_ add: (inout Observers, Int) -> Void) -> ContextObservation {
        let number = observers.withLock { observers in
            let number = observers.next()
            add(&observers, number)
            return number
        }
        return ContextObservation(context: WeakContext(self), number: number)
    }
}
