import Merge
import Testing

@testable import NodeCore

@Suite("Saves wait until other nodes have them on disk")
struct AcknowledgementBookTests {
    private let actor: ActorID
    private let peers: [NodeID]

    init() throws {
        actor = ActorID(node: try #require(NodeID(1)), incarnation: 7)
        peers = [try #require(NodeID(2)), try #require(NodeID(3))]
    }

    private func wish(
        _ sequence: UInt64 = 1, needed: Int, deadline: UInt64 = .max
    ) -> AcknowledgementBook.Wish {
        .init(
            dot: Dot(actor: actor, sequence: sequence), peers: peers, needed: needed,
            deadline: deadline)
    }

    private func vector(_ sequence: UInt64) -> VersionVector {
        var vector = VersionVector()
        vector.advance(actor, to: sequence)
        return vector
    }

    @Test("A save is confirmed once enough peers have it, and a later one at once")
    func confirmed() {
        var book = AcknowledgementBook()
        #expect(book.begin(wish(needed: 2)) == .waits(1))
        #expect(book.begin(wish(needed: 1)) == .waits(2))
        #expect(book.awaitedPeers == peers)
        #expect(book.update([(peers[1], vector(1))]).map(\.number) == [2])
        #expect(book.awaitedPeers == [peers[0]])
        let last = book.update([(peers[0], vector(2))])
        #expect(last.map(\.number) == [1])
        #expect(last.map(\.outcome) == [.confirmed])
        #expect(book.count == 0)
        #expect(book.begin(wish(needed: 2)) == .ended(.confirmed))
    }

    @Test("A save that times out names the missing peers")
    func expired() {
        var book = AcknowledgementBook()
        #expect(book.begin(wish(needed: 2, deadline: 10)) == .waits(1))
        #expect(book.update([(peers[0], vector(1))]).isEmpty)
        #expect(book.expire(now: 9).isEmpty)
        let expired = book.expire(now: 10)
        #expect(expired.map(\.outcome) == [.missing([peers[1]])])
    }

    @Test("In the end all waiting saves name the missing peers, and no save may wait any more")
    func ended() {
        var book = AcknowledgementBook()
        #expect(book.begin(wish(needed: 1)) == .waits(1))
        #expect(book.end().map(\.outcome) == [.missing(peers)])
        #expect(book.begin(wish(needed: 1)) == .ended(.missing(peers)))
    }

    @Test("As many may wait at once as there is room for")
    func full() {
        var book = AcknowledgementBook()
        for _ in 0..<AcknowledgementBook.Limits.waiters { _ = book.begin(wish(needed: 1)) }
        #expect(book.begin(wish(needed: 1)) == .ended(.missing(peers)))
    }
}
