import Merge
import Testing

@testable import Replication

@Suite("Members, and whose word counts")
struct MembersTests {
    private static func stamp(_ sequence: UInt64) -> Stamp {
        makeTransaction(Dot(actor: Reporter.own, sequence: sequence), seen: VersionVector())
            .transaction.stamp
    }

    /// What transactions tell: who joined, and who of them departed.
    private static func told(_ joined: [Int], departed: [Int] = []) -> Membership {
        Membership(
            members: joined.map { number in
                Member(
                    node: World.id(number), joined: stamp(1),
                    departure: departed.contains(number)
                        ? Departure(stamp: stamp(2), isRetired: true) : nil)
            })
    }

    private static func members(_ configured: [Int]) -> Members {
        var members = Members(own: World.id(1))
        members.configured = configured.map(World.id)
        return members
    }

    private static func peer(
        _ number: Int, recovery: Recovery = .none, departed: [Int]? = [], configured: [Int] = []
    ) -> PeerProgress {
        var peer = PeerProgress(node: World.id(number), isConfigured: true)
        peer.recovery = recovery
        peer.departed = departed?.map(World.id)
        peer.configured = configured.map(World.id)
        return peer
    }

    @Test("The configuration tells before the first transaction, and adds while nobody vouches")
    func all() {
        let members = Self.members([2, 3])
        #expect(members.all(Membership(), recovery: .none) == [2, 3, 1].map(World.id))
        let told = Self.told([1, 2, 4], departed: [4])
        #expect(members.all(told, recovery: .none) == [1, 2].map(World.id))
        #expect(members.all(told, recovery: .restored) == [1, 2, 3].map(World.id))
        // The log outweighs the configuration where it knows the node.
        let left = Self.told([1, 2, 3], departed: [3])
        #expect(members.all(left, recovery: .restored) == [1, 2].map(World.id))
    }

    @Test(
        "Stability also waits for whom a peer's configuration names, before the first transaction")
    func awaited() {
        let members = Self.members([2])
        let peers = [Self.peer(2, configured: [1, 3])]
        let before = members.awaited(Membership(), recovery: .none, peers: peers)
        #expect(before == [2, 3].map(World.id))
        let after = members.awaited(Self.told([1, 2]), recovery: .none, peers: peers)
        #expect(after == [World.id(2)])
    }

    @Test("A member's word ends this node's membership, but not that of one who departed")
    func departureTold() {
        var members = Self.members([2, 3])
        #expect(members.isOwnMember(Membership(), departed: []))
        #expect(!members.isOwnMember(Self.told([2]), departed: []))
        members.noteDeparture(toldBy: World.id(3))
        #expect(!members.isOwnMember(Membership(), departed: []))
        #expect(members.isOwnMember(Membership(), departed: [World.id(3)]))
        members.noteDeparture(toldBy: World.id(2))
        #expect(members.isToldDeparted([World.id(3)]))
    }

    @Test("A departed node is refused always, a stranger only by a member that knows of members")
    func refusals() {
        func ours(_ members: Members, _ sender: Int, _ told: Membership) -> String? {
            members.refusal(
                of: World.id(sender), told, recovery: .none,
                departed: told.departed.map(\.node))?.ours
        }
        let members = Self.members([2])
        #expect(ours(members, 4, Membership()) == nil)
        #expect(ours(members, 4, Self.told([1, 2])) == "no member")
        #expect(ours(members, 2, Self.told([1, 2])) == nil)
        #expect(ours(members, 2, Self.told([1, 2], departed: [2])) == "departed")
        // One that has not come to its own join yet cannot tell.
        #expect(ours(members, 4, Self.told([2])) == nil)
    }

    @Test("A store that is not vouched for believes whom its guides do not call departed")
    func believed() {
        let members = Self.members([2, 3])
        func isBelieved(
            _ number: Int, _ peers: [PeerProgress], _ recovery: Recovery = .restored
        ) -> Bool {
            members.isBelieved(World.id(number), recovery: recovery, peers: peers)
        }
        let guided = [Self.peer(2, departed: [3, 4]), Self.peer(3)]
        #expect(isBelieved(3, guided, .none))
        #expect(isBelieved(2, guided) && !isBelieved(3, guided) && !isBelieved(4, guided))
        // Whom only the log names is believed once a guide was heard.
        #expect(!isBelieved(5, [Self.peer(2, departed: nil)]))
        #expect(isBelieved(5, [Self.peer(2)]))
        // Without a guide everybody is.
        #expect(isBelieved(5, [Self.peer(2, recovery: .restored)]))
        #expect(isBelieved(3, [Self.peer(2, departed: [3]), Self.peer(3, departed: [2])]))
        var fellow = Self.peer(5)
        fellow.isAsNew = true
        let peers = [Self.peer(2, departed: nil), fellow]
        #expect(isBelieved(5, peers, .new) && !isBelieved(5, peers))
    }
}
