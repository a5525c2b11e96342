// Reads of the store as it was.

internal import Coordinator
internal import Merge
internal import NIOPosix
internal import Synchronization

/// What a request reads: the present or a pinned generation, or the store as it was.
enum ReadSource: Sendable {
    case present(GenerationPin?)
    /// With the token that the answer gives, which names the vector alone.
    case past(QueryGenerationToken)

    /// The token of the answer.
    func token(_ reader: StoreReader) throws -> QueryGenerationToken {
        switch self {
        case .present: try reader.token
        case .past(let token): token
        }
    }
}

/// The store as it was, read by one request at a time on a thread of its own. What is kept in memory for it
/// goes when nobody has read the past for a minute. Thread-safe.
final class PastReads: Sendable {
    private static let keptFor = Duration.seconds(60)
    /// How many requests may wait for the past, with the one that reads; more are refused (503).
    private static let most = 16

    private let store: PastStore
    private let thread = NIOThreadPool(numberOfThreads: 1)
    private let uses = Mutex((count: 0, waiting: 0, isStopped: false))
    private let milliseconds: UInt64

    /// - Parameter milliseconds: how long one request may take.
    init(_ coordinator: PersistentStoreCoordinator, milliseconds: UInt64) {
        store = PastStore(of: coordinator)
        self.milliseconds = milliseconds
        thread.start()
    }

    /// Reads the store as it was when it had what a vector covers.
    ///
    /// - Throws: ``CoordinatorError``: `readTimeout` where it takes too long to apply history again; the
    ///   next request goes on from there.
    func read<Result: Sendable>(
        at vector: VersionVector, _ body: @escaping @Sendable (StoreReader) throws -> Result
    ) async throws -> Result {
        let store = store
        let deadline = ContinuousClock.now + .milliseconds(Int64(clamping: milliseconds))
        let client = ReadOrigin.current.client
        let isFree = uses.withLock { uses in
            guard uses.waiting < Self.most, !uses.isStopped else { return false }
            uses.waiting += 1
            return true
        }
        guard isFree else { throw HTTPError.busy("reads of the past", seconds: 5) }
        defer { closeLater() }
        do {
            return try await thread.runIfActive { [self] in
                try store.read(
                    at: vector,
                    while: {
                        ContinuousClock.now < deadline && !client.isGone
                            && !self.uses.withLock { $0.isStopped }
                    }, body)
            }
        } catch is CancellationError {
            throw CoordinatorError(
                .readTimeout,
                "History is being applied again up to that point. Ask again: it goes on from there."
            )
        }
    }

    private func closeLater() {
        let use = uses.withLock { uses in
            uses.waiting -= 1
            uses.count += 1
            return uses.waiting == 0 ? uses.count : nil
        }
        // The last of those that wait sees to it.
        guard let use else { return }
        Task { [weak self] in
            try? await Task.sleep(for: Self.keptFor)
            guard let self, self.uses.withLock({ $0.count == use }) else { return }
            let store = self.store
            try? await self.thread.runIfActive { store.close() }
        }
    }

    /// Gives memory and thread back.
    func stop() async {
        let store = store
        uses.withLock { $0.isStopped = true }
        try? await thread.runIfActive { store.close() }
        try? await thread.shutdownGracefully()
    }
}

extension HTTPServices {
    /// What a request asks for: a point of history, a pinned generation, or the newest once it covers a
    /// token.
    func source(
        at point: HistoryPoint?, generation: QueryGenerationToken?,
        after: QueryGenerationToken?, timeout: Duration
    ) async throws -> ReadSource {
        guard let point else {
            return .present(
                try await pin(generation: generation, after: after, timeout: timeout))
        }
        guard generation == nil else {
            throw HTTPError.malformed("\"at\" and \"generation\" exclude each other.")
        }
        if let after {
            try await coordinator.waitUntilCovered(after.versionVector, timeout: timeout)
        }
        let vector = try await vector(of: point)
        return .past(
            try await read {
                QueryGenerationToken(
                    store: try $0.token.store, generation: 0, position: 0, versionVector: vector,
                    beginnings: try $0.beginnings())
            })
    }

    /// The saves that a point of history covers.
    func vector(of point: HistoryPoint) async throws -> VersionVector {
        switch point {
        case .vector(let vector): return vector
        case .token(let token): return try await known(token)?.versionVector ?? token.versionVector
        case .time(let milliseconds): return try await read { try $0.vector(at: milliseconds) }
        }
    }

    /// Reads what a request asks for.
    func read<Result: Sendable>(
        _ source: ReadSource, as text: String? = nil,
        _ body: @escaping @Sendable (StoreReader) throws -> Result
    ) async throws -> Result {
        switch source {
        case .present(let pin): try await read(pin, as: text, body)
        case .past(let token): try await past.read(at: token.versionVector, body)
        }
    }
}
