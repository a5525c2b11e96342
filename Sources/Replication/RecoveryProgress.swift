import Merge

/// How far this node's store has come to being vouched for, and with whom it founded its cluster.
///
///     new ──all covered, or alone──► none
///      │                              │ a loss shows
///      └──takes over from an ───► restored ──all covered──► none
///         older store
///
/// Invariant: only a new store is a founder.
struct RecoveryProgress: Sendable {
    /// Whether somebody must vouch for the store.
    private(set) var stage: Recovery
    /// The incarnations that this node, when its store was new and was vouched for, had met, and
    /// those that others told to have been vouched for with; empty where a transaction had told of
    /// members by then, because who joins may lack what the others had stable.
    ///
    /// Before the first of them was vouched for nothing was stable anywhere, because all are members
    /// and it had made no report that counts. Each report that it makes since names of each other the
    /// incarnation that is here, or a later one, as met; so what is stable since, these have
    /// reported. So a new store that is among them lacks nothing that was collected, and does not
    /// outgrow itself by taking over from this one: else, in a cluster that has just begun, who is
    /// vouched for last would take no saves for a while, or, where a link breaks then, for long.
    private(set) var founders = Incarnations()
    /// Whether this store, new, was among them, in this incarnation or one of those it had before.
    ///
    /// As long as it is new nothing is stable at anybody, because its reports do not count. So it
    /// stays a founder, also if the node that told it so has started again, or is gone.
    private(set) var isFounder: Bool
    private let actor: ActorID
    private let formerIncarnations: [ActorID]
    /// The stage that the shell knows.
    private var told: Recovery

    init(_ configuration: Replicator.Configuration) {
        stage = configuration.recovery
        told = configuration.recovery
        actor = configuration.actor
        formerIncarnations = configuration.formerIncarnations
        isFounder = configuration.recovery == .new && configuration.isFounder
        guard stage == .none else { return }
        for actor in configuration.founders { founders.note(actor) }
    }

    /// Whether an actor is this node with the store that it has now: an earlier store of its has
    /// told others what this one may lack.
    func isOwnLife(_ actor: ActorID) -> Bool {
        actor == self.actor || formerIncarnations.contains(actor)
    }

    /// Whether a peer's heads name this store among the founders, so that it stays new beside it.
    func isFellow(_ heads: Heads) -> Bool {
        heads.recovery == .none && heads.founders.contains(where: isOwnLife)
    }

    /// Joins the founders that a fellow names.
    ///
    /// - Returns: whether this store, new, is a founder only since then.
    mutating func join(_ fellows: [ActorID]) -> Bool {
        guard stage == .new else { return false }
        for actor in fellows { founders.note(actor) }
        defer { isFounder = true }
        return !isFounder
    }

    /// The recovery state that a peer in that incarnation hears from here: to a fellow founder this
    /// store counts as new.
    func told(to peer: ActorID?) -> Recovery {
        guard stage == .none, let peer, founders[peer.node] == peer else { return stage }
        return .new
    }

    /// Takes over from an older store: a new one must have all of it before it saves. One that is a
    /// founder lacks nothing that an older one has collected.
    mutating func outgrow() {
        if stage == .new, !isFounder { restart() }
    }

    /// Judges what a peer has of this node. More of a former incarnation than the store has shows
    /// that the store was replaced by an older one: what a node writes is on its disk before anybody
    /// hears of it. Of a founder only what this very store has written tells that: its node may
    /// have had another before.
    mutating func noteLoss(of vector: VersionVector, beyond stored: VersionVector) {
        guard stage == .none || isFounder else { return }
        let isLost = vector.entries.contains {
            $0.actor.node == actor.node && $0.actor != actor
                && (stage == .none || isOwnLife($0.actor))
                && $0.sequence > stored[$0.actor]
        }
        if isLost { restart() }
    }

    private mutating func restart() {
        stage = .restored
        isFounder = false
        founders = Incarnations()
    }

    /// Whether the peers' word is enough, by what they had when they had met this node.
    ///
    /// - Parameters:
    ///   - durable: what is on this node's disk: what power takes away again would not be vouched for.
    ///   - isAlone: whether this node is the only member.
    ///   - isMeeting: whether an incarnation is about to be met, which is to be among the founders.
    func isVouchedFor(
        by peers: [PeerProgress], durable: VersionVector, isAlone: Bool, isMeeting: Bool
    ) -> Bool {
        if stage == .new {
            if isAlone { return true }
            if isMeeting { return false }
        }
        let configured = peers.filter(\.isConfigured)
        func isCovered(_ vector: VersionVector?) -> Bool { vector.map(durable.covers) ?? false }
        return configured.contains { isCovered($0.firstVouched) }
            || !configured.isEmpty && configured.allSatisfy { isCovered($0.firstMet) }
    }

    /// Ends as vouched for: from now on a new store names those that it has met as founders.
    ///
    /// - Parameter met: nil where a transaction has told of members.
    mutating func finish(met: [ActorID]?) {
        if stage == .new {
            if let met {
                for actor in [actor] + met { founders.note(actor) }
            } else {
                founders = Incarnations()
            }
        }
        stage = .none
        isFounder = false
    }

    /// Ends without a word: nobody else is a member.
    mutating func finishAlone() {
        stage = .none
        isFounder = false
    }

    /// The stage, where the shell does not know it yet; it counts as told from now on.
    mutating func news() -> Recovery? {
        guard stage != told else { return nil }
        told = stage
        return stage
    }
}
