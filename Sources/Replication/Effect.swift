package import Merge

/// A command to the shell. Effects of one input are carried out in their order.
package enum Effect: Hashable, Sendable {
    /// Send a frame on PUB. What it tells is durable already; may be lost.
    case publish([UInt8])

    /// Send a frame over the DEALER that is connected to the peer. Drop it where the socket's
    /// queue is full: it is asked again. Nothing needs to be durable before.
    case send(to: NodeID, bytes: [UInt8])

    /// Send a frame through our ROUTER to the peer whose identity it is. Drop it where the peer
    /// is not connected or its queue is full. Nothing needs to be durable before.
    case reply(to: NodeID, bytes: [UInt8])

    /// Apply these transactions, which are in causal order, in one generation or several, and
    /// answer with ``Input/applied(state:rejected:now:)``. At most one is outstanding.
    ///
    /// They must be committed before the answer; the answer's `durable` vector says what of them
    /// is on disk. One that cannot be applied is rejected, with those of the batch that depend on
    /// it left out, and the rest is applied.
    case apply([EncodedTransaction])

    /// Read from the log what the vector does not cover, in the order in which it was applied
    /// here, and answer with ``Input/logRead(id:transactions:reachedEnd:now:)``.
    ///
    /// Give whole transactions of together at most `byteLimit` bytes, but at least one if there
    /// is any. Only what is durable may be read. At most one per peer is outstanding.
    case readLog(id: UInt64, after: VersionVector, byteLimit: Int)

    /// A peer's link is ignored from now on until the given monotonic time: for log and status.
    case quarantined(NodeID, reason: String, until: UInt64)

    /// All that the vector covers is stable (DESIGN section 8) and may be collected: nothing that
    /// is concurrent with it will be applied any more. It is within the last durable vector told.
    case stable(VersionVector)

    /// Let saves through or refuse them, until told otherwise; at first they are let through. It
    /// must hold before a later ``apply(_:)`` is carried out.
    case setSaving(allowed: Bool)

    /// This node's clock is far off from its members', so no saves are let through; or it is not
    /// any more. At first it is not.
    case setClockOff(Bool)

    /// The store, new until now, is about to take over from stores that are older: record that
    /// its recovery is ``Recovery/restored`` before a later ``apply(_:)`` is committed. Given at
    /// most once.
    case outgrown

    /// The store, which is new, is one of the founders of its cluster: record that, before a later
    /// ``apply(_:)`` is committed. Given at most once.
    case founder

    /// The store is vouched for: record that its recovery is ``Recovery/none``, and who founded the
    /// cluster together with it; empty where it did not. Given at most once.
    case vouched(founders: [ActorID])

    /// The other members are these now, by number: connect to them, where their addresses are
    /// known, and to nobody else. Not given as long as no transaction has told of members.
    case connect(to: [NodeID])

    /// Let the store remember that this is the newest incarnation met of its node, for this run
    /// and all later ones, and answer with ``Input/remembered(_:isDurable:now:)``.
    case remember(ActorID)

    /// Nodes of this node's model had these before it: let the store learn of those that it can
    /// apply transactions of, and answer with ``Input/modelsLearnt(_:now:)``, or
    /// ``Input/modelsNotLearnt(_:now:)``.
    case learnModels([ModelText])

    /// A peer's model is none that this node knows, nor is this node's known there: find what
    /// differs and answer with ``Input/modelCompared(_:hash:difference:now:)``.
    case compareModel(ModelText, of: NodeID)

    /// Peers know an incarnation of this node that is newer than this one, so they do not listen
    /// to it: close the store and open it with a later one than this. Given at most once.
    case reopen(after: UInt64)

    /// Members refuse this incarnation, because an elder one of its node is alive: end. Given at
    /// most once.
    case refused

    /// Read a part of the copy of this store that a member asks for, make the copy where there is
    /// none that will do, and answer with ``Input/transferRead(id:copy:offset:bytes:now:)``. At
    /// most one per peer is outstanding. The copy must be one in which the member is one (MODEL
    /// P17), which covers the vector, and from which this store's log goes on; it may be given to
    /// others too.
    case readTransfer(
        id: UInt64, number: UInt64, offset: UInt64, byteLimit: Int, for: NodeID,
        covering: VersionVector)

    /// Write a part of a member's copy, which is to become this store's: at 0 instead of what
    /// there is of one. Answer with ``Input/transferTaken(offset:now:)`` once it is on disk; where
    /// that failed, remove it and answer with ``Input/transferRefused(_:now:)``. At most one is
    /// outstanding.
    case takeTransfer(TransferCopy, donor: NodeID, offset: UInt64, bytes: [UInt8])

    /// The copy is there whole: check it, and answer with ``Input/transferRefused(_:now:)`` where
    /// it is not sound. Where it is, end this run, make one of the copy and of what this store
    /// has besides, and start again with that.
    case installTransfer(TransferCopy, donor: NodeID)

    /// Remove what there is of a member's copy: nothing is missing any more.
    case discardTransfer

    /// Keep these for people, by dot: they were saved and acknowledged elsewhere, and can be neither
    /// applied nor pulled any more, because an earlier save of their node is lost with it
    /// (``ReplicatorStatus/orphaned``). Together at most ``Limits/orphanBytes``. Each is given once in
    /// a run, and is not here any more then; nothing answers.
    case keepOrphans([EncodedTransaction])

    /// Tell people that there was no room for these, by dot, to keep them as ``keepOrphans(_:)`` does:
    /// they are beyond ``Limits/orphanBytes``, or, where not even their names could be remembered,
    /// beyond ``Limits/orphans``. The latter are reported before it is known that they are lost, so
    /// some may be applied after all.
    case orphansNotKept([Dot])

    /// Something a person should know; each is raised once.
    case alarm(Alarm)
}

