import Merge
import Replication
import Testing

@Suite("Messages: every frame is decoded or refused, never trapped on")
struct MessageTests {
    static let actor = ActorID(3, 0x1_0000_0002)
    static let vector = VersionVector([
        .init(actor: actor, sequence: 900),
        .init(actor: ActorID(1, 5), sequence: 70_000),
    ])
    static let samples: [Message] = [
        .heads(heads), .hello(heads), .heads(recoveringHeads),
        .notification([[1, 2, 3], [], [UInt8](repeating: 9, count: 300)]),
        .announcement([Announced(dot: Dot(actor: actor, sequence: 4), size: 1 << 40)]),
        .pull(Pull(id: 7, vector: vector, credit: 4_000_000)),
        .pull(
            Pull(
                id: 7, vector: VersionVector(), credit: 0,
                resume: .init(dot: Dot(actor: actor, sequence: 1), offset: .max))),
        .page(Page(id: .max, transactions: [[5]], reachedEnd: false, vector: vector)),
        .page(Page(id: 0, transactions: [], reachedEnd: true, vector: VersionVector())),
        .page(
            Page(
                id: 0, transactions: [], reachedEnd: true, vector: VersionVector(),
                recovery: .new)),
        .piece(
            Piece(
                id: 1, dot: Dot(actor: actor, sequence: 1), offset: 10, total: 20, bytes: [1, 2],
                recovery: .restored)),
    ]
    static let heads = Heads(
        actor: actor, vector: vector, durable: VersionVector(),
        digest: ProjectionDigest(high: .max, low: 3),
        clock: HybridTimestamp(milliseconds: 55, counter: 2) ?? .zero,
        wallMilliseconds: 1_800_000_000_000, modelHash: model)
    static let recoveringHeads = Heads(
        actor: actor, vector: vector, durable: vector, digest: ProjectionDigest(), clock: .zero,
        wallMilliseconds: 0, modelHash: model,
        met: [ActorID(1, 5), ActorID(2, .max)], known: [ActorID(9, 0)], recovery: .restored,
        founders: [ActorID(4, 7)],
        configured: [World.id(4), World.id(6)])

    func frame(_ message: Message) -> [UInt8] {
        Envelope(cluster: "test", sender: World.id(3), message: message).encoded()
    }

    /// Puts the right checksum on changed bytes, so that what is under it is reached.
    func resealed(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.count > 9 else { return bytes }
        let body = Array(bytes.dropLast(9))
        let sum = Transaction.checksum(body)
        return body + [0x48] + (0..<8).map { UInt8(truncatingIfNeeded: sum >> (56 - 8 * $0)) }
    }

    @Test("Published heads are read whole by who knows the beginnings, and else known to be a part")
    func frontier() throws {
        let (old, new) = (Self.actor, ActorID(4, 9))
        var beginnings = Beginnings()
        beginnings.note(new, VersionVector([.init(actor: old, sequence: 4)]))
        var heads = Self.heads
        heads.vector = VersionVector([
            .init(actor: old, sequence: 4), .init(actor: new, sequence: 2),
        ])
        heads.durable = VersionVector([.init(actor: old, sequence: 4)])
        heads.recorded = VersionVector([.init(actor: old, sequence: 3)])
        let envelope = Envelope(cluster: "test", sender: World.id(3), message: .heads(heads))
        let published = envelope.encoded(telling: beginnings)
        #expect(published.count < envelope.encoded().count)
        let read = try Envelope.decode(published, cluster: "test", beginnings: beginnings)
        #expect(read == envelope)
        guard case .heads(let partial) = try Envelope.decode(published, cluster: "test").message
        else { throw MessageFailure.undecodable(DecodingFailure("no heads", offset: 0)) }
        #expect(!partial.isWhole && heads.vector.covers(partial.vector))
        #expect(partial.vector.covers(partial.durable) && partial.durable.covers(partial.recorded))
        // What names everything needs no beginnings.
        #expect(try Envelope.decode(envelope.encoded(), cluster: "test") == envelope)
    }

    @Test(
        "Of heads that it cannot read as a whole a node believes nothing, and asks for all of them")
    func partial() throws {
        let peer = Self.actor.node
        var replicator = Replicator(started: ActorID(1, 1), peers: [3])
        let new = ActorID(node: peer, incarnation: .max)
        var beginnings = Beginnings()
        beginnings.note(new, Self.heads.vector)
        var heads = Self.heads
        heads.actor = new
        heads.vector.advance(new, to: 1)
        func hear(_ bytes: [UInt8], _ channel: Channel) -> [Effect] {
            replicator.handle(.messageReceived(bytes: bytes, from: peer, over: channel, now: 2_000))
        }
        let envelope = Envelope(cluster: "test", sender: peer, message: .heads(heads))
        let effects = hear(envelope.encoded(telling: beginnings), .publish)
        #expect(replicator.status.peers.first?.vector.isEmpty == true)
        #expect(replicator.status.gauges.partialHeadsCount == 1)
        #expect(try effects.sent(to: 3).contains { if case .hello = $0 { true } else { false } })
        _ = hear(envelope.encoded(), .exchange)
        #expect(replicator.status.peers.first?.vector == heads.vector)
        // Another time it knows what is meant, once it has applied what that begins with.
        _ = replicator.handle(
            .applied(
                state: StoreState(
                    vector: heads.vector, digest: heads.digest, beginnings: beginnings),
                rejected: [], now: 2_100))
        heads.vector.advance(new, to: 2)
        let later = Envelope(cluster: "test", sender: peer, message: .heads(heads))
        _ = hear(later.encoded(telling: beginnings), .publish)
        #expect(replicator.status.gauges.partialHeadsCount == 1)
        #expect(replicator.status.peers.first?.vector == heads.vector)
    }

