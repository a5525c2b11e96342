import Merge

/// A process's view of another that lives under its node's number: a copied store that was started
/// twice, or a machine that was given another's number by mistake.
///
/// A process learns of its double in three ways: frames come that bear its own number (it has *met*
/// its double), members say that they hear an elder incarnation and refuse this one, or peers tell of an
/// incarnation of its node that is later than its own. A process that is refused ends. The last
/// alone is no proof of a double: a clock that was set back, or a store that was put back or is
/// new, hears the same, and goes on in an incarnation that is later still.
///
/// A process that has met its double and has only just begun is the newcomer of the two. It ends,
/// once the other has had ``farewellMilliseconds`` to hear of it as well. Peers that have met the
/// newcomer tell the elder of its later incarnation. So that the elder does not end, too, a process
/// that hears of a later one waits for its double for ``patienceMilliseconds`` before it acts, and
/// an elder that has met it goes on in an incarnation later still.
///
/// How often it may do so is for ``Reopenings`` to say.
package struct DoubleWatch: Sendable {
    /// How a process is to go on.
    package enum Verdict: Hashable, Sendable {
        /// As before: there is no double, or it is too soon to tell.
        case goOn
        /// It ends, because it has met its double and is the newcomer.
        case end
        /// It ends, because another store of its node is or was in use. Its own store is the one
        /// that this node used last: that one knows all incarnations that it was open in.
        case endForOtherStore
        /// It begins an incarnation later than this one, if it may.
        case reopen(after: UInt64, hasMet: Bool)
    }

    /// A process that meets its double this early, in milliseconds since it first had its store open,
    /// is the newcomer of the two.
    package static let newcomerMilliseconds: UInt64 = 10_000
    /// How long, in milliseconds, a newcomer stays once it has met its double, so that the node
    /// with that number hears of it, too.
    package static let farewellMilliseconds: UInt64 = 1_000
    /// How long, in milliseconds, a process that has heard of a later incarnation waits for its
    /// double. It takes no saves meanwhile.
    package static let patienceMilliseconds: UInt64 = 2_000

    private let beganAt: UInt64
    private let isStoreOwn: Bool
    private var metAt: UInt64?
    private var isRefused = false
    private var later: (incarnation: UInt64, toldAt: UInt64)?

    /// Watches from the opening of a store on.
    ///
    /// - Parameters:
    ///   - beganAt: when the process first had the store open, on the clock of ``verdict(now:)``.
    ///     What came before, which may take long, others cannot have met it in.
    ///   - isStoreOwn: whether the store was opened as the one that this node used last, so that it
    ///     knows all the node's incarnations.
    package init(beganAt: UInt64, isStoreOwn: Bool) {
        self.beganAt = beganAt
        self.isStoreOwn = isStoreOwn
    }

    /// Takes note of a frame that bears the node's own number.
    ///
    /// - Parameter now: milliseconds, on the clock of ``verdict(now:)``.
    package mutating func noteMeeting(now: UInt64) { metAt = metAt ?? now }

    /// Takes note that members refuse it, because they hear an elder incarnation of the node.
    package mutating func noteRefusal() { isRefused = true }

    /// Takes note of an incarnation of the node that peers know and that is later than its own.
    ///
    /// - Parameter now: milliseconds, on the clock of ``verdict(now:)``.
    package mutating func note(later incarnation: UInt64, now: UInt64) {
        later = (max(incarnation, later?.incarnation ?? 0), later?.toldAt ?? now)
    }

    /// How to go on, asked at every tick.
    ///
    /// - Parameter now: milliseconds on any clock that is never set.
    package func verdict(now: UInt64) -> Verdict {
        if isRefused { return .end }
        if let metAt, metAt < beganAt + Self.newcomerMilliseconds {
            return now < metAt + Self.farewellMilliseconds ? .goOn : .end
        }
        guard let later else { return .goOn }
        if metAt != nil { return .reopen(after: later.incarnation, hasMet: true) }
        guard now >= later.toldAt + Self.patienceMilliseconds else { return .goOn }
        return isStoreOwn
            ? .endForOtherStore : .reopen(after: later.incarnation, hasMet: false)
    }
}

/// The later incarnations that a process began one after the other. None of them lasted.
///
/// Told once more of a later one than the one that it has just begun, it has a double that lives on,
/// and ends. One that it has met may be a newcomer that somebody starts again and again: then it
/// ends only after many, so that in no case two processes take turns for ever.
package struct Reopenings: Sendable {
    /// For how long a store must have been open, in milliseconds, to have lasted.
    package static let lastingMilliseconds: UInt64 = 60_000
    /// How often in a row a process may go on where it has met its double.
    package static let maximumAfterMeetings = 10

    private var afterMeetings = 0
    private var others = 0

    /// None so far.
    package init() {}

    /// Whether a process may begin one more, which is counted.
    ///
    /// - Parameters:
    ///   - hasMet: whether it has met its double.
    ///   - milliseconds: how long its store has been open.
    package mutating func mayReopen(hasMet: Bool, openFor milliseconds: UInt64) -> Bool {
        if milliseconds >= Self.lastingMilliseconds { self = Reopenings() }
        if hasMet {
            afterMeetings += 1
            return afterMeetings <= Self.maximumAfterMeetings
        }
        others += 1
        return others <= 1
    }
}
