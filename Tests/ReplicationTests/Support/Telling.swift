import Merge
import Replication

extension ActorID {
    /// An incarnation of a node by its number.
    init(_ node: Int, _ incarnation: UInt64) {
        self.init(node: World.id(node), incarnation: incarnation)
    }
}

extension VersionVector {
    /// Holds these dots, and all of each one's actor before it.
    init(upTo dots: [Dot]) {
        self.init(dots.map { .init(actor: $0.actor, sequence: $0.sequence) })
    }
}

extension StoreState {
    /// What a store has that nothing was ever saved in.
    static let empty = StoreState(vector: VersionVector(), digest: ProjectionDigest())
}

extension Heads {
    /// Heads of an actor at the start of time. What is durable is the vector unless it is given.
    init(
        _ actor: ActorID, vector: VersionVector = VersionVector(), durable: VersionVector? = nil,
        digest: ProjectionDigest = ProjectionDigest(),
        wallMilliseconds: UInt64 = World.wallStart, modelHash: [UInt8] = model,
        met: [ActorID] = [], known: [ActorID] = [], departed: [NodeID] = [],
        recovery: Recovery = .none, founders: [ActorID] = []
    ) {
        self.init(
            actor: actor, vector: vector, durable: durable ?? vector, digest: digest, clock: .zero,
            wallMilliseconds: wallMilliseconds, modelHash: modelHash, met: met, known: known,
            departed: departed, recovery: recovery, founders: founders)
    }
}

extension Replicator {
    /// A node with an empty store that has started at 0.
    init(
        started actor: ActorID, _ modelHash: [UInt8] = model, recovery: Recovery = .none,
        models: [ModelText] = [], peers: [Int], limits: Limits = Limits()
    ) {
        self.init(
            configuration: .init(
                cluster: "test", actor: actor, modelHash: modelHash, recovery: recovery,
                models: models), limits: limits, generator: SeededGenerator(seed: 1))
        _ = handle(
            .started(
                state: .empty, peers: peers.map(World.id), now: 0,
                wallMilliseconds: World.wallStart))
    }

    /// Node 1 with peers 2 and 3, started at 0.
    static func started(_ limits: Limits = Limits()) -> Replicator {
        Replicator(started: Reporter.own, peers: [2, 3], limits: limits)
    }

    /// The same, agreed with node 2.
    static func agreed(_ limits: Limits = Limits()) -> Replicator {
        var replicator = started(limits)
        replicator.hear(.heads(Heads(Reporter.second)), from: 2)
        return replicator
    }

    /// Hears a message of a peer.
    ///
    /// - Parameter sender: whom the message names as its sender; the peer unless given.
    @discardableResult
    mutating func hear(
        _ message: Message, from peer: Int, named sender: Int? = nil,
        over channel: Channel = .exchange, now: UInt64 = 1
    ) -> [Effect] {
        let envelope = Envelope(cluster: "test", sender: World.id(sender ?? peer), message: message)
        return handle(
            .messageReceived(
                bytes: envelope.encoded(), from: World.id(peer), over: channel, now: now))
    }
}

extension Effect {
    var isAlarm: Bool { if case .alarm = self { true } else { false } }
    var isApply: Bool { if case .apply = self { true } else { false } }
    var isLogRead: Bool { if case .readLog = self { true } else { false } }
    var isPublish: Bool { if case .publish = self { true } else { false } }
    var isReply: Bool { if case .reply = self { true } else { false } }
    var isVouched: Bool { if case .vouched = self { true } else { false } }
}

extension Sequence<Effect> {
    var tellsVouched: Bool { contains { $0.isVouched } }

    /// The messages to single peers, in order.
    func sent() throws -> [(peer: NodeID, message: Message)] {
        try compactMap { effect in
            switch effect {
            case .send(let peer, let bytes), .reply(let peer, let bytes):
                (peer, try Envelope.decode(bytes, cluster: "test").message)
            default: nil
            }
        }
    }

    /// The messages to one peer, in order.
    func sent(to node: Int) throws -> [Message] {
        try sent().filter { $0.peer == World.id(node) }.map(\.message)
    }
}

/// The first transactions of one actor, each having seen those before it.
func chain(
    _ actor: ActorID = Reporter.second, count: Int, bytes: Int = 20
) -> [EncodedTransaction] {
    var seen = VersionVector()
    return (1...count).map { sequence in
        let dot = Dot(actor: actor, sequence: UInt64(sequence))
        defer { seen.advance(to: dot) }
        return makeTransaction(dot, seen: seen, bytes: bytes)
    }
}
