// The process `tributary serve`: from a configuration to a running node, until a signal ends it.
//
// Threading: `run` belongs to one task; it returns when the node has stopped.

public import Coordinator
internal import Dispatch
internal import Glibc
public import Logging
internal import Merge
internal import Replication
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// The state that the runs of a node in one process hand on to each other.
///
/// Files are read once, at the start of the process: what is put there afterwards is for the next
/// start or a reload, not for a run that begins because the store is opened again.
struct NodeRun: Sendable {
    /// The configuration, and what it keeps secret, with what reloads took up.
    var configuration: NodeConfiguration
    var secrets: NodeSecrets
    let model: ManagedObjectModel
    let counters: NodeCounters
    /// Saves that earlier runs' replicators gave up and that are not written yet.
    let orphans: OrphanKeeper
    let hangups = Hangups()
    /// When the store was open first, and last, in monotonic milliseconds.
    private(set) var beganAt: UInt64?
    private(set) var openedAt: UInt64 = 0
    var reopenings = Reopenings()
    /// The store's next incarnation is later than this one.
    var minimumIncarnation: UInt64 = 0
    var transferPauseMilliseconds: UInt64 = 0
    private let peersAtStart: [MeshPeer]

    /// The peers of the start, as reloads left them: members until transactions tell of some.
    var peers: [MeshPeer] {
        peersAtStart.map { peer in
            configuration.mesh?.peers.first { $0.node == peer.node } ?? peer
        }
    }
    /// Those that a reload took out: they stay cut off until the process ends.
    var withdrawn: Set<NodeID> {
        Set(peersAtStart.map(\.node)).subtracting(configuration.mesh?.peers.map(\.node) ?? [])
    }

    /// Reads the files that a configuration names.
    ///
    /// - Throws: ``NodeError``, which says what is wrong.
    init(_ configuration: NodeConfiguration) throws(NodeError) {
        self.configuration = configuration
        counters = NodeCounters()
        orphans = OrphanKeeper()
        peersAtStart = configuration.mesh?.peers ?? []
        secrets = try NodeSecrets(of: configuration)
        model = try NodeProcess.readModel(configuration.model)
    }

    mutating func noteOpening() {
        openedAt = MonotonicClock.milliseconds
        beganAt = beganAt ?? openedAt
    }
}

/// A node as a process: store, mesh and HTTP interface of one configuration.
public struct NodeProcess: Sendable {
    /// The node's configuration.
    public let configuration: NodeConfiguration
    /// Where log lines go; by default to the standard error.
    public var logger = Logger(label: "tributary") { StreamLogHandler.standardError(label: $0) }
    /// Reads the configuration again, at SIGHUP and when an administrator asks for it; nil if there
    /// is no file to read.
    public var reread: (@Sendable () throws -> NodeConfiguration)?
    /// Tells where the node listens, once it is ready; by default one line on standard output.
    public var announce: @Sendable (String) -> Void = { NodeProcess.print($0) }

    /// Gets the coordinator of the store once the node is ready, for an application that runs the node
    /// in its own process: contexts of it save and read beside the mesh. A new store refuses saves until
    /// ``Coordinator/PersistentStoreCoordinator/takesSaves``. Called again, with another
    /// coordinator, where the node opens its store once more; contexts of the former one fail then.
    public var whenOpen: (@Sendable (PersistentStoreCoordinator) -> Void)?

    /// No model is longer; it is the bound of the model's reader too.
    private static let maximumModelBytes = 16 << 20
    /// How long no copy of a member's store is asked for after one could not take the store's
    /// place: what was in its way may last, and each try has a whole store sent and the node stopped.
    private static let transferPauses: ClosedRange<UInt64> = 60_000...3_600_000
    /// How long requests under way may go on at the end: part of the five seconds in all.
    private static let requestGrace = Duration.seconds(1)

    /// Prepares a process; nothing happens before ``run()``.
    public init(_ configuration: NodeConfiguration) { self.configuration = configuration }

