import Coordinator
import Merge
import Testing

/// The examples of the model that concern properties and versions, on real coordinators.
@Suite struct PropertyExampleTests {
    @Test("P1: a settled conflict is in the journal, and is no unresolved one")
    func settledConflict() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyStoreTrump))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        try x.at(5).update(a, ["p": "a"])
        try y.at(6).update(a, ["p": "b"])
        try expectConvergence(x, y)
        for node in [x, y] {
            #expect(try node.value(a, "p") == "a")
            #expect(try node.openConflicts() == ["A.\(a.row).p": .settled])
        }
        try x.collect(stable: try x.vector)
        #expect(try x.openConflicts().isEmpty)
        #expect(try x.digest == y.digest)
        try y.at(8).update(a, ["m": "c"])
        try expectConvergence(x, y, hasCollected: true)
        #expect(try x.value(a, "p") == "a")
    }

    @Test("P2: a save against a version that lacks a concurrent write is refused")
    func versionHasEveryWrite() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyObjectTrump))
        let a = try x.at(1).insert("A", ["p": "0", "m": "0"])
        try y.take(x)
        let first = try x.at(5).update(a, ["p": "a"])
        let read = try #require(try x.row(a))
        let second = try y.at(6).update(a, ["m": "b"])
        try x.take(y)
        try y.take(x)
        for node in [x, y] {
            let version = try #require(try node.row(a)).version
            #expect(Set(version.dots) == [try #require(first), try #require(second)])
        }
        try x.collect(stable: try x.vector)
        #expect(try x.row(a)?.version == y.row(a)?.version)
        let code = try x.code { try x.at(7).update(a, ["m": "c"], stale: read) }
        #expect(code == .mergeConflict)
        try expectConvergence(x, y, hasCollected: true)
        #expect(try x.value(a, "m") == "b")
    }

    @Test("P9: what was overwritten before both sides met is no conflict; the rest is journalled")
    func witnesses() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyStoreTrump))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        try z.take(x)
        try x.at(5).update(a, ["p": "a"])
        try y.at(6).update(a, ["p": "b"])
        try z.take(y)
        try x.take(y)
        try x.at(7).update(a, ["p": "c"])
        try z.at(8).update(a, ["p": "d"])
        try expectConvergence(x, y, z)
        #expect(try y.value(a, "p") == "c")
        let sides = try y.journal(isOpen: true).flatMap(\.sides).compactMap(\.value)
        #expect(sides == ["c", "d"])
    }

    @Test("P18: a decision over sides that are no longer all is refused")
    func resolutionRace() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.error))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        try z.take(x)
        let first = try #require(try x.at(5).update(a, ["p": "a"]))
        try y.at(6).update(a, ["p": "b"])
        try z.at(7).update(a, ["p": "c"])
        try x.take(y)
        let seen = try #require(try x.journal(isOpen: true).first)
        try x.take(z)
        let sides = seen.sides.compactMap(\.dot)
        let code = try x.code {
            _ = try x.coordinator.resolve(seen.id, .side(first), sides: sides)
        }
        #expect(code == .sidesChanged)
        #expect(try x.openConflicts() == ["A.\(a.row).p": .unresolved])
        let now = try #require(try x.journal(isOpen: true).first)
        _ = try x.at(8).coordinator.resolve(
            now.id, .side(first), sides: now.sides.compactMap(\.dot))
        try expectConvergence(x, y, z)
        #expect(try z.openConflicts().isEmpty)
        #expect(try z.value(a, "p") == "a")
    }

    @Test("P19: a save whose policy leaves nothing writes nothing, and resolves nothing")
    func emptyUpdate() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.error))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        let read = try #require(try x.row(a))
        try x.at(5).update(a, ["p": "u"])
        try y.at(6).delete(a)
        try x.take(y)
        let rolledBack = try x.at(7).update(a, ["p": "v"], stale: read, policy: .rollback)
        #expect(rolledBack == nil)
        let trumped = try x.at(8).update(
            a, ["p": "v"], stale: read, policy: .mergeByPropertyStoreTrump)
        #expect(trumped == nil)
        try expectConvergence(x, y)
        for node in [x, y] {
            #expect(try node.value(a, "p") == "u")
            #expect(try node.openConflicts() == ["A.\(a.row).object": .unresolved])
        }
    }

    @Test("S1: first is the first of the maximal writes, so who keeps editing apart loses")
    func firstOfTheMaximal() throws {
        let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyStoreTrump))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        let first = try x.at(5).update(a, ["p": "a"])
        try y.at(6).update(a, ["p": "b"])
        try y.take(first, of: x)
        #expect(try y.value(a, "p") == "a")
        try x.at(7).update(a, ["p": "c"])
        try expectConvergence(x, y)
        #expect(try x.value(a, "p") == "b")
    }

    @Test("5.1: the loser stays a sibling until somebody who saw it overwrites it")
    func loserStays() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyStoreTrump))
        let a = try x.at(1).insert("A", ["p": "0"])
        try y.take(x)
        try z.take(x)
        try x.at(6).update(a, ["p": "a"])
        try y.at(5).update(a, ["p": "b"])
        try z.take(y)
        try z.at(7).update(a, ["p": "c"])
        try expectConvergence(x, y, z)
        #expect(try y.value(a, "p") == "a")
    }

    @Test("5.2: concurrent writes of equal values join without a conflict")
    func equalValues() throws {
        for policy in [MergePolicy.error, .mergeByPropertyObjectTrump] {
            let (x, y, _) = try ExampleModel.nodes(try ExampleModel.pair(policy))
            let a = try x.at(1).insert("A", ["p": "0"])
            try y.take(x)
            try x.at(5).update(a, ["p": "a"])
            try y.at(6).update(a, ["p": "a"])
            try expectConvergence(x, y)
            #expect(try x.openConflicts().isEmpty)
            #expect(try x.row(a)?.version.dots.count == 2)
        }
    }

    @Test("5.2: a property's own policy settles it, and not the row's existence")
    func override() throws {
        let model = try ExampleModel.pair(.error, override: .mergeByPropertyObjectTrump)
        let (x, y, z) = try ExampleModel.nodes(model)
        let a = try x.at(1).insert("A", ["p": "0", "m": "0"])
        try y.take(x)
        try z.take(x)
        try x.at(5).update(a, ["p": "a", "m": "a"])
        try y.at(6).update(a, ["p": "b", "m": "b"])
        try z.at(7).delete(a)
        try expectConvergence(x, y, z)
        #expect(try x.value(a, "p") == "a")
        #expect(try x.value(a, "m") == "b")
        let name = "A.\(a.row)"
        #expect(
            try x.openConflicts() == [
                "\(name).p": .unresolved, "\(name).m": .settled, "\(name).object": .unresolved,
            ])
    }

    @Test("5.7: an edit that loses to a delete after another edit covered its row is journalled")
    func coveredEdit() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyObjectTrump))
        let a = try x.at(1).insert("A", ["p": "0", "m": "0"])
        try y.take(x)
        try z.take(x)
        try x.at(5).update(a, ["p": "u"])
        try y.take(x)
        try y.at(6).update(a, ["m": "v"])
        try z.at(7).delete(a)
        try expectConvergence(x, y, z)
        #expect(try x.row(a) == nil)
    }

    @Test("A11: a value that went and came back is no conflict for a context that keeps it")
    func backAgain() throws {
        let (x, _, _) = try ExampleModel.nodes(try ExampleModel.pair(.mergeByPropertyStoreTrump))
        let a = try x.at(1).insert("A", ["p": "1"])
        let read = try #require(try x.row(a))
        try x.at(2).update(a, ["p": "2"])
        try x.at(3).update(a, ["p": "1"])
        let saved = try x.at(4).update(
            a, ["p": "3"], stale: read, policy: .mergeByPropertyStoreTrump)
        #expect(saved != nil)
        #expect(try x.value(a, "p") == "3")
        try expectConvergence(x)
    }
}
