import Merge

/// The state of one peer, and of the work under way with it.
///
///     unheard ──heads fit──► agreed ──pull──► pulling ──page──► agreed
///        │  ▲                  │
///        │  └── time is over ── quarantined (a frame could not be decoded)
///        └── heads differ ───► refused ──heads fit──► agreed
///
/// Invariants: at most one pull and one log read are outstanding; there is no pull unless the
/// peer is agreed; `vector` never has more of our own actor than we wrote.
struct PeerProgress: Hashable, Sendable {
    /// A pull under way.
    struct Pulling: Hashable, Sendable {
        var id: UInt64
        var vector: VersionVector
        /// The peer's vector when it was asked: nobody else is asked for that meanwhile.
        var target: VersionVector
        /// The part of it on the peer's disk, so that its log must have it.
        var durable: VersionVector
        var askedAt: UInt64
        var deadline: UInt64
    }

    /// A log read under way for the peer.
    struct Answering: Hashable, Sendable {
        var readID: UInt64
        var pull: Pull
    }

    /// A reading of the copy of our store under way for the peer.
    struct Giving: Hashable, Sendable {
        var readID: UInt64
        /// The latest wish.
        var pull: TransferPull
        /// Whether it is that wish that is being read.
        var isAsked = false
    }

    /// A later incarnation that is not listened to: since when, and when it was heard last.
    struct Younger: Hashable, Sendable {
        var since: UInt64
        var heardAt: UInt64
        /// When it and the elder were last told of each other.
        var introducedAt: UInt64?
    }

    /// When and for how long the link was last ignored.
    struct Quarantine: Hashable, Sendable {
        var until: UInt64
        var duration: UInt64
        var isOver: Bool
    }

    /// A model that differs from ours.
    struct ComparedModel: Hashable, Sendable {
        var hash: [UInt8]
        var difference: String?
    }

    let node: NodeID
    var isConfigured: Bool

    var isAgreed = false
    var refusal: Refusal?
    var quarantine: Quarantine?

    var lastHeard: UInt64?
    /// The same, whatever became of the connection since.
    var heardAt: UInt64?
    var lastPublished: UInt64?
    var lastHello: UInt64?
    var actor: ActorID?
    /// When heads of that incarnation came last.
    var actorHeardAt: UInt64?
    /// Heads of a later one, that came while it was alive, or may have been.
    var younger: Younger?
    /// Whether it has said that it knows this node's incarnation.
    var hasMetUs = false
    /// The incarnation that we say we have met: ``actor``, once nothing is on its way into the
    /// store that a former one may have sent.
    var met: ActorID?
    /// The incarnation that the store is asked to remember, and when it may be asked again.
    var remembering: ActorID?
    var rememberAllowedAt: UInt64 = 0
    /// The peer's vector when it first said, in this incarnation, that it has met ours; and the
    /// same for when it was vouched for. Kept while this node is not.
    var firstMet: VersionVector?
    var firstVouched: VersionVector?
    var vector = VersionVector()
    var durable = VersionVector()
    var clockOffset: Int64?

    /// The version hashes of the models that it told of, its own the last.
    var models: [[UInt8]] = []
    /// Since when it is heard with a model that is not known, without a list.
    var strangeSince: UInt64?
    /// When our list was last sent to it.
    var lastModels: UInt64?
    /// Its model that the shell was asked to compare with ours, and what came of it.
    var compared: ComparedModel?
    /// When the shell was asked that last.
    var comparedAt: UInt64?

    var pulling: Pulling?
    /// The pull that last ran out of time: its answer may still come, and is welcome.
    var expiredPull: Pulling?
    /// Pulls in a row without a timely answer.
    var failures: UInt64 = 0
    /// How often what is asked for at once was halved, because its answer did not come in time:
    /// over a slow link a smaller one does. One that comes soon takes a halving back.
    var halvings = 0
    /// Of 4 MiB this leaves the 64 KiB that every donor grants, which 3 kB a second carry in time.
    private static let mostHalvings = 6
    var pullAllowedAt: UInt64 = 0

