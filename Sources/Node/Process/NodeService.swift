// A node: a store, the protocol and the network, joined.
//
// Threading: NodeService may be used from any thread or task. One thread of its own runs the loop,
// which owns the sockets and the replicator; the store's writer tells it of commits through a
// bounded queue; logs are read, and the store is tended, on small queues beside it.

public import Coordinator
internal import Dispatch
internal import Foundation
public import Logging
public import Merge
internal import NodeCore
package import Replication
internal import Synchronization

/// A running node: announces what is saved here, and takes in what others save.
///
/// ```swift
/// let service = try NodeService(coordinator: coordinator, settings: settings) {
///     try ZeroMQTransport(transportSettings)
/// }
/// try await service.start()
/// ...
/// await service.stop()
/// ```
public final class NodeService: Sendable {
    /// How a node is run.
    public struct Settings: Sendable {
        /// The peers to connect to; with this node they are the members of the cluster as long as
        /// no transaction has told of members.
        public var peers: [MeshPeer] = []
        /// Where others reach this node; nil where it has no mesh.
        public var address: MemberAddress?
        /// The bounds of the protocol. They must fit the transport's: see ``fitted(toFrames:)``.
        package var limits = NodeService.Settings.fitted(toFrames: TransportLimits().frameBytes)
        /// How much history and how many closed conflicts are kept.
        public var history = HistoryLimits()
        /// Where log lines go.
        public var logger = Logger(label: "tributary.node")
        /// The counts of an earlier run of the node in this process, to go on with.
        var counters: NodeCounters?
        /// The orphans that it could not write yet.
        var orphans: OrphanKeeper?
        /// Peers that reloads took out in an earlier run: members still, and cut off.
        var withdrawn: Set<NodeID> = []
        /// When the process that has run the node since first had its store open, in monotonic
        /// milliseconds: of two live ones of one number the later is to go.
        var beganAt = MonotonicClock.milliseconds
        /// For how long after the start no copy of a member's store is asked for, in milliseconds.
        var transferPauseMilliseconds: UInt64 = 0

        /// A node without peers.
        public init() {}

        /// The protocol's bounds for a transport that carries frames of at most so many bytes.
        ///
        /// - Parameter bytes: at least 64 KiB. Pages are half a frame, so that vectors and the
        ///   lengths of many small transactions have room beside them.
        package static func fitted(toFrames bytes: Int) -> Limits {
            var limits = Limits()
            limits.frameBytes = min(limits.frameBytes, max(bytes, 65_536))
            limits.pageBytes = min(limits.pageBytes, limits.frameBytes / 2)
            limits.transferPartBytes = min(limits.transferPartBytes, limits.frameBytes / 2)
            limits.notificationBytes = min(limits.notificationBytes, limits.frameBytes / 2)
            limits.groupedNotificationBytes = min(
                limits.groupedNotificationBytes, limits.frameBytes / 2)
            return limits
        }
    }

    private struct Lifecycle {
        var isStarted = false
        var isStopping = false
        var observation: CommitObservation?
        var ending: Result<Void, any Error>?
        var waiting: [CheckedContinuation<Void, any Error>] = []
    }

    /// When the first save was refused of those that are since the store is to be vouched for, in
    /// monotonic milliseconds; 0 where none is.
    let recoveringSince = Atomic<UInt64>(0)
    /// Whether the loop knows that the store is damaged: once is enough, and it may have ended.
    let isDamageTold = Atomic<Bool>(false)
    let failureWatch = Mutex(FailureWatch())
    /// The store.
    public let coordinator: PersistentStoreCoordinator
    /// This incarnation of this node.
    public let actor: ActorID
    /// All members of the cluster, lowest first: those that transactions tell of, or before the
    /// first change of membership the configured peers and this node.
    public var members: [NodeID] {
        guard let membership = try? coordinator.membership, !membership.isEmpty else {
            return configuredMembers
        }
        return membership.current
    }
    /// The counters; the HTTP interface counts its requests here.
    package var counters: NodeCounters { shared.counters }

