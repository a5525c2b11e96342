internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 8: what is declared stable is on every member's disk and has nothing concurrent to come, and
/// what may be collected is.
struct StabilityChecker: Checker {
    let law = 8

    /// One machine, as far as it is known.
    private struct Member {
        /// The node it runs.
        var node: NodeID?
        /// All that any of its stores ever held.
        var ever = VersionVector()
        /// The vector of its store, synced or not; nil while nothing is known of it.
        var held: VersionVector?
        /// The synced part of it; nil if that is never observed.
        var durable: VersionVector?
        /// Whether its store was ever lost, put back or copied. Reports of the store that was, or
        /// of the copy, count until the next incarnation is met, so what is stable may be missing
        /// on the store that is: it writes nothing before it has caught up.
        var isExempt = false
        /// The vector declared stable there in this life.
        var stableInLife = VersionVector()
        /// The vector declared stable there since its disk was new.
        var stable = VersionVector()
        /// The vectors that nodes declared stable while it was their member.
        var declared = VersionVector()
        /// The stable vector when the last collection had looked at everything.
        var collected: VersionVector?
    }

    private var members: [Int: Member] = [:]
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .started(let node, let actor, let vector, _): start(node, actor, vector, run)
        case .committed(let node, let notice): commit(notice, node, run)
        case .durable(let node, let vector):
            var member = members[node] ?? Member()
            member.durable = (member.durable ?? VersionVector()).joined(vector)
            members[node] = member
        case .ended(let node, .wiped), .ended(let node, .restored):
            var member = members[node] ?? Member()
            member.held = nil
            member.durable = nil
            member.stable = VersionVector()
            member.collected = nil
            member.isExempt = true
            members[node] = member
        case .stable(let node, let vector, let members): declare(vector, members, node, run)
        case .collected(let node, let stable, let result):
            if result.isDone { members[node]?.collected = stable }
        case .tended(let node, _, let tending, _): judge(tending, of: node)
        case .settled(let final, _):
            for node in final.keys.sorted() {
                if let reading = final[node] { settle(reading, node, run) }
            }
        default: break
        }
        return findings.take()
    }

    /// Age alone takes nothing that a consumer has yet to read: only what is over its limit goes then.
    private mutating func judge(_ tending: HistoryTending, of node: Int) {
        guard let name = tending.expired.first,
            tending.purgedBySize + tending.purgedUnstable == 0
        else { return }
        findings.note(
            "unread",
            "\(Telling.node(node)) purged history by its age: expected it kept for the consumer "
                + "\(name), found that its place is gone")
    }

    // MARK: Lives

    private mutating func start(
        _ node: Int, _ actor: ActorID, _ vector: VersionVector, _ run: RunContext
    ) {
        var member = members[node] ?? Member()
        member.node = actor.node
        member.stableInLife = VersionVector()
        member.collected = nil
        member.held = vector
        member.durable = member.durable.map { $0.meet(vector) }
        member.ever.join(vector)
        if node >= run.machines {
            // From now on the copy speaks for the member, so the original may lag.
            for other in members.keys where members[other]?.node == actor.node {
                members[other]?.isExempt = true
            }
            member.isExempt = true
        } else if !member.isExempt, !vector.covers(member.declared) {
            findings.note(
                "lost",
                "\(Telling.node(node)) store after restart: expected all that was declared "
                    + "stable, found it without \(Telling.surplus(member.declared, over: vector))")
        }
        members[node] = member
    }

    private mutating func commit(_ notice: CommitNotice, _ node: Int, _ run: RunContext) {
        var member = members[node] ?? Member()
        for transaction in notice.transactions {
            check(transaction.transaction, against: member.stable, node, run)
        }
        member.held = notice.token.versionVector
        member.ever.join(notice.token.versionVector)
        if !notice.transactions.isEmpty { member.collected = nil }
        members[node] = member
    }

    /// What comes after a dot was declared stable has seen it; what it has not seen, and what has
    /// not seen it, is concurrent. Causal delivery sees to it that no stable dot has seen it.
    private mutating func check(
        _ transaction: Transaction, against stable: VersionVector, _ node: Int, _ run: RunContext
    ) {
        if transaction.seen.covers(stable) || stable.contains(transaction.dot) { return }
        let missing = stable.entries.first {
            $0.actor != transaction.dot.actor && transaction.seen[$0.actor] < $0.sequence
                && sharesPast(transaction, Dot(actor: $0.actor, sequence: $0.sequence), run)
        }
        guard let missing else { return }
        findings.note(
            "concurrent",
            "\(Telling.node(node)) \(transaction.dot): expected that it has seen "
                + "\(Dot(actor: missing.actor, sequence: missing.sequence)), which is stable there, "
                + "found that it is concurrent to it")
    }

    /// Whether two transactions may speak of one row: transactions that speak of a row have seen
    /// its insertion, so they have that in common. New stores, which have not met the older ones
    /// yet, write concurrently with all of them in form only.
    private func sharesPast(
        _ transaction: Transaction, _ dot: Dot, _ run: RunContext
    ) -> Bool {
        guard let other = run.archive.transaction(dot) else { return true }
        let actors = [transaction.dot.actor] + transaction.seen.entries.map(\.actor)
        return actors.contains { $0 == dot.actor || other.seen[$0] > 0 }
    }

    // MARK: Declarations

    private mutating func declare(
        _ vector: VersionVector, _ told: [NodeID]?, _ node: Int, _ run: RunContext
    ) {
        var member = members[node] ?? Member()
        if !vector.covers(member.stableInLife) {
            findings.note(
                "shrunk",
                "\(Telling.node(node)) stable: expected no less than before, found it without "
                    + Telling.surplus(member.stableInLife, over: vector))
        }
        member.stableInLife = vector
        member.stable.join(vector)
        member.collected = nil
        members[node] = member
        for machine in told?.map({ Int($0.rawValue) - 1 }) ?? Array(0..<run.founders) {
            checkHolding(vector, of: machine, declaredBy: node)
            members[machine]?.declared.join(vector)
        }
    }

    private mutating func checkHolding(
        _ vector: VersionVector, of machine: Int, declaredBy node: Int
    ) {
        let place = "\(Telling.node(node)) declared stable"
        guard let member = members[machine] else {
            if !vector.isEmpty {
                findings.note(
                    "missing",
                    "\(place): expected that every member has it, found that "
                        + "\(Telling.node(machine)) never started")
            }
            return
        }
        // A member's other stores, gone or beside it, may have reported for it too.
        var ever = member.ever
        for other in members.values where other.node == member.node { ever.join(other.ever) }
        let required = member.isExempt ? ever : member.durable ?? member.held ?? VersionVector()
        if required.covers(vector) { return }
        findings.note(
            "missing",
            "\(place): expected that \(Telling.node(machine)) has it all on its disk, found it "
                + "without \(Telling.surplus(vector, over: required))")
    }

    // MARK: Collecting

    private mutating func settle(_ reading: Reading, _ node: Int, _ run: RunContext) {
        let vector = reading.token.versionVector
        guard let uncollected = reading.uncollected, uncollected > 0,
            let collected = members[node]?.collected, collected.covers(vector),
            run.archive.covers(vector)
        else { return }
        // What is unresolved keeps its siblings: a row or a link each.
        var waiting = Set<String>()
        for name in run.archive.oracle(at: vector).unresolvedConflicts() {
            guard let id = ConflictID(name) else { continue }
            waiting.insert(ConflictChecker.isLink(id) ? name : "\(id.entity).\(id.row)")
        }
        if uncollected <= waiting.count { return }
        findings.note(
            "uncollected",
            "\(Telling.node(node)) uncollected with everything stable: expected at most "
                + "\(waiting.count), which are unresolved, found \(uncollected)")
    }
}
