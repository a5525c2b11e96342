import Merge
import Replication
import Testing

@testable import Coordinator
@testable import Simulation

/// Laws 1, 3, 5, 6 and 12: those that look at readings.
struct ReadingCheckerTests {
    private let first = CheckerScript.actor(0)
    private let second = CheckerScript.actor(1)

    /// Two nodes' saves: an owner with two items, one of them tagged, and a badge.
    private func stage() throws -> (CheckerScript, [(ActorID, UInt64)]) {
        var script = try CheckerScript()
        let transactions = [
            script.transaction(
                first, 1, at: 10,
                .insert("Owner", 1, ["title": "o"]),
                .insert("Item", 2, ["name": "i", "owner": .reference(RowID(1)), "size": 1]),
                .insert("Tag", 3, ["label": "t"]),
                .link("Item.tags", 2, target: 3)),
            script.transaction(
                first, 2, at: 20,
                .insert("Badge", 4, ["holder": .reference(RowID(1)), "number": 7])),
        ]
        var dots = DotChecker()
        let told = script.tell(&dots, script.committed(1, [(first, 2)], transactions))
        #expect(told.isEmpty)
        return (script, [(first, 2)])
    }

    private func read(_ reading: Reading, _ node: Int = 0) -> Observation {
        .read(node: node, reading: reading)
    }

    // MARK: Law 1

    @Test("Law 1: equal vectors with equal digests pass, on any node and in any life")
    func convergence() throws {
        var (script, vector) = try stage()
        var checker = ConvergenceChecker()
        let reading = script.reading(1, vector)
        let told = script.tell(
            &checker, read(reading), read(reading, 1),
            .settled(final: [0: reading, 1: reading], isReopened: false))
        #expect(told == [])
    }

    @Test("Law 1: a digest that differs at an equal vector is caught")
    func divergingDigest() throws {
        var (script, vector) = try stage()
        var checker = ConvergenceChecker()
        var other = script.reading(1, vector)
        other.digest = ProjectionDigest(high: 1, low: 1)
        let told = script.tell(&checker, read(script.reading(1, vector)), read(other, 1))
        #expect(told.count == 1)
        #expect(told.first?.hasPrefix("node 2 generation 1: expected the digest") == true)
    }

