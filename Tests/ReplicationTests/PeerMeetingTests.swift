import Merge
import Testing

@testable import Replication

@Suite("How a peer's incarnations are met")
struct PeerMeetingTests {
    private let limits = Limits()
    private static let later = ActorID(node: Reporter.second.node, incarnation: 21)

    private func agreed() -> PeerProgress {
        var peer = PeerProgress(node: Reporter.second.node, isConfigured: true)
        peer.begin(Reporter.second)
        peer.isAgreed = true
        return peer
    }

    @Test("The store is asked once to remember an incarnation, and again a second after a failure")
    func remembering() {
        var peer = agreed()
        var remembered = Incarnations()
        let asked = (0..<2).map { _ in peer.beginRemembering(beside: remembered, now: 5) }
        #expect(asked == [Reporter.second, nil] && peer.isMeetingOpen)
        peer.finishRemembering(Reporter.second, isDurable: false, now: 5, limits: limits)
        let next = 5 + limits.headsMilliseconds
        let again = [next - 1, next].map { peer.beginRemembering(beside: remembered, now: $0) }
        #expect(again == [nil, Reporter.second])
        remembered.note(Reporter.second)
        peer.finishRemembering(Reporter.second, isDurable: true, now: next, limits: limits)
        let done = peer.beginRemembering(beside: remembered, now: next)
        #expect(done == nil && peer.isRemembered(remembered))
    }

    @Test("An elder counts as alive for some seconds after it was heard, or after the start")
    func elder() {
        var peer = agreed()
        func isAlive(_ elder: ActorID, _ now: UInt64) -> Bool {
            peer.mayBeAlive(elder, startedAt: 100, now: now, limits: limits)
        }
        let start = 100 + limits.elderMilliseconds
        #expect(isAlive(Reporter.second, start - 1) && !isAlive(Reporter.second, start))
        peer.actorHeardAt = 200
        #expect(isAlive(Reporter.second, start) && !isAlive(Self.later, start))
    }

    @Test("A later one is reported only once the elder was heard long after it, and not too often")
    func younger() {
        var peer = agreed()
        peer.actorHeardAt = 10
        let first = peer.noteYounger(besides: Reporter.second, now: 10, limits: limits)
        peer.actorHeardAt = 10 + limits.elderMilliseconds
        let second = peer.noteYounger(besides: Reporter.second, now: 2_000, limits: limits)
        #expect(!first && second)
        let told = [2_000, 2_001, 2_000 + limits.headsMilliseconds / 2].map {
            peer.mayIntroduce(now: $0, limits: limits)
        }
        #expect(told == [true, false, true])
        // One that was silent for long begins again.
        let silent = 2_000 + limits.elderMilliseconds
        let third = peer.noteYounger(besides: Reporter.second, now: silent, limits: limits)
        #expect(!third && peer.younger?.since == silent)
    }
}
