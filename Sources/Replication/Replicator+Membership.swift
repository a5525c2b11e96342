import Merge

/// Who is listened to, as transactions tell: members of the cluster (DESIGN section 8).
///
/// A departure closes all actors of its node. What this node reports after it has applied one must
/// hold all that it will ever apply of them but what members' logs have (MODEL.md, P16): so what
/// waits of them is dropped, and nothing is reported while the store is still applying some.
extension Replicator {
    /// The members: those that transactions tell of, or the configured nodes before the first.
    var members: [NodeID] {
        state.membership.isEmpty ? configured + [node] : state.membership.current
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
        if incarnations.departed.contains(sender) || (recovery != .none && isToldDeparted(sender)) {
            return Refusal(part: .membership, ours: "departed", theirs: "present")
        }
        guard !state.membership.isEmpty, isMember, !members.contains(sender) else { return nil }
        return Refusal(part: .membership, ours: "no member", theirs: "present")
    }

    /// Hears from a member who is one no more. For this node it means that it is fenced. Another is
    /// not listened to by a store that lacks what it had before: it may have read the log only up
    /// to where that one still is a member, and what that one tells may be concurrent with what
    /// members have collected without it. All others wait for the log's word, or two nodes that
    /// retire each other would leave a third with nobody to listen to.
    mutating func learnDeparture(_ heads: Heads, from index: Int) {
        guard peers[index].isConfigured, !incarnations.departed.contains(peers[index].node) else {
            return
        }
        for departed in heads.departed where !incarnations.departed.contains(departed) {
            let isNews = !isToldDeparted(departed)
            guard departureTellers[departed] != nil || departureTellers.count < limits.peers
            else { continue }
            departureTellers[departed, default: []].insert(peers[index].node)
            guard isNews else { continue }
            if departed == node {
                raiseOnce(.departed(told: peers[index].node))
                tellRecovery()
            } else if recovery != .none, let index = peerIndex(departed) {
                peers[index].forget()
            }
        }
    }

    /// Whether a member has told that this node is one no more.
    var isToldDeparted: Bool { isToldDeparted(node) }

    /// Whether a member has told that a node is one no more. The word of one who is none itself
    /// does not count: it may have decided that by itself, and nobody will ever hear of it.
    private func isToldDeparted(_ departed: NodeID) -> Bool {
        departureTellers[departed]?.contains { !incarnations.departed.contains($0) } ?? false
    }
}
