import Merge
import Testing

/// Collapse and collection, on some nodes and not on others, at any point where stability allows.
@Suite("Collapse")
struct CollapseLawTests {
    static let histories = 1_200

    @Test(
        "Collapse on some nodes only, and joins, change no value, version or later outcome",
        arguments: Array(PolicyCase.all.enumerated()))
    func collapseIsInvisible(_ numbered: (offset: Int, element: PolicyCase)) {
        var collapses = 0
        var collections = 0
        var joins = 0
        for run in 0..<Self.histories {
            var world = CollapsingHistory(
                numbered.element, seed: 7 << 40 | UInt64(numbered.offset) << 32 | UInt64(run))
            world.run()
            collapses += world.collapses
            collections += world.collections
            joins += world.joins
            if let failure = world.failure {
                Issue.record("seed \(run): \(failure)\n\(world.history.story)")
                return
            }
        }
        let waits = numbered.element.policies.properties.allSatisfy { $0.leavesUnresolved }
        #expect(waits || collapses > Self.histories / 20, "nothing ever collapsed")
        #expect(collections > Self.histories / 50, "nothing was ever collected")
        #expect(joins > Self.histories / 5, "nothing was ever joined")
    }

    @Test("A register with one sibling that is not stable keeps all of them")
    func partlyStableStays() throws {
        var row = try conflictingRow(.mergeByPropertyStoreTrump)
        let before = row.state
        let removed = row.state.collapse(stable: vector([1: 2]), policies: row.policies)
        #expect(removed.isEmpty)
        #expect(row.state == before)
    }

    @Test("A stable register keeps the visible sibling and says what it dropped")
    func stableRegisterCollapses() throws {
        var row = try conflictingRow(.mergeByPropertyStoreTrump)
        let removed = row.state.collapse(stable: vector([1: 2, 2: 1]), policies: row.policies)
        #expect(removed.properties.map(\.position) == [0])
        #expect(removed.properties.map(\.sibling.value) == [.integer(20)])
        #expect(row.state.visible(0, row.policies)?.value == .integer(10))
        #expect(row.state.properties[0].siblings.count == 1)
    }

    @Test("An unresolved conflict never collapses", arguments: [MergePolicy.error, .errorByRow])
    func unresolvedStays(_ policy: MergePolicy) throws {
        var row = try conflictingRow(policy)
        let before = row.state
        let removed = row.state.collapse(stable: vector([1: 9, 2: 9]), policies: row.policies)
        #expect(removed.isEmpty)
        #expect(row.state == before)
        #expect(row.state.conflicts(row.policies).map(\.state) == [.unresolved])
    }

    @Test("A tombstone may go only when every sibling of its existence is stable")
    func tombstoneWaitsForAllSiblings() throws {
        let policies = EntityPolicies(
            entity: .mergeByPropertyObjectTrump, properties: [.mergeByPropertyObjectTrump])
        var state = RowState(propertyCount: 1)
        try state.apply(
            RowWrite(kind: .insert, values: [(0, .integer(1))]), stamp: stamp(1, 1, at: 1),
            seen: VersionVector(), policies: policies)
        try state.apply(
            RowWrite(kind: .delete, values: []), stamp: stamp(1, 2, at: 2),
            seen: vector([1: 1]), policies: policies)
        try state.apply(
            RowWrite(kind: .update, values: [(0, .integer(2))]), stamp: stamp(2, 1, at: 3),
            seen: vector([1: 1]), policies: policies)
        #expect(!state.isAlive(policies))
        #expect(!state.isCollectable(stable: vector([1: 2]), policies: policies))
        #expect(!state.isCollectable(stable: vector([1: 1, 2: 1]), policies: policies))
        #expect(state.isCollectable(stable: vector([1: 2, 2: 1]), policies: policies))
    }

    @Test("A live row and a row nobody knows are never collectable")
    func onlyTombstonesAreCollectable() throws {
        let row = try conflictingRow(.overwrite)
        #expect(!row.state.isCollectable(stable: vector([1: 9, 2: 9]), policies: row.policies))
        #expect(
            !RowState(propertyCount: 1).isCollectable(
                stable: vector([1: 9]), policies: row.policies))
    }

    private func conflictingRow(
        _ policy: MergePolicy
    ) throws -> (state: RowState, policies: EntityPolicies) {
        let policies = EntityPolicies(entity: policy, properties: [policy])
        var state = RowState(propertyCount: 1)
        try state.apply(
            RowWrite(kind: .insert, values: [(0, .integer(1))]), stamp: stamp(1, 1, at: 1),
            seen: VersionVector(), policies: policies)
        for (number, sequence, value) in [(1, 2, 10), (2, 1, 20)] {
            try state.apply(
                RowWrite(kind: .update, values: [(0, .integer(Int64(value)))]),
                stamp: stamp(number, UInt64(sequence), at: UInt64(value)),
                seen: vector([1: 1]), policies: policies)
        }
        return (state, policies)
    }
}
