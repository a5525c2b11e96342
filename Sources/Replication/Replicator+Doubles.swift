import Merge

/// Of two live processes under one number members go on with the one that they met first (DESIGN
/// section 13), also where the two never meet.
///
/// Incarnations only rise, so a later one may be a restart as well as a copy of the store. A restart
/// knows whose process had its store's lock before, and names it (``Heads/known``); whoever names nobody
/// is met once the elder has been silent for ``Limits/elderMilliseconds``. Until then nothing of it is
/// noted: not that it is there, so nobody hears of it from here, and what it wrote comes in no way.
extension Replicator {
    // MARK: - As a member

    /// Whether heads come from a later incarnation of a node of which an elder one is alive, or may be.
    mutating func refuseYounger(_ heads: Heads, from index: Int) -> Bool {
        if peers[index].actor == heads.actor { peers[index].actorHeardAt = now }
        guard let elder = incarnations[heads.actor.node], elder < heads.actor,
            !heads.known.contains(elder),
            peers[index].mayBeAlive(elder, startedAt: startedAt, now: now, limits: limits)
        else { return false }
        counts.ignoredCount += 1
        if peers[index].noteYounger(besides: elder, now: now, limits: limits) {
            introduce(heads.actor, to: elder, index)
        }
        return true
    }

    /// Tells people of two live processes under one number, and the two of each other. Which of them
    /// is reached by which way nobody can know, so both ways carry both names.
    private mutating func introduce(_ younger: ActorID, to elder: ActorID, _ index: Int) {
        raiseOnce(.twoNodesWithOneID(younger.node, incarnation: younger.incarnation))
        guard peers[index].mayIntroduce(now: now, limits: limits) else { return }
        var introduction = self.heads
        introduction.actor = elder
        introduction.met = [younger]
        let bytes = Envelope(
            cluster: configuration.cluster, sender: elder.node, message: .heads(introduction)
        ).encoded()
        effects.append(.reply(to: elder.node, bytes: bytes))
        effects.append(.send(to: elder.node, bytes: bytes))
    }

    // MARK: - As one of two

    /// Takes a member's word for another live process under this node's number. Heads that bear this
    /// node's number, and name one of it as met, are such: the elder's, to whom the other was refused.
    mutating func receiveIntroduction(_ heads: Heads, from socket: NodeID?) {
        let own = configuration.actor
        guard let younger = heads.met.first(where: { $0.node == node }), heads.actor < younger,
            heads.actor == own || younger == own
        else { return }
        let other = heads.actor == own ? younger : heads.actor
        if let socket {
            guard let index = peerIndex(socket), peers[index].isConfigured else { return }
        }
        raiseOnce(.twoNodesWithOneID(node, incarnation: other.incarnation))
        if younger == own { acceptance.refuse(now: now) }
    }

    /// Takes note that a member knows this incarnation: it counts for the newest.
    mutating func noteAcceptance(_ heads: Heads, from index: Int) {
        guard peers[index].isConfigured, !peers[index].hasMetUs,
            heads.met.contains(configuration.actor) || heads.known.contains(configuration.actor)
        else { return }
        peers[index].hasMetUs = true
        acceptance.meet()
    }

    /// Whether no member has met this incarnation yet, and may still do so.
    var isWaitingToBeMet: Bool {
        isStarted
            && acceptance.isAwaited(
                startedAt: startedAt,
                isAnyHeard: peers.contains { $0.isConfigured && $0.heardAt != nil }, now: now,
                limits: limits)
            && !isAlone
    }
}
