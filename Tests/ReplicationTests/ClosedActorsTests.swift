import Merge
import Testing

@testable import Replication

@Suite("Actors that a later incarnation closes")
struct ClosedActorsTests {
    private static let later = ActorID(node: Reporter.second.node, incarnation: 21)
    private let limits = Limits()

    private func queue() -> CausalQueue {
        var queue = CausalQueue(limits: limits)
        queue.horizon = World.wallStart
        return queue
    }

    private func transaction(_ actor: ActorID, _ sequence: UInt64) -> EncodedTransaction {
        var seen = VersionVector()
        if sequence > 1 { seen.advance(actor, to: sequence - 1) }
        return makeTransaction(dot(actor, sequence), seen: seen)
    }

    private func agreed(_ actor: ActorID) -> PeerProgress {
        var peer = PeerProgress(node: actor.node, isConfigured: true)
        peer.begin(actor)
        peer.isAgreed = true
        return peer
    }

    @Test("An incarnation is met once the store remembers it")
    func remembered() {
        var closed = ClosedActors()
        var peers = [agreed(Reporter.second), agreed(Reporter.third)]
        let asked = closed.beginRemembering(&peers, now: 0)
        #expect(asked == [Reporter.second, Reporter.third])
        let early = closed.meet(&peers, queue: queue())
        closed.remembered.note(Reporter.second)
        let first = closed.meet(&peers, queue: queue())
        let again = closed.meet(&peers, queue: queue())
        #expect(!early && first && !again)
        #expect(peers.map(\.met) == [Reporter.second, nil])
    }

    @Test("What waits of a closed actor is dropped; what is being applied puts the meeting off")
    func dropping() {
        var closed = ClosedActors()
        var queue = queue()
        _ = queue.insert(transaction(Reporter.second, 1))
        _ = queue.insert(transaction(Reporter.second, 3))
        _ = queue.insert(transaction(Reporter.third, 2))
        #expect(queue.takeBatch().map(\.dot) == [dot(Reporter.second, 1)])
        closed.incarnations.note(Reporter.second)
        #expect(!closed.areApplied(by: queue))
        closed.incarnations.note(Self.later)
        #expect(closed.areApplied(by: queue) && !closed.areDepartedApplied(by: queue))
        var peers = [agreed(Self.later)]
        closed.remembered.note(Self.later)
        let isMet = closed.meet(&peers, queue: queue)
        let nameless = closed.drop(from: &queue, beyond: VersionVector(), limits: limits)
        #expect(!isMet && nameless == [] && closed.isDropOwed)
        #expect(!queue.has(dot(Reporter.second, 3)) && queue.has(dot(Reporter.third, 2)))
        _ = queue.finishBatch(
            vector: VersionVector([.init(actor: Reporter.second, sequence: 1)]), rejected: [],
            now: 0)
        #expect(closed.meet(&peers, queue: queue))
        let nothing = closed.drop(from: &queue, beyond: VersionVector(), limits: limits)
        #expect(nothing == nil && !closed.isDropOwed)
    }

    @Test("Of what is dropped beyond the bound not even the name is kept")
    func nameless() {
        var closed = ClosedActors()
        var few = limits
        few.orphans = 0
        var queue = queue()
        _ = queue.insert(transaction(Reporter.second, 2))
        closed.incarnations.depart([Reporter.second.node])
        let nameless = closed.drop(from: &queue, beyond: VersionVector(), limits: few)
        #expect(nameless == [dot(Reporter.second, 2)] && closed.dropped.isEmpty)
    }
}
