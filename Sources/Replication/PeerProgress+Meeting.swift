import Merge

/// Incarnations of the peer: the one that was met, and a later one beside an elder that is alive.
extension PeerProgress {
    /// Whether we have not said yet that its incarnation was met.
    var isMeetingOpen: Bool { isAgreed && actor != met }

    /// Whether the store remembers its incarnation, after which it can be met.
    func isRemembered(_ remembered: Incarnations) -> Bool {
        actor.map { remembered[$0.node] == $0 } ?? false
    }

    /// Lets the store remember whom the peer was met as; again after a second where that failed.
    ///
    /// - Returns: the incarnation that the store is to be asked for now.
    mutating func beginRemembering(beside remembered: Incarnations, now: UInt64) -> ActorID? {
        guard isAgreed, let actor, !isRemembered(remembered), remembering != actor,
            now >= rememberAllowedAt
        else { return nil }
        remembering = actor
        return actor
    }

    /// Takes the store's answer.
    mutating func finishRemembering(
        _ actor: ActorID, isDurable: Bool, now: UInt64, limits: Limits
    ) {
        guard remembering == actor else { return }
        remembering = nil
        if !isDurable { rememberAllowedAt = now + limits.headsMilliseconds }
    }

    /// Forgets all of an incarnation that is closed.
    mutating func close() {
        forget()
        firstMet = nil
        firstVouched = nil
    }

    // MARK: - A later incarnation

    /// Whether an elder incarnation may be alive: it was heard lately, or might have been heard
    /// before this run.
    func mayBeAlive(_ elder: ActorID, startedAt: UInt64, now: UInt64, limits: Limits) -> Bool {
        let heard = actor == elder ? actorHeardAt ?? startedAt : startedAt
        return now < heard + limits.elderMilliseconds
    }

    /// Takes note of heads of a later incarnation, which is not listened to.
    ///
    /// - Returns: whether the elder is alive beside it for certain: heads of an elder that has ended
    ///   may still have been on their way.
    mutating func noteYounger(besides elder: ActorID, now: UInt64, limits: Limits) -> Bool {
        var younger = younger ?? .init(since: now, heardAt: now)
        if now >= younger.heardAt + limits.elderMilliseconds { younger.since = now }
        younger.heardAt = now
        self.younger = younger
        guard let actorHeardAt, actor == elder else { return false }
        return actorHeardAt >= younger.since + limits.elderMilliseconds
    }

    /// Whether the two must hear of each other now: not more often than heads come.
    mutating func mayIntroduce(now: UInt64, limits: Limits) -> Bool {
        if let last = younger?.introducedAt, now < last + limits.headsMilliseconds / 2 {
            return false
        }
        younger?.introducedAt = now
        return true
    }
}
