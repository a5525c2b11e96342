import Coordinator
import Merge
import Testing

/// The examples of the model that concern relationships, on real coordinators.
@Suite struct RelationshipExampleTests {
    private func undo(_ node: ScriptedNode, _ name: String) throws {
        let conflict = try #require(
            try node.journal(isOpen: true).first { $0.id.description == name })
        _ = try node.coordinator.undo(conflict.id, sides: conflict.sides.compactMap(\.dot))
    }

    @Test("P13: an edit of a row whose reference reads as null does not lose the reference")
    func rawReferences() throws {
        for policy in [MergePolicy.overwrite, .rollback, .errorByRow] {
            let model = try ExampleModel.pair(policy, target: .mergeByPropertyObjectTrump)
            let (x, y, _) = try ExampleModel.nodes(model)
            let b = try x.at(1).insert("B", ["n": "0"])
            let a = try x.at(2).insert("A", ["p": "0", "r": .reference(b.row)])
            try y.take(x)
            try x.at(5).delete(b)
            try y.at(6).update(b, ["n": "1"])
            try x.take(y)
            #expect(try x.value(a, "r") == .null)
            // The delete had seen the reference, and the edit has seen the delete.
            #expect(try x.openConflicts()["A.\(a.row).r.target"] == nil)
            try x.at(7).update(a, ["p": "1"])
            #expect(try x.value(a, "r") == .null)
            try undo(x.at(8), "B.\(b.row).object")
            #expect(try x.value(a, "r") == .reference(b.row))
            try expectConvergence(x, y)
            #expect(try y.value(a, "p") == "1")
            #expect(try y.members(b, "rs") == [a.row])
        }
    }

    @Test(
        "P13: an edit of a row whose reference leads to another than it names does not change whom",
        arguments: [MergePolicy.overwrite, .rollback, .errorByRow])
    func rawReferencesToEclipsed(_ policy: MergePolicy) throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(policy, target: .error))
        let first = try x.at(1).insert("B", ["b": "1"])
        let second = try y.at(2).insert("B", ["b": "1"])
        let a = try y.at(3).insert("A", ["p": "0", "r": .reference(second.row)])
        try x.take(y)
        // The second is eclipsed: references to it show the first.
        #expect(try x.row(second)?.objectID == first)
        #expect(try x.value(a, "r") == .reference(first.row))
        #expect(try x.members(first, "rs") == [a.row])
        // One register for the whole row, so that all of it is written.
        try x.at(5).update(a, ["p": "1"])
        #expect(try x.value(a, "r") == .reference(first.row))
        // The target comes out from under the other by a key of its own, and takes its own along.
        try x.at(6).update(second, ["b": "2"])
        #expect(try x.row(second)?.objectID == second)
        #expect(try x.value(a, "r") == .reference(second.row))
        try expectConvergence(x, y, z)
        #expect(try z.value(a, "p") == "1")
        #expect(try z.members(second, "rs") == [a.row])
        #expect(try z.members(first, "rs").isEmpty)
    }

    @Test("5.4: two nodes that add children to one parent do not conflict")
    func childrenOfOneParent() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.error))
        let b = try x.at(1).insert("B")
        try y.take(x)
        let first = try x.at(5).insert("A", ["r": .reference(b.row)])
        let second = try y.at(6).insert("A", ["r": .reference(b.row)])
        try expectConvergence(x, y)
        #expect(try x.members(b, "rs") == [first.row, second.row])
        #expect(try x.openConflicts().isEmpty)
    }

    @Test("5.4: a reference to a row deleted elsewhere reads as null and is journalled")
    func dangling() throws {
        let model = try ExampleModel.pair(.mergeByPropertyObjectTrump)
        let (x, y, _) = try ExampleModel.nodes(model)
        let b = try x.at(1).insert("B")
        let a = try x.at(2).insert("A")
        try y.take(x)
        try x.at(5).delete(b)
        try y.at(6).update(a, ["r": .reference(b.row)])
        try expectConvergence(x, y)
        #expect(try y.value(a, "r") == .null)
        #expect(try y.openConflicts() == ["A.\(a.row).r.target": .settled])
    }

    @Test("S6: nullify does not bring a child back that was deleted elsewhere")
    func nullifyResurrectsNobody() throws {
        for policy in [MergePolicy.overwrite, .error] {
            let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let parent = try x.at(1).insert("B")
            let child = try x.at(2).insert("A", ["r": .reference(parent.row)])
            try y.take(x)
            try y.at(5).delete(child)
            try x.at(6).delete(parent)
            try expectConvergence(x, y)
            #expect(try x.row(child) == nil)
            #expect(try x.openConflicts().isEmpty)
        }
    }

    @Test(
        "S8: of two claims to one target the policy's stands",
        arguments: [
            (MergePolicy.error, true), (.mergeByPropertyStoreTrump, true), (.rollback, true),
            (.errorByRow, true), (.mergeByPropertyObjectTrump, false), (.overwrite, false),
        ])
    func oneToOne(_ policy: MergePolicy, _ isFirst: Bool) throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(policy))
        let b = try x.at(1).insert("B")
        let first = try x.at(2).insert("A")
        let second = try x.at(3).insert("A")
        try y.take(x)
        try x.at(5).update(first, ["s": .reference(b.row)])
        try y.at(6).update(second, ["s": .reference(b.row)])
        try expectConvergence(x, y)
        let (winner, loser) = isFirst ? (first, second) : (second, first)
        #expect(try y.members(b, "t") == [winner.row])
        #expect(try y.value(winner, "s") == .reference(b.row))
        #expect(try y.value(loser, "s") == .null)
        #expect(try y.openConflicts() == ["A.\(loser.row).s.target": .settled])
        // The claim of a row that goes is no claim.
        try x.at(7).delete(winner)
        try expectConvergence(x, y)
        #expect(try y.value(loser, "s") == .reference(b.row))
    }

    @Test("S8: of two claims set from the side that keeps no state the policy's stands too")
    func oneToOneFromTheOtherSide() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyObjectTrump))
        let b = try x.at(1).insert("B")
        let first = try x.at(2).insert("A")
        let second = try x.at(3).insert("A")
        try y.take(x)
        let set = { (row: ManagedObjectID) in
            [RelationshipOperation(name: "t", kind: .replace, members: [row.row])]
        }
        try x.at(6).update(b, [:], set(first))
        try y.at(5).update(b, [:], set(second))
        try expectConvergence(x, y)
        #expect(try y.members(b, "t") == [first.row])
    }

    @Test(
        "P8: two claims of one save go to the lowest row, under every policy",
        arguments: [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump])
    func tieWithinOneSave(_ policy: MergePolicy) throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(policy))
        let b = try x.at(1).insert("B")
        let first = try x.at(2).insert("A")
        let second = try x.at(3).insert("A")
        try y.take(x)
        try z.take(x)
        // Both are moved off targets of their own by one save that no coordinator would make.
        let actor = ActorID(node: try #require(NodeID(9)), incarnation: 1)
        let shape = ChangeShape(entity: "A", assigned: ["s"])
        let save = Transaction(
            dot: Dot(actor: actor, sequence: 1),
            timestamp: try #require(
                HybridTimestamp(milliseconds: ScriptedNode.beginning + 9_000, counter: 0)),
            seen: try x.vector, modelHash: x.model.modelHash, shapes: [shape],
            changes: [first, second].map {
                Change(kind: .update, shape: 0, row: $0.row, values: [.reference(b.row)])
            })
        try y.apply([EncodedTransaction(save)])
        try expectConvergence(x, y, z)
        #expect(try x.members(b, "t") == [first.row])
    }

    @Test(
        "5.4: a link added and removed at once is settled as earliest or latest",
        arguments: [
            (MergePolicy.mergeByPropertyStoreTrump, true), (.rollback, true),
            (.mergeByPropertyObjectTrump, false), (.overwrite, false), (.error, true),
            (.errorByRow, true),
        ])
    func link(_ policy: MergePolicy, _ isMade: Bool) throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(policy))
        let a = try x.at(1).insert("A")
        let b = try x.at(2).insert("B")
        try x.at(3).update(a, [:], [.init(name: "u", kind: .add, members: [b.row])])
        try y.take(x)
        try z.take(x)
        // Y takes it away; X, which knows the link, takes it away earlier and adds it again.
        try x.at(4).update(a, [:], [.init(name: "u", kind: .remove, members: [b.row])])
        try x.at(5).update(b, [:], [.init(name: "v", kind: .add, members: [a.row])])
        try y.at(6).update(a, [:], [.init(name: "u", kind: .remove, members: [b.row])])
        try expectConvergence(x, y, z)
        #expect(try z.members(a, "u") == (isMade ? [b.row] : []))
        #expect(try z.members(b, "v") == (isMade ? [a.row] : []))
        let state: ConflictState = policy.leavesUnresolved ? .unresolved : .settled
        #expect(try z.openConflicts() == ["A.\(a.row).u.\(b.row)": state])
    }

    @Test("5.4: a link is shown between living rows only, and its conflicts are open then only")
    func linkOfDeadRows() throws {
        for isSource in [true, false] {
            let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.error))
            let a = try x.at(1).insert("A")
            let b = try x.at(2).insert("B")
            try x.at(3).update(a, [:], [.init(name: "u", kind: .add, members: [b.row])])
            try y.take(x)
            try x.at(4).update(a, [:], [.init(name: "u", kind: .remove, members: [b.row])])
            try x.at(5).update(a, [:], [.init(name: "u", kind: .add, members: [b.row])])
            try y.at(6).update(a, [:], [.init(name: "u", kind: .remove, members: [b.row])])
            try expectConvergence(x, y)
            #expect(try x.openConflicts().count == 1)
            try x.at(7).delete(isSource ? a : b, resolves: true)
            try y.take(x)
            #expect(try y.members(isSource ? b : a, isSource ? "v" : "u").isEmpty)
            try expectConvergence(x, y)
            #expect(try y.openConflicts().isEmpty)
        }
    }

    @Test("5.4: the claim of a row that returns by an undo takes the target again")
    func claimReturns() throws {
        let model = try ExampleModel.pair(.mergeByPropertyStoreTrump)
        let (x, y, _) = try ExampleModel.nodes(model)
        let b = try x.at(1).insert("B")
        let first = try x.at(2).insert("A")
        let second = try x.at(3).insert("A")
        try y.take(x)
        try x.at(5).update(first, ["s": .reference(b.row)])
        try y.at(6).update(second, ["s": .reference(b.row)])
        try y.take(x)
        try y.at(7).delete(first)
        try x.at(8).update(first, ["p": "u"])
        try x.take(y)
        #expect(try x.value(second, "s") == .reference(b.row))
        try undo(x.at(9), "A.\(first.row).object")
        try expectConvergence(x, y)
        // Undoing is an ordinary save, which takes the target from the object that has it.
        #expect(try y.members(b, "t") == [first.row])
        #expect(try y.value(second, "s") == .null)
    }

    @Test("5.4: a many-to-many with one name on both sides has one link for a pair")
    func oneNameOnBothSides() throws {
        let sides = [("Cat", "Dog"), ("Dog", "Cat")].map { own, other in
            EntityDescription(
                own, mergePolicy: .overwrite,
                relationships: [
                    RelationshipDescription(
                        "enemies", to: other, inverse: "enemies", isToMany: true)
                ])
        }
        let x = try ScriptedNode(try ManagedObjectModel(entities: sides), node: 1)
        let cat = try x.insert("Cat")
        let dog = try x.insert("Dog")
        try x.update(cat, [:], [.init(name: "enemies", kind: .add, members: [dog.row])])
        #expect(try x.members(dog, "enemies") == [cat.row])
        let changes = try #require(try x.log().last).transaction.changes
        #expect(changes.map(\.row) == [cat.row])
    }

    @Test("5.4: claims of rows of one hierarchy are settled by one policy")
    func claimsOfAHierarchy() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "A", mergePolicy: .mergeByPropertyStoreTrump,
                relationships: [RelationshipDescription("s", to: "B", inverse: "t")]),
            EntityDescription("C", parent: "A", mergePolicy: .mergeByPropertyObjectTrump),
            EntityDescription(
                "B", relationships: [RelationshipDescription("t", to: "A", inverse: "s")]),
        ])
        let (x, y, _) = try ExampleModel.nodes(model)
        let b = try x.at(1).insert("B")
        let first = try x.at(2).insert("A")
        let second = try x.at(3).insert("C")
        try y.take(x)
        try x.at(5).update(first, ["s": .reference(b.row)])
        try y.at(6).update(second, ["s": .reference(b.row)])
        try y.take(x)
        #expect(try y.members(b, "t") == [first.row])
        try expectConvergence(x, y)
    }
}
