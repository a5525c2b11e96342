import Merge
import Synchronization

/// A fetch that is read beside its context's queue: how far it is, and a way to end it. As
/// NSAsynchronousFetchResult. Usable from any thread.
public final class AsynchronousFetch: Sendable {
    private let found = Atomic<Int>(0)
    private let isStopped = Atomic<Bool>(false)
    private let hasEnded = Atomic<Bool>(false)
    private let canceller = Mutex<(@Sendable () -> Void)?>(nil)

    init() {}

    /// How many objects were found in the store so far.
    public var foundCount: Int { found.load(ordering: .relaxed) }

    /// Whether somebody has cancelled it.
    public var isCancelled: Bool { isStopped.load(ordering: .relaxed) }

    /// Ends it: the fetch fails with `CancellationError` as soon as the context's queue is free, and
    /// SQLite stops. What was read is freed on the reading thread. Does nothing after the results were delivered.
    public func cancel() {
        isStopped.store(true, ordering: .relaxed)
        canceller.withLock { $0.take() }?()
    }

    /// Notes that so many were found.
    func note(found count: Int) { found.store(count, ordering: .relaxed) }

    /// Has something called when it is cancelled, at once if it is already.
    func whenCancelled(_ body: @escaping @Sendable () -> Void) {
        canceller.withLock { $0 = body }
        if isCancelled { canceller.withLock { $0.take() }?() }
    }

    /// Notes its end. What cancels it keeps it and its context, so it is released here.
    ///
    /// - Returns: whether this is the first end.
    func end() -> Bool {
        _ = canceller.withLock { $0.take() }
        return !hasEnded.exchange(true, ordering: .relaxed)
    }

    func checkCancellation() throws {
        if isCancelled { throw CancellationError() }
    }
}

extension ManagedObjectContext {
    /// Fetches objects as ``fetch(_:)`` does, and returns before they are read. The context's queue
    /// is free while SQLite works. Usable from any thread.
    ///
    /// It begins on the queue, after what is queued already, with the generation that the context
    /// reads then. The results come on the queue. Unsaved changes of that moment are laid over them,
    /// as `fetch` does it. What others have saved since it began is not among them. If the context
    /// itself has saved meanwhile, or has gone to another generation, or has made changes that a
    /// limited page does not allow for, the store is read again. After three such reads the next one
    /// is done on the queue, so that the fetch ends.
    ///
    /// Half of the readers of ``PersistentStoreCoordinator/Options/readers`` serve asynchronous
    /// fetches, so by default four run at once for a coordinator. Up to 1,000 others wait in the order
    /// they began; one more fails with `limitExceeded`. Reads through one pin take turns: a pinned context that reads something else meanwhile
    /// waits. What key paths for prefetching lead to is read on the queue, with the delivery.
    ///
    /// With a parent nothing is read beside the queue: the fetch waits for its turn on it, and reads there.
    ///
    /// The context lives until the results have come.
    ///
    /// - Parameters:
    ///   - request: As for ``fetch(_:)``.
    ///   - progress: Gets how many objects were found in the store, every 1,000 objects and at the
    ///     end, on the reading thread. A second read begins to count again.
    ///   - completion: Gets the objects on the context's queue, once. It gets a `CancellationError` if
    ///     the fetch was cancelled, and then the context is as it was; else what ``fetch(_:)`` throws.
    /// - Returns: What cancels the fetch; it may be dropped.
    @discardableResult
    public func fetchAsynchronously(
        _ request: FetchRequest, progress: (@Sendable (Int) -> Void)? = nil,
        completion: @escaping @Sendable (Result<[ManagedObject], any Error>) -> Void
    ) -> AsynchronousFetch {
        let handle = AsynchronousFetch()
        AsynchronousReading(
            context: self, request: request, handle: handle, progress: progress,
            completion: completion
        ).start()
        return handle
    }

    /// Fetches objects as ``fetchAsynchronously(_:progress:completion:)`` does, and gives what a block
    /// makes of them on the context's queue. Usable from any task; objects stay inside.
    ///
    /// If the task is cancelled, SQLite stops, and the block does not run.
    ///
    /// - Throws: `CancellationError` if the task was cancelled; else what ``fetch(_:)`` and the block
    ///   throw.
    public func fetch<Value: Sendable>(
        _ request: FetchRequest, progress: (@Sendable (Int) -> Void)? = nil,
        _ body: @escaping @Sendable ([ManagedObject]) throws -> Value
    ) async throws -> Value {
        let handle = AsynchronousFetch()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                AsynchronousReading(
                    context: self, request: request, handle: handle, progress: progress
                ) { result in
                    continuation.resume(with: Result { try body(try result.get()) })
                }.start()
            }
        } onCancel: {
            handle.cancel()
        }
    }

    /// The same for objects of a class.
    ///
    /// - Precondition: The class is the one registered for the entity, or above it.
    /// - Throws: As ``fetch(_:progress:_:)``.
    public func fetch<Object: ManagedObject, Value: Sendable>(
        _ request: FetchRequest, as type: Object.Type, progress: (@Sendable (Int) -> Void)? = nil,
        file: StaticString = #fileID, line: UInt = #line,
        _ body: @escaping @Sendable ([Object]) throws -> Value
    ) async throws -> Value {
        let place = SourcePlace(file, line)
        return try await fetch(request, progress: progress) { objects in
            try body(Self.cast(objects, to: Object.self, at: place))
        }
    }
}
