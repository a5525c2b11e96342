/// What a coordinator counts and observes. Thread-safe.
final class Instruments: Sendable {
    /// All that reads and contexts do.
    let counting: ContextCounting
    /// What contexts do.
    let contextCounting: ContextCounting
    /// The shapes of requests.
    let observer: RequestObserver

    init(_ options: PersistentStoreCoordinator.Options) {
        counting = ContextCounting()
        contextCounting = ContextCounting(of: counting)
        observer = RequestObserver(clock: options.monotonicMilliseconds)
    }
}

/// The statement of a request under way, counted and observed at its end.
struct FetchRun {
    let counting: ContextCounting?
    let observation: RequestObserver.Observation?

    /// Notes that it has ended, also in an error. To be called once.
    func end(rows: Int) {
        if let counting, counting.isOfAll {
            counting.countFetch()
            counting.countRows(rows)
        }
        observation?.end(rows: rows)
    }
}

extension PersistentStoreCoordinator {
    /// The shapes of requests that its contexts and other readers have made so far, with what they
    /// took. Usable from any thread.
    public var observedRequests: ObservedRequests { instruments.observer.observed }

    /// How many shapes of requests are kept, and how many times one was forgotten. Usable from any
    /// thread.
    package var observedShapes: (count: Int, dropped: UInt64) { instruments.observer.gauge }
}
