import Foundation
import GRDB
import Glibc
public import Merge
import Synchronization

/// The only writer of a store, and the door to it: as NSPersistentStoreCoordinator.
///
/// Thread-safe. Saves that come at the same time are committed as a group; reads go on beside
/// them. It works alone: an application may use it on one node and never start a network.
///
/// ```swift
/// let coordinator = try PersistentStoreCoordinator(
///     storeAt: "notes.sqlite", model: model, cluster: "home", node: node)
/// let context = ManagedObjectContext(coordinator)
/// ```
public final class PersistentStoreCoordinator: Sendable {
    /// The model.
    public let model: ManagedObjectModel
    /// The name of the cluster the store belongs to.
    public let cluster: String
    /// The node the store belongs to.
    public let node: NodeID
    /// The path of the store's file, without links.
    public let storePath: String

    let options: Options
    let catalog: StoreCatalog
    let pins = PinRegistry()
    let savesUnderWay = SavesUnderWay()
    let observers = CommitObservers()
    let rowCache: RowCache
    let rowReserve = RowReserve()
    let instruments: Instruments
    let waiters = VectorWaiters()
    private let remoteChanges = RemoteChanges()
    let asynchronousFetches: ReadingTurns
    let pool: any DatabaseReader
    let writablePool: DatabasePool?
    let writer: GroupCommit?
    let ownership: (any StoreLock)?
    let standing: Mutex<Standing>
    /// Whether there was no store, though one had been there: the file beside it names its last incarnation.
    package let isMadeAnew: Bool
    /// The files that are written, as they were opened.
    private let openedFiles: [(path: String, identity: FileIdentity)]
    /// The generation that the file beside the store names, where this opening has written it.
    let recording = Mutex<UInt64?>(nil)

    /// Opens a store for writing, and makes it where there is none.
    ///
    /// Every opening is a new incarnation of the node.
    ///
    /// - Parameters:
    ///   - path: the file; its folder must exist.
    ///   - model: the schema. A store written with one of another version hash is refused, or
    ///     migrated: see ``Options/migration``.
    ///   - cluster: the name of the cluster, which must be the store's.
    ///   - node: the node, which must be the store's.
    /// - Throws: ``CoordinatorError``: `storeInUse`, `storeIncomplete`, `storeLayout`, `storeDamaged`,
    ///   `storeOwner`, `modelMismatch`, `mappingNotInferable`, `constraintMigration` or `inputOutput`.
    public init(
        storeAt path: String, model: ManagedObjectModel, cluster: String, node: NodeID,
        options: Options = Options()
    ) throws {
        do { try model.checkLocales() } catch { throw CoordinatorError(.malformed, "\(error)") }
        let path = options.files.resolved(path)
        storePath = path
        self.model = model
        self.cluster = cluster
        self.node = node
        self.options = options
        instruments = Instruments(options)
        asynchronousFetches = ReadingTurns(ofReaders: options.readers)
        rowCache = RowCache(limit: options.rowCacheBytes)
        do {
            ownership = try StoreConnection.takeOwnership(path, options.files)
            isMadeAnew =
                options.files.size(of: path) == nil
                && options.files.size(of: IncarnationRecord.path(path)) != nil
            // A process whose sync failed leaves a log that the system shows whole, though it has
            // given up writing a part of it: nothing may build on that.
            try options.files.rewrite(path + "-wal")
            let pool = try DatabasePool(
                path: path, configuration: StoreConnection.configuration(options))
            let engine = try StoreConnection.open(pool, model, cluster, node, options)
            ownership?.note(holder: engine.actor)
            standing = Mutex(
                Standing(recovery: engine.state.recovery, isMadeAnew: isMadeAnew))
            catalog = StoreCatalog(
                model: model, cluster: cluster,
                names: try pool.read { try StoreLayout.readNames(in: $0) },
                actors: engine.state.actors, history: engine.history)
            let observers = observers
            let waiters = waiters
            let rowCache = rowCache
            writer = GroupCommit(
                engine: engine, pool: pool, worksAlone: options.worksAlone,
                clock: options.monotonicMilliseconds,
                willCommit: { rowCache.note($0) },
                onCommit: { notice in
                    waiters.advance(to: notice.token.versionVector)
                    observers.notify(notice)
                }, onStop: { observers.stop($0) })
            self.pool = pool
            writablePool = pool
            openedFiles = [path, path + "-wal"].compactMap { path in
                options.files.identity(of: path).map { (path, $0) }
            }
            if options.postsRemoteChangeNotifications { remoteChanges.begin(self) }
        } catch {
            throw CoordinatorError(
                mapping: error,
                diskFull:
                    "The disk is full, and a start must write: there is no node until there is room."
            ).naming(path)
        }
    }

