import Merge
import Testing

@testable import Coordinator
@testable import Replication
@testable import Simulation

/// Laws 9 and 10: gauges within bounds, and contexts' policies.
struct ContextPolicyCheckerTests {
    private let id = ManagedObjectID.of("Tag", 1)
    private let dots = (1...3).map { Dot(actor: CheckerScript.actor(0), sequence: $0) }

    /// A row of two values, as the version of a number has it.
    private func row(_ version: Int, _ label: String) -> RowSnapshot {
        RowSnapshot(
            objectID: id, version: RowVersion(dots: [dots[version]]), values: [.string(label)],
            isConflicted: false)
    }

    /// What the checker says of a save of one object.
    private func saving(
        _ policy: MergePolicy, assigned: String?, stored: RowSnapshot?, after: RowSnapshot?,
        error: CoordinatorError? = nil, hasChanges: Bool = false
    ) throws -> String {
        var script = try CheckerScript()
        var checker = ContextPolicyChecker()
        let record = ContextRecord(
            policy: policy, before: VersionVector(),
            objects: [
                .init(
                    id: id, fetched: row(0, "x"), assigned: assigned.map { [0: .string($0)] },
                    stored: stored, after: after)
            ], error: error, hasChanges: hasChanges)
        return script.tell(&checker, .contextSaved(node: 0, record: record))
            .joined(separator: "\n")
    }

    private func mergeConflict(_ new: RowVersion?) -> CoordinatorError {
        CoordinatorError(
            .mergeConflict, "moved on",
            conflicts: [
                MergeConflict(
                    object: id, properties: ["label"], oldVersion: RowVersion(dots: [dots[0]]),
                    newVersion: new, objectSnapshot: nil, cachedSnapshot: nil,
                    persistedSnapshot: nil)
            ])
    }

