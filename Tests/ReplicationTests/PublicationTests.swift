import Merge
import Testing

@testable import Replication

@Suite("How saves are published")
struct PublicationTests {
    private let saves = (1...4).map { sequence in
        makeTransaction(
            dot(Reporter.own, UInt64(sequence)), seen: VersionVector(),
            bytes: sequence == 3 ? 2_000 : 20)
    }

    @Test("Small ones go together, a long one by its name, all in order")
    func order() {
        var limits = Limits()
        limits.notificationBytes = 1_000
        #expect(
            Publication.plan(saves, limits) == [
                .together([saves[0].bytes, saves[1].bytes]), .byName(saves[2]),
                .together([saves[3].bytes]),
            ])
        #expect(Publication.plan([], limits).isEmpty)
    }

    @Test("A frame has no more than fit, by bytes and by number")
    func full() {
        var limits = Limits()
        limits.transactionsInFrame = 3
        #expect(Publication.plan(saves, limits).count == 2)
        limits = Limits()
        limits.groupedNotificationBytes = saves[0].bytes.count
        #expect(Publication.plan(saves, limits) == saves.map { .together([$0.bytes]) })
    }
}
