import Coordinator
import Merge
import Testing

/// The examples of the model that concern deletes and revivals, on real coordinators.
@Suite struct ExistenceExampleTests {
    /// Rows with a side that a person prefers come back by undoing the delete that won.
    private func undo(_ node: ScriptedNode, _ name: String) throws {
        let conflict = try #require(
            try node.journal(isOpen: true).first { $0.id.description == name })
        _ = try node.coordinator.undo(conflict.id, sides: conflict.sides.compactMap(\.dot))
    }

    @Test("P4: a row revived by who did not see an update shows that update everywhere")
    func revivalBesideAnUpdate() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.rollback))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        try z.take(x)
        let read = try #require(try z.row(a))
        let deletion = try x.at(5).delete(a)
        try y.at(6).update(a, ["p": "u"])
        try z.take(deletion, of: x)
        try y.take(deletion, of: x)
        #expect(try y.row(a) == nil)
        // The delete is stable, the update is not.
        try x.take(y)
        try x.collect(stable: try z.vector)
        try z.at(8).update(a, ["p": "w"], stale: read, policy: .overwrite)
        #expect(try z.value(a, "p") == "w")
        try expectConvergence(x, y, z, hasCollected: true)
        #expect(try x.value(a, "p") == "u")
    }

    @Test("A store brings back no row that only another one has had")
    func revivalOfAStranger() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.overwrite))
        let a = try x.at(1).insert("A", ["p": "0"])
        let read = try #require(try x.row(a))
        // A client of a store that was lost since talks to one that has heard of nothing yet.
        #expect(
            try y.code {
                try y.at(2).update(a, ["p": "1"], stale: read, policy: .overwrite)
            } == .objectNotFound)
        try expectConvergence(x, y, z)
    }

    @Test("P5: what makes a dead row live again carries the whole row")
    func revivalIsWhole() throws {
        for policy in [MergePolicy.mergeByPropertyObjectTrump, .rollback] {
            let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let a = try x.at(1).insert("A", ["p": "0", "m": "kept"])
            try y.take(x)
            try z.take(x)
            try x.at(5).delete(a)
            try y.at(6).update(a, ["p": "u"])
            try y.take(x)
            #expect(try y.row(a) == nil)
            try x.take(y)
            try x.collect(stable: try x.vector)
            #expect(try x.openConflicts().isEmpty)
            try undo(y.at(8), "A.\(a.row).object")
            try expectConvergence(x, y, z, hasCollected: true)
            #expect(try z.value(a, "p") == "u")
            #expect(try z.value(a, "m") == "kept")
            #expect(try z.openConflicts().isEmpty)
        }
    }

    @Test("P7: a dead row has no unresolved conflicts")
    func deadRowsAreQuiet() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.error))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        try x.at(5).update(a, ["p": "a"])
        try y.at(6).update(a, ["p": "b"])
        try x.take(y)
        #expect(try x.openConflicts() == ["A.\(a.row).p": .unresolved])
        try x.at(8).delete(a, resolves: true)
        try y.take(x)
        try x.collect(stable: try x.vector)
        #expect(try x.digest == y.digest)
        try expectConvergence(x, y, z, hasCollected: true)
        #expect(try y.openConflicts().isEmpty)
    }

    @Test("5.3: under property policies the delete wins, whenever it was made")
    func deleteWins() throws {
        for (policy, time) in [
            (MergePolicy.mergeByPropertyObjectTrump, UInt64(4)),
            (.mergeByPropertyStoreTrump, 8),
        ] {
            let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let a = try x.at(1).insert("A", ["p": "0"])
            try y.take(x)
            try x.at(6).update(a, ["p": "u"])
            try y.at(time).delete(a)
            try expectConvergence(x, y)
            #expect(try x.row(a) == nil)
            let sides = try x.journal().flatMap(\.sides).flatMap(\.row)
            #expect(sides.contains { $0.name == "p" && $0.value == "u" })
        }
    }

    @Test("5.3: under error policies the row stays, flagged, with the earliest that is alive")
    func staysAlive() throws {
        for policy in [MergePolicy.error, .errorByRow] {
            let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let a = try x.at(1).insert("A", ["p": "0"])
            try y.take(x)
            try z.take(x)
            try x.at(5).delete(a)
            try y.at(6).update(a, ["p": "u"])
            try z.at(7).update(a, ["p": "v"])
            try expectConvergence(x, y, z)
            #expect(try x.value(a, "p") == "u")
            #expect(try x.openConflicts()["A.\(a.row).object"] == .unresolved)
        }
    }

    @Test("5.3: a row that wins against its delete is there whole")
    func wholeRowWins() throws {
        for (policy, time) in [(MergePolicy.overwrite, UInt64(6)), (.rollback, 4)] {
            let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let a = try x.at(1).insert("A", ["p": "0", "m": "kept"])
            try y.take(x)
            try x.at(time).update(a, ["p": "u"])
            try y.at(5).delete(a)
            try expectConvergence(x, y)
            #expect(try y.value(a, "p") == "u")
            #expect(try y.value(a, "m") == "kept")
        }
    }

    @Test("S2: under rollback an update can make a delete win")
    func updateMakesDeleteWin() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.rollback))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        let first = try x.at(5).update(a, ["p": "u"])
        try y.at(6).delete(a)
        try y.take(first, of: x)
        #expect(try y.value(a, "p") == "u")
        try x.at(7).update(a, ["p": "v"])
        try expectConvergence(x, y)
        #expect(try x.row(a) == nil)
    }

    @Test("S7: a parent that wins against its delete comes back without cascaded children")
    func parentWithoutChildren() throws {
        let model = try ExampleModel.pair(.overwrite, deleteRule: .cascade)
        let (x, y, _) = try ExampleModel.nodes(model)
        let parent = try x.at(1).insert("B", ["n": "0"])
        let child = try x.at(2).insert("A", ["r": .reference(parent.row)])
        try y.take(x)
        try x.at(5).delete(parent)
        try y.at(6).update(parent, ["n": "1"])
        try expectConvergence(x, y)
        #expect(try x.value(parent, "n") == "1")
        #expect(try x.row(child) == nil)
        #expect(try x.members(parent, "rs").isEmpty)
    }

    @Test("5.2: a row-grained policy shows one writer's row, never a mixture")
    func noMixture() throws {
        for (policy, p, m) in [
            (MergePolicy.rollback, "a", "0"), (.overwrite, "0", "b"), (.errorByRow, "a", "0"),
        ] {
            let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let a = try x.at(1).insert("A", ["p": "0", "m": "0"])
            try y.take(x)
            try x.at(5).update(a, ["p": "a"])
            try y.at(6).update(a, ["m": "b"])
            try expectConvergence(x, y)
            #expect(try x.value(a, "p") == .string(p))
            #expect(try x.value(a, "m") == .string(m))
            let state: ConflictState = policy == .errorByRow ? .unresolved : .settled
            #expect(try x.openConflicts() == ["A.\(a.row).object": state])
        }
    }
}
