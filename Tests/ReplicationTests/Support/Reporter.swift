import Merge
import Replication
import Testing

/// A replicator of node 1 with peers 2 and 3, to which reports are told by hand.
struct Reporter {
    static let own = ActorID(1, 50)
    static let second = ActorID(2, 20)
    static let third = ActorID(3, 30)

    var replicator: Replicator
    var now: UInt64 = 0
    var store = FakeStore()
    /// All effects in order, without frames.
    var effects: [Effect] = []
    var sent: [Message] = []
    /// The pulls, with whom they went to.
    var pulls: [(node: NodeID, pull: Pull)] = []
    /// What the store was asked to remember, and whether it does.
    var remembered: [ActorID] = []
    var remembers = true
    private var answered = 0
    private var lastActors: [ActorID] = []

    init(
        recovery: Recovery = .none, isFounder: Bool = false,
        formerIncarnations: [ActorID] = [], founders: [ActorID] = [],
        hearsFirst: Bool = false,
        peers: [Int] = [2, 3], store: FakeStore = FakeStore(),
        limits: Limits = Limits(), incarnations: [ActorID] = []
    ) {
        self.store = store
        replicator = Replicator(
            configuration: .init(
                cluster: "test", actor: Self.own, modelHash: model, recovery: recovery,
                isFounder: isFounder, formerIncarnations: formerIncarnations,
                founders: founders, incarnations: incarnations, hearsFirst: hearsFirst),
            limits: limits, generator: SeededGenerator(seed: 1))
        give(
            .started(
                state: store.state, peers: peers.map(World.id), now: 0,
                wallMilliseconds: World.wallStart))
    }

    mutating func give(_ input: Input) {
        var batch: [EncodedTransaction] = []
        for effect in replicator.handle(input) {
            switch effect {
            case .publish(let bytes), .send(_, let bytes), .reply(_, let bytes):
                if let envelope = try? Envelope.decode(bytes, cluster: "test") {
                    sent.append(envelope.message)
                    if case .send(let node, _) = effect, case .pull(let pull) = envelope.message {
                        pulls.append((node, pull))
                    }
                }
                continue
            case .apply(let transactions): batch = transactions
            case .remember(let actor):
                remembered.append(actor)
                continue
            default: break
            }
            effects.append(effect)
        }
        for actor in remembered.dropFirst(answered) {
            answered += 1
            if remembers { give(.remembered(actor, isDurable: true, now: now)) }
        }
        guard !batch.isEmpty else { return }
        let rejected = store.apply(batch)
        give(.applied(state: store.state, rejected: rejected, now: now))
    }

    /// - Parameter sender: whom the message names as its sender; the node unless given.
    mutating func tell(
        _ message: Message, from node: Int, named sender: Int? = nil,
        over channel: Channel = .exchange
    ) {
        now += 1
        let envelope = Envelope(cluster: "test", sender: World.id(sender ?? node), message: message)
        give(
            .messageReceived(
                bytes: envelope.encoded(), from: World.id(node), over: channel, now: now))
    }

    /// Heads of an actor; met is by default all three first incarnations but its own.
    mutating func heads(
        _ actor: ActorID, _ durable: [Dot] = [], vector: [Dot]? = nil, met: [ActorID]? = nil,
        known: [ActorID]? = nil, recovery: Recovery = .none, founders: [ActorID] = []
    ) {
        // A restart names the one before, unless told otherwise.
        let former = lastActors.filter { $0.node == actor.node && $0 < actor }
        lastActors.removeAll { $0.node == actor.node }
        lastActors.append(actor)
        let all = [Self.own, Self.second, Self.third].filter { $0.node != actor.node }
        let heads = Heads(
            actor, vector: VersionVector(upTo: vector ?? durable),
            durable: VersionVector(upTo: durable), met: met ?? all, known: known ?? former,
            recovery: recovery, founders: founders)
        tell(.heads(heads), from: Int(actor.node.rawValue))
    }

    /// A transaction comes as a page of the pull that is outstanding at the node.
    mutating func page(
        _ transactions: [EncodedTransaction], from node: Int, vector: [Dot] = [],
        recovery: Recovery = .none
    ) {
        tick()
        guard let id = lastPull else {
            Issue.record("no pull to answer")
            return
        }
        let page = Page(
            id: id, transactions: transactions.map(\.bytes), reachedEnd: true,
            vector: VersionVector(upTo: vector), recovery: recovery)
        tell(.page(page), from: node)
    }

    var lastPull: UInt64? {
        for case .pull(let pull) in sent.reversed() { return pull.id }
        return nil
    }

    /// What the last heads said.
    var lastHeads: Heads? {
        for message in sent.reversed() {
            switch message {
            case .heads(let heads), .hello(let heads): return heads
            default: continue
            }
        }
        return nil
    }

    mutating func save(_ sequence: UInt64) -> Dot {
        let dot = Dot(actor: Self.own, sequence: sequence)
        let transaction = makeTransaction(dot, seen: store.vector)
        store.append(transaction)
        give(.committed([transaction], state: store.state, now: now))
        return dot
    }

    /// Lets two seconds pass, so that heads and what is stable are told.
    mutating func tick() { tick(at: now + 2_000) }

    mutating func tick(at time: UInt64) {
        now = time
        give(.tick(now: now, wallMilliseconds: World.wallStart + now))
    }

    /// A peer as the node sees it.
    func peer(_ node: Int) -> PeerStatus? {
        replicator.status.peers.first { $0.node == World.id(node) }
    }

    mutating func stable() -> VersionVector {
        tick()
        return replicator.status.stable
    }

    func hindrance(_ node: Int) -> StabilityHindrance? {
        replicator.status.members.first { $0.node == World.id(node) }?.hindrance
    }
}

func dot(_ actor: ActorID, _ sequence: UInt64) -> Dot { Dot(actor: actor, sequence: sequence) }
