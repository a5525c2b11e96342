import Merge
import Replication
import Testing

@testable import Coordinator
@testable import Simulation

/// Laws 2, 4, 7, 8 and 11: those that look at what happened.
struct HistoryCheckerTests {
    private let first = CheckerScript.actor(0)
    private let second = CheckerScript.actor(1)

    private func item(_ kind: Change.Kind, _ name: String? = nil) -> CheckerScript.Write {
        .init(kind: kind, entity: "Item", row: 2, values: name.map { ["name": .string($0)] } ?? [:])
    }

    private func acknowledged(
        _ script: CheckerScript, _ transaction: EncodedTransaction, author: String? = nil,
        node: Int = 0
    ) -> Observation {
        let seen = transaction.transaction.seen
        return .acknowledged(
            node: node, save: SaveRequest(operations: [], author: author),
            result: SaveResult(
                transaction: transaction.dot, timestamp: transaction.transaction.timestamp,
                seen: seen, token: script.token(1, seen), insertedRows: [], conflicts: [],
                rows: []))
    }

    private func settled(
        _ script: CheckerScript, _ vectors: [(ActorID, UInt64)]...
    ) -> Observation {
        var final: [Int: Reading] = [:]
        for (node, vector) in vectors.enumerated() { final[node] = script.reading(9, vector) }
        return .settled(final: final, isReopened: false)
    }

    // MARK: Law 2

    /// Node 1 saves and gets its answer; then what follows.
    private func afterSaving(_ observations: (CheckerScript) -> [Observation]) throws -> String {
        var script = try CheckerScript()
        var checker = AcknowledgementChecker()
        let save = script.transaction(first, 1, at: 10, author: "n1.1", item(.insert, "i"))
        var told = script.tell(
            &checker, script.started(0), script.started(1),
            script.committed(1, [(first, 1)], [save]),
            acknowledged(script, save, author: "n1.1"))
        for observation in observations(script) { told += script.tell(&checker, observation) }
        return told.joined(separator: "\n")
    }

