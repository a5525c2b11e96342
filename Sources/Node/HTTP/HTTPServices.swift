// What the resources of the HTTP interface share.

internal import Coordinator
internal import Merge
internal import NIOPosix
internal import Synchronization

/// The node behind the interface, and the threads on which it is read. Thread-safe.
final class HTTPServices: Sendable {
    let backend: any NodeBackend
    let coordinator: PersistentStoreCoordinator
    let renderer: ValueRenderer
    let maximumBodyBytes: Int
    let leases: GenerationLeases
    let feed: ChangeFeed
    private let threads: NIOThreadPool
    private let stopReason: Mutex<CoordinatorError?>

    /// Begins the threads: as many as the coordinator has connections for reading by default.
    init(backend: any NodeBackend, maximumBodyBytes: Int, readingThreads: Int) {
        self.backend = backend
        coordinator = backend.coordinator
        renderer = ValueRenderer(model: coordinator.model, cluster: coordinator.cluster)
        self.maximumBodyBytes = maximumBodyBytes
        leases = GenerationLeases()
        feed = ChangeFeed(coordinator)
        threads = NIOThreadPool(numberOfThreads: readingThreads)
        threads.start()
        stopReason = Mutex(nil)
        coordinator.onStop { [weak self] error in
            self?.stopReason.withLock { $0 = error }
        }
    }

    var model: ManagedObjectModel { coordinator.model }
    var cluster: String { coordinator.cluster }

    /// Why the store's writer has stopped for good; nil while it works.
    var writerStopped: CoordinatorError? { stopReason.withLock { $0 } }

    /// Runs what blocks on a thread that may.
    func blocking<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await threads.runIfActive(body)
    }

    /// Reads a consistent state, the newest or a pinned one, on a thread that may block.
    func read<Result: Sendable>(
        _ pin: GenerationPin? = nil, _ body: @escaping @Sendable (StoreReader) throws -> Result
    ) async throws -> Result {
        let coordinator = coordinator
        return try await threads.runIfActive { try coordinator.read(pin, body) }
    }

    /// The state a request asks for: a pinned one, or the newest once it covers a token.
    func pin(
        generation: QueryGenerationToken?, after: QueryGenerationToken?, timeout: Duration
    ) async throws -> GenerationPin? {
        guard let generation else {
            if let after {
                try await coordinator.waitUntilCovered(after.versionVector, timeout: timeout)
            }
            return nil
        }
        let pin = try leases.use(generation)
        if let after, !pin.token.versionVector.covers(after.versionVector) {
            throw CoordinatorError(
                .generationTimeout,
                "The pinned generation does not hold what \"after\" names, and never will.")
        }
        return pin
    }

    /// Ends the feed and the threads; reads under way are finished.
    func stop() async {
        feed.stop()
        leases.releaseAll()
        try? await threads.shutdownGracefully()
    }
}
