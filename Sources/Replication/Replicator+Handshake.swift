import Merge

/// The way in of frames: the agreement that heads bring, members and models.
///
/// A departure closes all actors of its node. What this node reports after it has applied one must
/// hold all that it will ever apply of them but what members' logs have (MODEL.md, P16): so what
/// waits of them is dropped, and nothing is reported while the store is still applying some.
extension Replicator {
    mutating func receive(_ bytes: [UInt8], from socket: NodeID?, over channel: Channel) {
        counts.receivedCount += 1
        guard isStarted else { return counts.ignoredCount += 1 }
        if let socket, let index = peerIndex(socket), peers[index].isQuarantined(now: now) {
            return counts.ignoredCount += 1
        }
        let envelope: Envelope
        do throws(MessageFailure) {
            envelope = try Envelope.decode(
                bytes, cluster: configuration.cluster, limits: limits,
                beginnings: state.beginnings)
        } catch {
            counts.ignoredCount += 1
            return receiveFailure(error, from: socket, over: channel)
        }
        guard let index = admit(envelope, from: socket) else {
            return counts.ignoredCount += 1
        }
        peers[index].lastHeard = now
        peers[index].heardAt = now
        switch envelope.message {
        case .heads(let heads): receiveHeads(heads, from: index, over: channel)
        case .hello(let heads):
            receiveHeads(heads, from: index, over: channel)
            // Refused or not: so the other side learns what differs as well.
            if closed.areDepartedApplied(by: queue) { return }
            effects.append(.reply(to: envelope.sender, bytes: encoded(.heads(self.heads))))
        case .models(let list): receiveModels(list, from: index)
        case let message:
            guard peers[index].isAgreed else {
                // A peer that knows us may ask before we know it. Its pull waits for its heads,
                // or it would wait for an answer until its time is over.
                guard peers[index].refusal == nil else { return counts.ignoredCount += 1 }
                switch message {
                case .pull(let pull): peers[index].waitingPull = pull
                case .transferPull(let pull): peers[index].waitingTransferPull = pull
                default: counts.ignoredCount += 1
                }
                sayHello(index)
                return
            }
            receive(message, from: index)
        }
    }

    private mutating func receive(_ message: Message, from index: Int) {
        switch message {
        case .heads, .hello, .models: break
        case .transferPull(let pull): receiveTransferPull(pull, from: index)
        case .transferPart(let part): receivePart(part, from: index)
        case .notification(let transactions): receiveNotification(transactions, from: index)
        case .announcement(let announced): receiveAnnouncement(announced, from: index)
        case .pull(let pull): receivePull(pull, from: index)
        case .page(let page): receivePage(page, from: index)
        case .piece(let piece): receivePiece(piece, from: index)
        }
    }

    /// The peer that a frame counts for; nil where it is from nobody we listen to.
    private mutating func admit(_ envelope: Envelope, from socket: NodeID?) -> Int? {
        switch Admission(envelope, from: socket, own: configuration.actor) {
        case .introduction(let heads): receiveIntroduction(heads, from: socket)
        case .alarm(let alarm): raiseOnce(alarm)
        case .nobody: break
        case .peer(let sender):
            guard let index = peerIndex(adding: sender, isConfigured: false),
                !peers[index].isQuarantined(now: now)
            else { return nil }
            return index
        }
        return nil
    }

    private mutating func receiveFailure(
        _ failure: MessageFailure, from socket: NodeID?, over channel: Channel
    ) {
        // The number that a foreign frame names may be that of a good peer, so only the socket's
        // word counts.
        let link = socket.flatMap { $0 == node ? nil : peerIndex(adding: $0, isConfigured: false) }
        if case .undecodable(let failure) = failure {
            let reason = failure.description
            if let link { return quarantine(link, reason: reason) }
            return raiseOnce(.undecodable(reason: reason))
        }
        guard let foreign = failure.refusal(cluster: configuration.cluster) else { return }
        guard let link else {
            return raiseOnce(.refused(peer: foreign.claimed, foreign.refusal))
        }
        let isNew = peers[link].refusal != foreign.refusal
        refuse(link, foreign.refusal)
        if isNew, channel == .exchange {
            effects.append(
                .reply(to: peers[link].node, bytes: encoded(.heads(self.heads))))
        }
    }