    @Test("Law 2: a save that is everywhere passes, and one whose only disk is lost")
    func acknowledged() throws {
        #expect(try afterSaving { [settled($0, [(first, 1)], [(first, 1)])] } == "")
        #expect(
            try afterSaving { script in
                [
                    .ended(node: 0, how: .killed), script.started(0, 2, [(first, 1)]),
                    .ended(node: 0, how: .wiped), script.started(0, 3, []),
                    settled(script, [], []),
                ]
            } == "")
    }

    @Test("Law 2: a save lost at a restart, lost at the end or lost by some is caught")
    func acknowledgedAndLost() throws {
        let restarted = try afterSaving { script in
            [.ended(node: 0, how: .powerLost), script.started(0, 2, [])]
        }
        #expect(restarted.contains("node 1 store after restart"))
        #expect(try afterSaving { [settled($0, [], [])] }.contains("found nowhere"))
        let partly = try afterSaving { script in
            [.ended(node: 0, how: .wiped), settled(script, [], [(first, 1)])]
        }
        #expect(partly.contains("missing on node 1 and not on all"))
        // Node 2 had it too, so the loss of node 1's disk is no excuse.
        let held = try afterSaving { script in
            [
                .ended(node: 1, how: .closed), script.started(1, 2, [(first, 1)]),
                .ended(node: 0, how: .wiped), settled(script, [], []),
            ]
        }
        #expect(held.contains("node 2 still held it"))
    }

    @Test("Law 2: what was called durable survives a power loss, and what was not may go")
    func durable() throws {
        func restart(_ isDurable: Bool) throws -> String {
            var script = try CheckerScript()
            var checker = AcknowledgementChecker()
            let save = script.transaction(second, 1, at: 10, item(.insert, "i"))
            let notice = script.notice(1, [(second, 1)], [save], isLocal: false)
            let durable = CheckerScript.vector(isDurable ? [(second, UInt64(1))] : [])
            return script.tell(
                &checker, script.started(0), .committed(node: 0, notice: notice),
                .durable(node: 0, vector: durable), .ended(node: 0, how: .powerLost),
                script.started(0, 2, [])
            ).joined()
        }
        #expect(try restart(false) == "")
        #expect(try restart(true).contains("called durable"))
    }

    @Test("Law 2: a refused save that shows, and another save's answer, are caught")
    func refused() throws {
        let refused = try afterSaving { script in
            [
                .refused(
                    node: 0, save: SaveRequest(operations: [], author: "n1.1"),
                    error: CoordinatorError(.diskFull, "full")),
                settled(script, [(first, 1)], [(first, 1)]),
            ]
        }
        #expect(refused.contains("node 1 refused the save of n1.1"))
        let unknown = try afterSaving { script in
            [
                .unknown(
                    node: 0, save: SaveRequest(operations: [], author: "n1.1"),
                    error: CoordinatorError(.outcomeUnknown, "who knows")),
                settled(script, [(first, 1)], [(first, 1)]),
            ]
        }
        #expect(unknown == "")
        var script = try CheckerScript()
        var checker = AcknowledgementChecker()
        let save = script.transaction(first, 1, at: 10, author: "n1.2", item(.insert, "i"))
        let told = script.tell(
            &checker, script.committed(1, [(first, 1)], [save]),
            acknowledged(script, save, author: "n1.1"))
        #expect(told.first?.contains("expected its own transaction, found that of n1.2") == true)
    }

    @Test("Law 2: a save with an ID that is done twice is caught, but not after its disk is lost")
    func repeatedSave() throws {
        for isLost in [false, true] {
            var script = try CheckerScript()
            var checker = AcknowledgementChecker()
            let save = script.transaction(first, 1, at: 10, saveID: "s", item(.insert, "i"))
            let again = script.transaction(first, 2, at: 20, saveID: "s", item(.update, "j"))
            var told = script.tell(&checker, script.committed(1, [(first, 1)], [save]))
            if isLost { told += script.tell(&checker, .ended(node: 0, how: .wiped)) }
            told += script.tell(&checker, script.committed(2, [(first, 2)], [again]))
            #expect(told.count == (isLost ? 0 : 1))
        }
    }

    @Test("Law 2: a save that is there is not refused when repeated, unless it is forgotten")
    func refusedAgain() throws {
        for isForgotten in [false, true] {
            var script = try CheckerScript()
            var checker = AcknowledgementChecker()
            let save = script.transaction(first, 1, at: 10, saveID: "s", item(.insert, "i"))
            let purged = CheckerScript.vector(isForgotten ? [(first, UInt64(1))] : [])
            let told = script.tell(
                &checker, script.committed(1, [(first, 1)], [save]),
                .purged(node: 0, vector: purged),
                .refused(
                    node: 0, save: SaveRequest(operations: [], saveID: "s"),
                    error: CoordinatorError(.objectNotFound, "gone")),
                settled(script, [(first, 1)], [(first, 1)]))
            #expect(told.count { $0.contains("refused the save") } == (isForgotten ? 0 : 1))
        }
    }

    @Test("Law 2: a write that lost and is in no journal is caught")
    func unexplained() throws {
        var script = try CheckerScript()
        var checker = AcknowledgementChecker()
        let saves = [
            script.transaction(first, 1, at: 10, item(.insert, "i")),
            script.transaction(first, 2, at: 20, item(.update, "j")),
            script.transaction(second, 1, at: 30, seen: [(first, 1)], item(.update, "k")),
        ]
        let vector = [(first, UInt64(2)), (second, UInt64(1))]
        let told = script.tell(
            &checker, script.committed(1, vector, saves),
            settled(script, vector))
        #expect(told.first?.contains("lost a write silently") == true)
    }

    // MARK: Law 4

    /// What the checker makes of one transaction that node 1 commits after one of its own.
    private func committing(_ make: (CheckerScript) -> CommitNotice) throws -> String {
        var script = try CheckerScript()
        var checker = CausalityChecker()
        let save = script.transaction(first, 1, at: 10, item(.insert, "i"))
        var told = script.tell(
            &checker, script.started(0),
            script.committed(1, [(first, 1)], [save]))
        told += script.tell(&checker, .committed(node: 0, notice: make(script)))
        return told.joined(separator: "\n")
    }

    @Test("Law 4: commits in causal order pass")
    func causality() throws {
        let local = try committing { script in
            script.notice(
                2, [(first, 2)], [script.transaction(first, 2, at: 20, item(.update, "j"))])
        }
        #expect(local == "")
        let foreign = try committing { script in
            let save = script.transaction(second, 1, at: 15, seen: [(first, 1)], item(.update, "j"))
            return script.notice(5, [(first, 1), (second, 1)], [save], isLocal: false)
        }
        #expect(foreign == "")
    }

    @Test("Law 4: gaps, early transactions, stale stamps and shrinking states are caught")
    func causalityViolations() throws {
        let gap = try committing { script in
            script.notice(
                2, [(first, 3)], [script.transaction(first, 3, at: 20, item(.update, "j"))])
        }
        #expect(gap.contains("expected sequence 2 of its actor"))
        let early = try committing { script in
            let save = script.transaction(
                second, 1, at: 15, seen: [(CheckerScript.actor(2), 1)], item(.update, "j"))
            return script.notice(2, [(first, 1), (second, 1)], [save], isLocal: false)
        }
        #expect(early.contains("expected after all that it has seen"))
        let stale = try committing { script in
            script.notice(
                2, [(first, 2)], [script.transaction(first, 2, at: 10, item(.update, "j"))])
        }
        #expect(stale.contains("expected a stamp after 10.0"))
        let generation = try committing { script in
            script.notice(
                1, [(first, 2)], [script.transaction(first, 2, at: 20, item(.update, "j"))])
        }
        #expect(generation.contains("expected one after 1"))
        let vector = try committing { script in
            script.notice(
                2, [(first, 3)], [script.transaction(first, 2, at: 20, item(.update, "j"))])
        }
        #expect(vector.contains("expected the vector before and its transactions"))
        let actor = try committing { script in
            script.notice(
                2, [(first, 1), (second, 1)],
                [script.transaction(second, 1, at: 20, seen: [(first, 1)], item(.update, "j"))])
        }
        #expect(actor.contains("expected the actor"))
    }

    @Test("Law 4: stamps stay behind no stamp that a store held, also after a restart")
    func stampsAfterRestart() throws {
        var script = try CheckerScript()
        var checker = CausalityChecker()
        let again = CheckerScript.actor(0, 2)
        let save = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let later = script.transaction(again, 1, at: 9, seen: [(first, 1)], item(.update, "j"))
        let told = script.tell(
            &checker, script.started(0),
            script.committed(1, [(first, 1)], [save]),
            .ended(node: 0, how: .killed), script.started(0, 2, [(first, 1)]),
            script.committed(2, [(first, 1), (again, 1)], [later]))
        #expect(told.count == 1)
        #expect(told.first?.contains("expected a stamp after 10.0") == true)
    }

    @Test("Law 4: a client reads all its acknowledged saves, and never less than before")
    func readings() throws {
        var script = try CheckerScript()
        var checker = CausalityChecker()
        let save = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let told = script.tell(
            &checker, script.started(0),
            script.committed(1, [(first, 1)], [save]),
            acknowledged(script, save), .read(node: 0, reading: script.reading(1, [(first, 1)])))
        #expect(told == [])
        let stale = script.tell(&checker, .read(node: 0, reading: script.reading(0, [])))
        #expect(stale.contains { $0.contains("expected what was acknowledged before") })
        #expect(stale.contains { $0.contains("expected no less than an earlier reading") })
    }

    // MARK: Law 7

    /// Node 1 has an item inserted and deleted; then another node's write shows it again.
    private func returning(
        _ kind: Change.Kind, seen: UInt64, isRestored: Bool = false
    ) throws -> [String] {
        var script = try CheckerScript()
        var checker = ResurrectionChecker()
        let insert = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let delete = script.transaction(first, 2, at: 20, item(.delete))
        let back = script.transaction(second, 1, at: 30, seen: [(first, seen)], item(kind, "j"))
        let id = ManagedObjectID.of("Item", 2)
        var told = script.tell(
            &checker, script.started(0),
            script.committed(1, [(first, 1)], [insert], inserted: [id]),
            script.committed(2, [(first, 2)], [delete], deleted: [id]))
        if isRestored {
            return told
                + script.tell(
                    &checker, .ended(node: 0, how: .restored), script.started(0, 2, [(first, 1)]),
                    .read(node: 0, reading: script.reading(3, [(first, 1)])))
        }
        told += script.tell(
            &checker,
            script.committed(3, [(first, 2), (second, 1)], [back], isLocal: false, inserted: [id]))
        return told
    }

    @Test("Law 7: a revival and a write that had not seen the delete may bring a row back")
    func returns() throws {
        #expect(try returning(.revival, seen: 2) == [])
        #expect(try returning(.update, seen: 1) == [])
        #expect(try returning(.update, seen: 2, isRestored: true) == [])
    }

    @Test("Law 7: a row that returns by a write that had seen its delete is caught")
    func resurrections() throws {
        let told = try returning(.update, seen: 2)
        #expect(told.count == 1)
        #expect(told.first?.contains("Item/p2: expected gone since \(first)-2") == true)
    }

    @Test("Law 7: a row that returns by nothing, and one that nobody inserted, are caught")
    func unborn() throws {
        var script = try CheckerScript()
        var checker = ResurrectionChecker()
        let insert = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let delete = script.transaction(first, 2, at: 20, item(.delete))
        var told = script.tell(
            &checker, script.started(0),
            script.committed(1, [(first, 1)], [insert]))
        let before = script.reading(1, [(first, 1)])
        told += script.tell(
            &checker, .read(node: 0, reading: before),
            script.committed(2, [(first, 2)], [delete]))
        // Its absence from a whole reading is its death.
        let after = script.reading(2, [(first, 2)])
        told += script.tell(&checker, .read(node: 0, reading: after))
        #expect(told == [])
        var forged = before
        forged.token = script.token(3, CheckerScript.vector([(first, 2)]))
        #expect(
            script.tell(&checker, .read(node: 0, reading: forged)).first?.contains("found alive")
                == true)
        forged.token = script.token(3, VersionVector())
        #expect(
            script.tell(&checker, .read(node: 1, reading: forged)).first?
                .contains("nobody in its vector has inserted it") == true)
    }

    // MARK: Law 8

    /// Both nodes have one save, durable or not at node 2; then what follows.
    private func afterSharing(
        isDurable: Bool = true, _ observations: (CheckerScript) -> [Observation]
    ) throws -> String {
        var script = try CheckerScript()
        var checker = StabilityChecker()
        let save = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let vector = [(first, UInt64(1))]
        let durable = CheckerScript.vector(vector)
        var told = script.tell(
            &checker, script.started(0), script.started(1),
            script.committed(1, vector, [save]),
            .durable(node: 0, vector: durable),
            script.committed(1, vector, [save], on: 1, isLocal: false),
            .durable(node: 1, vector: isDurable ? durable : VersionVector()))
        for observation in observations(script) { told += script.tell(&checker, observation) }
        return told.joined(separator: "\n")
    }

    private func stable(_ vector: [(ActorID, UInt64)], _ node: Int = 0) -> Observation {
        .stable(node: node, vector: CheckerScript.vector(vector))
    }

    @Test("Law 8: what all have durably may be stable, and what has seen it may come")
    func stability() throws {
        let told = try afterSharing { script in
            let next = script.transaction(second, 1, at: 20, seen: [(first, 1)], item(.update, "j"))
            var result = CollectionResult()
            result.isDone = true
            return [
                stable([(first, 1)]),
                script.committed(2, [(first, 1), (second, 1)], [next], isLocal: false),
                .collected(node: 0, stable: CheckerScript.vector([(first, 1)]), result: result),
                settled(script, [(first, 1)]),
            ]
        }
        #expect(told == "")
    }

    /// A second save becomes stable, and one comes that has not seen it.
    private func late(
        _ script: CheckerScript, seen: [(ActorID, UInt64)], _ write: CheckerScript.Write
    ) -> [Observation] {
        let vector = [(first, UInt64(2))]
        let durable = CheckerScript.vector(vector)
        let save = script.transaction(first, 2, at: 15, seen: [(first, 1)], item(.update, "k"))
        let late = script.transaction(second, 1, at: 20, seen: seen, write)
        return [
            script.committed(2, vector, [save]),
            .durable(node: 0, vector: durable),
            script.committed(2, vector, [save], on: 1, isLocal: false),
            .durable(node: 1, vector: durable), stable(vector),
            script.committed(3, vector + [(second, 1)], [late], isLocal: false),
        ]
    }

    @Test("Law 8: saves whose pasts have nothing in common share no row, and may come late")
    func disjointPasts() throws {
        let told = try afterSharing { script in
            late(script, seen: [], .insert("Item", 5))
        }
        #expect(told == "")
    }

    @Test("Law 8: history that a consumer has not read goes by its size, and not by its age")
    func unread() throws {
        func found(_ change: @escaping (inout HistoryTending) -> Void) throws -> String {
            try afterSharing { _ in
                var tending = HistoryTending()
                tending.purgedByAge = 1
                change(&tending)
                let status = HistoryStatus(
                    transactions: 1, bytes: 10, oldest: nil, closedRecords: 0, consumers: [])
                return [.tended(node: 0, limits: .init(), tending: tending, status: status)]
            }
        }
        #expect(try found { _ in } == "")
        #expect(
            try found {
                $0.expired = ["reader"]
                $0.purgedBySize = 1
            } == "")
        #expect(
            try found { $0.expired = ["reader"] }.contains("kept for the consumer reader"))
    }

    @Test("Law 8: stable too early, shrinking, followed by a concurrent write: caught")
    func stabilityViolations() throws {
        let early = try afterSharing(isDurable: false) { _ in [stable([(first, 1)])] }
        #expect(early.contains("expected that node 2 has it all on its disk"))
        let shrunk = try afterSharing { _ in [stable([(first, 1)]), stable([])] }
        #expect(shrunk.contains("expected no less than before"))
        let concurrent = try afterSharing { script in
            late(script, seen: [(first, 1)], item(.update, "j"))
        }
        #expect(concurrent.contains("is concurrent to it"))
        let lost = try afterSharing { script in
            [stable([(first, 1)]), .ended(node: 1, how: .powerLost), script.started(1, 2, [])]
        }
        #expect(lost.contains("node 2 store after restart"))
    }

    @Test("Law 8: what is stable and was not collected in the end is caught")
    func uncollected() throws {
        for isDone in [true, false] {
            let told = try afterSharing { script in
                var result = CollectionResult()
                result.isDone = isDone
                var reading = script.reading(1, [(first, 1)])
                reading.uncollected = 1
                return [
                    stable([(first, 1)]),
                    .collected(
                        node: 0, stable: CheckerScript.vector([(first, 1)]), result: result),
                    .settled(final: [0: reading], isReopened: false),
                ]
            }
            // Only after a collection that had looked at everything.
            #expect(told.contains("expected at most 0, which are unresolved, found 1") == isDone)
        }
    }

    // MARK: Law 11

    @Test("Law 11: contiguous dots of fresh actors pass; tails may be lost")
    func dots() throws {
        var script = try CheckerScript()
        var checker = DotChecker()
        let save = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let tail = script.transaction(first, 2, at: 20, item(.update, "j"))
        let told = script.tell(
            &checker, script.started(0),
            script.committed(1, [(first, 2)], [save, tail]),
            .ended(node: 0, how: .powerLost), script.started(0, 2, [(first, 1)]),
            settled(script, [(first, 1)]))
        #expect(told == [])
    }

    @Test("Law 11: a dot with two contents, a gap, a dot unheard of and an actor of two lives")
    func dotViolations() throws {
        let script = try CheckerScript()
        var checker = DotChecker()
        let save = script.transaction(first, 1, at: 10, item(.insert, "i"))
        let other = script.transaction(first, 1, at: 10, item(.insert, "j"))
        let third = script.transaction(first, 3, at: 30, item(.update, "k"))
        let run = script.run
        func tell(_ observation: Observation) -> String {
            checker.observe(observation, run).joined(separator: "\n")
        }
        #expect(tell(script.started(0)) == "")
        #expect(tell(.found(node: 0, transactions: [save])) == "")
        #expect(tell(.found(node: 1, transactions: [other])).contains("found another"))
        #expect(tell(.found(node: 0, transactions: [third])) == "")
        let end = tell(settled(script, [(second, 1)]))
        #expect(end.contains("expected all sequences up to 3, which was committed, found none"))
        #expect(end.contains("node 1 settled with \(second)-1, which nobody was seen to commit"))
        #expect(tell(script.started(0)).contains("that node 1 has lived as"))
    }
}