/// A fault of a peer, or of its frames.
package enum Alarm: Hashable, Sendable {
    /// A peer at the same vector shows other data (DESIGN section 7).
    case digestMismatch(
        peer: NodeID, vector: VersionVector, ours: ProjectionDigest, theirs: ProjectionDigest)
    /// A peer does not belong to us: nothing of it is merged until its heads fit again.
    case refused(peer: NodeID, Refusal)
    /// A peer has transactions of our own incarnation that we never wrote. Refused.
    case dotReused(Dot, from: NodeID)
    /// Another live process uses a node's number. Its frames are refused. If the number is this
    /// node's, and no incarnation is named, a frame of the other has come here itself.
    case twoNodesWithOneID(NodeID, incarnation: UInt64?)
    /// A peer comes as an incarnation of its node that is older than one known: a store that was
    /// copied or restored behind our back, or a message that was long on its way. Not listened to.
    case incarnationOutdated(NodeID, incarnation: UInt64, newest: UInt64)
    /// The peer at one address names itself as another. What it sends is refused.
    case unexpectedSender(expected: NodeID, claimed: NodeID)
    /// The store could not apply a transaction; it is held and tried again from time to time.
    case rejected(Dot, reason: String)
    /// A transaction comes from a clock far ahead; it is held until its time comes.
    case timestampInFuture(Dot, HybridTimestamp)
    /// This node's clock is ahead of the median of its members' by so much, or behind where that
    /// is below 0: it takes no saves until it is right.
    case clockOff(milliseconds: Int64)
    /// The clock of the only other member that is heard is ahead of ours by so much, or behind:
    /// nobody can tell which of the two is off.
    case clocksApart(milliseconds: Int64)
    /// This node's saves are stamped so far ahead of its clock, which was ahead once and was put right,
    /// that other nodes hold them until their clocks have come there.
    case stampsAhead(HybridTimestamp, milliseconds: UInt64)
    /// A local transaction is too long to be carried to other nodes.
    case transactionTooLarge(Dot, bytes: Int)
    /// A copy of a peer's store could not take this one's place; another is asked for later.
    case transferFailed(donor: NodeID, reason: String)
    /// A peer's vector has transactions that its log does not give: its history was purged. Where
    /// no other member's log has them, the node takes over a copy of a member's store.
    case historyTooShort(peer: NodeID, missing: UInt64)
    /// This node's number is not a member's any more: nobody takes its saves, and it takes none. It
    /// may come back under another number.
    case departed(told: NodeID)
    /// A frame could not be decoded and no socket says whose it is.
    case undecodable(reason: String)
}

/// Why a peer is refused.
package struct Refusal: Hashable, Sendable {
    /// Which part differs.
    package enum Part: String, Hashable, Sendable {
        /// The cluster's name.
        case cluster
        /// The revision of the protocol.
        case revision
        /// The model's version hash, in which the merge policies are.
        case model
        /// Whether it is a member of the cluster.
        case membership
    }

    /// Which part differs.
    package var part: Part
    /// Ours, for people.
    package var ours: String
    /// Theirs, for people.
    package var theirs: String
    /// The difference, if it is known: entities, properties and what both say.
    package var difference: String?

    /// Describes a refusal.
    package init(part: Part, ours: String, theirs: String, difference: String? = nil) {
        self.difference = difference
        self.part = part
        self.ours = ours
        self.theirs = theirs
    }
}
