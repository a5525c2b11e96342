import Merge

/// Heads have only the hash of the sender's own model. A node that hears an unknown hash sends its
/// list, and gets the other's.
extension ModelCatalog {
    /// The answers to a peer's model, in the order of the fields.
    struct Verdict: Hashable, Sendable {
        /// Our list is sent to it.
        var list: ModelList?
        /// The store learns of these.
        var learns: [ModelText] = []
        /// The peer is refused.
        var refusal: Refusal?
        /// The shell finds what differs.
        var compares: ModelText?
    }

    /// How long a peer that hears of another model may take to send its list, in heads.
    private static let headsPatience: UInt64 = 3

    /// Judges whether a peer's model permits to listen to it; where it does not the peer is refused, at
    /// once or when its list does not come.
    ///
    /// - Returns: nil where it is listened to.
    func hear(
        _ hash: [UInt8], from peer: inout PeerProgress, now: UInt64, limits: Limits
    ) -> Verdict? {
        switch standing(of: hash, list: peer.models) {
        case .known:
            peer.strangeSince = nil
            return nil
        case .knowsOurs: return nil
        case .foreign: return Verdict(refusal: refusal(of: hash, peer))
        case .unlisted: break
        }
        peer.forget()
        let since = peer.strangeSince ?? now
        peer.strangeSince = since
        let isOver = now >= since + Self.headsPatience * limits.headsMilliseconds
        return Verdict(
            list: tell(&peer, isAnswer: false, now: now, limits: limits),
            refusal: isOver ? refusal(of: hash, peer) : nil)
    }

    /// Takes in a peer's list, which names at least its own model.
    mutating func take(
        _ list: ModelList, from peer: inout PeerProgress, now: UInt64, limits: Limits
    ) -> Verdict {
        var verdict = Verdict()
        peer.models = list.models.map(\.hash)
        if !list.isAnswer {
            verdict.list = tell(&peer, isAnswer: true, now: now, limits: limits)
        }
        verdict.learns = news(in: list)
        guard let theirs = list.models.last,
            standing(of: theirs.hash, list: peer.models) == .foreign
        else { return verdict }
        verdict.refusal = refusal(of: theirs.hash, peer)
        guard peer.compared?.hash != theirs.hash, !theirs.text.isEmpty else { return verdict }
        // Comparing takes the shell's time: a peer with ever other models gets no more of it than
        // one that is upgraded again and again.
        if let last = peer.comparedAt, now < last + limits.connectedMilliseconds {
            return verdict
        }
        peer.comparedAt = now
        peer.compared = .init(hash: theirs.hash)
        verdict.compares = theirs
        return verdict
    }

    /// Takes in what differs between a peer's model and ours.
    ///
    /// - Returns: why the peer is refused, where it is refused for that model.
    func take(
        difference: String, of hash: [UInt8], from peer: inout PeerProgress
    ) -> Refusal? {
        guard peer.compared?.hash == hash else { return nil }
        peer.compared = .init(hash: hash, difference: difference)
        let refusal = refusal(of: hash, peer)
        guard let former = peer.refusal, former.part == .model, former.theirs == refusal.theirs
        else { return nil }
        return refusal
    }

    /// Our list for a peer that is asked for its own: one of the same model may have had those before
    /// it. Nil where it was sent lately.
    func ask(_ peer: inout PeerProgress, now: UInt64, limits: Limits) -> ModelList? {
        if let last = peer.lastModels, now < last + limits.connectedMilliseconds { return nil }
        return tell(&peer, isAnswer: false, now: now, limits: limits)
    }

    /// Our list for a peer, not more often than heads come.
    private func tell(
        _ peer: inout PeerProgress, isAnswer: Bool, now: UInt64, limits: Limits
    ) -> ModelList? {
        guard !models.isEmpty else { return nil }
        if let last = peer.lastModels, now < last + limits.headsMilliseconds / 2 { return nil }
        peer.lastModels = now
        return list(isAnswer: isAnswer, limits: limits)
    }

    private func refusal(of hash: [UInt8], _ peer: PeerProgress) -> Refusal {
        var refusal = Refusal(
            part: .model, ours: Self.hexadecimal(own), theirs: Self.hexadecimal(hash))
        if let compared = peer.compared, compared.hash == hash {
            refusal.difference = compared.difference
        }
        return refusal
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
