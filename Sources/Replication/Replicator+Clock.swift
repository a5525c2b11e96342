import Merge

/// This node's clock, judged by its members' (DESIGN section 13).
extension Replicator {
    /// Compares the clocks that were told lately. A save stamped by a clock that is far off would
    /// be held everywhere, or lose to everything; so a node that is off from the median of three
    /// or more takes no saves. Of two nobody can tell which is off, so both warn.
    mutating func judgeClock() {
        var offsets: [Int64] = [0]
        for index in peers.indices {
            guard peers[index].isConfigured, peers[index].isAgreed,
                peers[index].isConnected(now: now, limits: limits),
                let offset = peers[index].clockOffset
            else { continue }
            offsets.append(offset)
        }
        warnOfOther(offsets)
        warnOfStamps()
        let drift = Self.drift(offsets, limit: Int64(clamping: limits.futureMilliseconds))
        guard (drift != nil) != isClockOff else { return }
        isClockOff = drift != nil
        if let drift { raise(.clockOff(milliseconds: drift)) }
        effects.append(.setClockOff(isClockOff))
    }

    /// How far ahead this clock is of the others, where that is too far; below 0 for behind.
    ///
    /// Of an even number the two in the middle must agree.
    private static func drift(_ offsets: [Int64], limit: Int64) -> Int64? {
        guard offsets.count >= 3 else { return nil }
        let sorted = offsets.sorted()
        let low = sorted[(sorted.count - 1) / 2]
        let high = sorted[sorted.count / 2]
        if low > limit { return -low }
        if high < -limit { return -high }
        return nil
    }

    /// A stamp is never earlier than those before it, so a clock that was ahead goes on in the stamps,
    /// and a node whose clock is right again would not be told why nobody takes what it saves.
    private mutating func warnOfStamps() {
        let latest = latestTimestamp.milliseconds
        let (bound, overflow) = wallMilliseconds.addingReportingOverflow(limits.futureMilliseconds)
        let isAhead = !overflow && latest > bound && members.contains { $0 != node }
        defer { areStampsAhead = isAhead }
        guard isAhead, !areStampsAhead else { return }
        raise(.stampsAhead(latestTimestamp, milliseconds: latest - wallMilliseconds))
    }

    private mutating func warnOfOther(_ offsets: [Int64]) {
        guard offsets.count == 2 else { return }
        let offset = offsets[1]
        let isApart = offset.magnitude > limits.futureMilliseconds
        defer { areClocksApart = isApart }
        guard isApart, !areClocksApart else { return }
        raise(.clocksApart(milliseconds: offset))
    }
}