    @Test("Law 1: settled nodes with other vectors or other rows are caught")
    func divergingSettlement() throws {
        var (script, vector) = try stage()
        var checker = ConvergenceChecker()
        let reading = script.reading(1, vector)
        var other = reading
        other.forge(.of("Item", 2), at: 0, "x")
        other.drop(.of("Tag", 3))
        let told = script.tell(
            &checker, .settled(final: [0: reading, 1: other], isReopened: false))
        #expect(told.contains { $0.contains("Item/p2.name: expected string(\"i\"), found") })
        #expect(told.contains { $0.contains("Tag/p3 expected, found gone") })
        let lagging = script.reading(1, [(first, 1)])
        #expect(
            script.tell(&checker, .settled(final: [0: reading, 1: lagging], isReopened: false))
                .contains { $0.contains("settled on another vector") })
    }

    @Test("Law 1: the product's own alarm is a violation")
    func digestAlarm() throws {
        var (script, _) = try stage()
        var checker = ConvergenceChecker()
        let alarm = Alarm.digestMismatch(
            peer: second.node, vector: VersionVector(), ours: ProjectionDigest(),
            theirs: ProjectionDigest(high: 1, low: 1))
        #expect(script.tell(&checker, .alarm(node: 0, alarm: alarm)).count == 1)
    }

    // MARK: Law 3

    @Test("Law 3: whole and partial readings that equal the oracle pass")
    func oracle() throws {
        var (script, vector) = try stage()
        var checker = OracleChecker()
        let whole = script.reading(1, vector)
        var part = whole
        part.isWhole = false
        part.entities.removeAll { $0.entity != "Item" }
        #expect(script.tell(&checker, read(whole), read(part)) == [])
    }

    @Test("Law 3: wrong values, versions, flags, members and rows are caught")
    func oracleViolations() throws {
        var (script, vector) = try stage()
        let whole = script.reading(1, vector)
        func found(_ change: (inout Reading) -> Void) -> [String] {
            var checker = OracleChecker()
            var reading = whole
            change(&reading)
            return script.tell(&checker, read(reading))
        }
        let item = ManagedObjectID.of("Item", 2)
        let value = found { $0.forge(item, at: 0, "x") }
        #expect(
            value == [
                "node 1 Item/p2.name: expected string(\"i\") by \(first)-1, found string(\"x\")"
            ])
        let later = RowVersion(dots: [Dot(actor: first, sequence: 2)])
        #expect(found { $0.forge(item, version: later) }.first?.contains("version") == true)
        #expect(found { $0.forge(item, isConflicted: true) }.count == 1)
        #expect(found { $0.drop(item) }.first?.contains("found gone") == true)
        #expect(found { $0.members[0].members = [] }.first?.contains("Item/p2.tags") == true)
        // A row of a later save shows at an earlier vector: a part of what is to come.
        let early = found { $0.token = script.token(1, CheckerScript.vector([(first, 1)])) }
        #expect(early.contains { $0.contains("Badge/p4 among Badge: expected gone") })
    }

    @Test("Law 3: a partial reading is compared by what it depends on alone")
    func partialOracle() throws {
        var (script, vector) = try stage()
        var checker = OracleChecker()
        var part = script.reading(1, vector)
        part.isWhole = false
        part.entities.removeAll { $0.entity != "Item" }
        part.members = []
        part.forge(.of("Item", 2), at: 1, .null)
        #expect(script.tell(&checker, read(part)).first?.contains("Item/p2.owner") == true)
        #expect(OracleChecker.subjects(ofEntity: "Item", script.model) == ["Item", "Owner"])
        #expect(OracleChecker.subjects(ofEntity: "Note", script.model) == ["Note"])
    }

    @Test("Law 3: wrong lists, counts and objects told to be gone are caught")
    func lists() throws {
        var (script, vector) = try stage()
        let whole = script.reading(1, vector)
        func found(_ change: (inout Reading) -> Void) -> [String] {
            var checker = OracleChecker()
            var reading = Reading(token: whole.token, digest: whole.digest)
            change(&reading)
            return script.tell(&checker, read(reading))
        }
        let item = ManagedObjectID.of("Item", 2)
        #expect(found { $0.lists = [.init(entity: "Item", count: 1, objects: [item])] } == [])
        #expect(found { $0.lists = [.init(entity: "Item", limit: 0, count: 0)] } == [])
        #expect(found { $0.lists = [.init(entity: "Item", count: 2)] }.count == 1)
        #expect(found { $0.lists = [.init(entity: "Item", count: 0, objects: [])] }.count == 1)
        #expect(found { $0.lists = [.init(entity: "Tag", count: 1, objects: [item])] }.count == 1)
        #expect(found { $0.absent = [.of("Item", 5)] } == [])
        #expect(found { $0.absent = [item] }.first?.contains("found gone") == true)
        // Of some rows nobody says that they are all.
        #expect(found { $0.entities = [.init(entity: "Item", rows: [], isWhole: false)] } == [])
        #expect(found { $0.entities = [.init(entity: "Item", rows: [])] }.count == 1)
    }

    // MARK: Law 5

    @Test("Law 5: a pin that answers the same passes, also after the store moved on")
    func pins() throws {
        var (script, vector) = try stage()
        var checker = PinChecker()
        let reading = script.reading(1, vector)
        let told = script.tell(
            &checker, .pinned(node: 0, pin: 1, reading: reading),
            .pinRead(node: 0, pin: 1, reading: reading),
            .pinExpired(node: 0, pin: 1, isDue: true))
        #expect(told == [])
    }

    @Test("Law 5: a pin that changes, and one that answers after its end, are caught")
    func pinViolations() throws {
        var (script, vector) = try stage()
        let reading = script.reading(1, vector)
        let pinned = Observation.pinned(node: 0, pin: 1, reading: reading)
        let again = Observation.pinRead(node: 0, pin: 1, reading: reading)
        var other = reading
        other.forge(.of("Item", 2), at: 0, "x")
        var checker = PinChecker()
        #expect(
            script.tell(&checker, pinned, .pinRead(node: 0, pin: 1, reading: other)) == [
                "node 1 pin 1: Item/p2.name: expected string(\"i\"), found string(\"x\")"
            ])
        checker = PinChecker()
        let expired = Observation.pinExpired(node: 0, pin: 1, isDue: true)
        #expect(script.tell(&checker, pinned, expired, again).count == 1)
        checker = PinChecker()
        let early = Observation.pinExpired(node: 0, pin: 1, isDue: false)
        #expect(script.tell(&checker, pinned, early).count == 1)
        checker = PinChecker()
        #expect(script.tell(&checker, pinned, .ended(node: 0, how: .killed), again).count == 1)
        checker = PinChecker()
        other = reading
        other.token = script.token(2, reading.token.versionVector)
        #expect(script.tell(&checker, pinned, .pinRead(node: 0, pin: 1, reading: other)).count == 1)
    }

    // MARK: Law 6

    @Test("Law 6: sound references, claims, members and keys pass")
    func references() throws {
        var (script, vector) = try stage()
        var checker = ReferenceChecker()
        #expect(script.tell(&checker, read(script.reading(1, vector))) == [])
    }

    @Test("Law 6: dangling references, double claims, one-way members and taken keys are caught")
    func referenceViolations() throws {
        var (script, vector) = try stage()
        let whole = script.reading(1, vector)
        func found(_ change: (inout Reading) -> Void) -> String {
            var checker = ReferenceChecker()
            var reading = whole
            change(&reading)
            return script.tell(&checker, read(reading)).joined(separator: "\n")
        }
        let (owner, item) = (ManagedObjectID.of("Owner", 1), ManagedObjectID.of("Item", 2))
        #expect(found { $0.drop(owner) }.contains("Item/p2.owner: expected a living Owner"))
        // Another entity's row is no target either.
        #expect(found { $0.forge(item, at: 1, .reference(RowID(3))) }.contains("expected a living"))
        #expect(found { $0.forge(item, at: 2, "x") }.contains("expected integer64"))
        #expect(found { $0.forge(.of("Badge", 4), at: 1, .null) }.contains("expected a value"))
        #expect(
            found { reading in
                for place in reading.members.indices
                where reading.members[place].relationship == "items" {
                    reading.members[place].members = []
                }
            }.contains("leads back"))
        let badges = try #require(whole.entities.firstIndex { $0.entity == "Badge" })
        let badge = whole.entities[badges].rows[0]
        let twin = found {
            $0.entities[badges].rows.append(
                RowSnapshot(
                    objectID: .of("Badge", 5), version: badge.version, values: badge.values,
                    isConflicted: false))
        }
        #expect(twin.contains("the only one that leads to p1"))
        #expect(twin.contains("the only visible Badge with this number"))
    }

    // MARK: Law 12

    /// A note that two nodes have changed apart.
    private func dispute() throws -> (CheckerScript, [(ActorID, UInt64)], Conflict) {
        var (script, _) = try stage()
        func write(_ text: String, _ kind: Change.Kind) -> CheckerScript.Write {
            .init(kind: kind, entity: "Note", row: 9, values: ["text": .string(text)])
        }
        let transactions = [
            script.transaction(first, 3, at: 30, write("a", .insert)),
            script.transaction(first, 4, at: 40, write("b", .update)),
            script.transaction(second, 1, at: 50, seen: [(first, 3)], write("c", .update)),
        ]
        var dots = DotChecker()
        _ = script.tell(&dots, script.committed(2, [(first, 4), (second, 1)], transactions))
        let sides = transactions.dropFirst().map { encoded in
            ConflictSide(
                dot: encoded.dot, timestamp: encoded.transaction.timestamp,
                isVisible: encoded.dot.actor == first, isDeleted: false,
                value: encoded.transaction.changes[0].values[0], row: [])
        }
        let conflict = Conflict(
            id: ConflictID(entity: "Note", row: RowID(9), subject: "text"), kind: .update,
            state: .unresolved, property: "text", policy: .error, sides: sides,
            explanation: .choosing(.error), closedBy: nil, openedAt: 2)
        return (script, [(first, 4), (second, 1)], conflict)
    }

    @Test("Law 12: exactly the oracle's unresolved conflicts pass")
    func conflicts() throws {
        var (script, vector, conflict) = try dispute()
        var checker = ConflictChecker()
        var reading = script.reading(2, vector)
        reading.conflicts = [conflict]
        #expect(
            script.tell(
                &checker, read(reading), .settled(final: [0: reading], isReopened: false)) == [])
    }

    @Test("Law 12: missing, unknown, wrongly settled and untrue entries are caught")
    func conflictViolations() throws {
        var (script, vector, conflict) = try dispute()
        let reading = script.reading(2, vector)
        func found(_ entries: [Conflict]) -> String {
            var checker = ConflictChecker()
            var reading = reading
            reading.conflicts = entries
            return script.tell(&checker, .settled(final: [0: reading], isReopened: false))
                .joined(separator: "\n")
        }
        #expect(found([]).contains("Note.p9.text: expected unresolved"))
        var other = conflict
        other.state = .settled
        #expect(found([other]).contains("expected unresolved, found settled"))
        other = conflict
        other.id = ConflictID(entity: "Note", row: RowID(9), subject: "object")
        #expect(found([conflict, other]).contains("Note.p9.object: expected no open conflict"))
        other = conflict
        other.sides.removeLast()
        #expect(found([other]).contains("expected the sides"))
        other = conflict
        other.sides[1].value = "z"
        #expect(
            found([other]).contains("text by 2.1-1: expected string(\"c\"), found string(\"z\")"))
        other = conflict
        other.sides[0].timestamp = .zero
        #expect(found([other]).contains("expected the time 40.0, found 0.0"))
    }

    @Test("Law 12: what was reported closed was a conflict, and its resolution had seen it")
    func closedConflicts() throws {
        var (script, vector, conflict) = try dispute()
        let sides = conflict.sides.compactMap(\.dot)
        let closer = script.transaction(first, 5, at: 60, .update("Note", 9, ["text": "d"]))
        var dots = DotChecker()
        vector = vector.map { $0.0 == first ? (first, 5) : $0 }
        let committed = script.committed(3, vector, [closer])
        #expect(script.tell(&dots, committed) == [])
        func found(_ entry: Conflict) -> String {
            var checker = ConflictChecker()
            var reading = script.reading(3, vector)
            reading.conflicts = [entry]
            return script.tell(&checker, .settled(final: [0: reading], isReopened: false))
                .filter { $0.contains("no side had seen") || $0.contains("resolved it") }
                .joined(separator: "\n")
        }
        conflict.id = ConflictID(entity: "Note", row: RowID(9), subject: "text", closedAt: 3)
        conflict.closedBy = closer.dot
        conflict.state = .settled
        #expect(found(conflict) == "")
        conflict.state = .resolved
        #expect(found(conflict).contains("had not seen \(sides[1])"))
        conflict.closedBy = nil
        conflict.sides.removeLast()
        #expect(found(conflict).contains("no side had seen another"))
    }

    @Test("Law 12: a settled conflict may be missing only once its sides are stable")
    func settledConflicts() throws {
        var (script, _) = try stage()
        var dots = DotChecker()
        let sizes: [(ActorID, UInt64, UInt64)] = [(first, 3, 5), (second, 1, 6)]
        let transactions = sizes.map { actor, sequence, size in
            script.transaction(
                actor, sequence, at: 30 + size, seen: [(first, 2)],
                .update("Item", 2, ["size": .integer(Int64(size))]))
        }
        let vector = [(first, UInt64(3)), (second, UInt64(1))]
        _ = script.tell(&dots, script.committed(2, vector, transactions))
        let reading = script.reading(2, vector)
        var checker = ConflictChecker()
        #expect(script.tell(&checker, read(reading)).first?.contains("Item.p2.size") == true)
        checker = ConflictChecker()
        let stable = Observation.stable(node: 0, vector: CheckerScript.vector(vector))
        #expect(script.tell(&checker, stable, read(reading)) == [])

        // An image of a store that has collapsed it, put in the place of a lost one, has it still.
        let lost: [Observation] = [.ended(node: 0, how: .wiped), script.started(0, 2)]
        for observation in lost { #expect(script.tell(&checker, observation) == []) }
        #expect(script.tell(&checker, read(reading)).count == 1)
        let restored = Observation.ended(node: 0, how: .restored)
        #expect(script.tell(&checker, restored, script.started(0, 3, vector), read(reading)) == [])
        // One from before one of the sides came cannot have collapsed it.
        #expect(
            script.tell(
                &checker, restored, script.started(0, 4, [(first, 3)]), read(reading)
            ).count == 1)
        // A copy begins with what its original has.
        checker = ConflictChecker()
        #expect(script.tell(&checker, script.started(2, 5, vector), read(reading, 2)).count == 1)
        checker = ConflictChecker()
        let copied = Observation.started(
            node: 2, actor: CheckerScript.actor(0, 5), vector: CheckerScript.vector(vector),
            recovery: .none)
        #expect(script.tell(&checker, stable, copied, read(reading, 2)) == [])
        // Who takes over a copy of another's store begins with what that one had collapsed.
        checker = ConflictChecker()
        let other = Observation.started(
            node: 1, actor: second, vector: CheckerScript.vector(vector), recovery: .none)
        #expect(script.tell(&checker, script.started(0, 2), stable, other) == [])
        #expect(script.tell(&checker, read(reading, 1)).count == 1)
        let tookOver = Observation.tookOver(node: 1, donor: first.node)
        #expect(script.tell(&checker, tookOver, other, read(reading, 1)) == [])
    }
}
