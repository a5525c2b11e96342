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

    @Test("The newest is told in full, those before it as far as they fit")
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
}
