import Coordinator
import Merge
import ReferenceModel
import Testing

private typealias Policy = MergePolicy

/// Truths about properties and existence that were computed by hand: the judge is judged.
@Suite struct ReferenceModelTests {
    private let a = RowID(11)
    private let b = RowID(21)

    /// A row that everybody has, and two concurrent edits of p: x at 5, y at 6.
    private func edits(
        _ policy: MergePolicy, _ first: String = "x", _ second: String = "y"
    ) throws -> (history: HandHistory, x: Dot, y: Dot) {
        var history = HandHistory(try ExampleModel.pair(policy))
        let insert = history.save(1, at: 1, .insert("A", a, ["p": "0"]))
        let row = ["m": PropertyValue.null, "r": .null, "s": .null]
        let rest = policy.granularity == .row ? row : [:]
        let x = history.save(1, at: 5, .update("A", a, ["p": .string(first)], rest: rest))
        let y = history.save(
            2, at: 6, seeing: [insert], .update("A", a, ["p": .string(second)], rest: rest))
        return (history, x, y)
    }

    /// A row that everybody has, an edit at 5 and a concurrent delete.
    private func deletion(_ policy: MergePolicy, at time: UInt64) throws -> HandHistory {
        var history = HandHistory(try ExampleModel.pair(policy))
        let insert = history.save(1, at: 1, .insert("A", a, ["p": "0", "m": "m"]))
        let rest = policy.granularity == .row ? ["m": PropertyValue.string("m")] : [:]
        history.save(1, at: 5, .update("A", a, ["p": "x"], rest: rest))
        history.save(2, at: time, seeing: [insert], .delete("A", a))
        return history
    }

    @Test("An insertion is there, with nulls for what it does not name, and one dot as version")
    func insertion() throws {
        var history = HandHistory(try ExampleModel.pair(.error))
        let insert = history.save(1, at: 1, .insert("A", a, ["p": "0"]))
        let truth = history.truth()
        #expect(truth.isAlive(a))
        #expect(truth.entity(of: a) == "A")
        #expect(truth.rows("A") == [a])
        #expect(truth.rows("B").isEmpty)
        #expect(truth.value(a, "p") == "0")
        #expect(truth.value(a, "m") == .null)
        #expect(truth.value(a, "none") == nil)
        #expect(truth.winner(a, "m") == insert)
        #expect(truth.version(a) == [insert])
    }

    @Test("An update of a row whose insertion is not there shows nothing")
    func unknownRow() throws {
        var history = HandHistory(try ExampleModel.pair(.error))
        history.save(1, at: 1, .update("A", a, ["p": "0"]))
        #expect(!history.truth().isAlive(a))
    }

    @Test("What a policy discarded at its save is there once an undo brings it to be")
    func undoneDiscard() throws {
        var history = HandHistory(try ExampleModel.pair(.error))
        let revival = history.save(1, at: 1, .revive("A", a, ["p": "0"]))
        history.save(2, at: 2, .update("A", b, ["p": "0"]))
        let truth = history.truth()
        #expect(truth.rows("A") == [a])
        #expect(truth.value(a, "p") == "0")
        #expect(truth.version(a) == [revival])
    }

    @Test("What somebody had seen is overwritten, whatever their clock said")
    func causalityBeatsClocks() throws {
        for policy in MergePolicy.allCases {
            var history = HandHistory(try ExampleModel.pair(policy))
            let insert = history.save(1, at: 9, .insert("A", a, ["p": "0"]))
            let update = history.save(2, at: 2, seeing: [insert], .update("A", a, ["p": "1"]))
            let truth = history.truth()
            #expect(truth.value(a, "p") == "1", "\(policy)")
            #expect(truth.version(a) == [update])
            #expect(truth.openConflicts().isEmpty)
        }
    }

    @Test(
        "Of concurrent writes the policy shows the first or the last",
        arguments: [
            (Policy.error, "x"), (.errorByRow, "x"), (.mergeByPropertyStoreTrump, "x"),
            (.rollback, "x"), (.mergeByPropertyObjectTrump, "y"), (.overwrite, "y"),
        ])
    func choice(_ policy: MergePolicy, _ value: String) throws {
        let (history, x, y) = try edits(policy)
        let truth = history.truth()
        #expect(truth.value(a, "p") == .string(value))
        #expect(truth.winner(a, "p") == (value == "x" ? x : y))
        #expect(truth.version(a) == [x, y])
        let id = policy.granularity == .row ? "A.p11.object" : "A.p11.p"
        #expect(truth.unresolvedConflicts() == (policy.leavesUnresolved ? [id] : []))
        #expect(truth.settledConflicts() == (policy.leavesUnresolved ? [] : [id]))
    }

    @Test("Timestamps that tie are ordered by node")
    func tie() throws {
        var history = HandHistory(try ExampleModel.pair(.mergeByPropertyObjectTrump))
        let insert = history.save(3, at: 1, .insert("A", a))
        history.save(2, at: 5, seeing: [insert], .update("A", a, ["p": "two"]))
        history.save(1, at: 5, seeing: [insert], .update("A", a, ["p": "one"]))
        #expect(history.truth().value(a, "p") == "two")
    }

