import Merge
import Testing

@testable import Replication

@Suite("A report counts, or says why it does not")
struct StabilityTests {
    static let own = Reporter.own
    static let second = Reporter.second
    static let third = Reporter.third

    /// A replicator that has saved one transaction.
    private static func saving() -> (Reporter, Dot) {
        var node = Reporter()
        let saved = node.save(1)
        return (node, saved)
    }

    /// The same, which both peers report.
    private func agreed() -> (Reporter, Dot) {
        var (node, saved) = Self.saving()
        node.heads(Self.second, [saved])
        node.heads(Self.third, [saved])
        return (node, saved)
    }

    @Test("A node without peers has stable what is durable")
    func single() {
        var node = Reporter(peers: [])
        let saved = node.save(1)
        #expect(node.stable().contains(saved))
        #expect(node.effects.contains(.stable(node.store.vector)))
    }

    @Test("Only agreed peers confirm, with what they have on disk")
    func confirmations() {
        var (node, saved) = Self.saving()
        #expect(node.replicator.confirmations.isEmpty)
        node.heads(Self.third, [], vector: [saved])
        node.heads(Self.second, [saved])
        let all = node.replicator.confirmations
        #expect(all.map(\.node) == [World.id(2), World.id(3)])
        #expect(all.map { $0.vector.contains(saved) } == [true, false])
        node.heads(Self.third, met: [Self.own, ActorID(2, 21)])
        #expect(node.replicator.confirmations.map(\.node) == [World.id(3)])
    }

    @Test("A report has met exactly the incarnations that it lists", arguments: 0...9)
    func met(count: Int) {
        let met = (0..<count).map { ActorID(2 * $0 + 2, UInt64($0) + 7) }
        let report = Report(
            actor: Self.own, vector: VersionVector(), recorded: VersionVector(), met: met,
            recovery: .none)
        for number in 1...2 * count + 3 {
            let node = World.id(number)
            #expect(report.met(node) == met.first { $0.node == node })
        }
    }

    @Test("A transaction that every member reports is stable, and is announced once")
    func everybody() {
        var (node, saved) = agreed()
        #expect(node.stable().contains(saved))
        _ = node.stable()
        let told = node.effects.filter { if case .stable = $0 { true } else { false } }
        #expect(told.count == 1)
    }