    mutating func refuse(_ index: Int, _ refusal: Refusal) {
        let isNew = peers[index].refusal != refusal
        peers[index].forget()
        peers[index].refusal = refusal
        // A node that joined a moment ago is not known everywhere yet, and one that left by itself
        // knows that.
        let isRetired = state.membership[peers[index].node]?.departure?.isRetired ?? false
        if isNew, refusal.part != .membership || isRetired {
            raise(.refused(peer: peers[index].node, refusal))
        }
    }

    private mutating func receiveHeads(_ heads: Heads, from index: Int, over channel: Channel) {
        guard heads.actor.node == peers[index].node else {
            return quarantine(index, reason: "heads contradict themselves")
        }
        if refuseYounger(heads, from: index) { return }
        if channel == .publish { peers[index].lastPublished = now }
        peers[index].clockOffset =
            Int64(clamping: heads.wallMilliseconds) - Int64(clamping: wallMilliseconds)
        let verdict = models.hear(
            heads.modelHash, from: &peers[index], now: now, limits: limits)
        if let verdict {
            peers[index].told = nil
            return carryOut(verdict, index)
        }
        if let refusal = members.refusal(
            of: peers[index].node, state.membership, recovery: recovery.stage,
            departed: closed.incarnations.departed)
        {
            return refuse(index, refusal)
        }
        peers[index].refusal = nil
        learnDeparture(heads, from: index)
        // It is ahead of this node by a whole incarnation, and tells all of it to who asks. What it says
        // besides of this node's departure holds whatever it has: who has departed is given nothing by which
        // to read the rest.
        guard heads.isWhole else {
            counts.partialHeadsCount += 1
            return sayHello(index)
        }
        noteIncarnations(
            heads.met + heads.known + heads.vector.entries.map(\.actor) + [heads.actor])
        guard !refuseOutdated(heads.actor) else { return }
        peers[index].isAgreed = true
        if peers[index].actor != heads.actor { peers[index].begin(heads.actor) }
        peers[index].actorHeardAt = now
        noteAcceptance(heads, from: index)
        settleMeetings()
        judgeClock()
        learn(heads.vector, durable: heads.durable, from: index)
        learnReport(heads, from: index)
        compareDigest(heads, from: index)
        if peers[index].answering == nil, let waiting = peers[index].waitingPull {
            peers[index].waitingPull = nil
            receivePull(waiting, from: index)
        }
        if let waiting = peers[index].waitingTransferPull {
            peers[index].waitingTransferPull = nil
            receiveTransferPull(waiting, from: index)
        }
        guard !queue.delivered.covers(peers[index].vector) else { return }
        // The peer's own transactions come in order on this very way, so it is lost and not late.
        let own = heads.vector[heads.actor]
        noteGap(isCertain: channel == .exchange || own > queue.delivered[heads.actor])
    }

    /// Raises what a peer is known to have. Of our own actor it cannot have more than we wrote.
    mutating func learn(_ vector: VersionVector, durable: VersionVector, from index: Int) {
        let actor = configuration.actor
        let own = state.vector[actor]
        if vector[actor] > own {
            raiseReuse(Dot(actor: actor, sequence: vector[actor]), from: index)
        }
        guard vector.entries.count <= limits.actors else { return }
        recovery.noteLoss(of: vector, beyond: state.vector)
        // One that names ever new actors would fill memory: then its last word alone counts.
        if peers[index].vector.entries.count > limits.actors {
            peers[index].vector = VersionVector()
            peers[index].durable = VersionVector()
        }
        peers[index].vector.join(vector.clamped(actor, to: own))
        peers[index].durable.join(durable.clamped(actor, to: own))
    }

    mutating func raiseReuse(_ dot: Dot, from index: Int) {
        guard !peers[index].isReuseRaised else { return }
        peers[index].isReuseRaised = true
        raise(.dotReused(dot, from: peers[index].node))
    }

