// The port between the HTTP interface and the node it belongs to.
//
// Threading: every requirement may be called from any task.

public import Coordinator
public import Merge
public import Replication

/// What the HTTP interface asks of a node; a coordinator alone is enough to answer most of it.
public protocol NodeBackend: Sendable {
    /// The store.
    var coordinator: PersistentStoreCoordinator { get }
    /// Whether the store is open and the mesh has started.
    var isReady: Bool { get }
    /// Saves on this node, and counts it.
    ///
    /// - Throws: ``CoordinatorError``.
    func save(_ request: SaveRequest) async throws -> SaveResult
    /// Does on this node what ends in a save, such as resolving a conflict, and counts it.
    ///
    /// - Parameter save: may be called again where it threw, for then nothing was saved.
    /// - Throws: what it throws.
    func saving(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> SaveResult
    ) async throws -> SaveResult
    /// Counts an answer that was given.
    func countRequest(status: Int)
    /// Is told of the connections of the interface.
    func noteConnections(_ note: ConnectionNote)
    /// Is told of a request that failed through a fault of the node's own.
    func noteFailure(_ failure: RequestFailure)
    /// Takes note that this node's own store does not hold what was written.
    ///
    /// - Parameter differences: what is wrong, a sentence each.
    func noteUnsound(_ differences: [String])
    /// What replication knows of itself and its peers.
    func status() async -> NodeStatus
    /// What is measured, in Prometheus' text format.
    func metricsText() async throws -> String
    /// What each peer last told of its vector and digest.
    func peerDigests() async -> [PeerDigest]
    /// Waits until other nodes have a transaction on disk.
    ///
    /// - Parameters:
    ///   - dot: a transaction saved here.
    ///   - level: by how many it must be known.
    ///   - timeout: how long to wait at the most.
    /// - Returns: who is missing, in order; empty where enough have it.
    func waitForAcknowledgements(
        of dot: Dot, level: Acknowledgement, timeout: Duration
    ) async -> [NodeID]
    /// Forgets the part of the log that is stable, before a token, and read by all consumers.
    ///
    /// - Returns: how many transactions were purged.
    /// - Throws: ``CoordinatorError``, or ``NotSupported`` where the node cannot do it.
    func purgeHistory(before token: QueryGenerationToken) async throws -> Int
    /// Reads keys, tokens and certificates of the configuration anew, goes on with them, and listens
    /// again to peers that are ignored for what they sent.
    ///
    /// - Throws: ``NodeError``, and nothing has changed, or ``NotSupported``.
    func reload() async throws -> ReloadReport
    /// Makes a node a member; see ``NodeService/join(_:at:author:)``.
    func join(_ node: NodeID, at address: MemberAddress, author: String?) async throws -> SaveResult
    /// Ends the membership of another node; see ``NodeService/retire(_:isForced:author:)``.
    func retire(_ node: NodeID, isForced: Bool, author: String?) async throws -> SaveResult
    /// Ends the membership of this node; see ``NodeService/leave(author:)``.
    func leave(author: String?) async throws -> SaveResult
}

extension NodeBackend {
    private var noMembers: NotSupported { NotSupported("This node has no mesh.") }

    /// Refuses, as a node without a mesh does.
    public func join(
        _ node: NodeID, at address: MemberAddress, author: String?
    ) async throws -> SaveResult { throw noMembers }

    /// Refuses, as a node without a mesh does.
    public func retire(
        _ node: NodeID, isForced: Bool, author: String?
    ) async throws -> SaveResult { throw noMembers }

    /// Refuses, as a node without a mesh does.
    public func leave(author: String?) async throws -> SaveResult { throw noMembers }

    /// Saves through the coordinator, uncounted.
    public func save(_ request: SaveRequest) async throws -> SaveResult {
        try await coordinator.save(request)
    }

    /// Does it, uncounted.
    public func saving(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> SaveResult
    ) async throws -> SaveResult { try await save(coordinator) }

    /// Counts nothing.
    public func countRequest(status: Int) {}

    /// Notes nothing.
    public func noteConnections(_ note: ConnectionNote) {}

    /// Notes nothing.
    public func noteFailure(_ failure: RequestFailure) {}

    /// Notes nothing.
    public func noteUnsound(_ differences: [String]) {}

    /// Refuses, as a node does that has no configuration file.
    public func reload() async throws -> ReloadReport {
        throw NotSupported("This node was not started from a configuration file.")
    }

