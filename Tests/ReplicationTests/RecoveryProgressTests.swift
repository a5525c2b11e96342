import Merge
import Testing

@testable import Replication

@Suite("How a store comes to be vouched for")
struct RecoveryProgressTests {
    private static let former = ActorID(node: Reporter.own.node, incarnation: 40)
    private let first = VersionVector([.init(actor: Reporter.second, sequence: 1)])
    private let second = VersionVector([.init(actor: Reporter.second, sequence: 2)])

    private func progress(
        _ recovery: Recovery, isFounder: Bool = false, founders: [ActorID] = [],
        former: [ActorID] = []
    ) -> RecoveryProgress {
        RecoveryProgress(
            .init(
                cluster: "test", actor: Reporter.own, modelHash: model, recovery: recovery,
                isFounder: isFounder, formerIncarnations: former, founders: founders))
    }

    private func peer(
        _ number: Int, met: VersionVector? = nil, vouched: VersionVector? = nil,
        isConfigured: Bool = true
    ) -> PeerProgress {
        var peer = PeerProgress(node: World.id(number), isConfigured: isConfigured)
        peer.firstMet = met
        peer.firstVouched = vouched
        return peer
    }

    private func isVouchedFor(
        _ progress: RecoveryProgress, by peers: [PeerProgress], isAlone: Bool = false,
        isMeeting: Bool = false
    ) -> Bool {
        progress.isVouchedFor(by: peers, durable: first, isAlone: isAlone, isMeeting: isMeeting)
    }

    @Test("One vouched peer is enough, or all configured ones, once all they had is on disk")
    func vouching() {
        let restored = progress(.restored)
        #expect(!isVouchedFor(restored, by: []))
        #expect(isVouchedFor(restored, by: [peer(2, vouched: first), peer(3)]))
        #expect(!isVouchedFor(restored, by: [peer(2, vouched: second), peer(3)]))
        #expect(isVouchedFor(restored, by: [peer(2, met: first), peer(3, met: first)]))
        #expect(!isVouchedFor(restored, by: [peer(2, met: first), peer(3, met: second)]))
        #expect(!isVouchedFor(restored, by: [peer(2, met: first), peer(3)]))
        let stranger = peer(3, isConfigured: false)
        #expect(isVouchedFor(restored, by: [peer(2, met: first), stranger]))
    }

    @Test("A new store alone vouches for itself, and waits for whom it is about to meet")
    func alone() {
        #expect(isVouchedFor(progress(.new), by: [], isAlone: true))
        #expect(!isVouchedFor(progress(.restored), by: [], isAlone: true))
        let met = [peer(2, met: first)]
        #expect(isVouchedFor(progress(.new), by: met))
        #expect(!isVouchedFor(progress(.new), by: met, isMeeting: true))
        #expect(isVouchedFor(progress(.restored), by: met, isMeeting: true))
    }

    @Test("A new store that takes over from an older one is restored, but a founder stays new")
    func outgrowing() {
        var new = progress(.new)
        new.outgrow()
        let (news, again) = (new.news(), new.news())
        #expect(new.stage == .restored && news == .restored && again == nil)
        var founder = progress(.new, isFounder: true)
        founder.outgrow()
        let none = founder.news()
        #expect(founder.stage == .new && none == nil)
        var vouched = progress(.none)
        vouched.outgrow()
        #expect(vouched.stage == .none)
    }

    @Test("A store becomes a founder once, by the word of a vouched peer that names its own life")
    func fellows() {
        func heads(_ founder: ActorID, _ recovery: Recovery = .none) -> Heads {
            Heads(Reporter.second, vector: first, recovery: recovery, founders: [founder])
        }
        var new = progress(.new, former: [Self.former])
        #expect(new.isFellow(heads(Reporter.own)) && new.isFellow(heads(Self.former)))
        #expect(!new.isFellow(heads(Reporter.own, .new)))
        #expect(!progress(.new).isFellow(heads(Self.former)))
        let (isNews, isNewsAgain) = (new.join([Reporter.own]), new.join([Reporter.third]))
        #expect(isNews && !isNewsAgain && new.isFounder)
        #expect(new.founders.newest == [Reporter.own, Reporter.third])
        var restored = progress(.restored)
        let isJoined = restored.join([Reporter.own])
        #expect(!isJoined && !restored.isFounder)
    }

    @Test("A new store that ends names those it met as founders, unless members are known")
    func finishing() {
        var new = progress(.new)
        new.finish(met: [Reporter.second])
        let news = new.news()
        #expect(new.stage == .none && news == Recovery.none)
        #expect(new.founders.newest == [Reporter.own, Reporter.second])
        #expect(new.told(to: Reporter.second) == .new)
        #expect(new.told(to: Reporter.third) == .none && new.told(to: nil) == .none)
        var joined = progress(.new, founders: [Reporter.second])
        joined.finish(met: nil)
        #expect(joined.founders.newest.isEmpty)
        var restored = progress(.restored, founders: [Reporter.second])
        restored.finish(met: [Reporter.third])
        #expect(restored.founders.newest.isEmpty)
        // Who was vouched for goes on naming them after a restart.
        #expect(progress(.none, founders: [Reporter.second]).founders.newest == [Reporter.second])
    }

    @Test("More of a former incarnation than the store has shows a loss")
    func losses() {
        let lost = VersionVector([.init(actor: Self.former, sequence: 2)])
        let stored = VersionVector([.init(actor: Self.former, sequence: 1)])
        var vouched = progress(.none)
        vouched.noteLoss(of: stored, beyond: stored)
        #expect(vouched.stage == .none)
        vouched.noteLoss(of: lost, beyond: stored)
        #expect(vouched.stage == .restored)
        // Of a founder only what this very store wrote.
        var founder = progress(.new, isFounder: true)
        founder.noteLoss(of: lost, beyond: stored)
        #expect(founder.stage == .new)
        founder = progress(.new, isFounder: true, former: [Self.former])
        founder.noteLoss(of: lost, beyond: stored)
        #expect(founder.stage == .restored && !founder.isFounder)
        var own = progress(.none)
        own.noteLoss(of: VersionVector([.init(actor: Reporter.own, sequence: 9)]), beyond: stored)
        #expect(own.stage == .none)
    }
}