    /// Runs the node until SIGTERM or SIGINT, then stops it cleanly.
    ///
    /// - Throws: ``NodeError`` or ``CoordinatorError``, whose exit code ``exitCode(of:)`` gives.
    public func run() async throws {
        DescriptorLimit.raise()
        let group = ServiceGroup(
            configuration: .init(
                services: [
                    .init(
                        service: Runner(process: self),
                        successTerminationBehavior: .gracefullyShutdownGroup)
                ],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
        try await group.run()
    }

    /// Runs the node until the task is cancelled, then stops it cleanly. For an application that runs
    /// a node in its own process: signals stay the application's.
    ///
    /// ```swift
    /// var node = NodeProcess(configuration)
    /// node.whenOpen = { coordinator in
    ///     let context = ManagedObjectContext(coordinator)
    ///     context.automaticallyMergesChangesFromParent = true
    ///     ...
    /// }
    /// try await node.runUntilCancelled()
    /// ```
    ///
    /// - Throws: ``NodeError`` or ``CoordinatorError``.
    public func runUntilCancelled() async throws { try await runUntilShutdown() }

    /// Reads everything that a start reads before it touches the store: model, keys, tokens and
    /// certificate; looks whether there can be a store in its place, and whether the one that is there is
    /// this node's and can be migrated to the model. The store may be in use, and is only read.
    ///
    /// - Returns: what a start would migrate, for people; nil where it would migrate nothing.
    /// - Throws: ``NodeError``, or ``CoordinatorError`` of a store that a start would refuse.
    public func check() throws -> String? {
        let run = try NodeRun(configuration)
        try configuration.checkStore()
        let differences = try PersistentStoreCoordinator.migration(
            ofStoreAt: configuration.store, to: run.model, cluster: configuration.cluster,
            node: configuration.node)
        return differences.isEmpty ? nil : ModelDifference.summary(differences)
    }

    /// The exit code of `tributary` for an error; 1 where it knows none.
    public static func exitCode(of error: any Error) -> Int32 {
        (error as? any ExitCodeProviding)?.exitCode ?? 1
    }

    private struct Runner: Service {
        let process: NodeProcess

        func run() async throws { try await process.runUntilShutdown() }
    }

    /// Runs the node until its task is cancelled or shut down gracefully, or the node fails.
    ///
    /// Where the cluster knows a later incarnation of this node (a clock was set back, or a backup
    /// restored), the store is opened once more with a later one still, as often as ``Reopenings`` lets
    /// it; then there is another live process of this number, and this one goes. Where a copy of a
    /// member's store was taken in, it is put in the store's place, and the node goes on with that.
    func runUntilShutdown() async throws {
        // Read before the store is touched: a wrong setting shall change nothing.
        var run = try NodeRun(configuration)
        let listening = await heedHangups(run.hangups)
        defer {
            listening?.cancel()
            tellOfOrphans(run)
        }
        while true {
            do {
                return try await runOnce(&run)
            } catch let error as NodeError where error.code == .incarnationOutdated {
                guard
                    run.reopenings.mayReopen(
                        hasMet: error.detail("hasMet") == "\(true)",
                        openFor: MonotonicClock.milliseconds - run.openedAt)
                else { throw NodeError.numberInUse(configuration.node, cause: error) }
                run.minimumIncarnation = error.detail("incarnation").flatMap { UInt64($0) } ?? 0
                logger.notice("A later incarnation is known; the store is opened again")
            } catch let error as NodeError where error.code == .transferReady {
                run.transferPauseMilliseconds = Self.transferPause(
                    after: run.transferPauseMilliseconds,
                    isInstalled: try await installTransfer(for: run))
            }
        }
    }

    /// How long no copy is asked for now: nothing after one that was installed, and after each
    /// failure in a row twice as long.
    static func transferPause(after pause: UInt64, isInstalled: Bool) -> UInt64 {
        isInstalled ? 0 : min(max(2 * pause, transferPauses.lowerBound), transferPauses.upperBound)
    }

    /// Puts the copy that was taken in in the store's place.
    ///
    /// - Returns: whether it is there. Where it is not, the node goes on with the store it had, and
    ///   the copy is gone, unless it is only that somebody reads the store's file: then it is tried again.
    /// - Throws: ``CoordinatorError`` with `storeInUse` where another process has the store open: the
    ///   copy stays, and is gone on with at the next start.
    func installTransfer(for run: NodeRun) async throws -> Bool {
        let (configuration, model) = (run.configuration, run.model)
        var options = PersistentStoreCoordinator.Options()
        options.indexesHistory = configuration.indexesHistory
        do {
            let installed = try await Self.blocking { [options] in
                try TransferInstaller.install(
                    at: configuration.store, model: model, cluster: configuration.cluster,
                    node: configuration.node, options: options)
            }
            run.counters.countTransfer(isInstalled: true)
            logger.notice(
                "A copy of a member's store has taken this store's place",
                metadata: [
                    LogKeys.peer: "\(installed.donor)",
                    LogKeys.count: "\(installed.carriedCount)",
                ])
            return true
        } catch let error as CoordinatorError where error.code == .storeInUse {
            throw error
        } catch {
            run.counters.countTransfer(isInstalled: false)
            run.counters.raise(
                AlarmLine(
                    .transferFailed, .error, "A copy of a member's store could not be taken over",
                    [LogKeys.reason: "\(error)"]), logger)
            // The next run removes a copy that cannot be gone on with.
            if (error as? CoordinatorError)?.code == .storeBusy { return false }
            try TransferInstaller.discard(at: configuration.store)
            return false
        }
    }

    /// Does what waits for the disk elsewhere than on the threads that run tasks.
    private static func blocking<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(with: Result { try work() }) }
        }
    }

    private func runOnce(_ run: inout NodeRun) async throws {
        let (configuration, secrets) = (run.configuration, run.secrets)
        let service = try makeService(&run)
        let server: HTTPServer
        do {
            try await service.start()
            server = try await HTTPServer.start(backend: service, options: httpOptions(run))
        } catch {
            await service.stop()
            throw error
        }
        let reloader = reread.map {
            NodeReloader(
                configuration: configuration, secrets: secrets, service: service, server: server,
                logger: logger, read: $0)
        }
        await takeReloads(reloader, service, run.hangups)
        let listen = configuration.http.listen
        let address = HostAddress(host: listen.host, port: UInt16(clamping: server.port))
        announce(
            "tributary: node \(configuration.node) of \(configuration.cluster) "
                + "listens on \(secrets.identity == nil ? "http" : "https")://\(address)")
        whenOpen?(service.coordinator)
        let ending = Task { try await service.waitUntilEnded() }
        await Self.untilShutdown { _ = try? await ending.value }
        // The server waits for its requests, and those for what may come in an hour, or never.
        service.endWaiting()
        await server.stop()
        await service.stop()
        do {
            try await ending.value
        } catch let error as NodeError where error.asksForAnotherRun {
            // A long read keeps the store open for longer than stopping waits, and locked.
            await Self.untilShutdown { await service.waitUntilClosed() }
            if let reloader { (run.configuration, run.secrets) = await reloader.end() }
            // The next start finds out again what is to be done next.
            if Task.isCancelled || Task.isShuttingDownGracefully { return }
            // Only a new process sees what a failed sync has lost.
            if let failure = service.coordinator.diskFailure { throw failure }
            throw error
        }
    }

    /// Waits until something is done, or the process is to end.
    private static func untilShutdown(_ action: @escaping @Sendable () async -> Void) async {
        let (done, continuation) = AsyncStream.makeStream(of: Void.self)
        Task {
            await action()
            continuation.finish()
        }
        await withGracefulShutdownHandler {
            for await _ in done { break }
        } onGracefulShutdown: {
            continuation.finish()
        }
    }

    /// Heeds SIGHUPs until the task is cancelled; nil where nothing can be read again.
    private func heedHangups(_ hangups: Hangups) async -> Task<Void, Never>? {
        guard reread != nil else { return nil }
        // Trapped before the node says that it is ready: from then on nobody's SIGHUP ends it.
        let signals = await UnixSignalsSequence(trapping: .sighup)
        return Task { for await _ in signals { await hangups.heed() } }
    }

    /// Lets the service reload, for a request or for a SIGHUP.
    private func takeReloads(
        _ reloader: NodeReloader?, _ service: NodeService, _ hangups: Hangups
    ) async {
        guard let reloader else { return }
        // The service is ended before the reloader, which holds it, so not the reverse.
        service.reloader.withLock { reload in
            reload = { [weak reloader] in
                guard let reloader else { throw NodeError(.stopped, "The node is stopping") }
                return try await reloader.reload()
            }
        }
        await hangups.hand(to: reloader)
    }

    /// Tells of orphans that were not written when the process ends: they end with it.
    private func tellOfOrphans(_ run: NodeRun) {
        let lost = run.orphans.notKept
        guard let first = lost.first else { return }
        logger.critical(
            "Saves that can never be applied could not be kept, and are lost here",
            metadata: [LogKeys.transaction: "\(first)", LogKeys.count: "\(lost.count)"])
    }

    // MARK: - Making the parts

    private func serviceSettings(_ run: NodeRun) -> NodeService.Settings {
        let configuration = run.configuration
        var settings = NodeService.Settings()
        settings.peers = run.peers
        settings.withdrawn = run.withdrawn
        settings.address = configuration.mesh.map { mesh in
            MemberAddress(
                publish: "\(mesh.advertisePublish ?? mesh.publish)",
                exchange: "\(mesh.advertiseExchange ?? mesh.exchange)",
                publicKeys: run.secrets.keys.map { [$0.publicKey.text] } ?? [])
        }
        settings.history = configuration.history
        settings.counters = run.counters
        settings.orphans = run.orphans
        if let beganAt = run.beganAt { settings.beganAt = beganAt }
        settings.transferPauseMilliseconds = run.transferPauseMilliseconds
        settings.logger = logger
        return settings
    }

    private func makeService(_ run: inout NodeRun) throws -> NodeService {
        let configuration = run.configuration
        let transport = configuration.transportSettings(keys: run.secrets.keys)
        try configuration.prepareStore()
        var options = PersistentStoreCoordinator.Options()
        options.minimumIncarnation = run.minimumIncarnation
        options.indexesHistory = configuration.indexesHistory
        // In a mesh others may have migrated already, and rows of theirs come with the same keys.
        options.migration =
            configuration.mesh == nil ? .inferred : .inferredGroupingDuplicates
        let coordinator = try PersistentStoreCoordinator(
            storeAt: configuration.store, model: run.model, cluster: configuration.cluster,
            node: configuration.node, options: options)
        if coordinator.isMadeAnew {
            logger.notice(
                "The store was not there, though one had been; a new one was made",
                metadata: [LogKeys.path: "\(coordinator.storePath)"])
        }
        run.noteOpening()
        var settings = serviceSettings(run)
        guard let transport else {
            return try NodeService(coordinator: coordinator, settings: settings)
        }
        settings.limits = NodeService.Settings.fitted(toFrames: transport.limits.frameBytes)
        if transport.keys == nil {
            settings.limits.modelListBytes = min(
                settings.limits.modelListBytes, transport.limits.unkeyedBytes * 2 / 3)
        }
        if let mesh = configuration.mesh {
            settings.limits.transferBytesPerSecond = mesh.transferBytesPerSecond
        }
        return try NodeService(coordinator: coordinator, settings: settings) {
            let transport = try ZeroMQTransport(transport)
            try transport.testThatStrangersAreRefused()
            return transport
        }
    }

    private func httpOptions(_ run: NodeRun) -> HTTPServer.Options {
        let (configuration, secrets) = (run.configuration, run.secrets)
        var options = HTTPServer.Options()
        options.listen = configuration.http.listen
        options.tokens = secrets.tokens
        options.identity = secrets.identity
        options.maximumBodyBytes = configuration.http.maxBodyBytes
        options.maximumConnections = configuration.http.maxConnections
        options.headerTimeout = .seconds(configuration.http.headerTimeoutSeconds)
        options.bodyTimeout = .seconds(configuration.http.bodyTimeoutSeconds)
        options.hosts = configuration.http.hosts
        options.servesInspector = configuration.http.inspector
        options.origins = configuration.http.origins
        options.maximumAnswersBytes = configuration.http.maxAnswerBytes
        options.slowClientTimeout = .seconds(configuration.http.slowClientSeconds)
        options.stopGrace = Self.requestGrace
        return options
    }

    /// Reads a model from a JSON file.
    ///
    /// - Throws: ``NodeError`` with `configurationInvalid`, which names file and reason.
    public static func readModel(_ path: String) throws(NodeError) -> ManagedObjectModel {
        let bytes: [UInt8]
        do {
            bytes = try SmallFile.read(path, maximumBytes: maximumModelBytes).bytes
        } catch {
            throw NodeError(
                .configurationInvalid, "model: \(path) \(error.reason)",
                context: ["key": "model", "file": path])
        }
        do {
            let model = try ManagedObjectModel(json: bytes)
            try model.checkLocales()
            return model
        } catch {
            throw NodeError(
                .configurationInvalid, "model: \(path): \(error)",
                context: ["key": "model", "file": path], cause: error)
        }
    }

    private static func print(_ line: String) {
        let bytes = Array("\(line)\n".utf8)
        _ = Glibc.write(STDOUT_FILENO, bytes, bytes.count)
    }
}

extension NodeError {
    /// The error of a process that ends because another live one uses its node's number.
    static func numberInUse(_ node: NodeID, cause: (any Error)? = nil) -> NodeError {
        NodeError(
            .nodeIDInUse,
            "Node \(node) is in use by another live process of this cluster; "
                + "give this one another number, or stop the other",
            cause: cause)
    }
}
