import Merge
import Testing

@testable import Replication

@Suite("The models that a node knows")
struct ModelCatalogTests {
    private static func text(_ number: UInt8, bytes: Int = 4) -> ModelText {
        ModelText(
            hash: Array(repeating: number, count: 32), text: Array(repeating: number, count: bytes))
    }

    private static func catalog(_ models: [ModelText]) -> ModelCatalog {
        ModelCatalog(
            .init(
                cluster: "test", actor: Reporter.own, modelHash: models.last?.hash ?? [],
                models: models))
    }

    private static func list(_ numbers: UInt8...) -> ModelList {
        ModelList(isAnswer: false, models: numbers.map { text($0) })
    }

    @Test("Two nodes agree where one knows the other's model")
    func standing() {
        let catalog = Self.catalog([Self.text(1), Self.text(2)])
        func standing(_ hash: UInt8, list: UInt8...) -> ModelCatalog.Standing {
            catalog.standing(of: Self.text(hash).hash, list: list.map { Self.text($0).hash })
        }
        #expect(standing(2) == .known && standing(1) == .known)
        #expect(standing(3) == .unlisted && standing(3, list: 2, 4) == .unlisted)
        #expect(standing(3, list: 2, 3) == .knowsOurs)
        #expect(standing(3, list: 1, 3) == .foreign)
    }

    @Test("Former models are learnt of a peer of the same model, once")
    func news() {
        var catalog = Self.catalog([Self.text(2)])
        let later = catalog.news(in: Self.list(1, 2, 3))
        let (first, again) = (catalog.news(in: Self.list(1, 2)), catalog.news(in: Self.list(1, 2)))
        #expect(later.isEmpty && first == [Self.text(1)] && again.isEmpty)
        catalog.reconsider([Self.text(1)])
        let reconsidered = catalog.news(in: Self.list(1, 2))
        #expect(reconsidered == [Self.text(1)])
        let (taken, repeated) = (catalog.takeUp(first), catalog.takeUp(first))
        #expect(taken && !repeated && catalog.models == [Self.text(1), Self.text(2)])
    }

    @Test("The newest is sent in full, those before it as far as they fit")
    func list() {
        let catalog = Self.catalog((1...4).map { Self.text($0, bytes: 100) })
        func told(_ change: (inout Limits) -> Void) -> [Bool] {
            var limits = Limits()
            change(&limits)
            return catalog.list(isAnswer: true, limits: limits).models.map { !$0.text.isEmpty }
        }
        let head = 512 + 64 * 4
        #expect(told { _ in } == [true, true, true, true])
        #expect(told { $0.modelListBytes = head + 299 } == [false, false, true, true])
        #expect(told { $0.modelListBytes = 0 } == [false, false, false, true])
        #expect(told { $0.frameBytes = head + 99 } == [false, false, false, false])
    }

    @Test("A peer of an unknown model gets our list, and is refused when its own does not come")
    func unlisted() {
        let limits = Limits()
        let catalog = Self.catalog([Self.text(1)])
        var peer = PeerProgress(node: World.id(2), isConfigured: true)
        peer.isAgreed = true
        let hash = Self.text(3).hash
        let first = catalog.hear(hash, from: &peer, now: 0, limits: limits)
        #expect(first?.list != nil && first?.refusal == nil && !peer.isAgreed)
        let soon = catalog.hear(hash, from: &peer, now: 1, limits: limits)
        #expect(soon == .init())
        let late = catalog.hear(hash, from: &peer, now: 3_000, limits: limits)
        #expect(late?.refusal?.part == .model)
        let known = catalog.hear(Self.text(1).hash, from: &peer, now: 3_000, limits: limits)
        #expect(known == nil && peer.strangeSince == nil)
    }

    @Test("A foreign list refuses the peer, and its model is compared once")
    func foreign() {
        let limits = Limits()
        var catalog = Self.catalog([Self.text(1)])
        var peer = PeerProgress(node: World.id(2), isConfigured: true)
        let first = catalog.take(Self.list(2, 3), from: &peer, now: 0, limits: limits)
        #expect(first.list?.isAnswer == true && first.learns.isEmpty)
        #expect(first.compares == Self.text(3) && first.refusal != nil)
        let again = catalog.take(Self.list(2, 3), from: &peer, now: 9_000, limits: limits)
        #expect(again.compares == nil && again.refusal == first.refusal)
        let hash = Self.text(3).hash
        let early = catalog.take(difference: "a", of: hash, from: &peer)
        peer.refusal = first.refusal
        let told = catalog.take(difference: "b", of: hash, from: &peer)
        let other = catalog.take(difference: "c", of: Self.text(2).hash, from: &peer)
        #expect(early == nil && told?.difference == "b" && other == nil)
    }
}