    @Test("What was encoded is decoded to the same", arguments: samples)
    func roundTrip(message: Message) throws {
        let envelope = try Envelope.decode(frame(message), cluster: "test")
        #expect(envelope.message == message)
        #expect(envelope.sender == World.id(3))
        #expect(envelope.encoded() == frame(message))
    }

    @Test("A frame of another cluster or revision is not taken for a damaged one")
    func others() {
        let bytes = frame(Self.samples[0])
        #expect(throws: MessageFailure.otherCluster("test", sender: World.id(3))) {
            try Envelope.decode(bytes, cluster: "other")
        }
        var later = bytes
        later[1] = UInt8(Message.revision) + 1
        #expect(throws: MessageFailure.otherRevision(Message.revision + 1, sender: World.id(3))) {
            try Envelope.decode(resealed(later), cluster: "test")
        }
        #expect(throws: MessageFailure.self) { try Envelope.decode(later, cluster: "test") }
    }

    @Test("Heads that name a node twice, or nodes out of order, or too many, are refused")
    func metOutOfOrder() {
        let first = ActorID(1, 5)
        let second = ActorID(2, 5)
        let again = ActorID(1, 6)
        for met in [[second, first], [first, again], [first, first]] {
            var heads = Self.heads
            heads.met = met
            let bytes = frame(.heads(heads))
            #expect(throws: MessageFailure.self) { try Envelope.decode(bytes, cluster: "test") }
        }
        var limits = Limits()
        limits.peers = 1
        var heads = Self.heads
        heads.met = [first, second]
        let bytes = frame(.heads(heads))
        #expect(throws: MessageFailure.self) {
            try Envelope.decode(bytes, cluster: "test", limits: limits)
        }
    }

    @Test("A frame over the limit is refused unread")
    func tooLong() {
        var limits = Limits()
        limits.frameBytes = 100
        let bytes = frame(.notification([[UInt8](repeating: 0, count: 100)]))
        #expect(throws: MessageFailure.self) {
            try Envelope.decode(bytes, cluster: "test", limits: limits)
        }
    }

    @Test("A hundred thousand damaged frames: none traps, and what decodes is canonical")
    func fuzz() throws {
        var generator = SeededGenerator(seed: 42)
        let frames = Self.samples.map(frame)
        var decoded = 0
        for round in 0..<100_000 {
            var bytes: [UInt8]
            if round % 5 == 0 {
                let count = Int.random(in: 0...64, using: &generator)
                bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            } else {
                bytes = frames[Int.random(in: 0..<frames.count, using: &generator)]
                for _ in 0...Int.random(in: 0...3, using: &generator) { mutate(&bytes, &generator) }
            }
            if round % 8 != 0 { bytes = resealed(bytes) }
            guard let envelope = try? Envelope.decode(bytes, cluster: "test") else { continue }
            if case .heads(let heads) = envelope.message, !heads.isWhole { continue }
            if case .hello(let heads) = envelope.message, !heads.isWhole { continue }
            decoded += 1
            #expect(envelope.encoded() == bytes)
        }
        #expect(decoded > 100)
    }

    @Test("A hundred thousand damaged frames leave a replicator working")
    func fuzzReplicator() {
        var limits = Limits()
        limits.quarantineMilliseconds = 1
        limits.quarantineMaximumMilliseconds = 1
        var replicator = Replicator(started: ActorID(1, 5), peers: [3], limits: limits)
        var generator = SeededGenerator(seed: 43)
        let whole = makeTransaction(Dot(actor: Self.actor, sequence: 1), seen: VersionVector())
        let frames =
            Self.samples.map(frame) + [
                frame(.notification([whole.bytes])),
                frame(
                    .page(
                        Page(
                            id: 1, transactions: [whole.bytes], reachedEnd: true,
                            vector: Self.vector))),
            ]
        var now: UInt64 = 1
        for round in 0..<100_000 {
            var bytes = frames[Int.random(in: 0..<frames.count, using: &generator)]
            if round % 3 != 0 { mutate(&bytes, &generator) }
            now += 1
            _ = replicator.handle(
                .messageReceived(
                    bytes: resealed(bytes), from: World.id(3), over: .exchange, now: now))
            if round % 100 == 0 {
                _ = replicator.handle(.tick(now: now, wallMilliseconds: .max - now))
            }
        }
        let gauges = replicator.status.gauges
        #expect(gauges.receivedCount == 100_000)
        #expect(gauges.waitingCount <= limits.waitingCount)
    }

    private func mutate(_ bytes: inout [UInt8], _ generator: inout SeededGenerator) {
        guard !bytes.isEmpty else { return }
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0...4, using: &generator) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &generator)
        case 2: bytes.remove(at: place)
        case 3: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
        default: bytes.removeLast(min(bytes.count, Int.random(in: 0...9, using: &generator)))
        }
    }
}