    /// Refuses, as a node does that keeps no count of what is stable.
    public func purgeHistory(before token: QueryGenerationToken) async throws -> Int {
        throw NotSupported("This node cannot purge its history.")
    }
}

/// Something of the interface that this node or release does not offer.
public struct NotSupported: Error, Sendable, CustomStringConvertible {
    /// What it is and what to do instead.
    public let description: String

    /// Describes what is not offered.
    public init(_ description: String) { self.description = description }
}

/// A request that failed through a fault of the node's own: its disk, its store or a defect. It has
/// nothing of the request's body, nor of what its parameters say.
public struct RequestFailure: Sendable {
    /// The method, such as "GET".
    public var method: String
    /// The path as it was asked for, without the query, cut where it is very long.
    public var path: String
    /// The code that the client was told.
    public var code: String
    /// The message that the client was told.
    public var message: String
    /// What shows for certain that the node's store is damaged; nil where nothing does.
    public var damage: CoordinatorError?

    /// Describes a failure that is no damage of the store.
    public init(method: String, path: String, code: String, message: String) {
        self.method = method
        self.path = path
        self.code = code
        self.message = message
    }
}

/// The part of a node's status that comes from replication.
public struct NodeStatus: Hashable, Sendable {
    /// A peer as seen from here.
    public struct Peer: Hashable, Sendable {
        /// Its number.
        public var node: NodeID
        /// Whether it was heard lately.
        public var isConnected: Bool
        /// All that it has applied, as last heard.
        public var vector: VersionVector
        /// How many transactions are applied here that it does not have, as far as is known.
        public var lag: UInt64
        /// How many transactions it has that are not applied here.
        public var missingHere: UInt64
        /// Its wall clock less ours in milliseconds; nil before it was heard.
        public var clockOffsetMilliseconds: Int64?
        /// Why it is refused, for people; nil where it is not.
        public var refusal: String?
        /// For how much longer it is ignored for what it sent, in milliseconds; nil where it is not.
        public var quarantineMilliseconds: UInt64?
        /// How the last handshake on a connection to it ended; nil in a mesh without keys.
        public var handshake: MeshKeyReport.Handshake?
        /// The key that it has proven there; nil while no such connection stands.
        public var publicKey: CurvePublicKey?

        /// Describes a peer.
        public init(
            node: NodeID, isConnected: Bool, vector: VersionVector, lag: UInt64 = 0,
            missingHere: UInt64 = 0, clockOffsetMilliseconds: Int64? = nil,
            refusal: String? = nil
        ) {
            self.node = node
            self.isConnected = isConnected
            self.vector = vector
            self.lag = lag
            self.missingHere = missingHere
            self.clockOffsetMilliseconds = clockOffsetMilliseconds
            self.refusal = refusal
        }
    }

    /// A transaction that waits although its predecessors are there.
    public struct Held: Hashable, Sendable {
        /// Which one.
        public var transaction: Dot
        /// Why, for people.
        public var reason: String

        /// Describes a held transaction.
        public init(transaction: Dot, reason: String) {
            self.transaction = transaction
            self.reason = reason
        }
    }

    /// All members, this node included, by number.
    public var members: [NodeID]
    /// The peers, by number.
    public var peers: [Peer]
    /// Transactions that are held, by dot.
    public var held: [Held]
    /// The copy of a member's store that is being taken over, if one is.
    public var transfer: TransferStatus?
    /// The alarms that were raised last, the latest first; one of a kind and a peer.
    public var alarms: [RaisedAlarm] = []
    /// Where the keys of the mesh stand.
    public var keys = MeshKeyReport()
    /// What is not stable, and for whom it waits; nil without replication.
    var stability: StabilityReport?
    /// What has gone of history; nil where nobody tends it.
    var history: HistoryReport?
    /// The limits of history, likewise.
    var historyLimits: HistoryLimits?
    /// Monotonic milliseconds at which keys and alarms were looked at.
    public var lookedAt: UInt64 = 0

    /// Describes a node's view.
    public init(members: [NodeID], peers: [Peer] = [], held: [Held] = []) {
        self.members = members
        self.peers = peers
        self.held = held
    }
}

/// What a peer last told of its state.
public struct PeerDigest: Hashable, Sendable {
    /// The peer.
    public var node: NodeID
    /// All that it has applied.
    public var vector: VersionVector
    /// The digest of what it shows at that vector.
    public var digest: ProjectionDigest

    /// Describes a peer's state.
    public init(node: NodeID, vector: VersionVector, digest: ProjectionDigest) {
        self.node = node
        self.vector = vector
        self.digest = digest
    }
}
