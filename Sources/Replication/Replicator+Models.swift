import Merge

/// Peers whose models differ: who is listened to all the same, and what is told of a difference.
///
/// Two nodes agree where one's model is in the other's list (DESIGN section 8). The list of a peer of
/// the same model tells which came before that, so that a store made with the newest model learns of
/// those whose transactions are still under way.
extension Replicator {
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