    @Test("Law 10: every policy's outcome as conformance says passes")
    func outcomes() throws {
        let (theirs, mine) = (row(1, "theirs"), row(2, "mine"))
        let error = mergeConflict(theirs.version)
        #expect(
            try saving(
                .error, assigned: "mine", stored: theirs, after: theirs, error: error,
                hasChanges: true) == "")
        for policy in MergePolicy.allCases {
            #expect(try saving(policy, assigned: "mine", stored: row(0, "x"), after: mine) == "")
        }
        let outcomes: [(MergePolicy, RowSnapshot)] = [
            (.mergeByPropertyStoreTrump, theirs), (.rollback, theirs),
            (.mergeByPropertyObjectTrump, mine), (.overwrite, mine),
        ]
        for (policy, after) in outcomes {
            #expect(try saving(policy, assigned: "mine", stored: theirs, after: after) == "")
            // A delete in the store stands under every policy but overwrite.
            let returned = policy == .overwrite ? mine : nil
            #expect(try saving(policy, assigned: "mine", stored: nil, after: returned) == "")
            // A delete by the context goes through under every policy but rollback.
            let kept = policy == .rollback ? theirs : nil
            #expect(try saving(policy, assigned: nil, stored: theirs, after: kept) == "")
            #expect(try saving(policy, assigned: nil, stored: nil, after: nil) == "")
        }
    }

    @Test("Law 10: a missed conflict, a false one and one that changed something are caught")
    func errorViolations() throws {
        let theirs = row(1, "theirs")
        let error = mergeConflict(theirs.version)
        #expect(
            try saving(.error, assigned: "mine", stored: theirs, after: row(2, "mine"))
                .contains("expected mergeConflict"))
        #expect(
            try saving(
                .error, assigned: "mine", stored: row(0, "x"), after: row(0, "x"), error: error,
                hasChanges: true
            ).contains("in conflict: expected false, found true"))
        #expect(
            try saving(
                .error, assigned: "mine", stored: theirs, after: row(2, "mine"), error: error,
                hasChanges: true
            ).contains("expected unchanged by a save that threw"))
        #expect(
            try saving(.error, assigned: "mine", stored: theirs, after: theirs, error: error)
                .contains("expected its changes"))
        #expect(
            try saving(
                .overwrite, assigned: "mine", stored: theirs, after: theirs, error: error,
                hasChanges: true
            ).contains("expected to be settled"))
        #expect(
            try saving(
                .error, assigned: "mine", stored: nil, after: nil,
                error: mergeConflict(theirs.version), hasChanges: true
            ).contains("found \(dots[0]) with \(dots[1])"))
    }

    @Test("Law 10: every policy's opposite outcome is caught")
    func outcomeViolations() throws {
        let (theirs, mine) = (row(1, "theirs"), row(2, "mine"))
        let wrong: [(MergePolicy, RowSnapshot)] = [
            (.mergeByPropertyStoreTrump, mine), (.rollback, mine),
            (.mergeByPropertyObjectTrump, theirs), (.overwrite, theirs),
        ]
        for (policy, after) in wrong {
            #expect(
                try saving(policy, assigned: "mine", stored: theirs, after: after)
                    .contains("Tag/p1.label: expected"))
            let returned = policy == .overwrite ? nil : mine
            #expect(
                try saving(policy, assigned: "mine", stored: nil, after: returned)
                    .contains("Tag/p1: expected"))
            let kept = policy == .rollback ? nil : theirs
            #expect(
                try saving(policy, assigned: nil, stored: theirs, after: kept)
                    .contains("Tag/p1: expected"))
        }
        // What the policy left unchanged is not written.
        #expect(
            try saving(.rollback, assigned: "mine", stored: theirs, after: row(2, "theirs"))
                .contains("left nothing to write"))
        #expect(
            try saving(
                .overwrite, assigned: "mine", stored: theirs, after: mine, hasChanges: true
            ).contains("expected no changes after a save"))
    }

    @Test("Law 10: properties are settled one by one, and overwriting writes all as fetched")
    func properties() {
        func outcome(_ policy: MergePolicy) -> ContextPolicy.Outcome {
            ContextPolicy.outcome(
                policy, fetched: [1, 1, 1],
                assigned: [0: 2, 1: 2],
                stored: [3, 1, 3], hasMoved: true)
        }
        func values(_ numbers: Int64..., written: Set<Int>) -> ContextPolicy.Outcome {
            .values(numbers.map { .integer($0) }, written: written)
        }
        #expect(outcome(.mergeByPropertyStoreTrump) == values(3, 2, 3, written: [1]))
        #expect(outcome(.mergeByPropertyObjectTrump) == values(2, 2, 3, written: [0, 1]))
        #expect(outcome(.overwrite) == values(2, 2, 1, written: [0, 1, 2]))
        #expect(outcome(.rollback) == values(3, 1, 3, written: []))
        #expect(outcome(.error) == .conflict)
    }

    /// What the checker says of a save that overwrites an owner which was deleted, so that it is
    /// back, and changes the size of its item, whose reference had read as null.
    ///
    /// - Parameters:
    ///   - owner: what the item's register held before the save.
    ///   - found: what the item's reference reads as after it.
    ///   - fetched: what the context had fetched of it.
    private func reviving(
        owner: PropertyValue, found: PropertyValue, fetched: PropertyValue = .null
    ) throws -> String {
        var script = try CheckerScript()
        let actor = CheckerScript.actor(0)
        let item = ManagedObjectID.of("Item", 2)
        guard let entity = script.model.entity(named: "Item"),
            let place = entity.position(of: "owner"), let size = entity.position(of: "size")
        else { throw CoordinatorError(.malformed, "The script has another model.") }
        func row(_ version: Int, size number: Int64, owner: PropertyValue) -> RowSnapshot {
            var values = entity.properties.map { _ in PropertyValue.null }
            values[size] = .integer(number)
            values[place] = owner
            return RowSnapshot(
                objectID: item, version: RowVersion(dots: [dots[version]]), values: values,
                isConflicted: false)
        }
        var checker = ContextPolicyChecker()
        let made = script.transaction(
            actor, 1, at: 10, .insert("Owner", 1),
            .insert("Item", 2, ["owner": owner, "size": 1]))
        let gone = script.transaction(actor, 2, at: 20, .delete("Owner", 1))
        let record = ContextRecord(
            policy: .overwrite, before: CheckerScript.vector([(actor, 2)]),
            objects: [
                .init(
                    id: item, fetched: row(0, size: 1, owner: fetched),
                    assigned: [size: 5], stored: row(0, size: 1, owner: .null),
                    after: row(2, size: 5, owner: found))
            ], error: nil, hasChanges: false)
        return script.tell(
            &checker, script.committed(1, [(actor, 1)], [made]),
            script.committed(2, [(actor, 2)], [gone]),
            .contextSaved(node: 0, record: record)
        ).joined(separator: "\n")
    }

    @Test("Law 10: a reference that a save left alone shows again with its target, and no other")
    func returningReference() throws {
        let target = PropertyValue.reference(RowID(1))
        #expect(try reviving(owner: target, found: target) == "")
        #expect(try reviving(owner: target, found: target, fetched: target) == "")
        #expect(try reviving(owner: target, found: .null) == "")
        // Another target than the register held, or one where it held none, is somebody's write.
        #expect(
            try reviving(owner: target, found: .reference(RowID(3)))
                .contains("Item/p2.owner: expected null, found reference"))
        #expect(
            try reviving(owner: .null, found: target)
                .contains("Item/p2.owner: expected null, found reference"))
    }

    @Test("Law 9: gauges at their limits pass, and each above its own is caught")
    func bounds() throws {
        var script = try CheckerScript()
        let gauges = ProcessGauges(
            replicator: ReplicatorGauges(), held: 0, limits: Limits(), writeAheadLogBytes: 4096,
            writeAheadLogLimit: 1 << 20, pins: 0)
        func found(_ change: (inout ProcessGauges) -> Void) -> [String] {
            var checker = BoundsChecker()
            var changed = gauges
            change(&changed)
            return script.tell(&checker, .gauges(node: 0, gauges: changed))
        }
        #expect(found { $0.replicator.waitingCount = $0.limits.waitingCount } == [])
        #expect(
            found { $0.replicator.waitingCount = $0.limits.waitingCount + 1 } == [
                "node 1 waitingCount: expected at most 10000, found 10001"
            ])
        #expect(found { $0.replicator.waitingBytes = $0.limits.waitingBytes + 1 }.count == 1)
        #expect(found { $0.replicator.applyingCount = 1_000_000 }.count == 1)
        #expect(found { $0.replicator.applyingBytes = 1 << 40 }.count == 1)
        #expect(found { $0.replicator.pullsOutstanding = $0.limits.peers + 1 }.count == 1)
        #expect(found { $0.replicator.piecesBytes = 1 << 40 }.count == 1)
        #expect(found { $0.replicator.orphanBytes = $0.limits.orphanBytes + 1 }.count == 1)
        #expect(found { $0.held = $0.limits.actors + 1 }.count == 1)
        #expect(found { $0.pins = 65 }.count == 1)
        #expect(found { $0.writeAheadLogBytes = 1 << 30 }.count == 1)
    }

    @Test("Law 9: history that is tended to keeps to its limits, but for what is only there")
    func history() throws {
        var script = try CheckerScript()
        var limits = HistoryLimits()
        (limits.maximumBytes, limits.maximumRecords) = (1_000, 5)
        func found(
            _ bytes: UInt64, transactions: UInt64 = 2, records: Int = 0,
            _ change: (inout HistoryTending) -> Void = { _ in }
        ) -> [String] {
            var checker = BoundsChecker()
            var tending = HistoryTending()
            change(&tending)
            let status = HistoryStatus(
                transactions: transactions, bytes: bytes, oldest: nil, closedRecords: records,
                consumers: [])
            return script.tell(
                &checker, .tended(node: 0, limits: limits, tending: tending, status: status))
        }
        #expect(found(1_000, records: 5) == [])
        #expect(found(1_001) == ["node 1 historyBytes: expected at most 1000, found 1001"])
        #expect(found(0, records: 6) == ["node 1 closedRecords: expected at most 5, found 6"])
        #expect(found(1_001, transactions: 1) == [])
        let dot = dots[0]
        #expect(found(1_001) { $0.hold = .onlyHere(dot) } == [])
        #expect(found(1_001) { $0.hold = .notStable(dot) }.count == 1)
        #expect(found(1_001) { $0.isDone = false } == [])
    }

    @Test("Law 9: a pin may hold the log up to its limit, until the log starts over after it")
    func pinnedLog() throws {
        var script = try CheckerScript()
        var checker = BoundsChecker()
        let most = BoundsChecker.writeAheadLogBytes
        func found(_ bytes: UInt64, pins: Int) -> [String] {
            let gauges = ProcessGauges(
                replicator: ReplicatorGauges(), held: 0, limits: Limits(),
                writeAheadLogBytes: bytes, writeAheadLogLimit: 1 << 20, pins: pins)
            return script.tell(&checker, .gauges(node: 0, gauges: gauges))
        }
        #expect(found(most, pins: 0) == [])
        #expect(found(most + 1 << 20, pins: 1) == [])
        #expect(found(most + 1 << 20, pins: 0) == [])
        #expect(found(4096, pins: 0) == [])
        #expect(found(most + 1, pins: 0).count == 1)
    }

    @Test("Law 9: over its limit a pinned log may be for as many seconds as there are pins")
    func pinnedLogGoneOver() throws {
        var script = try CheckerScript()
        var checker = BoundsChecker()
        func found(_ hasCommitted: Bool) -> [String] {
            let gauges = ProcessGauges(
                replicator: ReplicatorGauges(), held: 0, limits: Limits(),
                writeAheadLogBytes: BoundsChecker.writeAheadLogBytes + 1 << 21,
                writeAheadLogLimit: 1 << 20, pins: 2)
            let commit = script.committed(1, [], [])
            return (hasCommitted ? script.tell(&checker, commit) : [])
                + script.tell(&checker, .gauges(node: 0, gauges: gauges))
        }
        #expect(found(true) == [])
        for _ in 0..<10 { #expect(found(false) == []) }
        #expect(found(true) == [])
        #expect(found(true) == [])
        #expect(found(true) == [])
        #expect(found(true).count == 1)
    }

    @Test("Of one kind of violation a run tells the first few")
    func findings() {
        var findings = Findings()
        for number in 0..<100 { findings.note("kind", "\(number)") }
        #expect(findings.take() == ["0", "1", "2", "3", "4"])
        findings.note("kind", "more")
        findings.note("other", "more")
        #expect(findings.take() == ["more"])
    }
}
