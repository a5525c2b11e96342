import Merge
import Testing

@testable import Replication

@Suite("What is known of the store")
struct StoreStateTests {
    private static func state(_ sequence: UInt64, members: [Int] = []) -> StoreState {
        StoreState(
            vector: VersionVector([.init(actor: Reporter.own, sequence: sequence)]),
            digest: ProjectionDigest(),
            membership: Membership(members: members.map { Member(node: World.id($0)) }))
    }

    @Test("An older state, told late, replaces nothing but raises what is on disk")
    func older() {
        var state = Self.state(2, members: [1])
        state.durable = VersionVector()
        let isOther = state.takeApplied(Self.state(1))
        state.takeDurable(Self.state(1))
        #expect(!isOther && state.vector == Self.state(2).vector)
        #expect(state.membership == Self.state(2, members: [1]).membership)
        #expect(state.durable == Self.state(1).vector)
    }

    @Test("A newer one tells whether other nodes are members")
    func newer() {
        var state = Self.state(1)
        let (same, other) = (
            state.takeApplied(Self.state(2)), state.takeApplied(Self.state(2, members: [1]))
        )
        let expected = Self.state(2, members: [1])
        #expect(!same && other && state.vector == expected.vector)
        #expect(state.membership == expected.membership)
        #expect(state.durable == Self.state(1).vector)
    }
}