    /// Opens a store's file for reading only, with the model kept in it; for inspecting the store
    /// of a node that is stopped.
    ///
    /// - Throws: ``CoordinatorError``: `storeLayout`, `storeDamaged` or `inputOutput`.
    public init(readingStoreAt path: String, options: Options = Options()) throws {
        let path = options.files.resolved(path)
        storePath = path
        self.options = options
        instruments = Instruments(options)
        asynchronousFetches = ReadingTurns(ofReaders: options.readers)
        // Another process may write to the file.
        rowCache = RowCache(limit: 0, hearsCommits: false)
        guard options.files.size(of: path) != nil else {
            throw CoordinatorError(.inputOutput, "There is no file \(path).")
        }
        try SystemFiles.refuseDirectory(path)
        do {
            var configuration = StoreConnection.configuration(options)
            configuration.readonly = true
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            let opened = try queue.read { database in
                try StoreOpening.check(database, path: path)
                return try StoreConnection.readOwner(database, path: path)
            }
            model = opened.model
            cluster = opened.cluster
            node = opened.node
            catalog = StoreCatalog(
                model: opened.model, cluster: opened.cluster, names: opened.names,
                actors: opened.actors, history: opened.history)
            pool = queue
            standing = Mutex(Standing(recovery: opened.recovery))
            writablePool = nil
            writer = nil
            ownership = nil
            isMadeAnew = false
            openedFiles = []
        } catch {
            throw CoordinatorError(mapping: error).naming(path)
        }
    }

    /// The node's incarnation; nil where the store is open for reading only.
    public var actor: ActorID? { writer?.actor }

    /// The state after the last commit.
    public var currentToken: QueryGenerationToken {
        get throws {
            if let writer { return writer.current.token }
            return try read { try $0.token }
        }
    }

    /// The digest after the last commit.
    public var currentDigest: ProjectionDigest {
        get throws {
            if let writer { return writer.current.digest }
            return try read { try $0.digest }
        }
    }

    /// The vector that is on disk for certain.
    public var durableVector: VersionVector { writer?.current.durable ?? VersionVector() }

    /// The state of the store after the last commit, all of one moment; nil if it is open for
    /// reading only.
    package var lastCommit: LastCommit? {
        writer.map(\.current).map {
            LastCommit(
                token: $0.token, digest: $0.digest, membership: $0.membership,
                durable: $0.durable)
        }
    }

    /// How many saves wait for their group.
    package var waitingSaves: Int { writer?.waitingCount ?? 0 }

    /// Whether a save of that ID has been begun and has not come to anything yet: it may be saved soon.
    package func isSaveUnderWay(_ saveID: String) -> Bool { savesUnderWay.contains(saveID) }

    /// Does what a save of an ID is a part of, and is under way with it.
    package func whileUnderWay<Result>(
        _ saveID: String?, _ body: () async throws -> Result
    ) async rethrows -> Result {
        savesUnderWay.begin(saveID)
        defer { savesUnderWay.end(saveID) }
        return try await body()
    }

    // MARK: Saving

