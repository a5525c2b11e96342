import Merge
import Replication
import Testing

@testable import Node

@Suite("What peers told of their digests is found in their heads")
struct DigestBookTests {
    private static let model = [UInt8](repeating: 7, count: 32)
    private static let limits = NodeService.Settings.fitted(
        toFrames: TransportLimits().frameBytes)

    private static func book() -> DigestBook {
        DigestBook(cluster: "test", modelHash: model, limits: limits)
    }

    /// Heads of node 2 after so many incarnations of the cluster's nodes, with numbers as long as
    /// they may be.
    private static func heads(
        _ incarnations: Int, digest: UInt64 = 1, model: [UInt8] = Self.model
    ) throws -> Heads {
        let entries = try (1...incarnations).map { number in
            VersionVector.Entry(
                actor: ActorID(node: try #require(NodeID(number)), incarnation: .max),
                sequence: .max)
        }
        let vector = try #require(VersionVector(canonical: entries))
        return Heads(
            actor: ActorID(node: try #require(NodeID(2)), incarnation: .max), vector: vector,
            durable: vector, digest: ProjectionDigest(high: digest, low: digest), clock: .zero,
            wallMilliseconds: 1_700_000_000_000, modelHash: model)
    }

    private static func frame(_ message: Message) throws -> IncomingFrame {
        let sender = try #require(NodeID(2))
        return IncomingFrame(
            bytes: Envelope(cluster: "test", sender: sender, message: message).encoded(),
            sender: sender, channel: .publish)
    }

    @Test("Heads of as many incarnations as there may be are looked into, and of more are not")
    func long() throws {
        // As long as they may be: what is durable differs in every entry, and what is recorded again.
        var heads = try Self.heads(Self.limits.actors)
        heads.durable = VersionVector(
            heads.vector.entries.map { .init(actor: $0.actor, sequence: $0.sequence - 1) })
        heads.recorded = VersionVector(
            heads.vector.entries.map { .init(actor: $0.actor, sequence: $0.sequence - 2) })
        let frame = try Self.frame(.heads(heads))
        #expect(frame.bytes.count > 1_000_000)
        #expect(frame.bytes.count <= TransportLimits().publishedFrameBytes)
        var book = Self.book()
        book.note(frame, now: 1_000, beginnings: Beginnings())
        #expect(book.digests.map(\.digest) == [heads.digest])
        let isWhole = book.digests.first?.vector == heads.vector
        #expect(isWhole)
        var other = Self.book()
        other.note(
            try Self.frame(.heads(try Self.heads(Self.limits.actors + 1))), now: 1_000,
            beginnings: Beginnings())
        #expect(other.digests.isEmpty)
    }

    @Test("Heads and greetings count, twice a second at the most; other frames do not")
    func kinds() throws {
        var book = Self.book()
        book.note(try Self.frame(.notification([[1, 2, 3]])), now: 1_000, beginnings: Beginnings())
        #expect(book.digests.isEmpty)
        book.note(
            try Self.frame(.hello(try Self.heads(3, digest: 1))), now: 1_001,
            beginnings: Beginnings())
        book.note(
            try Self.frame(.heads(try Self.heads(3, digest: 2))), now: 1_400,
            beginnings: Beginnings())
        #expect(book.digests.map(\.digest.low) == [1])
        book.note(
            try Self.frame(.heads(try Self.heads(3, digest: 3))), now: 1_501,
            beginnings: Beginnings())
        #expect(book.digests.map(\.digest.low) == [3])
        // Of another model nothing can be compared.
        let strange = try Self.heads(3, model: [UInt8](repeating: 8, count: 32))
        book.note(try Self.frame(.heads(strange)), now: 2_100, beginnings: Beginnings())
        #expect(book.digests.isEmpty)
    }
}
