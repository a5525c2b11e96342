package import Merge

/// Over which sockets a message came.
package enum Channel: Hashable, Sendable {
    /// PUB to SUB: a hint that may be lost.
    case publish
    /// DEALER to ROUTER or back.
    case exchange
}

/// The store's state: the shell takes it in one piece, after a commit, on the write path.
package struct StoreState: Hashable, Sendable {
    /// All that is applied.
    package var vector: VersionVector
    /// The part that would survive a power loss; at most ``vector``.
    package var durable: VersionVector
    /// The part of ``durable`` that the shell could prove to have had, if the store were replaced
    /// by an older one; at most ``durable``. Only this is reported for stability: a node that
    /// collects by a report must be able to rely on its maker noticing that it has lost something.
    package var recorded: VersionVector
    /// The digest of the projection at exactly ``vector``.
    package var digest: ProjectionDigest
    /// The members, as the transactions of exactly ``vector`` name them.
    package var membership: Membership
    /// The beginnings of the actors of ``vector``; vectors name all others whole.
    package var beginnings: Beginnings

    /// Describes a store; without a durable vector everything is durable, and without a recorded
    /// one all that is durable is recorded.
    package init(
        vector: VersionVector, durable: VersionVector? = nil,
        recorded: VersionVector? = nil, digest: ProjectionDigest,
        membership: Membership = Membership(), beginnings: Beginnings = Beginnings()
    ) {
        self.beginnings = beginnings
        self.membership = membership
        self.vector = vector
        self.durable = durable ?? vector
        self.recorded = recorded ?? durable ?? vector
        self.digest = digest
    }
}

extension StoreState {
    /// Takes over what the store has applied, unless it is older than what is known. Digest and vector
    /// belong together, so an older state, told late, must not replace either.
    ///
    /// - Returns: whether other nodes are members since.
    mutating func takeApplied(_ other: StoreState) -> Bool {
        beginnings.join(other.beginnings)
        guard other.vector.covers(vector) else { return false }
        vector = other.vector
        digest = other.digest
        defer { membership = other.membership }
        return membership != other.membership
    }

    /// Takes over what of it is on disk, and recorded.
    mutating func takeDurable(_ other: StoreState) {
        durable.join(other.durable)
        recorded.join(other.recorded)
    }
}

/// A transaction of an apply effect that the store could not apply.
package struct Rejection: Hashable, Sendable {
    /// Which one.
    package var dot: Dot
    /// Why, for people.
    package var reason: String

    /// Describes a rejection.
    package init(dot: Dot, reason: String) {
        self.dot = dot
        self.reason = reason
    }
}

/// An event that has happened; told to ``Replicator/handle(_:)``.
///
/// `now` is monotonic milliseconds from any beginning, never falling from input to input.
/// `wallMilliseconds` is wall time in milliseconds since 1970 and may jump.
package enum Input: Hashable, Sendable {
    /// The store is open and the sockets are bound. The first input, given once.
    ///
    /// `peers` are the nodes the shell connects to; this node's own number among them is ignored.
    case started(state: StoreState, peers: [NodeID], now: UInt64, wallMilliseconds: UInt64)

    /// Time passes; to be given every 50 to 100 ms. Nothing else wakes the replicator.
    case tick(now: UInt64, wallMilliseconds: UInt64)

    /// A frame came.
    ///
    /// `from` is who the socket says sent it: on ROUTER the routing identity, on DEALER the peer
    /// it is connected to, on SUB the key's owner, or nil where the socket cannot tell (one SUB
    /// for all peers without CURVE); the sender that the frame names then counts.
    case messageReceived(bytes: [UInt8], from: NodeID?, over: Channel, now: UInt64)

    /// Local saves are durable: all of one group commit, in order of their sequences.
    case committed([EncodedTransaction], state: StoreState, now: UInt64)

    /// The answer to an ``Effect/apply(_:)``. What of the batch is neither in the state's vector
    /// nor rejected was not tried (a predecessor in the batch was rejected) and is offered again.
    case applied(state: StoreState, rejected: [Rejection], now: UInt64)

    /// The answer to an ``Effect/readLog(id:after:byteLimit:)``.
    ///
    /// `reachedEnd` says that the log holds nothing more that the vector does not cover. None and
    /// not at the end means that the read failed.
    case logRead(id: UInt64, transactions: [[UInt8]], reachedEnd: Bool, now: UInt64)

    /// The answer to an ``Effect/remember(_:)``: whether it is on disk. It is asked again where
    /// that failed.
    case remembered(ActorID, isDurable: Bool, now: UInt64)

    /// The answer to an ``Effect/learnModels(_:)``: those whose transactions can be applied now.
    case modelsLearnt([ModelText], now: UInt64)
    /// The same where they could not be recorded, as a disk is full: they are taken up again when a
    /// peer next tells of them.
    case modelsNotLearnt([ModelText], now: UInt64)
    /// The answer to an ``Effect/compareModel(_:of:)``: what differs, for people.
    case modelCompared(NodeID, hash: [UInt8], difference: String, now: UInt64)

    /// The answer to an ``Effect/readTransfer(id:number:offset:byteLimit:for:covering:)``; without a copy
    /// none can be given.
    case transferRead(
        id: UInt64, copy: TransferCopy?, offset: UInt64, bytes: [UInt8], now: UInt64)
    /// The answer to an ``Effect/takeTransfer(_:donor:offset:bytes:)``: how much is on disk.
    case transferTaken(offset: UInt64, now: UInt64)
    /// The answer to an ``Effect/installTransfer(_:donor:)`` where the copy will not do, or to an
    /// ``Effect/takeTransfer(_:donor:offset:bytes:)`` where the disk failed, and why. Nothing of
    /// it is there any more.
    case transferRefused(String, now: UInt64)

    /// The configured nodes are others now. They are the members as long as no transaction has
    /// told of any.
    case peersChanged([NodeID], now: UInt64)
    /// A connection to a peer came up: a hint that makes catching up start at once.
    case peerConnected(NodeID, now: UInt64)
    /// A connection to a peer went down: a hint.
    case peerDisconnected(NodeID, now: UInt64)
    /// An operator ends a peer's quarantine.
    case quarantineLifted(NodeID, now: UInt64)
}

extension Input {
    /// When it happened.
    var now: UInt64 {
        switch self {
        case .started(_, _, let now, _), .tick(let now, _), .messageReceived(_, _, _, let now),
            .committed(_, _, let now), .applied(_, _, let now), .logRead(_, _, _, let now),
            .remembered(_, _, let now), .modelsLearnt(_, let now), .modelsNotLearnt(_, let now),
            .modelCompared(_, _, _, let now), .transferRead(_, _, _, _, let now),
            .transferTaken(_, let now), .transferRefused(_, let now), .peersChanged(_, let now),
            .peerConnected(_, let now), .peerDisconnected(_, let now),
            .quarantineLifted(_, let now):
            now
        }
    }

    /// The wall clock's time, if the input has it.
    var wallMilliseconds: UInt64? {
        switch self {
        case .started(_, _, _, let wall), .tick(_, let wall): wall
        default: nil
        }
    }
}
