package import Merge

/// The state of the replicator's peers and queues, for status and metrics. A value: it is computed
/// on demand and may be handed to any thread.
package struct ReplicatorStatus: Hashable, Sendable {
    /// The peers, by number.
    package var peers: [PeerStatus]
    /// Transactions that are held, by dot.
    package var held: [HeldTransaction]
    /// All that is stable here.
    package var stable: VersionVector
    /// The other members, by number, with what keeps stability from going on.
    package var members: [MemberStatus]
    /// Whether this store may lack what its node has reported before.
    package var recovery: Recovery
    /// Whether saves are let through, see ``Effect/setSaving(allowed:)``.
    package var isSaving: Bool
    /// Transactions that came here once and wait for one that no member has, sorted: until the next
    /// tick, when they are given out to be kept (``Effect/keepOrphans(_:)``) or told to be left out
    /// (``Effect/orphansNotKept(_:)``).
    package var orphaned: [Dot]
    /// The copy of a member's store that is being taken in, if one is.
    package var transfer: TransferStatus?
    /// The queues.
    package var gauges: ReplicatorGauges

    /// The transactions that at least one other member has for certain: beside those that are
    /// ``stable`` they may be purged here if there is no room. Nil while this store is a restored
    /// one: nothing may be purged, because others may need what it has.
    package var recordedElsewhere: VersionVector? {
        guard recovery != .restored else { return nil }
        return members.reduce(into: VersionVector()) { $0.join($1.recorded) }
    }
}

/// How far a store transfer has come.
package struct TransferStatus: Hashable, Sendable {
    /// The owner of the store that is taken over.
    package var donor: NodeID
    /// How many bytes of the copy are on disk.
    package var offset: UInt64
    /// How many it has; nil before the donor has told.
    package var total: UInt64?
}

/// Where a peer stands, as far as is known here.
package struct PeerStatus: Hashable, Sendable {
    /// The peer.
    package var node: NodeID
    /// Whether the shell connects to it; false for one that came by itself.
    package var isConfigured: Bool
    /// Whether it was heard lately, see ``Limits/connectedMilliseconds``.
    package var isConnected: Bool
    /// Whether its heads have shown that it belongs to us.
    package var isAgreed: Bool
    /// Its incarnation, once heard.
    package var actor: ActorID?
    /// When it was last heard, in monotonic milliseconds.
    package var lastHeard: UInt64?
    /// The same, though the connection be lost since.
    package var heardAt: UInt64?
    /// All that it has applied, as last heard.
    package var vector: VersionVector
    /// The part on its disk, as last heard.
    package var durable: VersionVector
    /// How many transactions it has that are not applied here.
    package var missingHere: UInt64
    /// How many transactions are applied here that it does not have.
    package var missingThere: UInt64
    /// Its wall clock less ours in milliseconds; the way of the message is in it.
    package var clockOffsetMilliseconds: Int64?
    /// Why it is refused, if it is.
    package var refusal: Refusal?
    /// Until when its messages are ignored, in monotonic milliseconds.
    package var quarantinedUntil: UInt64?
    /// Whether a pull from it is outstanding.
    package var isPulling: Bool
    /// Its latest digest; nil if it has sent none, or if its model is another.
    package var told: ToldDigest?
}

/// A peer's projection, as its heads tell of it.
package struct ToldDigest: Hashable, Sendable {
    /// All that it had applied.
    package var vector: VersionVector
    /// The digest of its projection at exactly that.
    package var digest: ProjectionDigest

    /// Describes a projection.
    package init(vector: VersionVector, digest: ProjectionDigest) {
        self.vector = vector
        self.digest = digest
    }
}

extension PeerStatus {
    /// Describes a peer beside what is applied here.
    init(of peer: PeerProgress, beside vector: VersionVector, now: UInt64, limits: Limits) {
        self.init(
            node: peer.node, isConfigured: peer.isConfigured,
            isConnected: peer.isConnected(now: now, limits: limits), isAgreed: peer.isAgreed,
            actor: peer.actor, lastHeard: peer.lastHeard, heardAt: peer.heardAt,
            vector: peer.vector, durable: peer.durable,
            missingHere: vector.lag(behind: peer.vector),
            missingThere: peer.vector.lag(behind: vector),
            clockOffsetMilliseconds: peer.clockOffset, refusal: peer.refusal,
            quarantinedUntil: peer.isQuarantined(now: now) ? peer.quarantine?.until : nil,
            isPulling: peer.pulling != nil, told: peer.told)
    }
}

