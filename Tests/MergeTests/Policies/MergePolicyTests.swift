import Merge
import Testing

@Suite("MergePolicy")
struct MergePolicyTests {
    @Test(
        "Each policy has its place in the grid, and its name for ever",
        arguments: [
            (.error, "error", .property, .earliest, true),
            (.errorByRow, "errorByRow", .row, .earliest, true),
            (.mergeByPropertyStoreTrump, "mergeByPropertyStoreTrump", .property, .earliest, false),
            (.mergeByPropertyObjectTrump, "mergeByPropertyObjectTrump", .property, .latest, false),
            (.rollback, "rollback", .row, .earliest, false),
            (.overwrite, "overwrite", .row, .latest, false),
        ] as [(MergePolicy, String, MergePolicy.Granularity, MergePolicy.Choice, Bool)])
    func grid(
        _ line: (
            policy: MergePolicy, name: String, granularity: MergePolicy.Granularity,
            choice: MergePolicy.Choice, unresolved: Bool
        )
    ) {
        #expect(line.policy.rawValue == line.name)
        #expect(line.policy.granularity == line.granularity)
        #expect(line.policy.choice == line.choice)
        #expect(line.policy.leavesUnresolved == line.unresolved)
    }

    @Test("Under a row-grained policy every property follows the entity's")
    func rowGrainedOverrides() {
        let policies = EntityPolicies(entity: .rollback, properties: [.error, .error])
        #expect(policies.isRowGrained)
        #expect(policies.properties == [.rollback, .rollback])
        let mixed = EntityPolicies(
            entity: .error, properties: [.mergeByPropertyStoreTrump, .error])
        #expect(mixed.properties == [.mergeByPropertyStoreTrump, .error])
    }

    @Test("A property's override decides its value, never the row's existence")
    func existenceFollowsTheEntity() throws {
        let outcomes: [(MergePolicy, MergePolicy, Bool)] = [
            (.error, .mergeByPropertyObjectTrump, true),
            (.mergeByPropertyObjectTrump, .error, false),
        ]
        for (entity, property, isAlive) in outcomes {
            let policies = EntityPolicies(entity: entity, properties: [property])
            var state = RowState(propertyCount: 1)
            let writes: [(RowWrite.Kind, Stamp, VersionVector)] = [
                (.insert, stamp(1, 1, at: 1), VersionVector()),
                (.delete, stamp(1, 2, at: 2), vector([1: 1])),
                (.update, stamp(2, 1, at: 3), vector([1: 1])),
            ]
            for (kind, stamp, seen) in writes {
                let write = RowWrite(kind: kind, values: kind == .delete ? [] : [(0, .integer(1))])
                try state.apply(write, stamp: stamp, seen: seen, policies: policies)
            }
            #expect(state.isAlive(policies) == isAlive)
        }
    }

    @Test("A conflict says which rule decided", arguments: MergePolicy.allCases)
    func explanations(_ policy: MergePolicy) {
        let choosing = Explanation.choosing(policy)
        let deleting = Explanation.deleting(policy)
        #expect(choosing.rule == (policy.choice == .latest ? .latest : .earliest))
        #expect(choosing.text.contains(policy.rawValue))
        #expect(deleting.text.contains(policy.rawValue))
        let expected: Explanation.Rule =
            switch policy {
            case .error, .errorByRow: .staysAlive
            case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump: .deleteWins
            case .rollback: .earliest
            case .overwrite: .latest
            case .named: .named
            }
        #expect(deleting.rule == expected)
    }
}