    /// Saves and waits until it is on disk.
    ///
    /// A request whose save ID is known is answered as it was the first time, also where the store
    /// takes no saves.
    ///
    /// - Throws: ``CoordinatorError``. With `outcomeUnknown` it may have been saved; with every
    ///   other code nothing was.
    package func save(_ request: SaveRequest) throws -> SaveResult {
        savesUnderWay.begin(request.saveID)
        defer { savesUnderWay.end(request.saveID) }
        do {
            return try saveBlocking(size: request.size) { _ in request }
        } catch {
            return try keptAnswer(to: request, insteadOf: error)
        }
    }

    /// Saves several requests that come at the same time, in the calling thread: they are
    /// committed as one group, as those of several threads would be. For simulations, which have
    /// one thread only.
    ///
    /// - Returns: what each came to, in their order; a failure is what ``save(_:)`` throws.
    package func saveTogether(_ requests: [SaveRequest]) -> [Result<SaveResult, any Error>] {
        let boxes = requests.map { _ in OutcomeBox<SaveResult>() }
        do {
            try savingWriter().runBlocking(
                zip(requests, boxes).map { request, box in
                    .save(
                        make: { _ in request }, size: request.size,
                        completion: { box.complete($0) })
                })
        } catch {
            for box in boxes { box.complete(.failure(error)) }
        }
        return zip(requests, boxes).map { request, box in
            Result {
                do {
                    return try box.wait()
                } catch {
                    return try keptAnswer(to: request, insteadOf: error)
                }
            }
        }
    }

    /// Saves, without blocking the caller's thread.
    package func save(_ request: SaveRequest) async throws -> SaveResult {
        try await whileUnderWay(request.saveID) {
            do {
                return try await saveWaiting(size: request.size) { _ in request }
            } catch {
                return try keptAnswer(to: request, insteadOf: error)
            }
        }
    }

    func saveBlocking(
        size: Int, _ make: @escaping @Sendable (StoreEngine) throws -> SaveRequest
    ) throws -> SaveResult {
        let writer = try savingWriter()
        return try waitForOutcome { done in
            writer.runBlocking(.save(make: make, size: size, completion: done))
        }
    }

    /// Starts work and blocks the calling thread until it is completed.
    private func waitForOutcome<Value: Sendable>(
        _ start: (@escaping @Sendable (Result<Value, any Error>) -> Void) -> Void
    ) throws -> Value {
        let box = OutcomeBox<Value>()
        start { box.complete($0) }
        return try box.wait()
    }

    func saveWaiting(
        size: Int, _ make: @escaping @Sendable (StoreEngine) throws -> SaveRequest
    ) async throws -> SaveResult {
        try await savingWriter().save(size: size, make)
    }

    private func savingWriter() throws -> GroupCommit {
        if let savingRefusal = try savingRefusal { throw savingRefusal }
        return try writableWriter()
    }

    private func writableWriter() throws -> GroupCommit {
        guard let writer else {
            throw CoordinatorError(.notWritable, "The store is open for reading only.")
        }
        return writer
    }

    // MARK: Other nodes' transactions

    /// Applies transactions of other nodes, in causal order, and waits for it.
    ///
    /// The commit does not wait for the disk: what is lost with the power can be fetched again.
    /// ``durableVector`` says what cannot be lost; ``makeDurable()`` raises it.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written; what cannot be merged is
    ///   in the result instead.
    package func apply(_ transactions: [EncodedTransaction]) throws -> ApplyResult {
        let writer = try writableWriter()
        return try waitForOutcome { done in
            writer.runBlocking(.apply(transactions, completion: done))
        }
    }

    /// The same without blocking; the completion is called on the writer's queue.
    package func apply(
        _ transactions: [EncodedTransaction],
        completion: @escaping @Sendable (Result<ApplyResult, any Error>) -> Void
    ) {
        guard let writer else {
            completion(
                .failure(
                    CoordinatorError(.notWritable, "The store is open for reading only.")))
            return
        }
        writer.run(.apply(transactions, completion: completion))
    }

    /// Waits until everything committed is on disk, without blocking the caller.
    package func makeDurable(
        completion: @escaping @Sendable (Result<Void, any Error>) -> Void
    ) {
        guard let writer else { return completion(.success(())) }
        writer.run(.makeDurable(completion: completion))
    }