    let settings: Settings
    let shared: LoopShared
    /// Where this node and its configured peers are and by which keys they are known, since the last
    /// reload: what the first change of membership tells all others.
    let places: Mutex<MeshPlaces>
    let readQueue = DispatchQueue(label: "tributary.node.log", qos: .userInitiated)
    let maintenanceQueue = DispatchQueue(label: "tributary.node.maintenance", qos: .utility)
    /// Reads the configuration again; nil if there is none.
    let reloader = Mutex<(@Sendable () async throws -> ReloadReport)?>(nil)
    private let configuredMembers: [NodeID]
    private let makeTransport: @Sendable () throws -> any Transport
    private let lifecycle = Mutex(Lifecycle())

    /// How long stopping may wait for the disk, and then for the store to close: together they
    /// stay, with a second for HTTP, within the five that a supervisor grants.
    private enum Patience {
        static let writing = Duration.milliseconds(2500)
        static let closing = Duration.milliseconds(1200)
    }

    /// Prepares a node; nothing happens before ``start()``.
    ///
    /// - Parameters:
    ///   - coordinator: the store, open for writing. The node closes it when it stops.
    ///   - settings: peers, bounds and log.
    ///   - transport: makes the transport; called once, on the loop's thread.
    /// - Throws: ``CoordinatorError`` with `notWritable` where the store is open for reading only.
    public init(
        coordinator: PersistentStoreCoordinator, settings: Settings = Settings(),
        transport: @escaping @Sendable () throws -> any Transport = { try SilentTransport() }
    ) throws {
        guard let actor = coordinator.actor else {
            throw CoordinatorError(.notWritable, "A node needs a store that is open for writing.")
        }
        self.coordinator = coordinator
        self.actor = actor
        self.settings = settings
        places = Mutex(MeshPlaces(own: settings.address, peers: settings.peers))
        let counters = settings.counters ?? NodeCounters()
        shared = LoopShared(
            history: HistoryKeeper(limits: settings.history, counters: counters),
            counters: counters, orphans: settings.orphans ?? OrphanKeeper())
        configuredMembers = Set(settings.peers.map(\.node) + [coordinator.node]).sorted()
        makeTransport = transport
    }

    // MARK: - Starting

    /// Opens the sockets and begins to take part.
    ///
    /// - Throws: ``NodeError`` where an address cannot be bound or strangers are let in. A node
    ///   is started once; a second call throws `stopped`.
    public func start() async throws {
        let isFirst = lifecycle.withLock { lifecycle in
            guard !lifecycle.isStarted, !lifecycle.isStopping else { return false }
            lifecycle.isStarted = true
            return true
        }
        guard isFirst else {
            throw NodeError(.stopped, "A node is started once; make another for a new start")
        }
        let handover = shared.handover
        // Observed before the core reads the state, so that no commit falls between the two. One
        // that is in both is announced once more than needed, which does no harm.
        let observation = coordinator.observeCommits { notice in
            guard notice.isLocal else { return }
            handover.offer(notice.transactions, StoreState(notice))
        }
        lifecycle.withLock { $0.observation = observation }
        coordinator.onStop { handover.give(.failed($0)) }
        try await withCheckedThrowingContinuation { started in
            let thread = Thread { [self] in runLoop(started) }
            thread.name = "tributary.node"
            thread.stackSize = 4 << 20
            thread.start()
        }
    }

    private func runLoop(_ started: CheckedContinuation<Void, any Error>) {
        var loop: NodeLoop?
        do {
            let made = try makeLoop()
            try made.begin()
            loop = made
        } catch {
            end(.failure(error))
            return started.resume(throwing: error)
        }
        settings.logger.info(
            "The node has started",
            metadata: [
                LogKeys.node: "\(coordinator.node)", LogKeys.cluster: "\(coordinator.cluster)",
                LogKeys.actor: "\(actor)",
            ])
        started.resume()
        let result = Result<Void, any Error> { try loop?.run() }
        // The ports are free before anybody hears that it has ended: who waits for that may start
        // the node again.
        loop = nil
        if case .failure(let error) = result, (error as? NodeError)?.asksForAnotherRun != true {
            settings.logger.critical(
                "The node cannot go on", metadata: [LogKeys.error: "\(error)"])
        }
        end(result)
    }

