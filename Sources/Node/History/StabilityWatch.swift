// Since when what is not stable here waits, and for whom.
//
// Threading: belongs to the loop's thread; its reports may go anywhere.

internal import Merge
internal import Replication

/// Where collection stands, and who holds it back.
struct StabilityReport: Hashable, Sendable {
    /// Another member as to stability.
    struct Member: Hashable, Sendable {
        var status: MemberStatus
        /// Since when something waits for it, in monotonic milliseconds; nil while nothing does.
        var waitingSince: UInt64?
        /// When it was last heard, likewise; nil where it was not in this run.
        var heardAt: UInt64?
    }

    /// All that is stable.
    var stable = VersionVector()
    /// How many transactions on this node's disk are not.
    var unstable: UInt64 = 0
    /// Since when some of them wait, in monotonic milliseconds; nil where none does.
    var waitingSince: UInt64?
    /// Whether this node's own store was put back, or is new beside older ones, and is not vouched
    /// for: it takes no saves, and collects nothing.
    var isRecovering = false
    /// The other members, by number.
    var members: [Member] = []
    /// When the node was started, in monotonic milliseconds.
    var startedAt: UInt64 = 0

    /// Members that have held back what is on this node's disk for so long that it is not just on
    /// its way, those first who have longest.
    func holders(now: UInt64) -> [Member] {
        members.filter { member in
            member.waitingSince.map { now >= $0 + StabilityWatch.patience } ?? false
        }.sorted {
            ($0.waitingSince ?? 0, $0.status.node) < ($1.waitingSince ?? 0, $1.status.node)
        }
    }
}

/// Watches how long transactions wait to become stable.
///
/// In a cluster that saves all the time something always waits. So a mark is set on what is on
/// disk here, and while the mark is not reached, it is that which waits; then the next is set.
struct StabilityWatch {
    /// How long a transaction is on its way at the most where all is well, in milliseconds:
    /// members record what they have every five seconds, and tell every second.
    static let patience: UInt64 = 15_000

    private struct Mark {
        var vector: VersionVector
        var since: UInt64

        /// The mark after a look, nil where nothing waits.
        static func after(
            _ mark: Mark?, reached: VersionVector, isHindered: Bool, durable: VersionVector,
            now: UInt64
        ) -> Mark? {
            if let mark, isHindered || !reached.covers(mark.vector) { return mark }
            if !isHindered, reached.covers(durable) { return nil }
            return Mark(vector: durable, since: now)
        }
    }

    private var whole: Mark?
    private var marks: [(node: NodeID, mark: Mark)] = []
    private let startedAt: UInt64

    init(startedAt: UInt64) { self.startedAt = startedAt }

    /// Takes a look.
    ///
    /// - Parameters:
    ///   - durable: what is on this node's disk.
    ///   - now: monotonic milliseconds.
    mutating func note(
        _ status: ReplicatorStatus, durable: VersionVector, now: UInt64
    ) -> StabilityReport {
        var report = StabilityReport(stable: status.stable, startedAt: startedAt)
        report.isRecovering = status.recovery == .restored
        for entry in durable.entries {
            let stable = status.stable[entry.actor]
            if entry.sequence > stable { report.unstable += entry.sequence - stable }
        }
        whole = Mark.after(
            whole, reached: status.stable, isHindered: false, durable: durable, now: now)
        report.waitingSince = whole?.since
        let old = marks
        marks = []
        for member in status.members {
            let mark = Mark.after(
                old.first { $0.node == member.node }?.mark, reached: member.recorded,
                isHindered: member.hindrance != nil, durable: durable, now: now)
            if let mark { marks.append((member.node, mark)) }
            report.members.append(
                .init(
                    status: member, waitingSince: mark?.since,
                    heardAt: status.peers.first { $0.node == member.node }?.heardAt))
        }
        return report
    }
}

extension StabilityReport.Member {
    /// The name of what keeps its report from being used; nil where it is.
    var hindranceName: String? {
        switch status.hindrance {
        case nil: nil
        case .nothingHeard?: "nothingHeard"
        case .olderIncarnation?: "olderIncarnation"
        case .recovering?: "recovering"
        case .hasNotMet?: "hasNotMet"
        case .hasNotApplied?: "hasNotApplied"
        case .behind?: "behind"
        }
    }

    /// The reason why a member holds collection back, for people.
    ///
    /// - Parameters:
    ///   - now: monotonic milliseconds.
    ///   - startedAt: when this node was started.
    func reason(now: UInt64, startedAt: UInt64) -> String {
        let node = "Node \(status.node)"
        func age(_ since: UInt64) -> String { Self.age(now > since ? now - since : 0) }
        // A member that is away reports nothing, whatever its last report lacked.
        if let heardAt, now >= heardAt + StabilityWatch.patience {
            return "\(node) was last heard \(age(heardAt)) ago."
        }
        switch status.hindrance {
        case .nothingHeard?:
            return "\(node) has not been heard since this node started \(age(startedAt)) ago."
        case .olderIncarnation(let newest)?:
            return "\(node) reports as an incarnation before its newest, "
                + "\(String(newest.incarnation, radix: 16))."
        case .recovering?: return "\(node) is recovering: no member has vouched for its store yet."
        case .hasNotMet(let actor)?:
            return "\(node) has not met node \(actor.node) since that was started last."
        case .hasNotApplied(let departed)?:
            return "\(node) has not told that it knows of node \(departed)'s departure."
        case .behind(let missing)?:
            return "\(node) has \(missing) transactions that are not on this node's disk yet."
        case nil:
            return status.unrecorded == 0
                ? "\(node) has all." : "\(node) has not got all of it on its disk yet."
        }
    }

    /// A time as people say it: "45 s", "2 h 5 min".
    static func age(_ milliseconds: UInt64) -> String {
        let seconds = milliseconds / 1000
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400)
        if days > 0 { return "\(days) d \(hours % 24) h" }
        if hours > 0 { return "\(hours) h \(minutes % 60) min" }
        return minutes > 0 ? "\(minutes) min" : "\(seconds) s"
    }
}
