import Merge
import Testing

/// The minimal examples of MODEL.md and DESIGN 5.1, by name, as far as one row shows them.
@Suite("Examples that broke an earlier wording")
struct ModelExampleTests {
    /// One row of two properties on some nodes; node 9 has inserted it everywhere.
    private struct Scene {
        let policies: EntityPolicies
        var rows: [String: RowState] = [:]

        init(_ policy: MergePolicy, _ names: [String]) throws {
            policies = EntityPolicies(entity: policy, properties: [policy, policy])
            for name in names {
                rows[name] = RowState(propertyCount: 2)
                try apply(Self.insert, on: name)
            }
        }

        static let insert = Write(
            stamp: stamp(9, 1, at: 1), seen: VersionVector(),
            what: RowWrite(kind: .insert, values: [(0, .integer(0)), (1, .integer(0))]))

        mutating func apply(_ writes: Write..., on name: String) throws {
            guard var row = rows[name] else { return }
            for write in writes {
                try row.apply(write.what, stamp: write.stamp, seen: write.seen, policies: policies)
            }
            rows[name] = row
        }

        mutating func collapse(_ name: String, stable: VersionVector) -> RowCollapse? {
            rows[name]?.collapse(stable: stable, policies: policies)
        }

        func shown(_ name: String, _ property: Int = 0) -> PropertyValue? {
            rows[name]?.visible(property, policies)?.value
        }

        func isAlive(_ name: String) -> Bool? { rows[name]?.isAlive(policies) }
        func version(_ name: String) -> [Dot]? { rows[name]?.version.dots }
        func conflicts(_ name: String) -> [RegisterConflict] {
            rows[name]?.conflicts(policies) ?? []
        }
    }

    /// A write by its stamp, what it saw and what it does.
    private struct Write {
        let stamp: Stamp
        let seen: VersionVector
        let what: RowWrite

        init(stamp: Stamp, seen: VersionVector, what: RowWrite) {
            self.stamp = stamp
            self.seen = seen
            self.what = what
        }

        /// The first write of the node, at that time, that saw the insert and these.
        init(_ number: Int, at time: UInt64, saw: [Int: UInt64] = [:], _ what: RowWrite) {
            self.init(
                stamp: MergeTests.stamp(number, (saw[number] ?? 0) + 1, at: time),
                seen: vector([9: 1]).joined(vector(saw)), what: what)
        }
    }

    private static func update(_ values: [Int: Int64]) -> RowWrite {
        RowWrite(
            kind: .update,
            values: values.sorted { $0.key < $1.key }.map { ($0.key, .integer($0.value)) })
    }

    private static func revival(_ first: Int64, _ second: Int64) -> RowWrite {
        RowWrite(kind: .revival, values: [(0, .integer(first)), (1, .integer(second))])
    }

    private static let delete = RowWrite(kind: .delete, values: [])

    @Test("5.1: a loser stays until it is overwritten, so a, b, c and b, c, a agree")
    func loserStays() throws {
        let a = Write(1, at: 2, Self.update([0: 10]))
        let b = Write(2, at: 3, Self.update([0: 20]))
        let c = Write(3, at: 4, saw: [2: 1], Self.update([0: 30]))
        for (policy, expected) in [
            (MergePolicy.mergeByPropertyStoreTrump, Int64(10)), (.mergeByPropertyObjectTrump, 30),
            (.error, 10),
        ] {
            var scene = try Scene(policy, ["X", "Y"])
            try scene.apply(a, b, c, on: "X")
            try scene.apply(b, c, a, on: "Y")
            #expect(scene.rows["X"] == scene.rows["Y"])
            #expect(scene.shown("X") == .integer(expected))
        }
        // With b earliest, a loses at X before c comes; it must win over c all the same.
        var scene = try Scene(.mergeByPropertyStoreTrump, ["X", "Y"])
        let early = Write(2, at: 2, Self.update([0: 20]))
        let loser = Write(1, at: 3, Self.update([0: 10]))
        try scene.apply(loser, early, c, on: "X")
        try scene.apply(early, c, loser, on: "Y")
        #expect(scene.shown("X") == .integer(10))
        #expect(scene.shown("Y") == .integer(10))
    }

