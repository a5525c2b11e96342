import Merge
import Testing

/// What a survivor shows of its group.
@Suite struct GroupCombinationTests {
    /// Properties: 0 key, 1 p, 2 q.
    private func member(
        _ number: Int64, at time: UInt64, _ policy: MergePolicy,
        _ values: [PropertyValue], exceptions: [Int] = [], q override: MergePolicy? = nil
    ) throws -> GroupMember {
        let policies = EntityPolicies(
            entity: policy, properties: [policy, policy, override ?? policy])
        var state = RowState(propertyCount: 3)
        try state.apply(
            RowWrite(
                kind: .insert, values: values.enumerated().map { ($0, $1) },
                exceptions: exceptions), stamp: try stamp(time), seen: VersionVector(),
            policies: policies)
        return GroupMember(row: RowID(number), state: state, policies: policies)
    }

    private func stamp(_ time: UInt64) throws -> Stamp {
        Stamp(
            timestamp: try #require(HybridTimestamp(milliseconds: time, counter: 0)),
            dot: Dot(
                actor: ActorID(node: try #require(NodeID(1)), incarnation: 1), sequence: time))
    }

    private func shown(_ survivor: GroupMember, _ eclipsed: GroupMember...) -> [PropertyValue] {
        let group = GroupCombination(
            survivor: survivor, eclipsed: eclipsed, constrained: [0], policies: survivor.policies)
        return (0..<3).map { group.visible($0)?.value ?? .null }
    }

    private let k = PropertyValue.string("k")

    @Test("The policy chooses property by property; constrained ones stay the survivor's own")
    func properties() throws {
        for (policy, p) in [
            (MergePolicy.mergeByPropertyStoreTrump, 1), (.mergeByPropertyObjectTrump, 2),
        ] {
            let a = try member(1, at: 1, policy, [k, .integer(1), .null])
            let b = try member(2, at: 2, policy, [.string("other"), .integer(2), .integer(5)])
            #expect(shown(a, b) == [k, .integer(Int64(p)), .integer(5)])
        }
    }

    @Test("What nobody assigned is not combined: a default, or the null that an insert leaves")
    func defaults() throws {
        let a = try member(1, at: 1, .mergeByPropertyObjectTrump, [k, .integer(1), .integer(1)])
        let b = try member(
            2, at: 2, .mergeByPropertyObjectTrump, [k, .integer(3), .null], exceptions: [1])
        #expect(shown(a, b) == [k, .integer(1), .integer(1)])
        // A null that somebody assigned counts.
        let c = try member(
            3, at: 3, .mergeByPropertyObjectTrump, [k, .integer(3), .null], exceptions: [2])
        #expect(shown(a, c) == [k, .integer(3), .null])
    }

    @Test("An error policy combines nothing; a property with an error policy shows the earliest")
    func errors() throws {
        let a = try member(1, at: 1, .error, [k, .null, .null])
        let b = try member(2, at: 2, .error, [k, .integer(2), .integer(2)])
        #expect(shown(a, b) == [k, .null, .null])
        let c = try member(3, at: 1, .mergeByPropertyObjectTrump, [k, .null, .null], q: .error)
        let d = try member(
            4, at: 2, .mergeByPropertyObjectTrump, [k, .integer(2), .integer(2)], q: .error)
        #expect(shown(c, d) == [k, .integer(2), .integer(2)])
        let e = try member(
            5, at: 3, .mergeByPropertyObjectTrump, [k, .null, .integer(3)], q: .error)
        #expect(shown(c, e, d) == [k, .integer(2), .integer(2)])
    }

    @Test("A property's error policy makes different values sides, earliest first; equal ones none")
    func undecided() throws {
        func sides(_ survivor: GroupMember, _ eclipsed: GroupMember...) -> [PropertyValue] {
            GroupCombination(
                survivor: survivor, eclipsed: eclipsed, constrained: [0],
                policies: survivor.policies
            ).undecided(2).map(\.value)
        }
        let latest = MergePolicy.mergeByPropertyObjectTrump
        let a = try member(1, at: 1, latest, [k, .null, .integer(1)], q: .error)
        let b = try member(2, at: 2, latest, [k, .null, .integer(2)], q: .error)
        let same = try member(3, at: 3, latest, [k, .null, .integer(1)], q: .error)
        let unassigned = try member(
            4, at: 4, latest, [k, .null, .integer(9)], exceptions: [2], q: .error)
        #expect(sides(b, a) == [.integer(1), .integer(2)])
        #expect(sides(a, same, unassigned).isEmpty)
        #expect(sides(a, same, b) == [.integer(1), .integer(2), .integer(1)])
        #expect(sides(try member(5, at: 5, latest, [k, .null, .integer(2)]), a).isEmpty)
        let error = try member(6, at: 6, .error, [k, .null, .integer(2)])
        #expect(sides(error, a).isEmpty)
    }

    @Test("Row-grained policies choose a whole row, but for the survivor's key")
    func rows() throws {
        let key = PropertyValue.string("other")
        let a = try member(1, at: 1, .overwrite, [k, .integer(1), .integer(1)])
        let b = try member(2, at: 2, .overwrite, [key, .integer(2), .null])
        #expect(shown(a, b) == [k, .integer(2), .null])
        let c = try member(1, at: 1, .rollback, [k, .integer(1), .null])
        let d = try member(2, at: 2, .rollback, [key, .integer(2), .integer(2)])
        #expect(shown(c, d) == [k, .integer(1), .null])
    }

    @Test("P8: of values that one save wrote the lowest row's is shown, under both rules")
    func ties() throws {
        for policy in [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump] {
            let a = try member(1, at: 1, policy, [k, .integer(1), .null])
            let b = try member(2, at: 1, policy, [k, .integer(2), .null])
            #expect(shown(a, b)[1] == .integer(1))
        }
    }

    @Test("P14: a member's registers are settled by their own policies, the group by the entity's")
    func settled() throws {
        let earliest = MergePolicy.mergeByPropertyStoreTrump
        let latest = MergePolicy.mergeByPropertyObjectTrump
        let inserted = try member(1, at: 1, earliest, [k, .null, .null])
        var state = inserted.state
        let insertion = try stamp(1).dot
        let seen = VersionVector([.init(actor: insertion.actor, sequence: 1)])
        for time in [UInt64(2), 3] {
            try state.apply(
                RowWrite(
                    kind: .update,
                    values: [(0, .string("k\(time)")), (1, .integer(Int64(time)))]),
                stamp: try stamp(time), seen: seen,
                policies: inserted.policies)
        }
        let a = GroupMember(row: inserted.row, state: state, policies: inserted.policies)
        let b = try member(2, at: 1, latest, [k, .integer(1), .null])
        let group = GroupCombination(
            survivor: a, eclipsed: [b], constrained: [0], policies: b.policies)
        #expect(group.visible(0)?.value == .string("k2"))
        #expect(group.visible(1)?.value == .integer(2))
    }
}
