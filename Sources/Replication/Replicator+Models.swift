import Merge

/// Peers whose models differ: who is listened to all the same, and what is told of a difference.
///
/// Two nodes agree where one's model is in the other's list (DESIGN section 8). Heads have only
/// the hash of the sender's own model; whoever hears one that is not known sends its list, and
/// gets the other's. The list of a peer of the same model tells which came before that, so that a
/// store made with the newest model learns of those whose transactions are still under way.
extension Replicator {
    /// How long a peer that hears of another model may take to send its list, in heads.
    private static let headsPatience: UInt64 = 3

    /// Whether a peer's model permits to listen to it; where it does not the peer is refused, at
    /// once or when its list does not come.
    mutating func agreesOnModel(_ heads: Heads, from index: Int) -> Bool {
        switch models.standing(of: heads.modelHash, list: peers[index].models) {
        case .known:
            peers[index].strangeSince = nil
            return true
        case .knowsOurs: return true
        case .foreign:
            refuseModel(heads.modelHash, of: index)
            return false
        case .unlisted: break
        }
        peers[index].forget()
        let since = peers[index].strangeSince ?? now
        peers[index].strangeSince = since
        tellModels(index, isAnswer: false)
        if now >= since + Self.headsPatience * limits.headsMilliseconds {
            refuseModel(heads.modelHash, of: index)
        }
        return false
    }

    private mutating func refuseModel(_ hash: [UInt8], of index: Int) {
        var refusal = Refusal(
            part: .model, ours: hexadecimal(models.own), theirs: hexadecimal(hash))
        if let compared = peers[index].compared, compared.hash == hash {
            refusal.difference = compared.difference
        }
        refuse(index, refusal)
    }

    /// Sends our list to a peer, not more often than heads come.
    private mutating func tellModels(_ index: Int, isAnswer: Bool) {
        guard isStarted, !models.models.isEmpty else { return }
        if let last = peers[index].lastModels, now < last + limits.headsMilliseconds / 2 { return }
        peers[index].lastModels = now
        let bytes = encoded(.models(models.list(isAnswer: isAnswer, limits: limits)))
        effects.append(
            peers[index].isConfigured
                ? .send(to: peers[index].node, bytes: bytes)
                : .reply(to: peers[index].node, bytes: bytes))
    }

    mutating func receiveModels(_ list: ModelList, from index: Int) {
        // Nobody who departed has anything to tell of models.
        guard let theirs = list.models.last,
            state.membership[peers[index].node]?.departure == nil
        else { return counts.ignoredCount += 1 }
        peers[index].models = list.models.map(\.hash)
        if !list.isAnswer { tellModels(index, isAnswer: true) }
        let news = models.news(in: list)
        if !news.isEmpty { effects.append(.learnModels(news)) }
        guard models.standing(of: theirs.hash, list: peers[index].models) == .foreign else {
            return
        }
        refuseModel(theirs.hash, of: index)
        guard peers[index].compared?.hash != theirs.hash, !theirs.text.isEmpty else { return }
        // To compare takes the shell's time: one with ever other models gets no more of it than one
        // that is upgraded again and again.
        if let last = peers[index].comparedAt, now < last + limits.connectedMilliseconds {
            return
        }
        peers[index].comparedAt = now
        peers[index].compared = .init(hash: theirs.hash)
        effects.append(.compareModel(theirs, of: peers[index].node))
    }

    /// Takes up models whose transactions can be applied from now on.
    mutating func takeUp(_ learnt: [ModelText]) {
        guard models.takeUp(learnt) else { return }
        queue.models = models.hashes
        queue.release(now: now)
        noteGap(isCertain: true)
    }

    mutating func takeUp(difference: String, of hash: [UInt8], node: NodeID) {
        guard let index = peerIndex(node), peers[index].compared?.hash == hash else { return }
        peers[index].compared = .init(hash: hash, difference: difference)
        guard let refusal = peers[index].refusal, refusal.part == .model,
            refusal.theirs == hexadecimal(hash)
        else { return }
        refuseModel(hash, of: index)
    }

    /// Asks for the lists of peers while transactions are held for want of their model: one of the
    /// same model may have had theirs before it.
    mutating func askForModels() {
        guard queue.holdsForModel else { return }
        for index in peers.indices
        where peers[index].isAgreed && peers[index].isConnected(now: now, limits: limits) {
            if let last = peers[index].lastModels,
                now < last + limits.connectedMilliseconds
            {
                continue
            }
            tellModels(index, isAnswer: false)
        }
    }

    /// All that peers have of actors whose model is not known here: it is not asked for, since it
    /// could not be applied.
    var blocked: VersionVector {
        var vector = VersionVector()
        for hold in queue.holds {
            guard case .unknownModel = hold.reason else { continue }
            for peer in peers {
                let sequence = peer.vector[hold.dot.actor]
                if sequence > 0 { vector.advance(hold.dot.actor, to: sequence) }
            }
        }
        return vector
    }
}