    /// Waits until everything committed is on disk, and blocks the caller meanwhile.
    ///
    /// - Throws: ``CoordinatorError`` where the disk failed.
    package func makeDurable() throws {
        let writer = try writableWriter()
        try waitForOutcome { writer.runBlocking(.makeDurable(completion: $0)) }
    }

    /// Runs work of upkeep in a group, on the writer queue; the completion is called there too.
    ///
    /// - Parameter isAlone: whether nothing else is to be in that group, so that nothing else fails
    ///   with the work.
    func maintain<Value: Sendable>(
        isAlone: Bool = false, _ work: @escaping @Sendable (StoreEngine) throws -> Value,
        completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        do {
            try writableWriter().run(Self.upkeep(isAlone, work, completion))
        } catch { completion(.failure(error)) }
    }

    /// The same, blocking the calling thread.
    func maintainBlocking<Value: Sendable>(
        isAlone: Bool = false, _ work: @escaping @Sendable (StoreEngine) throws -> Value
    ) throws -> Value {
        let writer = try writableWriter()
        return try waitForOutcome { writer.runBlocking(Self.upkeep(isAlone, work, $0)) }
    }

    private static func upkeep<Value: Sendable>(
        _ isAlone: Bool, _ work: @escaping @Sendable (StoreEngine) throws -> Value,
        _ completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) -> CommitJob {
        let value = OutcomeBox<Value>()
        return .maintain({ engine in value.complete(.success(try work(engine))) }, isAlone: isAlone)
        { result in
            completion(result.flatMap { Result { try value.wait() } })
        }
    }

    // MARK: Observing

    /// Calls a closure after every commit, in order, on the writer's queue: it must be quick, and
    /// must not save.
    ///
    /// - Returns: an observation that ends with ``CommitObservation/cancel()`` or its release.
    public func observeCommits(
        _ body: @escaping @Sendable (CommitNotice) -> Void
    ) -> CommitObservation {
        observers.add(body)
    }

    /// Calls a closure when the writer has stopped for good, with the reason.
    package func onStop(_ body: @escaping @Sendable (CoordinatorError) -> Void) {
        observers.onStop(body)
    }

    /// With what the disk failed at a write, also while the store was being closed; nil where it did
    /// not.
    package var diskFailure: CoordinatorError? { writer?.diskFailure }

    /// Refuses saves with `storeRemoved` while the files that are written are not where they were opened,
    /// and lets them through again when they are back.
    func watchFiles() {
        let areThere = openedFiles.allSatisfy { options.files.identity(of: $0.path) == $0.identity }
        standing.withLock { $0.isRemoved = !areThere }
    }

    var isClosed: Bool { standing.withLock(\.isClosed) }

    /// Closes the store: saves are refused from now on, and what was written is checkpointed.
    /// To close it again does nothing.
    public func close() {
        // The store may be another's by the time this is called again.
        let isFirst = standing.withLock { standing in
            defer { standing.isClosed = true }
            return !standing.isClosed
        }
        guard isFirst else { return }
        writer?.stop(CoordinatorError(.notWritable, "The store was closed."))
        for pin in pins.living { pin.expire() }
        // Without this record a restart is no worse off: it names this incarnation already.
        recording.withLock { _ in
            try? writer?.finish()?.write(storePath, options.files)
        }
        try? writablePool?.close()
        ownership?.release()
        options.memory?.remove()
        observers.end()
    }
}

/// Where a blocked thread finds its outcome.
private final class OutcomeBox<Value: Sendable>: Sendable {
    private let outcome = Mutex<Result<Value, any Error>?>(nil)
    private let signal = DispatchSemaphore(value: 0)

    func complete(_ result: Result<Value, any Error>) {
        outcome.withLock { $0 = result }
        signal.signal()
    }

    func wait() throws -> Value {
        signal.wait()
        guard let outcome = outcome.withLock({ $0 }) else {
            fatalError("Work was neither done nor refused.")
        }
        return try outcome.get()
    }
}
