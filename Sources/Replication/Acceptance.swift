import Merge

/// The members' view of this node's incarnation: whether one has met it, whether they refuse it
/// because an elder one is alive, and whether they know a later one.
struct Acceptance: Sendable {
    /// The members' word on an elder incarnation of this node.
    private struct Refusal: Sendable {
        var since: UInt64
        var toldAt: UInt64
    }

    /// Whether a member has met this incarnation.
    private(set) var isMet = false
    /// The newest incarnation of this node that is known, where it is newer than this one.
    private(set) var later: ActorID?
    private var refusal: Refusal?
    private var isEnded = false
    private let actor: ActorID
    /// Whether no save is let through before a member has met this incarnation, or for so long.
    private let hearsFirst: Bool
    /// Whether an elder incarnation may be alive: the store was opened before, and not certainly by a
    /// process that has ended.
    private let mayBeCopy: Bool

    init(_ configuration: Replicator.Configuration) {
        actor = configuration.actor
        hearsFirst = configuration.hearsFirst
        mayBeCopy =
            configuration.predecessor == nil && !configuration.formerIncarnations.isEmpty
    }

    /// Whether a later incarnation is known, so that nobody listens to this one.
    var isOutdated: Bool { later != nil }

    /// Whether members refuse this incarnation, by what they said lately.
    var isRefused: Bool { refusal != nil }

    /// Takes note of the newest incarnation known of this node.
    ///
    /// - Returns: whether it is later than this one and than those noted before.
    mutating func note(newest: ActorID) -> Bool {
        guard newest > later ?? actor else { return false }
        later = newest
        return true
    }

    /// Takes note that a member knows this incarnation: it counts for the newest.
    mutating func meet() {
        isMet = true
        refusal = nil
    }

    /// Takes a member's word that an elder incarnation is alive; a member that has met this one
    /// counts for more.
    mutating func refuse(now: UInt64) {
        guard !isMet else { return }
        refusal = Refusal(since: refusal?.since ?? now, toldAt: now)
    }

    /// Judges what members say; what they no longer say is forgotten.
    ///
    /// - Returns: whether this node ends, because they go on refusing it; true once.
    mutating func judge(now: UInt64, limits: Limits) -> Bool {
        guard let told = refusal else { return false }
        if now >= told.toldAt + limits.meetingMilliseconds {
            refusal = nil
            return false
        }
        guard now >= told.since + limits.refusalMilliseconds, !isEnded else { return false }
        isEnded = true
        return true
    }

    /// Whether no member has met this incarnation yet, and one may still do so.
    ///
    /// - Parameter isAnyHeard: whether a member was heard in this run.
    func isAwaited(startedAt: UInt64, isAnyHeard: Bool, now: UInt64, limits: Limits) -> Bool {
        guard hearsFirst, !isMet else { return false }
        let patience =
            mayBeCopy && isAnyHeard ? limits.meetingMilliseconds : limits.lonelyMilliseconds
        return now < startedAt + patience
    }
}