    @Test("Equal values join without a conflict; the winner's dot is still the policy's")
    func equalValues() throws {
        for policy in MergePolicy.allCases {
            let (history, x, y) = try edits(policy, "same", "same")
            let truth = history.truth()
            #expect(truth.openConflicts().isEmpty, "\(policy)")
            #expect(truth.winner(a, "p") == (policy.choice == .earliest ? x : y))
            #expect(truth.version(a) == [x, y])
        }
    }

    @Test("The first is the first of the maximal writes")
    func firstOfTheMaximal() throws {
        var (history, x, _) = try edits(.mergeByPropertyStoreTrump)
        history.save(1, at: 7, seeing: [x], .update("A", a, ["p": "z"]))
        #expect(history.truth().value(a, "p") == "y")
    }

    @Test("A loser stands again when the winner is overwritten by who did not see it")
    func loserReturns() throws {
        var (history, x, y) = try edits(.mergeByPropertyObjectTrump)
        let z = history.save(3, at: 4, seeing: [y], .update("A", a, ["p": "z"]))
        let truth = history.truth()
        #expect(truth.value(a, "p") == "x")
        #expect(truth.version(a) == [x, z])
    }

    @Test("A write that has seen all sides closes the conflict")
    func resolution() throws {
        var (history, x, y) = try edits(.error)
        history.save(3, at: 7, seeing: [x, y], .update("A", a, ["p": "y"]))
        let truth = history.truth()
        #expect(truth.value(a, "p") == "y")
        #expect(truth.openConflicts().isEmpty)
    }

    @Test("Edits of different properties both stand where properties are registers")
    func separateProperties() throws {
        var history = HandHistory(try ExampleModel.pair(.error))
        let insert = history.save(1, at: 1, .insert("A", a))
        history.save(1, at: 5, .update("A", a, ["p": "x"]))
        history.save(2, at: 6, seeing: [insert], .update("A", a, ["m": "y"]))
        let truth = history.truth()
        #expect(truth.value(a, "p") == "x")
        #expect(truth.value(a, "m") == "y")
        #expect(truth.openConflicts().isEmpty)
    }

    @Test("Where rows are registers one writer's row stands whole")
    func wholeRows() throws {
        for (policy, p, m) in [
            (MergePolicy.rollback, "x", "0"), (.overwrite, "0", "y"), (.errorByRow, "x", "0"),
        ] {
            var history = HandHistory(try ExampleModel.pair(policy))
            let zero = PropertyValue.string("0")
            let insert = history.save(1, at: 1, .insert("A", a, ["p": zero, "m": zero]))
            history.save(1, at: 5, .update("A", a, ["p": "x"], rest: ["m": zero]))
            history.save(2, at: 6, seeing: [insert], .update("A", a, ["m": "y"], rest: ["p": zero]))
            let truth = history.truth()
            #expect(truth.value(a, "p") == .string(p))
            #expect(truth.value(a, "m") == .string(m))
        }
    }

    @Test("A property's own policy settles it")
    func override() throws {
        let model = try ExampleModel.pair(.error, override: .mergeByPropertyObjectTrump)
        var history = HandHistory(model)
        let insert = history.save(1, at: 1, .insert("A", a))
        history.save(1, at: 5, .update("A", a, ["m": "x"]))
        history.save(2, at: 6, seeing: [insert], .update("A", a, ["m": "y"]))
        let truth = history.truth()
        #expect(truth.value(a, "m") == "y")
        #expect(truth.settledConflicts() == ["A.p11.m"])
    }

    @Test("P14: the policy is that of the model which the newest sibling names")
    func olderModel() throws {
        let old = try ExampleModel.pair(.mergeByPropertyStoreTrump)
        var history = HandHistory(try ExampleModel.pair(.mergeByPropertyObjectTrump))
        let insert = history.save(1, at: 1, with: old, .insert("A", a))
        history.save(1, at: 5, with: old, .update("A", a, ["p": "x"]))
        let y = history.save(2, at: 6, seeing: [insert], with: old, .update("A", a, ["p": "y"]))
        #expect(history.truth(older: [old]).value(a, "p") == "x")
        history.save(2, at: 7, seeing: [y], .update("A", a, ["p": "z"]))
        #expect(history.truth(older: [old]).value(a, "p") == "z")
    }

    @Test("Only what a vector covers counts")
    func vector() throws {
        let (history, x, y) = try edits(.mergeByPropertyObjectTrump)
        var vector = VersionVector()
        vector.advance(to: x)
        #expect(history.truth(at: vector).value(a, "p") == "x")
        vector.advance(to: y)
        #expect(history.truth(at: vector).value(a, "p") == "y")
        #expect(!history.truth(at: VersionVector()).isAlive(a))
    }

    // MARK: Existence

