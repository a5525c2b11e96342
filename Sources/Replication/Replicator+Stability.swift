import Merge

/// Incarnations, doubles, reports and recovery: what may be collected here, and what may be written.
extension Replicator {
    // MARK: - Incarnations

    /// Takes note of incarnations that a peer knows. A peer that is known here as an older one is
    /// not agreed with any more; one newer than this node's own means that peers do not listen.
    mutating func noteIncarnations(_ actors: [ActorID]) {
        var isAnyClosed = false
        for actor in actors where closed.incarnations.note(actor) { isAnyClosed = true }
        guard isAnyClosed else { return }
        for index in peers.indices {
            guard peers[index].isAgreed, let actor = peers[index].actor,
                closed.incarnations.isClosed(actor)
            else { continue }
            peers[index].close()
            sayHello(index)
        }
        guard let newest = closed.incarnations[node], acceptance.note(newest: newest) else {
            return
        }
        tellRecovery()
        effects.append(.reopen(after: newest.incarnation))
    }

    /// Whether heads come from an incarnation that is not the newest known: then they count for
    /// nothing, and if it lives, our heads tell it so.
    mutating func refuseOutdated(_ actor: ActorID) -> Bool {
        guard let newest = closed.incarnations[actor.node], newest > actor else { return false }
        raiseOnce(
            .incarnationOutdated(
                actor.node, incarnation: actor.incarnation, newest: newest.incarnation))
        return true
    }

    /// Lets heads say that a new incarnation was met, once the store remembers it and once that is
    /// true of all that is on its way into the store; see ``ClosedActors``.
    mutating func settleMeetings() {
        guard isAnyMeetingOpen else { return }
        for actor in closed.beginRemembering(&peers, now: now) {
            effects.append(.remember(actor))
        }
        if closed.meet(&peers, queue: queue) { dropWhatIsClosed() }
    }

    mutating func dropWhatIsClosed() {
        guard
            let nameless = closed.drop(from: &queue, beyond: state.vector, limits: limits)
        else { return }
        if !nameless.isEmpty { effects.append(.orphansNotKept(nameless)) }
        noteGap(isCertain: true)
    }

    /// Gives out to be kept what was dropped and is found to be lost to all.
    mutating func keepOrphans() {
        guard !closed.dropped.isEmpty else { return }
        closed.dropped.forget(coveredBy: state.vector)
        let orphans = closed.dropped.giveOut(where: isLost)
        if !orphans.transactions.isEmpty { effects.append(.keepOrphans(orphans.transactions)) }
        if !orphans.names.isEmpty { effects.append(.orphansNotKept(orphans.names)) }
    }

    /// Tells whether what was dropped of an actor can be neither applied nor pulled: no member has
    /// what is to come next of it.
    var isLost: (ActorID) -> Bool {
        let (stability, view, vector) = (stability, stabilityView, state.vector)
        return { actor in
            stability.isNowhere(Dot(actor: actor, sequence: vector[actor] + 1), view)
        }
    }

    private var isAnyMeetingOpen: Bool { peers.contains(where: \.isMeetingOpen) }

    mutating func finishRemembering(_ actor: ActorID, isDurable: Bool) {
        if isDurable { closed.remembered.note(actor) }
        guard let index = peerIndex(actor.node) else { return }
        peers[index].finishRemembering(actor, isDurable: isDurable, now: now, limits: limits)
    }

    // MARK: - Two live processes

    // Of two live processes under one number members go on with the one that they met first (DESIGN
    // section 13), also where the two never meet.
    //
    // Incarnations only rise, so a later one may be a restart as well as a copy of the store. A
    // restart knows whose process had its store's lock before, and names it (``Heads/known``). An
    // incarnation that names nobody is met once the elder has been silent for
    // ``Limits/elderMilliseconds``. Until then nothing of it is noted: not that it is there, so
    // nobody hears of it from here, and what it wrote comes in no way.

    /// Whether heads come from a later incarnation of a node while an elder one is alive, or may
    /// be.
    mutating func refuseYounger(_ heads: Heads, from index: Int) -> Bool {
        if peers[index].actor == heads.actor { peers[index].actorHeardAt = now }
        guard let elder = closed.incarnations[heads.actor.node], elder < heads.actor,
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

    // MARK: - Reports

    /// By what reports are judged.
    var stabilityView: Stability.View {
        Stability.View(
            own: configuration.actor, durable: state.durable, incarnations: closed.incarnations,
            departures: departures)
    }

    private var departures: [(node: NodeID, dot: Dot)] {
        state.membership.departed.compactMap { member in
            member.departure.map { (node: member.node, dot: $0.stamp.dot) }
        }
    }

    mutating func learnReport(_ heads: Heads, from index: Int) {
        guard heads.vector.entries.count <= limits.actors, peers[index].isConfigured else { return }
        if peers[index].configured != heads.configured {
            peers[index].configured = heads.configured
            setStabilityMembers()
        }
        stability.hear(
            Report(
                actor: heads.actor, vector: heads.vector, recorded: heads.recorded,
                met: heads.met, recovery: heads.recovery), own: node)
        peers[index].recovery = heads.recovery
        peers[index].modelHash = heads.modelHash
        peers[index].departed = heads.departed
        let isFellow = recovery.isFellow(heads)
        peers[index].isAsNew = heads.recovery == .new || isFellow
        // A restored node publishes nothing; what else it has that is not here comes in answers.
        let isAsOld = heads.recovery == .restored && state.vector.covers(heads.vector)
        if !peers[index].isAsNew, !isAsOld { recovery.outgrow() }
        if isFellow, recovery.join(heads.founders) { effects.append(.founder) }
        guard recovery.stage != .none, heads.met.contains(configuration.actor) else { return }
        // The first, not the latest: of a peer that always writes the latest is never covered.
        if peers[index].firstMet == nil { peers[index].firstMet = heads.vector }
        if heads.recovery == .none, isBelieved(peers[index].node), peers[index].firstVouched == nil
        {
            peers[index].firstVouched = heads.vector
        }
    }

    /// Tells what has become stable.
    mutating func advanceStability() {
        guard recovery.stage == .none, !acceptance.isOutdated, isMember, !isAnyMeetingOpen,
            departures.allSatisfy({ state.durable.contains($0.dot) }),
            stability.advance(stabilityView)
        else { return }
        effects.append(.stable(stability.vector))
    }

    // MARK: - Recovery

    /// Whether saves are let through.
    var isSaving: Bool {
        recovery.stage != .restored && !acceptance.isOutdated && isMember
            && !acceptance.isRefused && !isWaitingToBeMet
    }

    /// Tells the shell what has changed of recovery; before anything is applied.
    mutating func tellRecovery() {
        if recovery.stage != .none, isStarted, isVouchedFor {
            let met = peers.lazy.filter(\.isConfigured).compactMap(\.met)
            recovery.finish(met: state.membership.isEmpty ? Array(met) : nil)
            for index in peers.indices {
                peers[index].firstMet = nil
                peers[index].firstVouched = nil
            }
            noteGap(isCertain: true)
        }
        if let stage = recovery.news() {
            let founders = recovery.founders.newest
            effects.append(stage == .none ? .vouched(founders: founders) : .outgrown)
            // The members depend on it.
            setPeers()
        }
        if isSaving != toldSaving {
            effects.append(.setSaving(allowed: isSaving))
            toldSaving = isSaving
        }
    }

    private var isVouchedFor: Bool {
        recovery.isVouchedFor(
            by: peers, durable: state.durable, isAlone: isAlone, isMeeting: isAnyMeetingOpen)
    }
}
