// The services that the resources of the HTTP interface share.

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
    /// Whether the inspector's page is there.
    let servesInspector: Bool
    let maximumAnswerBytes: Int
    private let readMilliseconds: UInt64
    let leases: GenerationLeases
    let feed: ChangeFeed
    /// Which reads run on the threads for reading, which wait and which give way.
    let lanes: ReadLanes
    private let threads: NIOThreadPool
    /// Where what is short by its nature is done: it waits for no long read.
    private let briefThreads = NIOThreadPool(numberOfThreads: 2)
    /// Where the store is verified.
    private let verifyingThread = NIOThreadPool(numberOfThreads: 1)
    /// The bytes of answers under way.
    let answers: AnswerBudget
    /// The writes that wait for clients.
    let writes: PendingWrites
    /// Where the store is copied, one copy after the other.
    private let copyingThread = NIOThreadPool(numberOfThreads: 1)
    let pinTurns = PinTurns()
    /// The store as it was, which one request after the other reads.
    let past: PastReads
    private let stopReason: Mutex<CoordinatorError?>
    private let isVerifying = Mutex(false)
    /// Whether the model has an entity that others inherit from, so that a reference does not tell
    /// by itself what it leads to.
    private let hasHeirs: Bool

    /// Begins the threads. With those for what is brief they are fewer than the connections for reading
    /// that the coordinator has by default, so that metrics and peers find one.
    ///
    /// - Parameter readingThreads: half of them, at least one, are for long reads.
    init(
        backend: any NodeBackend, maximumBodyBytes: Int, maximumAnswerBytes: Int,
        readTimeout: Duration, readingThreads: Int, bounds: HTTPBounds = HTTPBounds(),
        servesInspector: Bool = false
    ) {
        self.servesInspector = servesInspector
        var limits = bounds.reads
        limits.long = max(1, readingThreads / 2)
        limits.short = max(1, readingThreads - limits.long)
        lanes = ReadLanes(limits)
        let writes = PendingWrites(
            milliseconds: bounds.slowClientMilliseconds,
            busyMilliseconds: bounds.busyClientMilliseconds)
        self.writes = writes
        answers = AnswerBudget(limit: max(bounds.answerBytes, maximumAnswerBytes)) {
            writes.cutOffStalest()
        }
        self.backend = backend
        coordinator = backend.coordinator
        renderer = ValueRenderer(model: coordinator.model, cluster: coordinator.cluster)
        hasHeirs = coordinator.model.entities.contains { $0.familyNames.count > 1 }
        self.maximumBodyBytes = maximumBodyBytes
        self.maximumAnswerBytes = maximumAnswerBytes
        readMilliseconds = UInt64(max(0, readTimeout / .milliseconds(1)))
        leases = GenerationLeases()
        feed = ChangeFeed(coordinator)
        past = PastReads(coordinator, milliseconds: readMilliseconds)
        threads = NIOThreadPool(numberOfThreads: limits.short + limits.long)
        threads.start()
        briefThreads.start()
        verifyingThread.start()
        copyingThread.start()
        stopReason = Mutex(nil)
        coordinator.onStop { [weak self] error in
            self?.stopReason.withLock { $0 = error }
        }
    }

    var model: ManagedObjectModel { coordinator.model }
    var cluster: String { coordinator.cluster }

    private enum Limits {
        /// How long the first transaction of an incarnation that a token names is waited for.
        static let unknownIncarnation = Duration.seconds(5)
    }

    /// Why the store's writer has stopped for good; nil while it works.
    var writerStopped: CoordinatorError? { stopReason.withLock { $0 } }

    /// Runs what blocks for a moment on a thread that may.
    func blocking<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await briefThreads.runIfActive(body)
    }

    /// Runs what copies all of the store, one after the other and on none of the threads for reading.
    func copying<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await copyingThread.runIfActive(body)
    }

    /// Verifies the store, one at a time: each reads all of it, on a thread of its own.
    ///
    /// - Throws: ``CoordinatorError``, `limitExceeded` where it is being verified already.
    func verify() async throws -> VerificationReport {
        let isBusy = isVerifying.withLock { isVerifying in
            defer { isVerifying = true }
            return isVerifying
        }
        guard !isBusy else {
            throw CoordinatorError(
                .limitExceeded, "This node is being verified already; ask again when that is done.")
        }
        defer { isVerifying.withLock { $0 = false } }
        let coordinator = coordinator
        return try await verifyingThread.runIfActive { try coordinator.verify() }
    }

    /// Reads a consistent state, the newest or a pinned one, on a thread that may block.
    ///
    /// It ends with the client of the request that is being answered. A long read gives way to
    /// others, and then starts again: see ``ReadLanes``.
    ///
    /// - Parameters:
    ///   - pin: the state; nil for the newest.
    ///   - text: what status shows of it, where that is more than the request's address.
    ///   - body: may be called more than once.
    /// - Throws: what the body does, ``CoordinatorError``: `readTimeout` where SQLite goes on for
    ///   too long, ``ClientGone``, and ``HTTPError`` (503 `busy`).
    func read<Result: Sendable>(
        _ pin: GenerationPin? = nil, as text: String? = nil,
        _ body: @escaping @Sendable (StoreReader) throws -> Result
    ) async throws -> Result {
        let (coordinator, milliseconds) = (coordinator, readMilliseconds)
        let origin = ReadOrigin.current
        func onThread() async throws -> Result {
            if origin.isBrief {
                return try await briefThreads.runIfActive {
                    try coordinator.read(pin, milliseconds: milliseconds, body)
                }
            }
            return try await lanes.run(for: origin, text: text ?? origin.text) { mayGoOn in
                try await threads.runIfActive {
                    try coordinator.read(pin, milliseconds: milliseconds, while: mayGoOn, body)
                }
            }
        }
        guard let pin else { return try await onThread() }
        return try await pinTurns.take(pin, onThread)
    }

    /// A token from a text, with all that it names. If it names an incarnation from which nothing
    /// has come yet, that is waited for, for some seconds: it is on its way, unless it is lost.
    func known(_ token: QueryGenerationToken?) async throws -> QueryGenerationToken? {
        guard let token, !token.isWhole else { return token }
        let known = try await read { token.completed(by: try $0.beginnings()) }
        if known.isWhole { return known }
        do {
            try await coordinator.waitUntilCovered(
                token.versionVector, timeout: Limits.unknownIncarnation)
        } catch let error as CoordinatorError where error.code == .generationTimeout {
            return known
        }
        return try await read { token.completed(by: try $0.beginnings()) }
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
        // A file is mostly as it was when somebody else looked at it, so there the newest generation
        // needs no lease.
        let isFile = coordinator.actor == nil
        let pin = isFile ? try coordinator.pin(generation) : try leases.use(generation)
        if let after, !pin.token.versionVector.covers(after.versionVector) {
            throw CoordinatorError(
                .generationTimeout,
                "The pinned generation does not hold what \"after\" names, and never will.")
        }
        return pin
    }

    // MARK: Failures

    /// Any thrown error, as an answer. The targets of its values' references are looked up if their
    /// entity has heirs; should that fail, they are named as the model has them.
    ///
    /// - Parameter format: the form in which it will be written.
    func answer(to error: any Error, as format: BodyFormat = .json) async -> HTTPError {
        let renderer = renderer.writing(format)
        if hasHeirs, let error = error as? CoordinatorError, !error.conflicts.isEmpty {
            let answer = try? await read { reader -> HTTPError in
                let entities = ReferencedEntities(reader, renderer.model)
                return try HTTPError(describing: error, renderer: renderer, naming: entities.name)
            }
            if let answer { return answer }
        }
        return HTTPError(describing: error, renderer: renderer)
    }

    /// Tells the node of a failure that is its own: a disk, a store or a defect is to blame.
    ///
    /// - Parameter target: the address that was asked for; its query is left out.
    func note(_ error: any Error, answered answer: HTTPError, method: String, target: String) {
        // A client that is withdrawn, as all are when the server ends, has not failed.
        guard [500, 507].contains(answer.status), !(error is CancellationError) else { return }
        var failure = RequestFailure(
            method: method, path: String(target.prefix { $0 != "?" }.prefix(Self.shownOfPath)),
            code: answer.code, message: answer.message)
        if let error = error as? CoordinatorError, error.code == .storeDamaged {
            failure.damage = error
        }
        backend.noteFailure(failure)
    }

    /// How many characters of an address are logged: more than those of this interface have.
    private static let shownOfPath = 200

    /// Ends the feed and the threads; reads under way are finished.
    func stop() async {
        feed.stop()
        leases.releaseAll()
        await past.stop()
        await withTaskGroup(of: Void.self) { group in
            for pool in [threads, briefThreads, verifyingThread, copyingThread] {
                group.addTask { try? await pool.shutdownGracefully() }
            }
        }
    }
}