    var answering: Answering?
    /// A pull that came while another's log read was under way; the latest counts.
    var waitingPull: Pull?
    /// A wish for a part of a copy that came before the peer was agreed with.
    var waitingTransferPull: TransferPull?

    /// Its latest digest; nil if that is of another model.
    var told: ToldDigest?
    /// The vector of the last digest mismatch raised.
    var mismatch: VersionVector?
    var isReuseRaised = false
    var isHistoryRaised = false
    /// Whether its log was found not to reach back to what this node has.
    var isHistoryShort = false
    /// The nodes that its configuration names, at most ``Limits/peers``; kept while it is away.
    var configured: [NodeID] = []
    /// Whether somebody must vouch for its store.
    var recovery = Recovery.none
    /// Whether this node's store, where it is new, stays so beside the peer's, by the last heads.
    var isAsNew = false
    /// The model that its store is written with.
    var modelHash: [UInt8] = []
    /// The nodes that it said have departed, at most ``Limits/peers``; nil before it was heard.
    var departed: [NodeID]?
    /// The copy of our store that it was promised.
    var giving: Giving?

    init(node: NodeID, isConfigured: Bool) {
        self.node = node
        self.isConfigured = isConfigured
    }

    func isConnected(now: UInt64, limits: Limits) -> Bool {
        guard let lastHeard else { return false }
        return now < lastHeard + limits.connectedMilliseconds
    }

    func isQuarantined(now: UInt64) -> Bool {
        guard let quarantine else { return false }
        return !quarantine.isOver && now < quarantine.until
    }

    /// Ends a quarantine whose time is over.
    ///
    /// - Returns: whether it ended just now.
    mutating func endQuarantine(now: UInt64) -> Bool {
        guard let quarantine, !quarantine.isOver, now >= quarantine.until else { return false }
        self.quarantine?.isOver = true
        return true
    }

    /// Ignores the link from now on: a minute, doubling while offences follow each other.
    mutating func beginQuarantine(now: UInt64, limits: Limits) -> UInt64 {
        var duration = limits.quarantineMilliseconds
        if let last = quarantine, now < last.until + limits.quarantineMaximumMilliseconds {
            duration = min(last.duration * 2, limits.quarantineMaximumMilliseconds)
        }
        quarantine = Quarantine(until: now + duration, duration: duration, isOver: false)
        forget()
        return now + duration
    }

    /// Begins with another incarnation, perhaps of a store that was restored: its word alone
    /// counts, and what the former one was asked for is not taken any more.
    mutating func begin(_ actor: ActorID) {
        self.actor = actor
        younger = nil
        hasMetUs = false
        vector = VersionVector()
        durable = VersionVector()
        firstMet = nil
        firstVouched = nil
        isHistoryShort = false
        pulling = nil
        expiredPull = nil
    }

    /// Ends what is under way and asks for new heads before anything is taken.
    mutating func forget() {
        isAgreed = false
        pulling = nil
        expiredPull = nil
        answering = nil
        waitingPull = nil
        waitingTransferPull = nil
    }

    /// Takes note that an answer did not come in time.
    mutating func noteLate() { halvings = min(halvings + 1, Self.mostHalvings) }

    /// Takes note that an answer came so soon that one of twice the size would come in time.
    mutating func noteSoon() { halvings = max(halvings - 1, 0) }

    /// How many bytes to ask for at once, where so many are asked for over a fast link.
    func credit(_ most: Int) -> UInt64 { UInt64(max(most >> halvings, min(most, 65_536))) }

    /// How long the next pull may take.
    func pullTimeout(_ limits: Limits) -> UInt64 {
        let doubled = limits.pullTimeoutMilliseconds << min(failures, 16)
        return min(doubled, limits.pullTimeoutMaximumMilliseconds)
    }
}
