import Dispatch
import Foundation
import Merge
import Synchronization

extension ManagedObjectContext {
    /// Runs a block on the context's queue after what is queued already, and returns at once.
    ///
    /// Inside another block of the context it runs after that one. Pending changes are
    /// processed when it ends. Usable from any thread.
    public func perform(_ block: @escaping @Sendable () -> Void) {
        queue.async { self.runEvent(block) }
    }

    /// Runs a block on the context's queue and gives its result.
    ///
    /// Pending changes are processed when it ends. Usable from any task; objects stay inside,
    /// only Sendable results come out.
    ///
    /// - Throws: What the block throws.
    public func perform<Result: Sendable, Failure: Error>(
        _ block: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let result: Swift.Result<Result, Failure> = await withCheckedContinuation { continuation in
            queue.async {
                let outcome = self.runEvent { () -> Swift.Result<Result, Failure> in
                    do throws(Failure) { return .success(try block()) } catch {
                        return .failure(error)
                    }
                }
                continuation.resume(returning: outcome)
            }
        }
        return try result.get()
    }

    /// Runs a block on the context's queue and waits for it; inside another block of the
    /// context it runs at once.
    ///
    /// Usable from any thread but not from a block of another context that this context's
    /// queue is waiting for. An object may be handed out only to be used in another block of
    /// the same context.
    ///
    /// - Throws: What the block throws.
    public func performAndWait<Result>(_ block: () throws -> Result) rethrows -> Result {
        if isOnQueue { return try isInBlock ? block() : runEvent(block) }
        // Within a child's block the system does not tell that the caller is on the main queue.
        let main = mainAncestor
        if let main, main.isOnQueue, !main.isInBlock {
            main.owner.store(Self.currentThread, ordering: .relaxed)
            defer { main.owner.store(0, ordering: .relaxed) }
            return try queue.sync { try runEvent(block) }
        }
        return try queue.sync { try runEvent(block) }
    }

    /// The outermost parent, if it is of the main queue.
    private var mainAncestor: ManagedObjectContext? {
        var outermost = self
        while let parent = outermost.parent { outermost = parent }
        return outermost.usesMainQueue ? outermost : nil
    }

    private var isInBlock: Bool { owner.load(ordering: .relaxed) == Self.currentThread }

    /// Whether the caller is inside a block of this context.
    ///
    /// The queue's blocks note their thread, because a dispatch queue cannot tell of itself
    /// whether a nested wait began on it. Relaxed order suffices: a thread can read its own
    /// number there only if it wrote it.
    var isOnQueue: Bool {
        isInBlock || usesMainQueue && MainQueue.isCurrent
    }

    private static var currentThread: UInt { UInt(pthread_self()) }

    /// Traps where the caller is not inside a block of this context.
    ///
    /// - Parameter operation: What was used, in the caller's words.
    func confine(_ operation: @autoclosure () -> String, at place: SourcePlace) {
        require(
            isOnQueue,
            "\(operation()) was used outside its context's queue; wrap it in perform or "
                + "performAndWait of its context.", at: place)
        if usesMainQueue { processLater() }
    }

    /// What is done on the main queue outside blocks is an event that ends when the queue goes on.
    private func processLater() {
        guard !graph.isInEvent else { return }
        graph.isInEvent = true
        queue.async { self.runEvent {} }
    }

    /// The same for what a context or an object does without being told where it was called.
    func confine(
        _ operation: StaticString = #function, file: StaticString = #fileID, line: UInt = #line
    ) {
        confine("\(operation)", at: SourcePlace(file, line))
    }

    private func runEvent<Result>(_ block: () throws -> Result) rethrows -> Result {
        owner.store(Self.currentThread, ordering: .relaxed)
        graph.isInEvent = true
        defer {
            processPendingChanges()
            graph.isInEvent = false
            owner.store(0, ordering: .relaxed)
        }
        return try block()
    }

    /// The handlers that observers gave, by number, so that they are called in order.
    struct Observers {
        var willSave: [(Int, @Sendable (ManagedObjectContext) -> Void)] = []
        var didSave: [(Int, @Sendable (ContextChanges, ContextDidSave) -> Void)] = []
        var didChange: [(Int, @Sendable (ContextChanges) -> Void)] = []
        var shown:
            [(
                Int, ObjectIdentifier,
                @Sendable (Set<ManagedObjectID>?, Set<ManagedObjectID>) -> Void
            )] = []
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
            observers.shown.removeAll { $0.0 == number }
        }
    }

    func observation(_ add: (inout Observers, Int) -> Void) -> ContextObservation {
        let number = observers.withLock { observers in
            let number = observers.next()
            add(&observers, number)
            return number
        }
        return ContextObservation(context: WeakContext(self), number: number)
    }
}

/// The main queue, which is not always run by the main thread.
private enum MainQueue {
    private static let key: DispatchSpecificKey<Bool> = {
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        return key
    }()

    /// Whether the caller runs on it, or on the main thread before anything else does.
    static var isCurrent: Bool { DispatchQueue.getSpecific(key: key) ?? false }
}
