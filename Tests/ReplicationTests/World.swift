import Merge
import Replication

/// A store of nothing but its log; it checks that what it is told to apply is in causal order.
struct FakeStore {
    var vector = VersionVector()
    var log: [EncodedTransaction] = []
    var digest = ProjectionDigest()
    var refused: Set<Dot> = []
    var violations: [Dot] = []

    var state: StoreState { StoreState(vector: vector, digest: digest) }

    mutating func append(_ transaction: EncodedTransaction) {
        guard vector.covers(transaction.transaction.seen), !vector.contains(transaction.dot) else {
            return violations.append(transaction.dot)
        }
        vector.advance(to: transaction.dot)
        log.append(transaction)
        digest.add((Transaction.checksum(transaction.bytes), transaction.dot.sequence))
    }

    mutating func apply(_ transactions: [EncodedTransaction]) -> [Rejection] {
        var rejected: [Rejection] = []
        for transaction in transactions {
            if refused.contains(transaction.dot) {
                rejected.append(Rejection(dot: transaction.dot, reason: "no such row"))
            } else if rejected.isEmpty || vector.covers(transaction.transaction.seen) {
                append(transaction)
            }
        }
        return rejected
    }

    func read(after: VersionVector, byteLimit: Int) -> ([[UInt8]], Bool) {
        var result: [[UInt8]] = []
        var bytes = 0
        for transaction in log where !after.contains(transaction.dot) {
            if !result.isEmpty, bytes + transaction.bytes.count > byteLimit {
                return (result, false)
            }
            bytes += transaction.bytes.count
            result.append(transaction.bytes)
        }
        return (result, true)
    }
}

/// One node of a pretend cluster.
struct FakeNode {
    var replicator: Replicator
    var store: FakeStore
    var actor: ActorID
    var peers: [NodeID]
    var isUp = true
    /// Counts restarts, so that answers to an earlier life are dropped.
    var life = 0
    var alarms: [Alarm] = []
    var quarantined: [NodeID] = []
    var batches: [Int] = []
}

/// A cluster over a network that loses, repeats and reorders by a seed. One thread, no real time.
final class World {
    struct Faults {
        var publishLoss = 0.0
        var exchangeLoss = 0.0
        var repeats = 0.0
        var delay: ClosedRange<UInt64> = 1...3
    }

    enum Event {
        case tick(Int)
        case input(Int, life: Int, Input)
    }

    static let wallStart: UInt64 = 1_800_000_000_000
    var now: UInt64 = 1_000
    var nodes: [FakeNode] = []
    var faults = Faults()
    var limits = Limits()
    var generator: SeededGenerator
    /// Pairs of nodes that cannot reach each other, as `low * 100 + high`.
    var cut: Set<Int> = []
    var applyMilliseconds: UInt64 = 1
    var sentBytes = 0
    private var events: [(at: UInt64, order: Int, event: Event)] = []
    private var order = 0

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    static func id(_ number: Int) -> NodeID {
        guard let id = NodeID(number) else { fatalError("test nodes are 1 and up") }
        return id
    }

    /// Adds nodes 1...count, each with all others as peers unless told.
    func addNodes(_ count: Int, model: [UInt8] = model, peers: [Int: [Int]] = [:]) {
        for number in 1...count {
            let others = peers[number] ?? (1...count).filter { $0 != number }
            addNode(number, model: model, peers: others)
        }
    }

    func addNode(
        _ number: Int, cluster: String = "test", model: [UInt8] = model, peers: [Int]
    ) {
        let actor = ActorID(node: Self.id(number), incarnation: UInt64(number) << 32 | 1)
        nodes.append(
            FakeNode(
                replicator: makeReplicator(actor, cluster: cluster, model: model),
                store: FakeStore(), actor: actor, peers: peers.map(Self.id)))
    }

    func makeReplicator(_ actor: ActorID, cluster: String, model: [UInt8]) -> Replicator {
        Replicator(
            configuration: .init(cluster: cluster, actor: actor, modelHash: model),
            limits: limits, generator: SeededGenerator(seed: UInt64(actor.node.rawValue)))
    }

    func start() { for index in nodes.indices { start(index) } }

    func start(_ index: Int) {
        give(
            index,
            .started(
                state: nodes[index].store.state, peers: nodes[index].peers, now: now,
                wallMilliseconds: wall))
        schedule(.tick(index), after: 50)
    }

    var wall: UInt64 { Self.wallStart + now }

    func stop(_ index: Int) {
        nodes[index].isUp = false
        nodes[index].life += 1
    }

    /// Starts a stopped node with its store as it was and a new incarnation.
    func restart(_ index: Int) {
        let actor = ActorID(
            node: nodes[index].actor.node, incarnation: nodes[index].actor.incarnation + 1)
        nodes[index].actor = actor
        nodes[index].isUp = true
        nodes[index].replicator = makeReplicator(actor, cluster: "test", model: model)
        start(index)
    }

    /// Saves on a node: `count` transactions in one group commit.
    func save(_ index: Int, count: Int = 1, bytes: Int = 20, ahead: UInt64 = 0) {
        var group: [EncodedTransaction] = []
        for _ in 0..<count {
            let actor = nodes[index].actor
            let transaction = makeTransaction(
                Dot(actor: actor, sequence: nodes[index].store.vector[actor] + 1),
                seen: nodes[index].store.vector, milliseconds: wall + ahead, bytes: bytes)
            nodes[index].store.append(transaction)
            group.append(transaction)
        }
        give(index, .committed(group, state: nodes[index].store.state, now: now))
    }