/// Where a member stands as to stability.
package struct MemberStatus: Hashable, Sendable {
    /// The member.
    package var node: NodeID
    /// Why its latest report is not in use; nil where it is.
    package var hindrance: StabilityHindrance?
    /// The vector that it is known to have for certain; nothing before its newest incarnation has
    /// reported, and while its store is not vouched for.
    package var recorded = VersionVector()
    /// How many transactions on this node's disk it is not known to have for certain.
    package var unrecorded: UInt64 = 0

    /// Describes a member that nothing is known of but what hinders it.
    package init(node: NodeID, hindrance: StabilityHindrance? = nil) {
        self.node = node
        self.hindrance = hindrance
    }
}

/// Why a member's latest report is not in use.
package enum StabilityHindrance: Hashable, Sendable {
    /// It has not been heard in this run.
    case nothingHeard
    /// It was heard as an incarnation that is not the newest known.
    case olderIncarnation(newest: ActorID)
    /// Its store is not vouched for.
    case recovering
    /// It has not met this incarnation, or has not told so yet.
    case hasNotMet(ActorID)
    /// It has not applied that another node has departed, or has not said so yet.
    case hasNotApplied(departureOf: NodeID)
    /// It holds transactions of its own or of closed actors that are not on this node's disk.
    case behind(missing: UInt64)
}

/// A transaction that waits although its predecessors are there, and keeps waiting all that
/// depends on it.
package struct HeldTransaction: Hashable, Sendable {
    /// Which one.
    package var dot: Dot
    /// Why.
    package var reason: HeldReason

    /// Describes a held transaction.
    package init(dot: Dot, reason: HeldReason) {
        self.dot = dot
        self.reason = reason
    }
}

/// Why a transaction is held.
package enum HeldReason: Hashable, Sendable {
    /// Its timestamp is far ahead of our wall clock.
    case timestampInFuture(HybridTimestamp)
    /// The store could not apply it.
    case rejected(String)
    /// It was written by a model of that version hash, which the store cannot apply: it goes on
    /// when the store has migrated.
    case unknownModel([UInt8])
}

/// How full the queues are, and what has happened since the start.
package struct ReplicatorGauges: Hashable, Sendable {
    /// Transactions that wait for a predecessor.
    package var waitingCount = 0
    /// Their bytes.
    package var waitingBytes = 0
    /// Transactions that peers have and that wait for their model to be known here; all but the
    /// first of each actor are left with the peers.
    package var waitingForModelCount: UInt64 = 0
    /// Transactions that are about to be applied or being applied.
    package var applyingCount = 0
    /// Their bytes.
    package var applyingBytes = 0
    /// Pulls that are outstanding.
    package var pullsOutstanding = 0
    /// Log reads that are outstanding.
    package var readsOutstanding = 0
    /// Bytes kept of transactions that come or go in pieces.
    package var piecesBytes = 0
    /// Bytes of transactions that were dropped as their actor was closed, until it is known whether
    /// somebody has what they wait for.
    package var orphanBytes = 0
    /// Transactions that were dropped from memory because the queue was full, since the start.
    package var droppedCount: UInt64 = 0
    /// Transactions that came although they were here already, since the start.
    package var duplicateCount: UInt64 = 0
    /// Published transactions ignored since their actor is not its sender's present one, since
    /// the start: they are pulled, if anybody has them.
    package var closedCount: UInt64 = 0
    /// Transactions handed to the store to apply, since the start.
    package var deliveredCount: UInt64 = 0
    /// Pulls sent, since the start.
    package var pullCount: UInt64 = 0
    /// Pulls that ran out of time, since the start.
    package var pullTimeoutCount: UInt64 = 0
    /// Frames received, since the start.
    package var receivedCount: UInt64 = 0
    /// Published heads of a peer that is ahead by a whole incarnation, so that they could not be read
    /// here and all of them was asked for, since the start.
    package var partialHeadsCount: UInt64 = 0
    /// Frames refused or ignored for any reason, since the start.
    package var ignoredCount: UInt64 = 0
}

extension Replicator {
    /// Each agreed peer's vector on disk, as it last said.
    ///
    /// The node asks after all frames while somebody waits for peers. So this is no part of ``status``, which looks at each pair of
    /// members.
    package var confirmations: [(node: NodeID, vector: VersionVector)] {
        peers.filter(\.isAgreed).map { ($0.node, $0.durable) }
    }
}
