package import Merge

/// A message between nodes. One message is one frame.
///
/// Over PUB go ``heads(_:)``, ``notification(_:)`` and ``announcement(_:)``; over the exchange
/// ``hello(_:)``, ``pull(_:)`` and ``transferPull(_:)`` ask; ``heads(_:)``, ``page(_:)``, ``piece(_:)``
/// and ``transferPart(_:)`` answer.
package enum Message: Hashable, Sendable {
    /// The protocol's revision. A node of any other is refused.
    package static let revision: UInt64 = 1

    /// Where the sender stands.
    case heads(Heads)
    /// Where the sender stands, with the wish to hear the same from the receiver.
    case hello(Heads)
    /// The canonical bytes of transactions just committed by the sender, in their order.
    case notification([[UInt8]])
    /// Transactions just committed by the sender that are too long to be published.
    case announcement([Announced])
    /// A wish for transactions.
    case pull(Pull)
    /// The answer to a pull: transactions.
    case page(Page)
    /// The answer to a pull: a part of a transaction that is longer than a page.
    case piece(Piece)
    /// The models that the sender has had, where the receiver's is another than its own; asks for
    /// the receiver's list.
    case models(ModelList)
    /// A wish for a part of a copy of the receiver's store.
    case transferPull(TransferPull)
    /// The answer to it.
    case transferPart(TransferPart)
}

/// Where a node stands.
package struct Heads: Hashable, Sendable {
    /// The sender's incarnation.
    package var actor: ActorID
    /// All that it has applied.
    package var vector: VersionVector
    /// Whether that, and what is part of it, is all there. Heads that are published name a
    /// frontier, and a receiver that does not know the beginnings that belong to it has to ask.
    package var isWhole = true
    /// The part that would survive a power loss.
    package var durable: VersionVector
    /// The part that the sender could prove to have had; stability rests on it.
    package var recorded: VersionVector
    /// The digest of its projection at ``vector``.
    package var digest: ProjectionDigest
    /// Its hybrid clock.
    package var clock: HybridTimestamp
    /// Its wall clock, milliseconds since 1970.
    package var wallMilliseconds: UInt64
    /// Its model's version hash, 32 bytes.
    package var modelHash: [UInt8]
    /// The incarnations of other nodes that it has met in this run, sorted by node, at most one a
    /// node: from then on it takes transactions of their former ones from members' logs only.
    package var met: [ActorID]
    /// Newest incarnations that it knows of, its own node's among them, but has not met in this run
    /// or not as such, in the same order: so that an older one learns that it is not heard. If no
    /// newer one of its own node is known, the one whose process had its store's lock before, and
    /// so has ended: a node that has met that one meets this one at once.
    package var known: [ActorID]
    /// Nodes that are not members any more, sorted, so that one of them learns it.
    package var departed: [NodeID]
    /// Whether its store may lack what its node has reported before; unless it is
    /// ``Recovery/none``, its report counts for nobody's stability.
    package var recovery: Recovery
    /// The nodes' stores that it was vouched for together with, when it was new, sorted by node;
    /// itself among them. Nothing that one of them has not reported since is stable anywhere.
    package var founders: [ActorID]
    /// The other nodes that its configuration names, sorted: members, as long as no transaction
    /// tells of any, also to those whose own configuration does not name them.
    package var configured: [NodeID]

    /// Describes where a node stands.
    package init(
        actor: ActorID, vector: VersionVector, durable: VersionVector,
        recorded: VersionVector? = nil, digest: ProjectionDigest,
        clock: HybridTimestamp, wallMilliseconds: UInt64, modelHash: [UInt8],
        met: [ActorID] = [], known: [ActorID] = [], departed: [NodeID] = [],
        recovery: Recovery = .none, founders: [ActorID] = [], configured: [NodeID] = []
    ) {
        self.departed = departed
        self.actor = actor
        self.vector = vector
        self.durable = durable
        self.recorded = recorded ?? durable
        self.digest = digest
        self.clock = clock
        self.wallMilliseconds = wallMilliseconds
        self.modelHash = modelHash
        self.met = met
        self.known = known
        self.recovery = recovery
        self.founders = founders
        self.configured = configured
    }
}

/// The name and length of a transaction that can be pulled.
package struct Announced: Hashable, Sendable {
    /// Its name.
    package var dot: Dot
    /// The length of its canonical bytes.
    package var size: UInt64

    /// Names a transaction with its length.
    package init(dot: Dot, size: UInt64) {
        self.dot = dot
        self.size = size
    }
}

/// A wish for what a vector does not cover. One answer comes: a page or a piece.
package struct Pull: Hashable, Sendable {
    /// Repeated in the answer.
    package var id: UInt64
    /// The vector that the sender has or has coming.
    package var vector: VersionVector
    /// How many bytes of transactions the answer may carry.
    package var credit: UInt64
    /// A transaction whose first part the sender has already.
    package var resume: Resume?

    /// How far a long transaction has come.
    package struct Resume: Hashable, Sendable {
        /// Which transaction.
        package var dot: Dot
        /// How many of its bytes are there.
        package var offset: UInt64

        /// Describes how far a transaction has come.
        package init(dot: Dot, offset: UInt64) {
            self.dot = dot
            self.offset = offset
        }
    }

    /// Composes a pull.
    package init(id: UInt64, vector: VersionVector, credit: UInt64, resume: Resume? = nil) {
        self.id = id
        self.vector = vector
        self.credit = credit
        self.resume = resume
    }
}

/// Transactions, as a pull wished.
package struct Page: Hashable, Sendable {
    /// The pull's number.
    package var id: UInt64
    /// Canonical bytes, in the order in which the sender applied them.
    package var transactions: [[UInt8]]
    /// Whether the sender's log holds nothing more that the pull's vector does not cover.
    package var reachedEnd: Bool
    /// All that the sender has applied.
    package var vector: VersionVector
    /// The sender's ``Heads/recovery``: what a new store takes in from an older one makes it older.
    /// A founder is to its fellow ones as new as they.
    package var recovery: Recovery

    /// Composes a page.
    package init(
        id: UInt64, transactions: [[UInt8]], reachedEnd: Bool, vector: VersionVector,
        recovery: Recovery = .none
    ) {
        self.id = id
        self.transactions = transactions
        self.reachedEnd = reachedEnd
        self.vector = vector
        self.recovery = recovery
    }
}

/// A part of a transaction that is longer than a page.
package struct Piece: Hashable, Sendable {
    /// The pull's number.
    package var id: UInt64
    /// Which transaction.
    package var dot: Dot
    /// Where the part begins.
    package var offset: UInt64
    /// The length of the whole.
    package var total: UInt64
    /// The part.
    package var bytes: [UInt8]
    /// As ``Page/recovery``.
    package var recovery: Recovery

    /// Composes a piece.
    package init(
        id: UInt64, dot: Dot, offset: UInt64, total: UInt64, bytes: [UInt8],
        recovery: Recovery = .none
    ) {
        self.id = id
        self.dot = dot
        self.offset = offset
        self.total = total
        self.bytes = bytes
        self.recovery = recovery
    }
}
