import Merge

/// This node's clock, judged by its members' (DESIGN section 13).
///
/// A save stamped by a clock that is far off would be held everywhere, or lose to everything; so a
/// node that is off from the median of three or more takes no saves. Of two nobody can tell which
/// is off, so both warn.
struct ClockJudge: Sendable {
    /// The news since the last judgement.
    struct Verdict: Hashable, Sendable {
        /// The alarms for people, in order.
        var alarms: [Alarm] = []
        /// Whether the clock is far off now; nil where that is as before.
        var isOff: Bool?
    }

    /// Whether this clock is far off from those of the members.
    private(set) var isOff = false
    /// Whether that of the only other one is.
    private var areApart = false
    /// Whether this node's stamps are far ahead of its clock.
    private var areStampsAhead = false
    private let limit: UInt64

    init(limits: Limits) { limit = limits.futureMilliseconds }

    /// Compares the clocks that peers sent lately.
    ///
    /// - Parameters:
    ///   - offsets: how far ahead of ours the clocks of the members are that are heard, by peer.
    ///   - stamp: the latest timestamp that is applied or about to be.
    ///   - wall: our clock, in milliseconds since 1970.
    ///   - isAlone: whether nobody else is a member.
    mutating func judge(
        offsets: [Int64], stamp: HybridTimestamp, wall: UInt64, isAlone: Bool
    ) -> Verdict {
        var verdict = Verdict()
        if offsets.count == 1 {
            let isApart = offsets[0].magnitude > limit
            if isApart, !areApart {
                verdict.alarms.append(.clocksApart(milliseconds: offsets[0]))
            }
            areApart = isApart
        }
        // A stamp is never earlier than those before it, so a clock that was ahead goes on in the
        // stamps, and a node with a clock that is right again would not know why nobody takes its saves.
        let (bound, overflow) = wall.addingReportingOverflow(limit)
        let isAhead = !overflow && stamp.milliseconds > bound && !isAlone
        if isAhead, !areStampsAhead {
            verdict.alarms.append(
                .stampsAhead(stamp, milliseconds: stamp.milliseconds - wall))
        }
        areStampsAhead = isAhead
        let drift = drift(offsets + [0])
        guard (drift != nil) != isOff else { return verdict }
        isOff = drift != nil
        verdict.isOff = isOff
        if let drift { verdict.alarms.append(.clockOff(milliseconds: drift)) }
        return verdict
    }

    /// How far ahead this clock is of the others, where that is too far; below 0 for behind.
    ///
    /// Of an even number the two in the middle must agree.
    private func drift(_ offsets: [Int64]) -> Int64? {
        guard offsets.count >= 3 else { return nil }
        let most = Int64(clamping: limit)
        let sorted = offsets.sorted()
        let low = sorted[(sorted.count - 1) / 2]
        let high = sorted[sorted.count / 2]
        if low > most { return -low }
        if high < -most { return -high }
        return nil
    }
}
