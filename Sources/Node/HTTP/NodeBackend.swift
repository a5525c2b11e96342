// The port between the HTTP interface and the node it belongs to.
//
// Threading: every requirement may be called from any task.

package import Coordinator
package import Merge
package import Replication

/// The node as the HTTP interface needs it; a coordinator alone is enough to answer most requests.
package protocol NodeBackend: Sendable {
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
    /// - Parameter save: may be called again where it threw, because then nothing was saved.
    /// - Throws: what it throws.
    func saving(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> SaveResult
    ) async throws -> SaveResult
    /// Carries a batch request out on this node, and counts its transactions.
    ///
    /// - Parameter progress: is told after each transaction what was done so far.
    /// - Throws: as ``PersistentStoreCoordinator/execute(_:author:contextName:progress:)``.
    func execute(
        _ request: any BatchRequest, author: String?, contextName: String?,
        progress: @escaping @Sendable (BatchResult) throws -> Void
    ) async throws -> BatchResult
    /// Counts an answer that was given.
    func countRequest(status: Int)
    /// Receives events of the interface's connections.
    func noteConnections(_ note: ConnectionNote)
    /// Receives a request that failed through a fault of the node's own.
    func noteFailure(_ failure: RequestFailure)
    /// Takes note that this node's own store does not hold what was written.
    ///
    /// - Parameter differences: what is wrong, a sentence each.
    func noteUnsound(_ differences: [String])
    /// The state of replication and of its peers.
    func status() async -> NodeStatus
    /// The metrics, in Prometheus' text format.
    func metricsText() async throws -> String
    /// Each peer's latest vector and digest.
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
    /// Reads keys, tokens and certificates of the configuration again, goes on with them, and
    /// listens again to peers that are ignored for what they sent.
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
    package func join(
        _ node: NodeID, at address: MemberAddress, author: String?
    ) async throws -> SaveResult { throw noMembers }

    /// Refuses, as a node without a mesh does.
    package func retire(
        _ node: NodeID, isForced: Bool, author: String?
    ) async throws -> SaveResult { throw noMembers }

    /// Refuses, as a node without a mesh does.
    package func leave(author: String?) async throws -> SaveResult { throw noMembers }

    /// Saves through the coordinator, uncounted.
    package func save(_ request: SaveRequest) async throws -> SaveResult {
        try await coordinator.save(request)
    }

    /// Does it, uncounted.
    package func saving(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> SaveResult
    ) async throws -> SaveResult { try await save(coordinator) }

    /// Carries it out through the coordinator, uncounted.
    package func execute(
        _ request: any BatchRequest, author: String?, contextName: String?,
        progress: @escaping @Sendable (BatchResult) throws -> Void
    ) async throws -> BatchResult {
        try await coordinator.execute(
            request, author: author, contextName: contextName, progress: progress)
    }

    /// Counts nothing.
    package func countRequest(status: Int) {}

    /// Notes nothing.
    package func noteConnections(_ note: ConnectionNote) {}

    /// Notes nothing.
    package func noteFailure(_ failure: RequestFailure) {}

    /// Notes nothing.
    package func noteUnsound(_ differences: [String]) {}

    /// Refuses, as a node does that has no configuration file.
    package func reload() async throws -> ReloadReport {
        throw NotSupported("This node was not started from a configuration file.")
    }

    /// Refuses, as a node does that keeps no count of what is stable.
    package func purgeHistory(before token: QueryGenerationToken) async throws -> Int {
        throw NotSupported("This node cannot purge its history.")
    }
}

/// Something of the interface that this node or release does not offer.
package struct NotSupported: Error, Sendable, CustomStringConvertible {
    /// The refusal, and what to do instead.
    package let description: String

    /// Describes what is not offered.
    package init(_ description: String) { self.description = description }
}

/// A request that failed through a fault of the node's own: its disk, its store or a defect. It has
/// nothing of the request's body, nor of what its parameters say.
package struct RequestFailure: Sendable {
    /// The method, such as "GET".
    package var method: String
    /// The path as it was asked for, without the query, cut where it is very long.
    package var path: String
    /// The code in the client's answer.
    package var code: String
    /// The message in the client's answer.
    package var message: String
    /// The error that shows for certain that the node's store is damaged; nil if none does.
    package var damage: CoordinatorError?

    /// Describes a failure that is no damage of the store.
    package init(method: String, path: String, code: String, message: String) {
        self.method = method
        self.path = path
        self.code = code
        self.message = message
    }
}

/// The part of a node's status that comes from replication.
package struct NodeStatus: Hashable, Sendable {
    /// A peer as seen from here.
    package struct Peer: Hashable, Sendable {
        /// Its number.
        package var node: NodeID
        /// Whether it was heard lately.
        package var isConnected: Bool
        /// All that it has applied, as last heard.
        package var vector: VersionVector
        /// How many transactions are applied here that it does not have, as far as is known.
        package var lag: UInt64
        /// How many transactions it has that are not applied here.
        package var missingHere: UInt64
        /// Its wall clock less ours in milliseconds; nil before it was heard.
        package var clockOffsetMilliseconds: Int64?
        /// Why it is refused, for people; nil where it is not.
        package var refusal: String?
        /// For how much longer it is ignored for what it sent, in milliseconds; nil where it is not.
        package var quarantineMilliseconds: UInt64?
        /// How the last handshake on a connection to it ended; nil in a mesh without keys.
        package var handshake: MeshKeyReport.Handshake?
        /// The key that it has proven there; nil while no such connection stands.
        package var publicKey: CurvePublicKey?

        /// Describes a peer.
        package init(
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
    package struct Held: Hashable, Sendable {
        /// Which one.
        package var transaction: Dot
        /// Why, for people.
        package var reason: String

        /// Describes a held transaction.
        package init(transaction: Dot, reason: String) {
            self.transaction = transaction
            self.reason = reason
        }
    }

    /// All members, this node included, by number.
    package var members: [NodeID]
    /// The peers, by number.
    package var peers: [Peer]
    /// Transactions that are held, by dot.
    package var held: [Held]
    /// The copy of a member's store that is being taken over, if one is.
    package var transfer: TransferStatus?
    /// The alarms that were raised last, the latest first; one of a kind and a peer.
    package var alarms: [RaisedAlarm] = []
    /// Where the keys of the mesh stand.
    package var keys = MeshKeyReport()
    /// The transactions that are not stable, and the members they wait for; nil without
    /// replication.
    var stability: StabilityReport?
    /// The history purged so far; nil if nobody tends it.
    var history: HistoryReport?
    /// The limits of history, likewise.
    var historyLimits: HistoryLimits?
    /// Monotonic milliseconds at which keys and alarms were looked at.
    package var lookedAt: UInt64 = 0

    /// Describes a node's view.
    package init(members: [NodeID], peers: [Peer] = [], held: [Held] = []) {
        self.members = members
        self.peers = peers
        self.held = held
    }
}

/// A peer's latest state.
package struct PeerDigest: Hashable, Sendable {
    /// The peer.
    package var node: NodeID
    /// All that it has applied.
    package var vector: VersionVector
    /// The digest of what it shows at that vector.
    package var digest: ProjectionDigest

    /// Describes a peer's state.
    package init(node: NodeID, vector: VersionVector, digest: ProjectionDigest) {
        self.node = node
        self.vector = vector
        self.digest = digest
    }
}
