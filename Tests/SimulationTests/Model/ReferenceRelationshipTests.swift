import Merge
import ReferenceModel
import Testing

@testable import Coordinator

private typealias Policy = MergePolicy

/// Truths about references, links and the journal that were computed by hand.
@Suite struct ReferenceRelationshipTests {
    private let a = RowID(11)
    private let other = RowID(12)
    private let b = RowID(21)

    /// Two As and a B that everybody has.
    private func start(_ policy: MergePolicy) throws -> (history: HandHistory, all: Dot) {
        var history = HandHistory(try ExampleModel.pair(policy))
        let all = history.save(1, at: 1, .insert("A", a), .insert("A", other), .insert("B", b))
        return (history, all)
    }

    @Test("A to-many is what the to-ones lead to")
    func children() throws {
        var (history, all) = try start(.error)
        history.save(1, at: 5, .update("A", a, ["r": .reference(b)]))
        history.save(2, at: 6, seeing: [all], .update("A", other, ["r": .reference(b)]))
        let truth = history.truth()
        #expect(truth.members(b, "rs") == [a, other])
        #expect(truth.members(a, "r") == [b])
        #expect(truth.openConflicts().isEmpty)
    }

    @Test("A reference to a row that is gone reads as null, and is named; it may return")
    func dangling() throws {
        var (history, all) = try start(.mergeByPropertyObjectTrump)
        let claim = history.save(1, at: 5, .update("A", a, ["r": .reference(b)]))
        let d = history.save(2, at: 6, seeing: [all], .delete("B", b))
        let truth = history.truth()
        #expect(truth.value(a, "r") == .null)
        #expect(truth.rawValue(a, "r") == .reference(b))
        #expect(truth.winner(a, "r") == claim)
        #expect(truth.settledConflicts() == ["A.p11.r.target"])
        #expect(truth.unresolvedConflicts().isEmpty)
        history.save(3, at: 8, seeing: [d], .revive("B", b, [:]))
        #expect(history.truth().value(a, "r") == .reference(b))
        #expect(history.truth().openConflicts().isEmpty)
    }

    @Test("A dead row's reference is not missed")
    func referenceOfTheDead() throws {
        var (history, all) = try start(.mergeByPropertyObjectTrump)
        history.save(1, at: 5, .update("A", a, ["r": .reference(b)]), .delete("B", b))
        history.save(1, at: 6, seeing: [all], .delete("A", a))
        #expect(history.truth().openConflicts().isEmpty)
    }

    @Test(
        "Of rows that claim one target the policy's earliest or latest stands",
        arguments: [
            (Policy.error, true), (.errorByRow, true), (.mergeByPropertyStoreTrump, true),
            (.rollback, true), (.mergeByPropertyObjectTrump, false), (.overwrite, false),
        ])
    func claims(_ policy: MergePolicy, _ isFirst: Bool) throws {
        var (history, all) = try start(policy)
        history.save(1, at: 5, .update("A", a, ["s": .reference(b)]))
        history.save(2, at: 6, seeing: [all], .update("A", other, ["s": .reference(b)]))
        let truth = history.truth()
        let (winner, loser) = isFirst ? (a, other) : (other, a)
        #expect(truth.value(winner, "s") == .reference(b))
        #expect(truth.value(loser, "s") == .null)
        #expect(truth.members(b, "t") == [winner])
        #expect(truth.settledConflicts() == ["A.\(loser).s.target"])
    }

    @Test("P8: claims of one save go to the lowest row, under both rules")
    func tiedClaims() throws {
        for policy in [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump] {
            var (history, _) = try start(policy)
            let claim = ["s": PropertyValue.reference(b)]
            history.save(1, at: 5, .update("A", other, claim), .update("A", a, claim))
            #expect(history.truth().members(b, "t") == [a])
        }
    }

    @Test("The claim of a dead row, or one that lost as a sibling, is no claim")
    func claimOfTheDead() throws {
        var (history, all) = try start(.mergeByPropertyStoreTrump)
        let first = history.save(1, at: 5, .update("A", a, ["s": .reference(b)]))
        history.save(2, at: 6, seeing: [all], .update("A", other, ["s": .reference(b)]))
        var gone = history
        gone.save(1, at: 7, seeing: [first], .delete("A", a))
        #expect(gone.truth().members(b, "t") == [other])
        history.save(3, at: 4, seeing: [all], .update("A", a, ["s": .null]))
        #expect(history.truth().members(b, "t") == [other])
    }

    @Test("A to-one that is no one-to-one may be shared")
    func sharedTarget() throws {
        var (history, all) = try start(.mergeByPropertyStoreTrump)
        history.save(1, at: 5, .update("A", a, ["r": .reference(b)]))
        history.save(2, at: 6, seeing: [all], .update("A", other, ["r": .reference(b)]))
        #expect(history.truth().value(a, "r") == history.truth().value(other, "r"))
    }

    @Test(
        "A link added and removed at once is settled as earliest or latest, or stays",
        arguments: [
            (Policy.mergeByPropertyStoreTrump, true), (.rollback, true), (.overwrite, false),
            (.mergeByPropertyObjectTrump, false), (.error, true), (.errorByRow, true),
        ], [true, false])
    func links(_ outcome: (policy: MergePolicy, isFirst: Bool), _ isAddFirst: Bool) throws {
        var (history, all) = try start(outcome.policy)
        let made = history.save(1, at: 2, .link("A.u", a, b))
        history.save(
            1, at: 5, seeing: [all], isAddFirst ? .link("A.u", a, b) : .unlink("A.u", a, b))
        history.save(
            2, at: 6, seeing: [made], isAddFirst ? .unlink("A.u", a, b) : .link("A.u", a, b))
        let truth = history.truth()
        let isMade = outcome.policy.leavesUnresolved || outcome.isFirst == isAddFirst
        #expect(truth.members(a, "u") == (isMade ? [b] : []))
        #expect(truth.members(b, "v") == (isMade ? [a] : []))
        #expect(truth.livingLinks("A.u").count == (isMade ? 1 : 0))
        let open = truth.openConflicts()
        #expect(open.map(\.id) == ["A.p11.u.p21"])
        #expect(open.map(\.isUnresolved) == [outcome.policy.leavesUnresolved])
    }