    private func makeLoop() throws -> NodeLoop {
        let store = NodeStore(coordinator) { MonotonicClock.milliseconds }
        var core = NodeCore.Settings()
        core.limits = settings.limits
        core.history = settings.history
        core.orphans = shared.orphans.book
        core.beganAt = settings.beganAt
        core.transferPauseMilliseconds = settings.transferPauseMilliseconds
        let transport = try makeTransport()
        for peer in settings.peers where !settings.withdrawn.contains(peer.node) {
            try transport.connect(to: peer)
        }
        return NodeLoop(
            try NodeCore(
                store, settings: core, generator: SeededGenerator(seed: actor.incarnation)),
            shared: shared, transport: transport,
            lanes: StoreLanes(
                store: store, handover: shared.handover, reading: readQueue,
                upkeep: maintenanceQueue),
            setting: .init(
                peers: settings.peers, withdrawn: settings.withdrawn,
                beganAt: settings.beganAt, logger: settings.logger))
    }

    /// Ends all waiting for other nodes: for acknowledgements, or for what a token names. The
    /// callers learn that it did not come in time.
    func endWaiting() {
        shared.acknowledgements.end()
        coordinator.endWaiting()
    }

    private func end(_ result: Result<Void, any Error>) {
        shared.report.withLock { $0.isRunning = false }
        shared.acknowledgements.end()
        let waiting = lifecycle.withLock { lifecycle in
            lifecycle.ending = result
            defer { lifecycle.waiting = [] }
            return lifecycle.waiting
        }
        for continuation in waiting { continuation.resume(with: result) }
    }

    /// Whether the loop runs: the store is open and the mesh started.
    public var isReady: Bool {
        shared.report.withLock { $0.isRunning } && !lifecycle.withLock { $0.isStopping }
    }

    /// Whether the node takes no saves any more.
    var isStopping: Bool { lifecycle.withLock { $0.isStopping || $0.ending != nil } }

    // MARK: - Ending

    /// Waits until the node ends.
    ///
    /// - Throws: what made it end, where it was not ``stop()``: ``CoordinatorError`` for a disk
    ///   that failed or a damaged store, ``NodeError`` with `nodeIDInUse`, or a broken transport.
    public func waitUntilEnded() async throws {
        try await withCheckedThrowingContinuation { continuation in
            let ending = lifecycle.withLock { lifecycle in
                if lifecycle.ending == nil { lifecycle.waiting.append(continuation) }
                return lifecycle.ending
            }
            if let ending { continuation.resume(with: ending) }
        }
    }

    /// Stops taking saves, lets the writer finish, and closes sockets and store; within five
    /// seconds, even where the disk does not answer. May be called more than once.
    public func stop() async {
        let (isFirst, isRunning) = lifecycle.withLock { lifecycle in
            defer { lifecycle.isStopping = true }
            return (!lifecycle.isStopping, lifecycle.isStarted && lifecycle.ending == nil)
        }
        guard isFirst else {
            if isRunning { try? await waitUntilEnded() }
            return
        }
        let coordinator = coordinator
        // It takes its turn behind all saves that were accepted, so it waits for those as well.
        await Self.waiting(atMost: Patience.writing) { done in
            coordinator.makeDurable { _ in done() }
        }
        if isRunning {
            shared.handover.give(.stop)
            try? await waitUntilEnded()
        }
        lifecycle.withLock { $0.observation }?.cancel()
        let queue = maintenanceQueue
        await Self.waiting(atMost: Patience.closing) { done in
            queue.async {
                coordinator.close()
                done()
            }
        }
        settings.logger.info("The node has stopped")
    }

    /// Waits until the store is closed, however long reads keep it open; only after ``stop()``.
    func waitUntilClosed() async {
        // The queue does one thing at a time, and closing was the last that it was given.
        await withCheckedContinuation { continuation in
            maintenanceQueue.async { continuation.resume() }
        }
    }

    /// Waits until an action calls back, or the time is over.
    private static func waiting(
        atMost duration: Duration, for action: (@escaping @Sendable () -> Void) -> Void
    ) async {
        let milliseconds = Int(duration / .milliseconds(1))
        let waiter = OneWaiter()
        await withCheckedContinuation { continuation in
            waiter.begin(continuation)
            action { waiter.end() }
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
                waiter.end()
            }
        }
    }
}

/// A continuation that several may want to resume; the first does.
private final class OneWaiter: Sendable {
    private let continuation = Mutex<CheckedContinuation<Void, Never>?>(nil)

    func begin(_ continuation: CheckedContinuation<Void, Never>) {
        self.continuation.withLock { $0 = continuation }
    }

    func end() {
        let first = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        first?.resume()
    }
}