    private mutating func compareDigest(_ heads: Heads, from index: Int) {
        // Another model shows other things.
        guard heads.modelHash == configuration.modelHash else {
            peers[index].told = nil
            return
        }
        if heads.vector.entries.count <= limits.actors {
            peers[index].told = ToldDigest(vector: heads.vector, digest: heads.digest)
        }
        guard heads.digest != state.digest, heads.vector == state.vector,
            peers[index].mismatch != heads.vector
        else { return }
        peers[index].mismatch = heads.vector
        raise(
            .digestMismatch(
                peer: peers[index].node, vector: heads.vector, ours: state.digest,
                theirs: heads.digest))
    }

    // MARK: - Members

    var currentMembers: [NodeID] { members.all(state.membership, recovery: recovery.stage) }

    /// Whether nobody else is a member.
    var isAlone: Bool { currentMembers.allSatisfy { $0 == node } }

    /// Whether this node is a member, as far as it knows.
    var isMember: Bool {
        members.isOwnMember(state.membership, departed: closed.incarnations.departed)
    }

    func isBelieved(_ peer: NodeID) -> Bool {
        members.isBelieved(peer, recovery: recovery.stage, peers: peers)
    }

    /// Lets stability wait for all members.
    mutating func setStabilityMembers() {
        stability.setMembers(
            members.awaited(state.membership, recovery: recovery.stage, peers: peers))
    }

    /// Goes on with what the store has learnt of members.
    mutating func takeUpMembership() {
        closed.incarnations.depart(state.membership.departed.map(\.node))
        for index in peers.indices where closed.incarnations.departed.contains(peers[index].node) {
            peers[index].forget()
        }
        setPeers()
        dropWhatIsClosed()
    }

    /// Hears from a member whether this node has departed.
    mutating func learnDeparture(_ heads: Heads, from index: Int) {
        guard heads.departed.contains(node), peers[index].isConfigured else { return }
        let isNews = !members.isToldDeparted(closed.incarnations.departed)
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

    // MARK: - Models

    mutating func receiveModels(_ list: ModelList, from index: Int) {
        // Nobody who departed has anything to tell of models.
        guard !list.models.isEmpty, state.membership[peers[index].node]?.departure == nil else {
            return counts.ignoredCount += 1
        }
        carryOut(models.take(list, from: &peers[index], now: now, limits: limits), index)
    }

    mutating func carryOut(_ verdict: ModelCatalog.Verdict, _ index: Int) {
        if let list = verdict.list { tell(list, index) }
        if !verdict.learns.isEmpty { effects.append(.learnModels(verdict.learns)) }
        if let refusal = verdict.refusal { refuse(index, refusal) }
        if let model = verdict.compares {
            effects.append(.compareModel(model, of: peers[index].node))
        }
    }

    private mutating func tell(_ list: ModelList, _ index: Int) {
        let (node, bytes) = (peers[index].node, encoded(.models(list)))
        effects.append(
            peers[index].isConfigured
                ? .send(to: node, bytes: bytes) : .reply(to: node, bytes: bytes))
    }

    /// Takes up models whose transactions can be applied from now on.
    mutating func takeUp(_ learnt: [ModelText]) {
        guard models.takeUp(learnt) else { return }
        queue.models = models.hashes
        queue.release(now: now)
        noteGap(isCertain: true)
    }

    mutating func takeUp(difference: String, of hash: [UInt8], node: NodeID) {
        guard let index = peerIndex(node),
            let refusal = models.take(difference: difference, of: hash, from: &peers[index])
        else { return }
        refuse(index, refusal)
    }

    /// Asks for the lists of peers while transactions are held for want of their model.
    mutating func askForModels() {
        guard queue.holdsForModel else { return }
        for index in peers.indices
        where peers[index].isAgreed && peers[index].isConnected(now: now, limits: limits) {
            if let list = models.ask(&peers[index], now: now, limits: limits) { tell(list, index) }
        }
    }
}
