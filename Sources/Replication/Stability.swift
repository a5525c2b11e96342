import Merge

/// A member's report on itself, as far as stability rests on it.
struct Report: Hashable, Sendable {
    var actor: ActorID
    var vector: VersionVector
    /// The vector that its maker could prove to have had.
    var recorded: VersionVector
    /// Sorted by node, at most one a node.
    var met: [ActorID]
    /// Whether somebody must vouch for its maker's store.
    var recovery: Recovery

    /// The incarnation of a node that the reporter has met.
    ///
    /// It is asked for each pair of members at every heads and status: by halves, or a hundred nodes
    /// would take a million steps.
    func met(_ node: NodeID) -> ActorID? {
        var low = 0
        var high = met.count
        while low < high {
            let middle = (low + high) / 2
            if met[middle].node < node { low = middle + 1 } else { high = middle }
        }
        return low < met.count && met[low].node == node ? met[low] : nil
    }

    /// Whether it was made after the other, in one incarnation: all of a report only grows, except
    /// that departed nodes leave the list of those met.
    func isLater(than other: Report, isMember: (NodeID) -> Bool) -> Bool {
        actor == other.actor && vector.covers(other.vector) && recorded.covers(other.recorded)
            && other.met.allSatisfy { old in
                !isMember(old.node) || met(old.node).map { $0 >= old } ?? false
            }
            && (other.recovery != .none || recovery == .none)
    }
}

/// Which transactions are stable here: nothing concurrent with them can still arrive.
///
/// A dot is stable when every member's report has it on disk, where a report counts only if it
/// was made in its member's newest incarnation, after meeting the newest of all others and after
/// applying all departures known here, and is used only once all is here that it holds of its reporter and of closed actors. Why each is
/// needed: MODEL.md, P15 to P17.
///
/// What the reporter *holds* is its vector, not only what is on its disk: what it has applied of
/// a closed actor it will pass on once it is durable. What it *has for certain* is what it
/// has recorded: on its disk, and it would notice the loss. What is here counts as here only when durable, or it could come a second time.
///
/// Invariant: ``vector`` is within this node's durable vector and never shrinks in a run.
struct Stability: Sendable {
    /// The knowledge here by which reports are judged.
    struct View {
        var own: ActorID
        var durable: VersionVector
        var incarnations: Incarnations
        /// The nodes that have departed, by number, with the transaction that says so.
        var departures: [(node: NodeID, dot: Dot)] = []
    }

    /// The reports of another member. Three, and not the latest only: of a member that always
    /// writes the latest would never be usable.
    private struct Member: Sendable {
        let node: NodeID
        /// The one in use.
        var used: Report?
        /// The one whose contents are awaited.
        var awaited: Report?
        var latest: Report?
    }

    /// All that is stable.
    private(set) var vector = VersionVector()
    /// The members other than this node, by number.
    private var members: [Member] = []

    /// The members other than this node; `nodes` are sorted.
    mutating func setMembers(_ nodes: [NodeID]) {
        let known = members
        members = nodes.map { node in known.first { $0.node == node } ?? Member(node: node) }
    }

    /// Takes in a report; one that is older than another of its incarnation changes nothing.
    ///
    /// - Parameter own: this node.
    mutating func hear(_ report: Report, own: NodeID) {
        guard let index = members.firstIndex(where: { $0.node == report.actor.node }) else {
            return
        }
        if let latest = members[index].latest {
            let members = members
            let isLater = report.isLater(than: latest) { node in
                node == own || members.contains { $0.node == node }
            }
            guard latest.actor < report.actor || isLater else { return }
        }
        members[index].latest = report
    }

    /// Goes on as far as the reports reach.
    ///
    /// - Returns: whether more is stable than before.
    mutating func advance(_ view: View) -> Bool {
        var common = view.durable
        var isComplete = true
        for index in members.indices {
            renew(index, view)
            guard let used = members[index].used else {
                isComplete = false
                continue
            }
            if isComplete { common = common.meet(used.recorded) }
        }
        guard isComplete, !vector.covers(common) else { return false }
        vector.join(common)
        return true
    }

    /// Chooses the latest report of a member that counts and whose contents are here.
    private mutating func renew(_ index: Int, _ view: View) {
        var member = members[index]
        if let used = member.used, objection(to: used, view) != nil { member.used = nil }
        if let awaited = member.awaited, objection(to: awaited, view) != nil {
            member.awaited = nil
        }
        let latest = member.latest.flatMap { objection(to: $0, view) == nil ? $0 : nil }
        if let latest, missing(latest, view) == 0 {
            member.used = latest
            member.awaited = nil
        } else if let awaited = member.awaited, missing(awaited, view) == 0 {
            member.used = awaited
            member.awaited = latest
        } else if member.awaited == nil {
            member.awaited = latest
        }
        members[index] = member
    }

    /// Why a report does not count; nil where it does.
    private func objection(to report: Report, _ view: View) -> StabilityHindrance? {
        let node = report.actor.node
        if let newest = view.incarnations[node], newest != report.actor {
            return .olderIncarnation(newest: newest)
        }
        if report.recovery != .none { return .recovering }
        if report.met(view.own.node) != view.own { return .hasNotMet(view.own) }
        for member in members where member.node != node {
            guard let newest = view.incarnations[member.node] else { continue }
            if report.met(member.node) != newest { return .hasNotMet(newest) }
        }
        // For certain: one who loses it with the power would take from that node again.
        let open = view.departures.first { !report.recorded.contains($0.dot) }
        return open.map { .hasNotApplied(departureOf: $0.node) }
    }

    /// How many transactions a report holds, of its reporter and of closed actors, that are not on
    /// this node's disk. A node that is no member now counts as closed.
    private func missing(_ report: Report, _ view: View) -> UInt64 {
        var sum: UInt64 = 0
        for entry in report.vector.entries {
            let actor = entry.actor
            let here = view.durable[actor]
            guard entry.sequence > here else { continue }
            let isOpen =
                actor.node != report.actor.node && !view.incarnations.isClosed(actor)
                && (actor == view.own || members.contains { $0.node == actor.node })
            guard !isOpen else { continue }
            let (next, overflow) = sum.addingReportingOverflow(entry.sequence - here)
            sum = overflow ? .max : next
        }
        return sum
    }

    /// Where each of the other members stands, by number.
    func statuses(_ view: View) -> [MemberStatus] {
        members.map { member in
            var status = MemberStatus(node: member.node, hindrance: .nothingHeard)
            if let latest = member.latest {
                let missing = missing(latest, view)
                status.hindrance =
                    objection(to: latest, view)
                    ?? (missing > 0 ? .behind(missing: missing) : nil)
                switch status.hindrance {
                // Such a store may have lost what it had once; one that is new lost nothing.
                case .olderIncarnation: break
                case .recovering where latest.recovery == .restored: break
                default: status.recorded = latest.recorded
                }
            }
            status.unrecorded = status.recorded.lag(behind: view.durable)
            return status
        }
    }

    /// Whether a dot is lost: every member's report counts, and none holds it.
    func isNowhere(_ dot: Dot, _ view: View) -> Bool {
        members.allSatisfy { member in
            guard let latest = member.latest, objection(to: latest, view) == nil else {
                return false
            }
            return !latest.vector.contains(dot)
        }
    }
}
