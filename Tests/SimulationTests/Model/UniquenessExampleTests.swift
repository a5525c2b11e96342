import Coordinator
import Merge
import Testing

/// The examples of the model that concern uniqueness, on real coordinators and in every order.
@Suite struct UniquenessExampleTests {
    private func key(_ name: String) -> [String: PropertyValue] { ["k": .string(name)] }

    /// Two rows of one key, inserted apart; the first is shown. Nobody knows of both yet.
    private func twins(
        _ policy: MergePolicy, override: MergePolicy? = nil
    ) throws -> (
        x: ScriptedNode, y: ScriptedNode, z: ScriptedNode, a: ManagedObjectID, b: ManagedObjectID
    ) {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(policy, override: override))
        let a = try x.at(1).insert("A", ["k": "1", "p": "10"])
        let b = try y.at(2).insert("A", ["k": "1", "p": "20"])
        return (x, y, z, a, b)
    }

    private func conflict(_ node: ScriptedNode, _ id: String) throws -> Conflict {
        try #require(try node.journal(isOpen: true).first { $0.id.description == id })
    }

    @Test(
        "CD-151: two rows of one key are shown as the first, with what the policy chooses",
        arguments: [
            (MergePolicy.error, "10"), (.errorByRow, "10"), (.mergeByPropertyStoreTrump, "10"),
            (.rollback, "10"), (.mergeByPropertyObjectTrump, "20"), (.overwrite, "20"),
        ])
    func united(_ policy: MergePolicy, _ p: String) throws {
        let (x, y, z, a, b) = try twins(policy)
        let child = try y.at(3).insert("A", ["over": .reference(b.row)])
        try z.take(x, y)
        #expect(try z.value(a, "p") == .string(p))
        #expect(try z.row(b)?.objectID == a)
        #expect(try z.coordinator.read { try $0.count(FetchRequest("A")) } == 2)
        #expect(try z.value(child, "over") == .reference(a.row))
        #expect(try z.members(a, "under") == [child.row])
        let found = try conflict(z, "A.\(a.row).unique.k")
        #expect(found.kind == .uniqueness)
        #expect(found.state == (policy.leavesUnresolved ? .unresolved : .settled))
        #expect(found.sides.map(\.object) == [a, b])
        #expect(try z.row(a)?.isConflicted == policy.leavesUnresolved)
        try expectConvergence(x, y, z)
    }

    @Test(
        "An insert that becomes one with a row does not decide what of that row is undecided",
        arguments: [MergePolicy.error, .errorByRow])
    func insertOverUnresolved(_ policy: MergePolicy) throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(policy))
        let a = try x.at(1).insert("A", key("1"))
        try y.take(x)
        try x.at(2).update(a, ["p": "10"])
        try y.at(3).update(a, ["p": "20"])
        try x.take(y)
        let twin = ManagedObjectID(entityName: "A", row: RowID(-1))
        let insert = try x.operation(.insert, twin, ["k": "1", "p": "30"])
        #expect(
            try x.code { _ = try x.at(4).save(insert, policy: .overwrite) } == .unresolvedConflict)
        #expect(try x.value(a, "p") == "10")
        try expectConvergence(x, y, z)
    }

    @Test("P3: a late write to an eclipsed row moves the survivor's version")
    func survivorsVersion() throws {
        let (x, y, z, a, b) = try twins(.mergeByPropertyObjectTrump)
        try z.take(x, y)
        let read = try #require(try z.row(a))
        try y.at(5).update(b, ["p": "late"])
        try z.take(y)
        #expect(try z.code { try z.at(6).update(a, ["p": "mine"], stale: read) } == .mergeConflict)
        #expect(try z.value(a, "p") == "late")
        // Dots alone do not do: after a write to both, A alone and A with B have the same.
        try z.at(7).update(a, ["p": "both"])
        let both = try #require(try z.row(a)?.version)
        try x.take(z.at(8), y)
        try x.at(9).update(a, key("2"))
        #expect(!both.eclipsed.isEmpty)
        #expect(both != RowVersion(dots: both.dots))
        try expectConvergence(x, y, z)
    }

    @Test("P6: a revival counts as the insertion, also where the delete was collected")
    func revivalRanks() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(.mergeByPropertyStoreTrump))
        let a = try x.at(1).insert("A", key("1"))
        try y.take(x)
        try z.take(x)
        try y.at(2).update(a, ["p": "u"])
        try x.at(3).delete(a)
        try x.take(y)
        try y.take(x)
        try x.collect(stable: try x.vector)
        try z.take(x)
        let twin = try z.at(7).insert("A", key("1"))
        let lost = try #require(try x.journal().first { $0.id.subject == "object" })
        _ = try x.at(9).coordinator.undo(lost.id) as SaveResult
        try x.take(z)
        #expect(try x.row(a)?.objectID == twin)
        try y.take(x, z)
        #expect(try y.row(a)?.objectID == twin)
        try expectConvergence(x, y, z, hasCollected: true)
    }

    @Test("P8: two rows of one save that are renamed alike: the lowest is shown, under both rules")
    func ties() throws {
        for policy in [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump] {
            let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(policy))
            let saved = try x.at(1).save(
                try x.operation(
                    .insert, ManagedObjectID(entityName: "A", row: RowID(-1)),
                    ["k": "1", "p": "one"]),
                try x.operation(
                    .insert, ManagedObjectID(entityName: "A", row: RowID(-2)),
                    ["k": "2", "p": "two"]))
            let rows = saved.insertedRows.map { ManagedObjectID(entityName: "A", row: $0.row) }
                .sorted()
            try y.take(x)
            try x.at(5).update(rows[0], key("3"))
            try y.at(6).update(rows[1], key("3"))
            try z.take(x, y)
            #expect(try z.row(rows[1])?.objectID == rows[0])
            #expect(try z.value(rows[0], "p") == z.value(rows[1], "p"))
            try expectConvergence(x, y, z)
        }
    }

    @Test("P10: a survivor keeps its own constrained properties, so no two visible rows clash")
    func ownKeys() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(.mergeByPropertyObjectTrump))
        func pair(_ m: Int64, _ n: Double) -> [String: PropertyValue] {
            ["m": .integer(m), "n": .double(n)]
        }
        let a = try x.at(1).insert("A", key("p").merging(pair(1, 1)) { $1 })
        let b = try y.at(2).insert("A", key("p").merging(pair(2, 2)) { $1 })
        let c = try z.at(3).insert("A", key("q").merging(pair(2, 1)) { $1 })
        try x.at(4).update(a, ["n": .double(3)])
        try x.at(5).update(a, ["n": .double(1)])
        try expectConvergence(x, y, z)
        #expect(try x.row(b)?.objectID == a)
        #expect(try x.value(a, "m") == 1)
        #expect(try x.value(c, "m") == 2)
    }

    @Test("P11: one bad insert hides no stranger")
    func strangers() throws {
        let (x, y, z) = try ExampleModel.nodes(try ExampleModel.unique(.overwrite))
        let a = try x.at(1).insert("A", ["k": "1", "m": 1, "n": .double(1)])
        let b = try x.at(2).insert("A", ["k": "2", "m": 2, "n": .double(2)])
        let c = try y.at(3).insert("A", ["k": "1", "m": 2, "n": .double(2)])
        try z.take(x, y)
        #expect(try z.row(a)?.objectID == a)
        #expect(try z.row(b)?.objectID == b)
        #expect(try z.row(c)?.objectID == a)
        try expectConvergence(x, y, z)
    }

    @Test("P12: under an error policy a save is for the row it names; the other side stays")
    func errorIsAlone() throws {
        let (x, y, z, a, b) = try twins(.error)
        try z.take(x, y)
        try z.at(5).update(a, ["p": "edited"])
        let found = try conflict(z, "A.\(a.row).unique.k")
        let sides = found.sides.map { side in side.row.first { $0.name == "p" }?.value }
        #expect(sides == ["edited", "20"])
        // An eclipsed row can be addressed, to decide.
        try z.at(6).update(b, key("2"))
        #expect(try z.row(b)?.objectID == b)
        #expect(try z.journal(isOpen: true).isEmpty)
        try expectConvergence(x, y, z)
    }

    @Test("P13: a row-grained save writes the shown row to every member, so nothing flips")
    func shownRow() throws {
        let (x, y, z, a, _) = try twins(.overwrite)
        try z.take(x, y)
        #expect(try z.value(a, "p") == "20")
        try z.at(5).update(a, ["q": 9])
        #expect(try z.value(a, "p") == "20")
        #expect(try z.value(a, "q") == 9)
        try expectConvergence(x, y, z)
        #expect(try x.value(a, "p") == "20")
    }

    @Test("A property with an error policy of its own is not combined")
    func override() throws {
        let (x, y, z) = try ExampleModel.nodes(
            try ExampleModel.unique(.mergeByPropertyObjectTrump, override: .error))
        let a = try x.at(1).insert("A", ["k": "1", "q": 1])
        _ = try y.at(2).insert("A", ["k": "1", "q": 2, "p": "20"])
        try expectConvergence(x, y, z)
        #expect(try x.value(a, "q") == 1)
        #expect(try x.value(a, "p") == "20")
    }

    @Test("S3: two nodes that rename a merged row to different keys end with two rows")
    func renames() throws {
        let (x, y, z, a, b) = try twins(.mergeByPropertyObjectTrump)
        try x.take(y)
        try z.take(x)
        try x.at(5).update(a, key("2"))
        // Z knew the first row alone.
        let alone = try ScriptedNode(x.model, node: 4)
        try alone.apply(try x.log().filter { $0.dot.actor.node == NodeID(1) }.prefix(1).map { $0 })
        try alone.at(6).update(a, key("3"))
        try x.take(alone)
        #expect(try x.row(a)?.objectID == a)
        #expect(try x.row(b)?.objectID == b)
        #expect(try x.value(a, "k") == "3")
        #expect(try x.value(b, "k") == "2")
        try expectConvergence(x, y, z)
    }

    @Test("S4: deleting the only row a node knew lets another of the group take over the key")
    func takenOver() throws {
        let (x, y, z, a, b) = try twins(.mergeByPropertyStoreTrump)
        let child = try x.at(3).insert("A", ["over": .reference(a.row)])
        try x.at(5).delete(a)
        try z.take(x, y)
        #expect(try z.row(a) == nil)
        #expect(try z.value(b, "k") == "1")
        #expect(try z.value(child, "over") == .null)
        try expectConvergence(x, y, z)
    }

    @Test("S5: a save to a group reaches a member that left it at the same time")
    func leftMeanwhile() throws {
        let (x, y, z, a, b) = try twins(.mergeByPropertyObjectTrump)
        try z.take(x, y)
        try z.at(5).update(a, ["p": "both"])
        try y.at(6).update(b, key("2"))
        try x.take(z, y)
        #expect(try x.row(b)?.objectID == b)
        #expect(try x.value(b, "p") == "both")
        try expectConvergence(x, y, z)
    }

    @Test("A delete of a survivor deletes the whole group; under an error policy the row alone")
    func deletes() throws {
        for policy in [MergePolicy.overwrite, .error] {
            let (x, y, z, a, b) = try twins(policy)
            try z.take(x, y)
            try z.at(5).delete(a)
            #expect(try z.row(a) == nil)
            #expect(try (z.row(b) == nil) == (policy == .overwrite))
            try expectConvergence(x, y, z)
        }
    }

    @Test("Links and one-to-ones of a group are one row's")
    func relationships() throws {
        let (x, y, z, a, b) = try twins(.mergeByPropertyStoreTrump)
        let first = try x.at(3).insert("B", ["b": "x"])
        let second = try y.at(4).insert("B", ["b": "x"])
        let own = try y.at(5).insert("B", ["b": "y"])
        try x.at(6).update(
            a, ["s": .reference(first.row)], [.init(name: "u", kind: .add, members: [first.row])])
        try y.at(7).update(
            b, ["s": .reference(second.row)],
            [.init(name: "u", kind: .add, members: [second.row, own.row])])
        try z.take(x, y)
        #expect(try z.members(a, "u") == [first.row, own.row].sorted())
        #expect(try z.members(own, "v") == [a.row])
        #expect(try z.value(a, "s") == .reference(first.row))
        #expect(try z.members(first, "t") == [a.row])
        // What a reader sees as one link goes as one.
        try z.at(8).update(a, [:], [.init(name: "u", kind: .remove, members: [first.row])])
        #expect(try z.members(a, "u") == [own.row])
        try expectConvergence(x, y, z)
    }

    @Test("Under an error policy a side is chosen: its row stays, and references lead to it")
    func chosen() throws {
        for place in [0, 1] {
            let (x, y, z, a, b) = try twins(.error)
            let child = try x.at(3).insert("A", ["over": .reference(a.row)])
            try z.take(x, y)
            let found = try conflict(z, "A.\(a.row).unique.k")
            let kept = [a, b][place]
            let dots = found.sides.compactMap(\.dot)
            _ =
                try z.at(8).coordinator.resolve(found.id, .side(dots[place]), sides: dots)
                as SaveResult
            #expect(try z.row(kept)?.objectID == kept)
            #expect(try z.coordinator.read { try $0.count(FetchRequest("A")) } == 2)
            #expect(try z.value(child, "over") == .reference(kept.row))
            #expect(try z.journal(isOpen: true).filter { $0.kind == .uniqueness }.isEmpty)
            try expectConvergence(x, y, z)
        }
    }

    @Test("A resolution that has not seen a row that came meanwhile is refused")
    func resolutionRace() throws {
        let (x, y, z, a, _) = try twins(.error)
        try z.take(x, y)
        let found = try conflict(z, "A.\(a.row).unique.k")
        let seen = found.sides.compactMap(\.dot)
        let other = try ScriptedNode(x.model, node: 4)
        _ = try other.at(4).insert("A", key("1"))
        try z.take(other)
        #expect(
            try z.code {
                _ =
                    try z.coordinator.resolve(found.id, .side(seen[0]), sides: seen)
                    as SaveResult
            } == .sidesChanged)
    }
}
