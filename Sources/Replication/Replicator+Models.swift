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

    private func isKnown(_ hash: [UInt8]) -> Bool {
        hash == configuration.modelHash || configuration.models.contains { $0.hash == hash }
    }

    /// Whether a peer's model permits to listen to it; where it does not the peer is refused, at
    /// once or when its list does not come.
    mutating func agreesOnModel(_ heads: Heads, from index: Int) -> Bool {
        if isKnown(heads.modelHash) {
            peers[index].strangeSince = nil
            return true
        }
        if peers[index].models.last == heads.modelHash {
            if peers[index].models.contains(configuration.modelHash) { return true }
            refuseModel(heads.modelHash, of: index)
            return false
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
            part: .model, ours: hexadecimal(configuration.modelHash), theirs: hexadecimal(hash))
        if let compared = peers[index].compared, compared.hash == hash {
            refusal.difference = compared.difference
        }
        refuse(index, refusal)
    }

    /// Sends our list to a peer, not more often than heads come.
    private mutating func tellModels(_ index: Int, isAnswer: Bool) {
        guard isStarted, !configuration.models.isEmpty else { return }
        if let last = peers[index].lastModels, now < last + limits.headsMilliseconds / 2 { return }
        peers[index].lastModels = now
        let bytes = encoded(.models(ModelList(isAnswer: isAnswer, models: listed)))
        effects.append(
            peers[index].isConfigured
                ? .send(to: peers[index].node, bytes: bytes)
                : .reply(to: peers[index].node, bytes: bytes))
    }

    /// Our list, with as many texts as a frame has room for; the newest are told first, and those before it
    /// as far as they all are no more than ``Limits/modelListBytes``.
    ///
    /// Not as a page has: where pages are small, no text would ever be told, and a store made with
    /// the newest model would wait for ever for those before it.
    private var listed: [ModelText] {
        let models = configuration.models.suffix(ModelList.countLimit)
        // The envelope has the cluster's name, and each model its hash.
        var left = limits.frameBytes - 512 - 64 * models.count
        let others = limits.modelListBytes - 512 - 64 * models.count
        return Array(
            models.reversed().enumerated().map { place, model in
                left -= model.text.count
                let isTold = left >= 0
                if place == 0 { left = min(left, others - model.text.count) }
                return isTold ? model : ModelText(hash: model.hash, text: [])
            }.reversed())
    }

    mutating func receiveModels(_ list: ModelList, from index: Int) {
        // Nobody who departed has anything to tell of models.
        guard let theirs = list.models.last,
            state.membership[peers[index].node]?.departure == nil
        else { return counts.ignoredCount += 1 }
        peers[index].models = list.models.map(\.hash)
        if !list.isAnswer { tellModels(index, isAnswer: true) }
        if theirs.hash == configuration.modelHash {
            let news = list.models.dropLast().filter {
                !isKnown($0.hash) && !$0.text.isEmpty && !considered.contains($0.hash)
            }
            guard !news.isEmpty, considered.count + news.count <= ModelList.countLimit else {
                return
            }
            considered += news.map(\.hash)
            effects.append(.learnModels(Array(news)))
            return
        }
        // Of a later model's list nothing is learnt, though ours be in it: one that its store has
        // itself learnt of may stand before ours and have come after it. Taken for a former one it
        // would be what was taken away, and keep this store from every model that has it.
        let isOurs = list.models.contains { $0.hash == configuration.modelHash }
        if !isOurs, !isKnown(theirs.hash) {
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
    }

    /// Takes up models whose transactions can be applied from now on.
    mutating func takeUp(_ models: [ModelText]) {
        let news = models.filter { !isKnown($0.hash) }
        guard !news.isEmpty else { return }
        configuration.models.insert(
            contentsOf: news, at: max(0, configuration.models.count - 1))
        queue.models = Set(configuration.models.map(\.hash))
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
