import Merge
import Testing

@testable import Replication

@Suite("Which peer a node asks for which transactions")
struct PullPlanTests {
    private let limits = Limits()

    private static func actor(_ number: Int) -> ActorID { ActorID(number, 1) }

    /// The transactions of each node, one each.
    private static func vector(_ numbers: Int...) -> VersionVector {
        VersionVector(numbers.map { .init(actor: actor($0), sequence: 1) })
    }

    private static func peer(_ number: Int, _ vector: VersionVector) -> PeerProgress {
        var peer = PeerProgress(node: World.id(number), isConfigured: true)
        peer.isAgreed = true
        peer.vector = vector
        return peer
    }

    private func plan(
        _ peers: [PeerProgress], candidates: [Int]? = nil, now: UInt64 = 0
    ) -> PullPlan {
        PullPlan(
            peers, candidates: candidates ?? Array(peers.indices), possessed: Self.vector(1),
            now: now, limits: limits)
    }

    @Test("Writers are asked first, and nobody for what another was asked for")
    func writers() {
        let peers = [Self.peer(2, Self.vector(3, 4)), Self.peer(3, Self.vector(3))]
        let plan = plan(peers)
        #expect(
            plan.steps == [
                .init(index: 1, beyond: Self.vector(1)),
                .init(index: 0, beyond: Self.vector(1, 3)),
            ])
        #expect(!plan.isIncomplete)
    }

    @Test("What is under way counts as coming until it is overdue")
    func underWay() {
        var asked = Self.peer(2, Self.vector(2))
        asked.beginPull(1, beyond: VersionVector(), now: 0, limits: limits)
        let peers = [asked, Self.peer(3, Self.vector(2))]
        #expect(plan(peers, candidates: [1], now: 1).steps.isEmpty)
        let late = plan(peers, candidates: [1], now: limits.pullTimeoutMilliseconds)
        #expect(late.steps == [.init(index: 1, beyond: Self.vector(1))])
    }

    @Test("Of one whose log is too short nothing counts as coming")
    func short() {
        var short = Self.peer(2, Self.vector(2))
        short.isHistoryShort = true
        let plan = plan([short, Self.peer(3, Self.vector(2))])
        #expect(plan.steps.map(\.index) == [0, 1])
    }

    @Test("At most four are asked at once, and the rest is looked at again")
    func atOnce() {
        let peers = (2...7).map { Self.peer($0, Self.vector($0)) }
        let plan = plan(peers)
        #expect(plan.steps.map(\.index) == [0, 1, 2, 3] && plan.isIncomplete)
        #expect(self.plan(peers, candidates: []).isIncomplete)
    }

    @Test("The order begins after the node and ends with those that do not answer")
    func order() {
        var peers = [1, 2, 4, 5].map { Self.peer($0, VersionVector()) }
        #expect(PullPlan.order(peers, after: World.id(3)) == [2, 3, 0, 1])
        peers[2].failures = 1
        #expect(PullPlan.order(peers, after: World.id(3)) == [3, 0, 1, 2])
    }

    @Test("A pull that is over may still be answered, once")
    func expired() {
        var peer = Self.peer(2, Self.vector(2))
        peer.beginPull(1, beyond: Self.vector(1), now: 0, limits: limits)
        let deadline = limits.pullTimeoutMilliseconds
        let early = peer.expirePull(now: deadline - 1, limits: limits)
        let late = peer.expirePull(now: deadline, limits: limits)
        #expect(!early && late && peer.failures == 1 && peer.pulling == nil)
        peer.beginPull(2, beyond: Self.vector(1), now: deadline, limits: limits)
        let stranger = peer.finishPull(3, now: deadline, limits: limits)
        let answers = (0..<2).map { _ in peer.finishPull(1, now: deadline, limits: limits)?.id }
        #expect(stranger == nil && answers == [1, nil])
        #expect(peer.finishPull(2, now: deadline, limits: limits)?.id == 2)
        #expect(peer.failures == 0)
    }
}
