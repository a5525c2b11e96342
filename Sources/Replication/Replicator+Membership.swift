import Merge

/// Who is listened to, as transactions tell: members of the cluster (DESIGN section 8).
///
/// A departure closes all actors of its node. What this node reports after it has applied one must
/// hold all that it will ever apply of them but what members' logs have (MODEL.md, P16): so what
/// waits of them is dropped, and nothing is reported while the store is still applying some.
extension Replicator {
    /// The members: those that transactions tell of, or the configured nodes before the first.
    ///
    /// A store that is not vouched for may not have come as far in the log as all that joined: to
    /// it, whom its configuration names is one as well. Else founders that lose their stores
    /// together could end with each other, and never listen to the only one who has all of them.
    var members: [NodeID] {
        let told = state.membership
        if told.isEmpty { return configured + [node] }
        if recovery.stage == .none { return told.current }
        return Set(told.current + configured.filter { told[$0] == nil }).sorted()
    }

    /// Whether nobody else is a member.
    var isAlone: Bool { members.allSatisfy { $0 == node } }

    /// Lets stability wait for all members, also for those of whom peers' configurations alone tell.
    ///
    /// A node that only another one reaches is none to this one's configuration, and what it saves
    /// comes through that one, whenever that is. The other's report cannot be used before its heads
    /// were heard, and they name it.
    mutating func setStabilityMembers() {
        var nodes = Set(members)
        if state.membership.isEmpty {
            for peer in peers where peer.isConfigured { nodes.formUnion(peer.configured) }
        }
        stability.setMembers(nodes.subtracting([node]).sorted())
    }

    /// Whether this node is a member, as far as it knows. It is none, for a while, where it has
    /// joined and has not come as far as that in the log.
    var isMember: Bool {
        !isToldDeparted
            && (state.membership.isEmpty || state.membership[node]?.isCurrent ?? false)
    }

    /// Whether the store is applying something of an actor whose node has departed, which only a
    /// departure that was decided here can catch on its way.
    var isApplyingOfDeparted: Bool {
        !incarnations.departed.isEmpty
            && queue.applying.contains { incarnations.departed.contains($0.dot.actor.node) }
    }

    /// Goes on with what the store has learnt of members.
    mutating func takeUpMembership() {
        incarnations.depart(state.membership.departed.map(\.node))
        for index in peers.indices where incarnations.departed.contains(peers[index].node) {
            peers[index].forget()
        }
        setPeers()
        dropWhatIsClosed()
    }

    /// Why a node is not listened to; nil where it is a member, or may be one.
    func membershipRefusal(of sender: NodeID) -> Refusal? {
        if incarnations.departed.contains(sender) {
            return Refusal(part: .membership, ours: "departed", theirs: "present")
        }
        guard !state.membership.isEmpty, isMember, !members.contains(sender) else { return nil }
        return Refusal(part: .membership, ours: "no member", theirs: "present")
    }

    /// Whether transactions are taken from a member, and its word for this node's store.
    ///
    /// In the log that a store reads from its beginning a node that departed is a member for a
    /// while, and may still run: what were taken of it then would be concurrent with what the
    /// others have collected without it. So until a store is vouched for, it asks those who could
    /// vouch and whom its configuration names. One that they say departed is not believed, nor,
    /// before one of them has been heard, is a node that only the log names. Of who is a member
    /// for any other end the log alone tells: see ARCHITECTURE.
    func isBelieved(_ peer: NodeID) -> Bool {
        if recovery.stage == .none { return true }
        let guides = peers.filter {
            $0.isConfigured && $0.recovery == .none && configured.contains($0.node)
        }
        let departed = Set(guides.flatMap { $0.departed ?? [] })
        // Where nobody could vouch, or all say it of each other, there is no guide.
        if guides.allSatisfy({ departed.contains($0.node) }) { return true }
        if departed.contains(peer) { return false }
        // A new store has heard nobody older yet, so nothing was collected without it.
        if recovery.stage == .new, peers.contains(where: { $0.node == peer && $0.isAsNew }) {
            return true
        }
        return configured.contains(peer) || guides.contains { $0.departed != nil }
    }

    /// Hears from a member whether this node is one no more.
    mutating func learnDeparture(_ heads: Heads, from index: Int) {
        guard heads.departed.contains(node), peers[index].isConfigured else { return }
        let isNews = !isToldDeparted
        departureTellers.insert(peers[index].node)
        guard isNews else { return }
        raiseOnce(.departed(told: peers[index].node))
        tellRecovery()
    }

    /// Whether a member has told that this node is one no more. The word of one who is none itself
    /// does not count: it may have decided that by itself, and nobody will ever hear of it.
    var isToldDeparted: Bool {
        departureTellers.contains { !incarnations.departed.contains($0) }
    }
}