    @Test("P1: a settled conflict may be gone where its siblings collapsed, an unresolved never")
    func p1OpenConflicts() throws {
        let a = Write(1, at: 2, Self.update([0: 10]))
        let b = Write(2, at: 3, Self.update([0: 20]))
        let stable = vector([9: 1, 1: 1, 2: 1])
        var settled = try Scene(.mergeByPropertyStoreTrump, ["X", "Y"])
        var open = try Scene(.error, ["X", "Y"])
        for name in ["X", "Y"] {
            try settled.apply(a, b, on: name)
            try open.apply(a, b, on: name)
        }
        #expect(settled.collapse("X", stable: stable)?.isEmpty == false)
        #expect(open.collapse("X", stable: stable)?.isEmpty == true)
        #expect(settled.conflicts("X").isEmpty)
        #expect(settled.conflicts("Y").map(\.state) == [.settled])
        #expect(settled.shown("X") == settled.shown("Y"))
        #expect(open.conflicts("X") == open.conflicts("Y"))
        #expect(open.conflicts("X").map(\.state) == [.unresolved])
    }

    @Test("P2: collapse takes no dot from a row's version", arguments: MergePolicy.allCases)
    func p2VersionKept(_ policy: MergePolicy) throws {
        var scene = try Scene(policy, ["X", "Y"])
        let isRow = policy.granularity == .row
        let a = Write(1, at: 2, Self.update(isRow ? [0: 10, 1: 0] : [0: 10]))
        let b = Write(2, at: 3, Self.update(isRow ? [0: 0, 1: 20] : [1: 20]))
        for name in ["X", "Y"] { try scene.apply(a, b, on: name) }
        _ = scene.collapse("X", stable: vector([9: 1, 1: 1, 2: 1]))
        #expect(scene.version("X") == [dot(1, 1), dot(2, 1)])
        #expect(scene.version("X") == scene.version("Y"))
        // A write that saw both replaces both, collapsed or not.
        let c = Write(3, at: 9, saw: [1: 1, 2: 1], Self.update(isRow ? [0: 1, 1: 1] : [0: 1]))
        for name in ["X", "Y"] { try scene.apply(c, on: name) }
        #expect(scene.version("X") == [dot(3, 1)])
        #expect(scene.version("Y") == [dot(3, 1)])
    }

    @Test(
        "P4: a dead row stays while a write concurrent with its delete is not stable",
        arguments: [MergePolicy.rollback, .mergeByPropertyObjectTrump, .mergeByPropertyStoreTrump])
    func p4TombstoneKept(_ policy: MergePolicy) throws {
        var scene = try Scene(policy, ["X", "Y", "Z"])
        let d = Write(1, at: 5, Self.delete)
        let u = Write(2, at: 6, Self.update([0: 10, 1: 0]))
        let w = Write(3, at: 8, saw: [1: 1], Self.revival(30, 31))
        try scene.apply(d, u, on: "X")
        try scene.apply(u, d, on: "Y")
        try scene.apply(d, on: "Z")
        #expect(scene.isAlive("X") == false)
        let early = vector([9: 1, 1: 1])
        #expect(scene.rows["X"]?.isCollectable(stable: early, policies: scene.policies) == false)
        #expect(scene.collapse("X", stable: early)?.isEmpty == true)
        for name in ["X", "Y"] { try scene.apply(w, on: name) }
        try scene.apply(w, u, on: "Z")
        #expect(scene.rows["X"] == scene.rows["Y"])
        #expect(scene.rows["Z"] == scene.rows["Y"])
        #expect(scene.isAlive("Z") == true)
        #expect(scene.version("X") == [dot(2, 1), dot(3, 1)])
    }