    @Test("A link of a dead row is not shown and in no conflict, and returns with the row")
    func linkOfTheDead() throws {
        for (row, entity) in [(a, "A"), (b, "B")] {
            var (history, all) = try start(.error)
            let made = history.save(1, at: 2, .link("A.u", a, b))
            history.save(1, at: 5, seeing: [all], .link("A.u", a, b))
            let taken = history.save(2, at: 6, seeing: [made], .unlink("A.u", a, b))
            let last = history.save(1, at: 7, seeing: [taken], .delete(entity, row))
            #expect(history.truth().livingLinks("A.u").isEmpty)
            #expect(history.truth().openConflicts().isEmpty)
            history.save(3, at: 8, seeing: [last], .revive(entity, row, [:]))
            #expect(history.truth().members(a, "u") == [b])
            #expect(history.truth().unresolvedConflicts() == ["A.p11.u.p21"])
        }
    }

    // MARK: Nothing is lost silently

    private func conflict(
        _ subject: String, _ property: String?, _ sides: [ConflictSide]
    ) -> Conflict {
        Conflict(
            id: ConflictID(entity: "A", row: a, subject: subject), kind: .update,
            state: .settled, property: property, policy: .mergeByPropertyObjectTrump,
            sides: sides, explanation: .choosing(.mergeByPropertyObjectTrump), closedBy: nil,
            openedAt: 1)
    }

    private func side(_ dot: Dot, _ value: String?, isDeleted: Bool = false) -> ConflictSide {
        ConflictSide(
            dot: dot, timestamp: nil, isVisible: false, isDeleted: isDeleted,
            value: value.map { .string($0) }, row: [], author: nil, contextName: nil)
    }

    @Test("A write that lost must be in the journal, with its value")
    func lostWrite() throws {
        var (history, all) = try start(.mergeByPropertyObjectTrump)
        let x = history.save(1, at: 5, .update("A", a, ["p": "x"]))
        history.save(2, at: 6, seeing: [all], .update("A", a, ["p": "y"]))
        let truth = history.truth()
        #expect(truth.unexplained(journal: []).count == 1)
        #expect(truth.unexplained(journal: [conflict("p", "p", [side(x, "z")])]).count == 1)
        #expect(truth.unexplained(journal: [conflict("m", "m", [side(x, "x")])]).count == 1)
        #expect(truth.unexplained(journal: [conflict("p", "p", [side(x, "x")])]).isEmpty)
    }

    @Test("What was overwritten by who had seen it, or equals what is visible, needs no entry")
    func explained() throws {
        var (history, all) = try start(.mergeByPropertyObjectTrump)
        let x = history.save(1, at: 5, .update("A", a, ["p": "x"]))
        history.save(2, at: 6, seeing: [all], .update("A", a, ["m": "y"]))
        #expect(history.truth().unexplained(journal: []).isEmpty)
        history.save(2, at: 7, seeing: [all], .update("A", a, ["p": "x"]))
        #expect(history.truth().unexplained(journal: []).isEmpty)
        history.save(3, at: 8, seeing: [x], .update("A", a, ["p": "z"]))
        // The equal write of the other is not overwritten, and no longer visible.
        #expect(history.truth().unexplained(journal: []).count == 1)
    }

    @Test("An edit that a delete beat must be in the journal; one the delete had seen need not")
    func lostToDelete() throws {
        var (history, all) = try start(.mergeByPropertyObjectTrump)
        let x = history.save(1, at: 5, .update("A", a, ["p": "x"]))
        var seen = history
        history.save(2, at: 6, seeing: [all], .delete("A", a))
        #expect(history.truth().unexplained(journal: []).count == 1)
        seen.save(2, at: 6, seeing: [x], .delete("A", a))
        #expect(seen.truth().unexplained(journal: []).isEmpty)
    }

    @Test("A delete that lost must be in the journal")
    func lostDelete() throws {
        var (history, all) = try start(.error)
        let d = history.save(1, at: 5, .delete("A", a))
        history.save(2, at: 6, seeing: [all], .update("A", a, ["p": "x"]))
        let truth = history.truth()
        #expect(truth.unexplained(journal: []).count == 1)
        let listed = conflict("object", nil, [side(d, nil, isDeleted: true)])
        #expect(truth.unexplained(journal: [listed]).isEmpty)
    }

    @Test("A link write that lost, and a reference that reads as null, must be in the journal")
    func lostLinkAndReference() throws {
        var (history, all) = try start(.overwrite)
        let made = history.save(1, at: 2, .link("A.u", a, b))
        history.save(1, at: 5, seeing: [all], .link("A.u", a, b))
        history.save(2, at: 6, seeing: [made], .unlink("A.u", a, b))
        #expect(history.truth().unexplained(journal: []).count == 1)
        history.save(1, at: 7, .update("A", other, ["r": .reference(b)]))
        history.save(3, at: 8, seeing: [made], .delete("B", b))
        // With B the link is gone; the reference to it is what is left to explain.
        #expect(history.truth().unexplained(journal: []).count == 1)
    }
}