    @Test(
        "A delete against an edit is settled by the policy",
        arguments: [
            (Policy.mergeByPropertyStoreTrump, UInt64(9), false),
            (.mergeByPropertyObjectTrump, 2, false), (.rollback, 9, true), (.rollback, 2, false),
            (.overwrite, 9, false), (.overwrite, 2, true), (.error, 2, true), (.error, 9, true),
            (.errorByRow, 2, true), (.errorByRow, 9, true),
        ])
    func deletes(_ policy: MergePolicy, _ time: UInt64, _ isAlive: Bool) throws {
        let truth = try deletion(policy, at: time).truth()
        #expect(truth.isAlive(a) == isAlive)
        #expect(truth.value(a, "p") == (isAlive ? "x" : nil))
        #expect(truth.value(a, "m") == (isAlive ? "m" : nil))
        #expect(truth.version(a)?.count == (isAlive ? 2 : nil))
        let ids: Set = ["A.p11.object"]
        #expect(truth.unresolvedConflicts() == (policy.leavesUnresolved ? ids : []))
        #expect(truth.settledConflicts() == (policy.leavesUnresolved ? [] : ids))
    }

    @Test("Two deletes agree")
    func twoDeletes() throws {
        for policy in MergePolicy.allCases {
            var history = HandHistory(try ExampleModel.pair(policy))
            let insert = history.save(1, at: 1, .insert("A", a))
            history.save(1, at: 5, .delete("A", a))
            history.save(2, at: 6, seeing: [insert], .delete("A", a))
            #expect(!history.truth().isAlive(a))
            #expect(history.truth().openConflicts().isEmpty)
        }
    }

    @Test("Under rollback an edit that has seen a beaten delete's rival makes the delete win")
    func updateMakesDeleteWin() throws {
        var history = HandHistory(try ExampleModel.pair(.rollback))
        let insert = history.save(1, at: 1, .insert("A", a))
        let u = history.save(1, at: 5, .update("A", a, ["p": "u"]))
        let d = history.save(2, at: 6, seeing: [insert], .delete("A", a))
        #expect(history.truth().isAlive(a))
        let v = history.save(1, at: 7, seeing: [u], .update("A", a, ["p": "v"]))
        #expect(!history.truth().isAlive(a))
        #expect(history.truth().openConflicts().map(\.sides) == [[d, v]])
    }

    @Test("Under a row's error policy the earliest that is alive is shown, not the delete")
    func earliestAlive() throws {
        var history = HandHistory(try ExampleModel.pair(.errorByRow))
        let insert = history.save(1, at: 1, .insert("A", a))
        history.save(1, at: 7, .update("A", a, ["p": "v"]))
        history.save(2, at: 6, seeing: [insert], .update("A", a, ["p": "u"]))
        history.save(3, at: 5, seeing: [insert], .delete("A", a))
        #expect(history.truth().value(a, "p") == "u")
    }

    @Test("Existence follows the entity's policy, not a property's")
    func existenceIgnoresOverrides() throws {
        let model = try ExampleModel.pair(.error, override: .mergeByPropertyObjectTrump)
        var history = HandHistory(model)
        let insert = history.save(1, at: 1, .insert("A", a))
        history.save(1, at: 5, .update("A", a, ["m": "u"]))
        history.save(2, at: 6, seeing: [insert], .delete("A", a))
        #expect(history.truth().isAlive(a))
        #expect(history.truth().unresolvedConflicts() == ["A.p11.object"])
    }

    @Test("A revival that has seen the delete brings the row back as it says")
    func revival() throws {
        for policy in MergePolicy.allCases {
            var history = HandHistory(try ExampleModel.pair(policy))
            history.save(1, at: 1, .insert("A", a, ["p": "0", "m": "m"]))
            history.save(1, at: 2, .delete("A", a))
            let revival = history.save(1, at: 3, .revive("A", a, ["p": "w"]))
            let truth = history.truth()
            #expect(truth.value(a, "p") == "w", "\(policy)")
            #expect(truth.value(a, "m") == .null)
            #expect(truth.version(a) == [revival])
        }
    }

    @Test("P4: under rollback an edit made before a revival, and unseen by it, is shown")
    func revivalBesideAnUpdate() throws {
        var history = HandHistory(try ExampleModel.pair(.rollback))
        let insert = history.save(1, at: 1, .insert("A", a))
        let d = history.save(1, at: 5, .delete("A", a))
        history.save(2, at: 6, seeing: [insert], .update("A", a, ["p": "u"]))
        #expect(!history.truth().isAlive(a))
        history.save(3, at: 8, seeing: [d], .revive("A", a, ["p": "w"]))
        #expect(history.truth().value(a, "p") == "u")
    }

    @Test("P7: a dead row's properties are in no conflict")
    func deadRowsAreQuiet() throws {
        var (history, x, y) = try edits(.error)
        #expect(history.truth().unresolvedConflicts() == ["A.p11.p"])
        history.save(3, at: 8, seeing: [x, y], .delete("A", a))
        #expect(history.truth().openConflicts().isEmpty)
    }
}
