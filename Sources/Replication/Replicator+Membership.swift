import Merge

/// Who is listened to, as transactions tell: members of the cluster (DESIGN section 8).
///
/// A departure closes all actors of its node. What this node reports after it has applied one must
/// hold all that it will ever apply of them but what members' logs have (MODEL.md, P16): so what
/// waits of them is dropped, and nothing is reported while the store is still applying some.
extension Replicator {
    var currentMembers: [NodeID] { members.all(state.membership, recovery: recovery.stage) }

    /// Whether nobody else is a member.
    var isAlone: Bool { currentMembers.allSatisfy { $0 == node } }

    /// Whether this node is a member, as far as it knows.
    var isMember: Bool {
        members.isOwnMember(state.membership, departed: incarnations.departed)
    }

    func isBelieved(_ peer: NodeID) -> Bool {
        members.isBelieved(peer, recovery: recovery.stage, peers: peers)
    }

    /// Lets stability wait for all members.
    mutating func setStabilityMembers() {
        stability.setMembers(
            members.awaited(state.membership, recovery: recovery.stage, peers: peers))
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

    /// Hears from a member whether this node is one no more.
    mutating func learnDeparture(_ heads: Heads, from index: Int) {
        guard heads.departed.contains(node), peers[index].isConfigured else { return }
        let isNews = !members.isToldDeparted(incarnations.departed)
        members.noteDeparture(toldBy: peers[index].node)
        guard isNews else { return }
        raiseOnce(.departed(told: peers[index].node))
        tellRecovery()
    }

    /// Compares the clocks that members told lately.
    mutating func judgeClock() {
        let offsets = peers.filter {
            $0.isConfigured && $0.isAgreed && $0.isConnected(now: now, limits: limits)
        }.compactMap(\.clockOffset)
        let verdict = clock.judge(
            offsets: offsets, stamp: latestTimestamp, wall: wallMilliseconds, isAlone: isAlone)
        for alarm in verdict.alarms { raise(alarm) }
        if let isOff = verdict.isOff { effects.append(.setClockOff(isOff)) }
    }
}
