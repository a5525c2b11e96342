import Merge

/// What a process makes of another that lives under its node's number: a copied store that was
/// started twice, or a machine that was given another's number by mistake.
///
/// A process learns of its double in two ways: frames come that bear its own number (it has *met*
/// its double), or peers tell of an incarnation of its node that is later than its own. The second
/// alone is no proof of a double: a clock that was set back, a store that was put back or made anew
/// are told the same, and go on in an incarnation that is later still.
///
/// Who has met its double and has begun just now is the newcomer of the two, and goes. So that the
/// elder of the two does not go as well, because peers have met the newcomer and tell of its later
/// incarnation, whoever is told of one waits for ``patienceMilliseconds`` for its double before it
/// acts; and an elder that has met it goes on in an incarnation later still.
///
/// Whoever keeps one keeps the time at which it began a later incarnation, too: the second time
/// within ``repeatedMilliseconds`` its double lives on, met or not, and one must go.
public struct DoubleWatch: Sendable {
    /// How a process is to go on.
    public enum Verdict: Hashable, Sendable {
        /// As before: there is no double, or it is too soon to tell.
        case goOn
        /// It ends, for it has met its double and is the newcomer.
        case end
        /// It ends, for another store of its node is or was in use, of which its own store, which
        /// knows all the incarnations that it was open in, knows nothing.
        case endForOtherStore
        /// It begins an incarnation later than this one.
        case reopen(after: UInt64)
    }

    /// A process that meets its double this early, in milliseconds since it began, is the newcomer
    /// of the two.
    public static let newcomerMilliseconds: UInt64 = 10_000
    /// How long, in milliseconds, a process that was told of a later incarnation waits for its
    /// double. It takes no saves meanwhile.
    public static let patienceMilliseconds: UInt64 = 2_000
    /// A process that is to begin a later incarnation again this soon, in milliseconds, has a double
    /// that lives on.
    public static let repeatedMilliseconds: UInt64 = 60_000

    private let beganAt: UInt64
    private let isStoreOwn: Bool
    private var isMet = false
    private var later: (incarnation: UInt64, toldAt: UInt64)?

    /// Watches from the opening of a store on.
    ///
    /// - Parameters:
    ///   - beganAt: when the process began, on the clock of ``verdict(now:)``; it may have opened
    ///     the store before.
    ///   - isStoreOwn: whether the store was opened as the one that this node used last, so that it
    ///     knows all the node's incarnations.
    public init(beganAt: UInt64, isStoreOwn: Bool) {
        self.beganAt = beganAt
        self.isStoreOwn = isStoreOwn
    }

    /// Takes note of a frame that bears the node's own number.
    public mutating func noteMeeting() { isMet = true }

    /// Takes note of an incarnation of the node that peers know and that is later than its own.
    ///
    /// - Parameter now: milliseconds, on the clock of ``verdict(now:)``.
    public mutating func note(later incarnation: UInt64, now: UInt64) {
        later = (max(incarnation, later?.incarnation ?? 0), later?.toldAt ?? now)
    }

    /// How to go on, asked at every tick.
    ///
    /// - Parameter now: milliseconds on any clock that is never set.
    public func verdict(now: UInt64) -> Verdict {
        if isMet, now < beganAt + Self.newcomerMilliseconds { return .end }
        guard let later else { return .goOn }
        if isMet { return .reopen(after: later.incarnation) }
        guard now >= later.toldAt + Self.patienceMilliseconds else { return .goOn }
        return isStoreOwn ? .endForOtherStore : .reopen(after: later.incarnation)
    }
}