    @Test("A member that has not been heard holds all back")
    func nothingHeard() {
        var (node, saved) = Self.saving()
        node.heads(Self.second, [saved])
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(3) == .nothingHeard)
        #expect(node.hindrance(2) == nil)
    }

    @Test("A report has what a member has for certain, but not of a store that nobody vouches for")
    func recorded() throws {
        var node = Reporter()
        let first = node.save(1)
        let second = node.save(2)
        func member(_ number: Int) -> MemberStatus? {
            node.replicator.status.members.first { $0.node == World.id(number) }
        }
        #expect(member(2)?.unrecorded == 2 && member(2)?.recorded.isEmpty == true)
        node.heads(Self.second, [first])
        #expect(member(2)?.unrecorded == 1)
        #expect(member(2)?.recorded.contains(first) == true)
        #expect(member(2)?.recorded.contains(second) == false)
        node.heads(Self.third, [first, second], recovery: .restored)
        #expect(member(3)?.hindrance == .recovering)
        #expect(member(3)?.unrecorded == 2 && member(3)?.recorded.isEmpty == true)
    }

    @Test("What a member has applied but not on its disk is not stable")
    func notDurable() {
        var (node, saved) = Self.saving()
        node.heads(Self.second, [saved])
        node.heads(Self.third, [], vector: [saved])
        #expect(node.stable().isEmpty)
    }

    @Test("What is not on our own disk is not stable")
    func notDurableHere() {
        var node = Reporter(store: FakeStore(isLazy: true))
        let written = makeTransaction(dot(Self.second, 1), seen: VersionVector())
        node.heads(Self.second, [])
        node.heads(Self.third, [])
        node.tell(.notification([written.bytes]), from: 2, over: .publish)
        node.heads(Self.second, [written.dot])
        node.heads(Self.third, [written.dot])
        #expect(node.store.vector.contains(written.dot))
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(2) == .behind(missing: 1))
        node.store.sync()
        node.give(.committed([], state: node.store.state, now: node.now))
        #expect(node.stable().contains(written.dot))
    }

    @Test("A report that has not met our own incarnation does not count: we may be restored")
    func hasNotMetUs() {
        var (node, saved) = Self.saving()
        let former = ActorID(1, 49)
        node.heads(Self.second, [saved], met: [former, Self.third])
        node.heads(Self.third, [saved])
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(2) == .hasNotMet(Self.own))
        node.heads(Self.second, [saved])
        #expect(node.stable().contains(saved))
    }

    @Test("P15b: a report made before its member met another's new incarnation does not count")
    func hasNotMetAnother() {
        var (node, saved) = Self.saving()
        let restarted = ActorID(3, 31)
        node.heads(Self.second, [saved])
        node.heads(restarted, [saved], known: [Self.third])
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(2) == .hasNotMet(restarted))
        node.heads(Self.second, [saved], met: [Self.own, restarted])
        #expect(node.stable().contains(saved))
    }

    @Test("P15b: a former incarnation's report is void once another peer has met the new one")
    func formerReportVoid() {
        var (node, saved) = agreed()
        let restarted = ActorID(3, 31)
        node.heads(Self.second, [saved], met: [Self.own, restarted])
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(3) == .olderIncarnation(newest: restarted))
        node.heads(restarted, [])
        #expect(node.stable().isEmpty)
        node.heads(restarted, [saved])
        #expect(node.stable().contains(saved))
    }

    @Test("P15a: the report of a store that is not vouched for does not count")
    func recovering() {
        var (node, saved) = Self.saving()
        node.heads(Self.second, [saved])
        node.heads(Self.third, [saved], recovery: .restored)
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(3) == .recovering)
    }

    @Test("A report is used only once all is here that it holds of its reporter's own")
    func reporterAhead() {
        var (node, saved) = Self.saving()
        let theirs = makeTransaction(dot(Self.second, 1), seen: VersionVector())
        node.heads(Self.second, [saved, theirs.dot])
        node.heads(Self.third, [saved])
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(2) == .behind(missing: 1))
        node.page([theirs], from: 2)
        #expect(node.stable().contains(saved))
    }

    @Test("P15c: a report is used only once all it holds of closed actors is here, durable or not")
    func closedActorAhead() {
        var (node, saved) = Self.saving()
        let restarted = ActorID(3, 31)
        let lost = makeTransaction(dot(Self.third, 1), seen: VersionVector())
        node.heads(restarted, [saved])
        node.heads(Self.second, [saved], vector: [saved, lost.dot], met: [Self.own, restarted])
        #expect(node.stable().isEmpty)
        #expect(node.hindrance(2) == .behind(missing: 1))
        node.page([lost], from: 2)
        #expect(node.stable().contains(saved))
    }

    @Test("A member that always writes is not behind for ever: the awaited report is kept")
    func busyMember() {
        var (node, saved) = Self.saving()
        node.heads(Self.third, [saved])
        var seen = VersionVector()
        var stable = VersionVector()
        for sequence in 1...10 {
            let theirs = makeTransaction(dot(Self.second, UInt64(sequence)), seen: seen)
            seen.advance(to: theirs.dot)
            node.heads(Self.second, [saved, theirs.dot])
            node.tick()
            node.page([theirs], from: 2)
            node.heads(Self.second, [saved, dot(Self.second, UInt64(sequence + 1))])
            stable = node.stable()
        }
        #expect(stable.contains(saved))
    }

    @Test("Reports that come late or twice take nothing back")
    func lateReports() {
        var node = Reporter()
        let first = node.save(1)
        let saved = node.save(2)
        node.heads(Self.second, [saved])
        node.heads(Self.second, [first])
        node.heads(Self.second, [saved], met: [Self.third])
        node.heads(Self.second, [saved], recovery: .restored)
        node.heads(Self.third, [saved])
        node.heads(Self.third, [saved])
        #expect(node.hindrance(2) == nil)
        #expect(node.stable().contains(saved))
    }

    @Test("A late report of a former incarnation changes nothing but raises an alarm, once")
    func outdated() {
        var (node, saved) = Self.saving()
        let former = ActorID(2, 19)
        node.heads(Self.second, [saved])
        node.heads(Self.third, [saved])
        node.heads(former, [])
        node.heads(former, [])
        let alarm = Alarm.incarnationOutdated(World.id(2), incarnation: 19, newest: 20)
        #expect(node.effects.filter { $0 == .alarm(alarm) }.count == 1)
        #expect(node.replicator.status.peers[0].isAgreed)
        #expect(node.stable().contains(saved))
    }

    @Test("An incarnation older than one that an agreed peer has met is not agreed with")
    func outdatedByHearsay() {
        var node = Reporter()
        let newer = ActorID(2, 21)
        node.heads(Self.second)
        #expect(node.replicator.status.peers[0].isAgreed)
        node.heads(Self.third, met: [Self.own, newer])
        #expect(!node.replicator.status.peers[0].isAgreed)
        node.heads(Self.second)
        #expect(!node.replicator.status.peers[0].isAgreed)
        let alarm = Alarm.incarnationOutdated(World.id(2), incarnation: 20, newest: 21)
        #expect(node.effects.contains(.alarm(alarm)))
        node.heads(newer)
        #expect(node.replicator.status.peers[0].isAgreed)
    }

    @Test("An outdated node that asks is answered with the incarnation that was met instead")
    func outdatedIsTold() {
        var node = Reporter()
        node.heads(Self.second)
        node.sent = []
        let former = ActorID(2, 19)
        node.tell(.hello(Heads(former)), from: 2)
        #expect(node.lastHeads?.met.contains(Self.second) == true)
    }

    @Test("A node whose number peers know in a newer incarnation reopens, and saves nothing")
    func reopen() {
        let newer = ActorID(1, 51)
        var met = Reporter()
        met.heads(Self.second, met: [newer, Self.third])
        met.heads(Self.third, met: [newer, Self.second])
        #expect(met.effects == [.setSaving(allowed: false), .reopen(after: 51)])
        #expect(!met.replicator.status.isSaving)
        // Until it does it may hear of one that is later still, and is to go beyond that.
        let newest = ActorID(1, 90)
        met.heads(Self.third, met: [newest, Self.second])
        #expect(met.effects.last == .reopen(after: 90))
        var written = Reporter()
        written.heads(Self.second, [dot(newer, 3)])
        #expect(written.effects == [.setSaving(allowed: false), .reopen(after: 51), .outgrown])
    }

    @Test("What is published counts only from its writer's present run; else it is pulled")
    func closedActors() {
        var node = Reporter()
        let restarted = ActorID(2, 21)
        let late = makeTransaction(dot(Self.second, 1), seen: VersionVector())
        let foreign = makeTransaction(dot(Self.third, 1), seen: VersionVector())
        node.heads(Self.third)
        node.heads(restarted, known: [Self.second])
        node.tell(.notification([late.bytes, foreign.bytes]), from: 2, over: .publish)
        #expect(node.store.log.isEmpty)
        #expect(node.replicator.status.gauges.closedCount == 2)
        node.heads(restarted, [late.dot])
        node.page([late], from: 2)
        #expect(node.store.log.map(\.dot) == [late.dot])
    }

    @Test("P20: what waits of an actor is dropped when it is closed; a gap nobody fills is told")
    func orphaned() {
        var node = Reporter()
        var seen = VersionVector()
        seen.advance(Self.second, to: 4)
        let fifth = makeTransaction(dot(Self.second, 5), seen: seen)
        node.heads(Self.second)
        node.heads(Self.third)
        node.tell(.notification([fifth.bytes]), from: 2, over: .publish)
        #expect(node.replicator.status.gauges.waitingCount == 1)
        let restarted = ActorID(2, 21)
        node.heads(restarted)
        #expect(node.replicator.status.gauges.waitingCount == 0)
        #expect(node.replicator.status.orphaned.isEmpty)
        node.heads(Self.third, met: [Self.own, restarted])
        #expect(node.replicator.status.orphaned == [fifth.dot])
        node.heads(Self.third, [dot(Self.second, 1)], met: [Self.own, restarted])
        #expect(node.replicator.status.orphaned.isEmpty)
    }

    /// A save of node 2 that has an earlier one before it which did not come here.
    private static func late(_ sequence: UInt64, bytes: Int = 20) -> EncodedTransaction {
        var seen = VersionVector()
        seen.advance(second, to: sequence - 1)
        return makeTransaction(Dot(actor: second, sequence: sequence), seen: seen, bytes: bytes)
    }

    private static let restarted = ActorID(2, 21)

    /// Two saves of node 2 came here without the first, and it was restarted with a lost store.
    private static func lost(
        _ transactions: [EncodedTransaction], _ limits: Limits = Limits()
    ) -> Reporter {
        var node = Reporter(limits: limits)
        node.heads(Self.second)
        node.heads(Self.third)
        for transaction in transactions {
            node.tell(.notification([transaction.bytes]), from: 2, over: .publish)
        }
        node.heads(Self.restarted)
        return node
    }

    /// What a transaction takes while it waits.
    private static func size(_ transaction: EncodedTransaction) throws -> Int {
        try ReceivedTransaction(checking: transaction.bytes).size
    }

    private static func kept(_ node: Reporter) -> [[EncodedTransaction]] {
        node.effects.compactMap { if case .keepOrphans(let orphans) = $0 { orphans } else { nil } }
    }

    @Test("Orphans are given out to be kept once it is certain, once, by dot, and then released")
    func orphansGiven() throws {
        let (second, third) = (Self.late(2), Self.late(3))
        var node = Self.lost([third, second])
        node.tick()
        #expect(Self.kept(node).isEmpty)
        let bytes = try Self.size(second) + Self.size(third)
        #expect(node.replicator.status.gauges.orphanBytes == bytes)
        node.heads(Self.third, met: [Self.own, Self.restarted])
        node.tick()
        #expect(Self.kept(node) == [[second, third]])
        #expect(node.replicator.status.gauges.orphanBytes == 0)
        #expect(node.replicator.status.orphaned.isEmpty)
        // Not again, though it is not certain for a while.
        node.heads(Self.third, [dot(Self.second, 1)], met: [Self.own, Self.restarted])
        node.tick()
        node.heads(Self.third, met: [Self.own, Self.restarted])
        node.tick()
        #expect(Self.kept(node).count == 1)
    }

    @Test("What was dropped and is applied after all is no orphan")
    func gapFilled() {
        let first = makeTransaction(dot(Self.second, 1), seen: VersionVector())
        let second = Self.late(2)
        var node = Self.lost([second])
        let all = [first.dot, second.dot]
        node.heads(Self.third, [second.dot], met: [Self.own, Self.restarted])
        node.page([first, second], from: 3, vector: all)
        #expect(node.store.state.vector.contains(second.dot))
        #expect(node.replicator.status.gauges.orphanBytes == 0)
        node.heads(Self.third, [second.dot], met: [Self.own, Self.restarted])
        node.tick()
        #expect(Self.kept(node).isEmpty && node.replicator.status.orphaned.isEmpty)
    }

    private static func leftOut(_ node: Reporter) -> [[Dot]] {
        node.effects.compactMap { if case .orphansNotKept(let dots) = $0 { dots } else { nil } }
    }

    @Test("Only as many orphans are kept as their bounds allow; the newest are left out, by name")
    func orphansBounds() throws {
        let orphans = (2...6).map { Self.late($0, bytes: 100) }
        var limits = Limits()
        limits.orphans = 4
        limits.orphanBytes = try 3 * Self.size(orphans[0])
        var node = Self.lost(orphans, limits)
        #expect(node.replicator.status.gauges.orphanBytes <= limits.orphanBytes)
        // Not even the fifth's name is kept, so it is reported before it is known to be lost.
        #expect(Self.leftOut(node) == [[orphans[4].dot]])
        node.heads(Self.third, met: [Self.own, Self.restarted])
        #expect(node.replicator.status.orphaned == orphans[0..<4].map(\.dot))
        node.tick()
        #expect(Self.kept(node) == [Array(orphans[0..<3])])
        #expect(Self.leftOut(node) == [[orphans[4].dot], [orphans[3].dot]])
        node.tick()
        #expect(Self.kept(node).count == 1 && Self.leftOut(node).count == 2)
    }

    @Test("As many orphans are kept as can wait")
    func manyOrphans() {
        let orphans = (2...1_501).map { Self.late($0) }
        var node = Self.lost(orphans)
        node.heads(Self.third, met: [Self.own, Self.restarted])
        node.tick()
        #expect(Self.kept(node) == [orphans] && Self.leftOut(node).isEmpty)
        let limits = Limits()
        #expect(limits.orphans == limits.waitingCount && limits.orphanBytes == limits.waitingBytes)
    }

    @Test("Orphans that were given out take no room of those that a later loss makes")
    func orphansOfLaterRuns() {
        var limits = Limits()
        limits.orphans = 2
        let first = [Self.late(2), Self.late(3)]
        var node = Self.lost(first, limits)
        node.heads(Self.third, met: [Self.own, Self.restarted])
        node.tick()
        var seen = VersionVector()
        let second = (2...3).map { sequence in
            seen.advance(Self.restarted, to: UInt64(sequence - 1))
            return makeTransaction(dot(Self.restarted, UInt64(sequence)), seen: seen)
        }
        for transaction in second {
            node.tell(.notification([transaction.bytes]), from: 2, over: .publish)
        }
        let again = ActorID(2, 22)
        node.heads(again)
        node.heads(Self.third, met: [Self.own, again])
        node.tick()
        #expect(Self.kept(node) == [first, second] && Self.leftOut(node).isEmpty)
    }

    @Test("Heads do not say that a run was met while a closed actor's save is being applied")
    func meetingWaits() {
        var node = Reporter()
        let written = makeTransaction(dot(Self.second, 1), seen: VersionVector())
        node.heads(Self.second)
        // By hand, so that the store has not answered yet.
        let applying = node.replicator.hear(
            .notification([written.bytes]), from: 2, over: .publish, now: node.now)
        #expect(applying == [.apply([written])])
        let restarted = ActorID(2, 21)
        node.heads(restarted)
        node.tick()
        #expect(node.lastHeads?.met == [Self.second])
        _ = node.store.apply([written])
        node.give(.applied(state: node.store.state, rejected: [], now: node.now))
        node.tick()
        #expect(node.lastHeads?.met == [restarted])
        #expect(node.lastHeads?.vector.contains(written.dot) == true)
    }
}