    func run(_ milliseconds: UInt64) {
        let end = now + milliseconds
        while let next = events.first, next.at <= end {
            popEvent()
            now = next.at
            switch next.event {
            case .tick(let index):
                guard nodes[index].isUp else { continue }
                give(index, .tick(now: now, wallMilliseconds: wall))
                schedule(.tick(index), after: 50)
            case .input(let index, let life, let input):
                guard nodes[index].isUp, nodes[index].life == life else { continue }
                give(index, input.at(now))
            }
        }
        now = end
    }

    func give(_ index: Int, _ input: Input) {
        for effect in nodes[index].replicator.handle(input) { carryOut(effect, of: index) }
    }

    private func carryOut(_ effect: Effect, of index: Int) {
        let node = nodes[index].actor.node
        switch effect {
        case .publish(let bytes):
            for target in nodes.indices where nodes[target].peers.contains(node) {
                deliver(bytes, from: index, to: target, over: .publish, loss: faults.publishLoss)
            }
        case .send(let peer, let bytes), .reply(let peer, let bytes):
            guard let target = nodes.firstIndex(where: { $0.actor.node == peer }) else { return }
            deliver(bytes, from: index, to: target, over: .exchange, loss: faults.exchangeLoss)
        case .apply(let transactions):
            nodes[index].batches.append(transactions.count)
            let rejected = nodes[index].store.apply(transactions)
            let input = Input.applied(
                state: nodes[index].store.state, rejected: rejected, now: now)
            // Local saves may happen before the answer; the answer then must not go back.
            schedule(
                .input(index, life: nodes[index].life, input), after: applyMilliseconds)
        case .readLog(let id, let after, let limit):
            let (transactions, reachedEnd) = nodes[index].store.read(
                after: after, byteLimit: limit)
            schedule(
                .input(
                    index, life: nodes[index].life,
                    .logRead(id: id, transactions: transactions, reachedEnd: reachedEnd, now: now)
                ), after: 1)
        case .quarantined(let peer, _, _): nodes[index].quarantined.append(peer)
        case .alarm(let alarm): nodes[index].alarms.append(alarm)
        }
    }

    private func deliver(
        _ bytes: [UInt8], from source: Int, to target: Int, over channel: Channel, loss: Double
    ) {
        let low = min(source, target) + 1
        let high = max(source, target) + 1
        guard source != target, !cut.contains(low * 100 + high), nodes[target].isUp else { return }
        sentBytes += bytes.count
        let copies = chance(faults.repeats) ? 2 : 1
        for _ in 0..<copies where !chance(loss) {
            let input = Input.messageReceived(
                bytes: bytes, from: nodes[source].actor.node, over: channel, now: now)
            schedule(
                .input(target, life: nodes[target].life, input),
                after: UInt64.random(in: faults.delay, using: &generator))
        }
    }

    private func chance(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &generator) < probability
    }

    private func schedule(_ event: Event, after delay: UInt64) {
        order += 1
        events.append((now + delay, order, event))
        var child = events.count - 1
        while child > 0, isEarlier(child, (child - 1) / 2) {
            events.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private func popEvent() {
        events.swapAt(0, events.count - 1)
        events.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < events.count && isEarlier(child, least) {
                least = child
            }
            if least == parent { return }
            events.swapAt(parent, least)
            parent = least
        }
    }

    private func isEarlier(_ left: Int, _ right: Int) -> Bool {
        (events[left].at, events[left].order) < (events[right].at, events[right].order)
    }

    /// Whether all nodes that are up have applied the same, in causal order.
    var isConverged: Bool {
        let up = nodes.filter(\.isUp)
        return up.allSatisfy {
            $0.store.vector == up[0].store.vector && $0.store.digest == up[0].store.digest
                && $0.store.violations.isEmpty
        }
    }

    func status(_ index: Int) -> ReplicatorStatus { nodes[index].replicator.status }
}

let model = [UInt8](repeating: 7, count: 32)

func makeTransaction(
    _ dot: Dot, seen: VersionVector, milliseconds: UInt64 = World.wallStart, bytes: Int = 20
) -> EncodedTransaction {
    EncodedTransaction(
        Transaction(
            dot: dot,
            timestamp: HybridTimestamp(milliseconds: milliseconds, counter: 0) ?? .zero,
            seen: seen, modelHash: model,
            shapes: [ChangeShape(entity: "Note", assigned: ["body"])],
            changes: [
                Change(
                    kind: .insert, shape: 0,
                    row: RowID(node: dot.actor.node, block: 1, counter: UInt32(dot.sequence)),
                    values: [.binary([UInt8](repeating: UInt8(dot.sequence & 0xFF), count: bytes))])
            ]))
}

extension Input {
    /// The same event at the time at which it happens.
    func at(_ now: UInt64) -> Input {
        switch self {
        case .messageReceived(let bytes, let sender, let channel, _):
            .messageReceived(bytes: bytes, from: sender, over: channel, now: now)
        case .applied(let state, let rejected, _):
            .applied(state: state, rejected: rejected, now: now)
        case .logRead(let id, let transactions, let reachedEnd, _):
            .logRead(id: id, transactions: transactions, reachedEnd: reachedEnd, now: now)
        default: self
        }
    }
}