    @Test("P5: a revival shows the same whole row whether the tombstone was collected or not")
    func p5RevivalIsWhole() throws {
        for policy in MergePolicy.allCases {
            var scene = try Scene(policy, ["X", "Y"])
            let d = Write(1, at: 5, Self.delete)
            for name in ["X", "Y"] { try scene.apply(d, on: name) }
            let stable = vector([9: 1, 1: 1])
            #expect(
                scene.rows["X"]?.isCollectable(stable: stable, policies: scene.policies) == true)
            scene.rows["X"] = RowState(propertyCount: 2)
            let w = Write(2, at: 6, saw: [1: 1], Self.revival(30, 31))
            for name in ["X", "Y"] { try scene.apply(w, on: name) }
            #expect(scene.rows["X"] == scene.rows["Y"])
            #expect(scene.shown("X", 0) == .integer(30))
            #expect(scene.shown("X", 1) == .integer(31))
            #expect(scene.rows["X"]?.insertionStamp == w.stamp)
        }
    }

    @Test("P6: of two revivals the earliest counts as the insertion, until one has seen both")
    func p6RevivalCountsAsInsertion() throws {
        var scene = try Scene(.overwrite, ["X"])
        let d = Write(1, at: 5, Self.delete)
        let late = Write(2, at: 8, saw: [1: 1], Self.revival(1, 1))
        let early = Write(3, at: 7, saw: [1: 1], Self.revival(2, 2))
        try scene.apply(d, late, early, on: "X")
        #expect(scene.rows["X"]?.insertionStamp == early.stamp)
        try scene.apply(
            Write(4, at: 9, saw: [1: 1, 2: 1, 3: 1], Self.update([0: 3, 1: 3])), on: "X")
        #expect(scene.rows["X"]?.insertionStamp == early.stamp)
    }

    @Test("P7: a dead row has no conflict of its values, only of its existence")
    func p7DeadRowsAreQuiet() throws {
        var scene = try Scene(.error, ["X"])
        try scene.apply(
            Write(1, at: 2, Self.update([0: 10])), Write(2, at: 3, Self.update([0: 20])), on: "X")
        #expect(scene.conflicts("X").map(\.subject) == [.property(0)])
        try scene.apply(Write(3, at: 4, saw: [1: 1, 2: 1], Self.delete), on: "X")
        #expect(scene.isAlive("X") == false)
        #expect(scene.conflicts("X").isEmpty)
    }

    @Test("P8: writes of one time go by node, then incarnation, then sequence, in any order")
    func p8TiesHaveOneOrder() throws {
        for (policy, expected) in [
            (MergePolicy.mergeByPropertyStoreTrump, Int64(10)), (.mergeByPropertyObjectTrump, 20),
        ] {
            var scene = try Scene(policy, ["X", "Y"])
            let a = Write(1, at: 5, Self.update([0: 10]))
            let b = Write(2, at: 5, Self.update([0: 20]))
            try scene.apply(a, b, on: "X")
            try scene.apply(b, a, on: "Y")
            #expect(scene.rows["X"] == scene.rows["Y"])
            #expect(scene.shown("X") == .integer(expected))
        }
        let time = timestamp(5)
        let older = ActorID(node: node(2), incarnation: 1)
        let newer = ActorID(node: node(2), incarnation: 2)
        let ordered = [
            Stamp(timestamp: timestamp(4), dot: dot(9, 9)),
            Stamp(timestamp: time, dot: dot(1, 7)),
            Stamp(timestamp: time, dot: Dot(actor: older, sequence: 5)),
            Stamp(timestamp: time, dot: Dot(actor: newer, sequence: 1)),
            Stamp(timestamp: time, dot: Dot(actor: newer, sequence: 2)),
            Stamp(timestamp: timestamp(5, counter: 1), dot: dot(1, 1)),
        ]
        #expect(ordered.reversed().sorted() == ordered)
        // Two rows of one save have one stamp: then the lower identity is first.
        #expect(
            RowID(node: node(1), block: 7, counter: 1) < RowID(node: node(1), block: 7, counter: 2))
    }

    @Test("P9: a loser is witnessed only where both sides met, and the end is the same")
    func p9WitnessDependsOnOrder() throws {
        var scene = try Scene(.mergeByPropertyStoreTrump, ["X", "Y"])
        let a = Write(1, at: 2, Self.update([0: 10]))
        let b = Write(2, at: 3, Self.update([0: 20]))
        let c = Write(3, at: 4, saw: [1: 1, 2: 1], Self.update([0: 30]))
        let d = Write(4, at: 5, saw: [2: 1], Self.update([0: 40]))
        try scene.apply(a, b, on: "X")
        #expect(scene.conflicts("X").map(\.stamps) == [[a.stamp, b.stamp]])
        try scene.apply(c, d, on: "X")
        try scene.apply(b, on: "Y")
        try scene.apply(d, on: "Y")
        #expect(scene.conflicts("Y").isEmpty)
        try scene.apply(a, on: "Y")
        #expect(scene.conflicts("Y").map(\.stamps) == [[a.stamp, d.stamp]])
        try scene.apply(c, on: "Y")
        #expect(scene.rows["X"] == scene.rows["Y"])
        #expect(scene.conflicts("X").map(\.stamps) == [[c.stamp, d.stamp]])
    }

    @Test("P19: an update without values resolves an existence conflict, so none may be written")
    func p19EmptyUpdateTouchesExistence() throws {
        var scene = try Scene(.error, ["X"])
        try scene.apply(
            Write(1, at: 2, Self.delete), Write(2, at: 3, Self.update([0: 10])), on: "X")
        #expect(scene.isAlive("X") == true)
        #expect(scene.conflicts("X").map(\.kind) == [.delete])
        #expect(scene.conflicts("X").map(\.state) == [.unresolved])
        try scene.apply(Write(3, at: 4, saw: [1: 1, 2: 1], Self.update([:])), on: "X")
        #expect(scene.conflicts("X").isEmpty)
        #expect(scene.version("X") == [dot(3, 1)])
        #expect(scene.shown("X") == .integer(10))
    }

    @Test("S1: under store trumps the node that keeps editing apart loses")
    func s1FirstOfTheMaximal() throws {
        var scene = try Scene(.mergeByPropertyStoreTrump, ["X"])
        try scene.apply(
            Write(1, at: 5, Self.update([0: 10])), Write(2, at: 6, Self.update([0: 20])), on: "X")
        #expect(scene.shown("X") == .integer(10))
        try scene.apply(Write(1, at: 7, saw: [1: 1], Self.update([0: 30])), on: "X")
        #expect(scene.shown("X") == .integer(20))
    }

    @Test("S2: under rollback an update of the edited row can make a delete win")
    func s2UpdateMakesDeleteWin() throws {
        var scene = try Scene(.rollback, ["X"])
        try scene.apply(
            Write(1, at: 5, Self.update([0: 10, 1: 0])), Write(2, at: 6, Self.delete), on: "X")
        #expect(scene.isAlive("X") == true)
        try scene.apply(Write(1, at: 7, saw: [1: 1], Self.update([0: 30, 1: 0])), on: "X")
        #expect(scene.isAlive("X") == false)
    }

    @Test("A write to a row that is not there is an alarm and changes nothing")
    func alarms() throws {
        var scene = try Scene(.error, ["X"])
        scene.rows["Y"] = RowState(propertyCount: 2)
        #expect(throws: RowAlarm.rowMissing) {
            try scene.apply(Write(1, at: 2, Self.update([0: 1])), on: "Y")
        }
        #expect(throws: RowAlarm.rowMissing) {
            try scene.apply(Write(1, at: 2, Self.delete), on: "Y")
        }
        #expect(scene.rows["Y"]?.isEmpty == true)
        // Nor is what a late delete leaves of a row that was collected.
        var trace = RowState(propertyCount: 2)
        trace.existence.apply(
            Sibling(stamp: stamp(2, 9, at: 1), value: .dead), seen: VersionVector())
        scene.rows["Y"] = trace
        #expect(throws: RowAlarm.rowMissing) {
            try scene.apply(Write(1, at: 2, Self.update([0: 1])), on: "Y")
        }
        #expect(scene.rows["Y"] == trace)
        let before = scene.rows["X"]
        let other = Write(
            1, at: 2, RowWrite(kind: .insert, values: [(0, .integer(5)), (1, .integer(5))]))
        #expect(throws: RowAlarm.identityExists) { try scene.apply(other, on: "X") }
        #expect(scene.rows["X"] == before)
    }

    @Test("Concurrent writes of equal values are no conflict", arguments: MergePolicy.allCases)
    func equalValuesJoin(_ policy: MergePolicy) throws {
        var scene = try Scene(policy, ["X"])
        try scene.apply(
            Write(1, at: 2, Self.update([0: 5, 1: 6])), Write(2, at: 3, Self.update([0: 5, 1: 6])),
            on: "X")
        #expect(scene.conflicts("X").isEmpty)
        #expect(scene.shown("X") == .integer(5))
        #expect(scene.version("X")?.count == 2)
    }
}
