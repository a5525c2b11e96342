import Merge
import Replication
import Testing

/// One node of a pretend cluster.
struct FakeNode {
    var replicator: Replicator
    var store: FakeStore
    var actor: ActorID
    /// Whom it is connected to: at first the configured peers.
    var peers: [NodeID]
    let configured: [NodeID]
    var isUp = true
    /// Counts restarts, so that answers to an earlier life are dropped.
    var life = 0
    var alarms: [Alarm] = []
    var quarantined: [NodeID] = []
    var batches: [Int] = []
    var isSaving = true
    var isRefused = false
    /// What was declared stable in this run, in order.
    var stable: [VersionVector] = []
    var effects: [Effect] = []
    /// How often it took over a copy of another's store.
    var installed = 0
}

/// A cluster over a network that loses, repeats and reorders by a seed. One thread, no real time.
final class World {
    struct Faults {
        var publishLoss = 0.0
        var exchangeLoss = 0.0
        var repeats = 0.0
        var delay: ClosedRange<UInt64> = 1...3
        /// How many messages take up to five seconds.
        var stragglers = 0.0
        /// How much of the exchange goes each way between two nodes in a second, one message after
        /// the other; nil for all there is.
        var bytesPerSecond: UInt64?
    }

    enum Event {
        case tick(Int)
        case input(Int, life: Int, Input)
        case sync(Int)
        case reopen(Int, life: Int, after: UInt64)
        case install(Int, life: Int, TransferCopy)
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
    /// When a slow way is free again, by its ends as `from * 100 + to`.
    private var freeAt: [Int: UInt64] = [:]
    var oracle = StabilityOracle()
    /// How often stores put on disk what they have applied; nil where all is durable at once.
    var syncMilliseconds: UInt64?
    private var events: [(at: UInt64, order: Int, event: Event)] = []
    private var order = 0

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    /// A cluster of nodes 1...count that has started.
    convenience init(seed: UInt64, started count: Int) {
        self.init(seed: seed)
        addNodes(count)
        start()
    }

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
        _ number: Int, cluster: String = "test", model: [UInt8] = model, peers: [Int],
        recovery: Recovery = .none
    ) {
        let actor = ActorID(node: Self.id(number), incarnation: UInt64(number) << 32 | 1)
        var store = FakeStore(recovery: recovery, isLazy: syncMilliseconds != nil)
        store.lives = [actor]
        nodes.append(
            FakeNode(
                replicator: makeReplicator(
                    actor, cluster: cluster, model: model, recovery: recovery),
                store: store, actor: actor, peers: peers.map(Self.id),
                configured: peers.map(Self.id)))
    }

    /// For how long nodes that start ask for no copy.
    var transferPauseMilliseconds: UInt64 = 0

    func makeReplicator(
        _ actor: ActorID, cluster: String, model: [UInt8], recovery: Recovery = .none,
        of store: FakeStore = FakeStore(), predecessor: ActorID? = nil, hearsFirst: Bool = false
    ) -> Replicator {
        Replicator(
            configuration: .init(
                cluster: cluster, actor: actor, modelHash: model, recovery: recovery,
                isFounder: store.isFounder, formerIncarnations: store.lives,
                founders: store.founders, incarnations: store.incarnations,
                predecessor: predecessor, hearsFirst: hearsFirst,
                transfer: store.incoming.flatMap { incoming in
                    copies[incoming.copy.number].map {
                        .init(
                            donor: $0.node, copy: incoming.copy,
                            offset: UInt64(incoming.bytes.count))
                    }
                }, transferPauseMilliseconds: transferPauseMilliseconds),
            limits: limits, generator: SeededGenerator(seed: UInt64(actor.node.rawValue)))
    }

    func start() {
        for index in nodes.indices { start(index) }
        for index in nodes.indices { beginSyncing(index) }
    }

    /// Starts a node that was added to a running cluster.
    func startNewcomer(_ index: Int) {
        start(index)
        beginSyncing(index)
    }

    private func beginSyncing(_ index: Int) {
        if let syncMilliseconds { schedule(.sync(index), after: syncMilliseconds) }
    }

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

    /// Stops a node and takes its store away.
    func lose(_ index: Int) {
        stop(index)
        nodes[index].store = FakeStore()
    }

    /// Starts a stopped node with its store as it was and a new incarnation.
    ///
    /// - Parameter isCertain: whether the store knows that the process before has ended.
    func restart(_ index: Int, incarnation: UInt64? = nil, isCertain: Bool = true) {
        let predecessor = isCertain ? nodes[index].actor : nil
        let actor = ActorID(
            node: nodes[index].actor.node,
            incarnation: incarnation ?? nodes[index].actor.incarnation + 1)
        nodes[index].actor = actor
        nodes[index].peers = nodes[index].configured
        nodes[index].isUp = true
        nodes[index].isSaving = true
        nodes[index].stable = []
        nodes[index].effects = []
        nodes[index].replicator = makeReplicator(
            actor, cluster: "test", model: model, recovery: nodes[index].store.recovery,
            of: nodes[index].store, predecessor: predecessor, hearsFirst: !isCertain)
        nodes[index].store.lives.append(actor)
        start(index)
    }

    /// Saves on a node: `count` transactions in one group commit.
    func save(_ index: Int, count: Int = 1, bytes: Int = 20, ahead: UInt64 = 0) {
        guard nodes[index].isSaving else { return }
        var group: [EncodedTransaction] = []
        for _ in 0..<count {
            let actor = nodes[index].actor
            let transaction = makeTransaction(
                Dot(actor: actor, sequence: nodes[index].store.vector[actor] + 1),
                seen: nodes[index].store.vector, milliseconds: wall + ahead, bytes: bytes)
            nodes[index].store.append(transaction)
            oracle.learn(transaction)
            group.append(transaction)
        }
        nodes[index].store.sync()
        give(index, .committed(group, state: nodes[index].store.state, now: now))
    }

    /// Saves a change of membership on a node; the first one tells of all configured members.
    ///
    /// - Returns: whether the node takes saves.
    @discardableResult
    func change(_ index: Int, _ change: MembershipChange) -> Bool {
        guard nodes[index].isUp, nodes[index].isSaving else { return false }
        let actor = nodes[index].actor
        var changes = [change]
        if nodes[index].store.membership.isEmpty {
            let all = nodes[index].configured + [actor.node]
            changes = all.sorted().map { .join($0, Self.address) } + changes
        }
        let sequence = nodes[index].store.vector[actor] + 1
        let transaction = EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: sequence),
                timestamp: HybridTimestamp(milliseconds: wall, counter: 0) ?? .zero,
                seen: nodes[index].store.vector, modelHash: model,
                shapes: MembershipChange.shapes, changes: changes.map(\.change)))
        nodes[index].store.append(transaction)
        oracle.learn(transaction)
        nodes[index].store.sync()
        give(index, .committed([transaction], state: nodes[index].store.state, now: now))
        return true
    }

    static let address = MemberAddress(publish: "tcp://host:1", exchange: "tcp://host:2")

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
            case .sync(let index):
                schedule(.sync(index), after: syncMilliseconds ?? 1_000)
                guard nodes[index].isUp else { continue }
                nodes[index].store.sync()
                give(index, .committed([], state: nodes[index].store.state, now: now))
            case .reopen(let index, let life, let incarnation):
                guard nodes[index].isUp, nodes[index].life == life else { continue }
                stop(index)
                restart(index, incarnation: incarnation + 1_000)
            case .install(let index, let life, let copy):
                guard nodes[index].isUp, nodes[index].life == life else { continue }
                install(copy, at: index)
            }
        }
        now = end
    }

    /// Gives a node a message of another by hand.
    func tell(_ index: Int, _ message: Message, from node: Int) {
        let envelope = Envelope(cluster: "test", sender: Self.id(node), message: message)
        give(
            index,
            .messageReceived(
                bytes: envelope.encoded(), from: envelope.sender, over: .exchange, now: now))
    }

    func give(_ index: Int, _ input: Input) {
        for effect in nodes[index].replicator.handle(input) { carryOut(effect, of: index) }
    }

    private func carryOut(_ effect: Effect, of index: Int) {
        let node = nodes[index].actor.node
        switch effect {
        case .publish, .send, .reply, .readLog, .remember, .takeTransfer: break
        default: nodes[index].effects.append(effect)
        }
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
            oracle.apply(transactions, at: nodes[index])
            let rejected = nodes[index].store.apply(transactions)
            let input = Input.applied(state: nodes[index].store.state, rejected: rejected, now: now)
            // Local saves may happen before the answer; the answer then must not go back.
            answer(index, input, after: applyMilliseconds)
        case .readLog(let id, let after, let limit):
            let (transactions, reachedEnd) = nodes[index].store.read(after: after, byteLimit: limit)
            answer(
                index,
                .logRead(id: id, transactions: transactions, reachedEnd: reachedEnd, now: now),
                after: 1)
        case .quarantined(let peer, _, _): nodes[index].quarantined.append(peer)
        case .alarm(let alarm): nodes[index].alarms.append(alarm)
        case .stable(let vector):
            oracle.declare(vector, at: nodes[index], of: nodes)
            nodes[index].store.declared.join(vector)
            nodes[index].stable.append(vector)
        case .setClockOff: break
        case .refused: nodes[index].isRefused = true
        case .connect(let peers): nodes[index].peers = peers
        case .setSaving(let isAllowed): nodes[index].isSaving = isAllowed
        case .outgrown: nodes[index].store.outgrow()
        case .founder: nodes[index].store.noteFounder()
        case .vouched(let founders): nodes[index].store.vouch(founders: founders)
        case .remember(let actor):
            nodes[index].store.remember(actor)
            answer(index, .remembered(actor, isDurable: true, now: now), after: applyMilliseconds)
        case .reopen(let incarnation):
            schedule(.reopen(index, life: nodes[index].life, after: incarnation), after: 1)
        case .learnModels, .compareModel, .keepOrphans, .orphansNotKept: break
        case .readTransfer where silentDonors.contains(index):
            waitingReads.append((index, effect))
        case .readTransfer(let id, let number, let offset, let byteLimit, _, _):
            answer(index, readCopy(id, number, offset, byteLimit, of: index), after: 5)
        case .takeTransfer(let copy, _, let offset, let bytes):
            let before = offset == 0 ? [] : nodes[index].store.incoming?.bytes ?? []
            #expect(before.count == Int(offset))
            nodes[index].store.incoming = (copy, before + bytes)
            answer(index, .transferTaken(offset: offset + UInt64(bytes.count), now: now), after: 2)
        case .installTransfer(let copy, _):
            schedule(.install(index, life: nodes[index].life, copy), after: 10)
        case .discardTransfer: nodes[index].store.incoming = nil
        }
    }

    /// Nodes whose disks do not answer, for the time being, while they read a copy.
    var silentDonors: Set<Int> = [] {
        didSet {
            let reads = waitingReads
            waitingReads = []
            for (index, effect) in reads { carryOut(effect, of: index) }
        }
    }
    private var waitingReads: [(Int, Effect)] = []

    /// Copies of stores that are given away, by number; a copy's bytes are nothing but its length.
    private(set) var copies: [UInt64: (node: NodeID, store: FakeStore, bytes: [UInt8])] = [:]

    private func readCopy(
        _ id: UInt64, _ number: UInt64, _ offset: UInt64, _ byteLimit: Int, of index: Int
    ) -> Input {
        var number = number
        var start = Int(offset)
        if copies[number]?.node != nodes[index].actor.node {
            (number, start) = (UInt64(copies.count + 1), 0)
            var generator = SeededGenerator(seed: number)
            let count = nodes[index].store.log.reduce(1) { $0 + $1.bytes.count }
            copies[number] = (
                nodes[index].actor.node, nodes[index].store,
                (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            )
        }
        let bytes = copies[number]?.bytes ?? []
        let copy = TransferCopy(
            number: number, total: UInt64(bytes.count),
            digest: Array(repeating: UInt8(number), count: 16))
        return .transferRead(
            id: id, copy: copy, offset: UInt64(start),
            bytes: Array(bytes[start..<min(bytes.count, start + byteLimit)]), now: now)
    }

    private func install(_ copy: TransferCopy, at index: Int) {
        guard let given = copies[copy.number], let taken = nodes[index].store.incoming,
            taken.copy == copy, taken.bytes == given.bytes
        else {
            nodes[index].store.incoming = nil
            return give(index, .transferRefused("It is not the same.", now: now))
        }
        stop(index)
        nodes[index].store.take(given.store)
        nodes[index].store.incoming = nil
        nodes[index].installed += 1
        restart(index)
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
            let delay = chance(faults.stragglers) ? 1...5_000 : faults.delay
            var wait = UInt64.random(in: delay, using: &generator)
            if channel == .exchange, let rate = faults.bytesPerSecond {
                let way = source * 100 + target
                let free = max(freeAt[way] ?? 0, now) + UInt64(bytes.count) * 1_000 / rate
                freeAt[way] = free
                wait += free - now
            }
            schedule(.input(target, life: nodes[target].life, input), after: wait)
        }
    }

    func chance(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &generator) < probability
    }

    /// Gives a node an input later, unless it has begun another life by then.
    private func answer(_ index: Int, _ input: Input, after delay: UInt64) {
        schedule(.input(index, life: nodes[index].life, input), after: delay)
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
    _ dot: Dot, seen: VersionVector, milliseconds: UInt64 = World.wallStart, bytes: Int = 20,
    modelHash: [UInt8] = model
) -> EncodedTransaction {
    EncodedTransaction(
        Transaction(
            dot: dot,
            timestamp: HybridTimestamp(milliseconds: milliseconds, counter: 0) ?? .zero,
            seen: seen, modelHash: modelHash,
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
        case .remembered(let actor, let isDurable, _):
            .remembered(actor, isDurable: isDurable, now: now)
        case .logRead(let id, let transactions, let reachedEnd, _):
            .logRead(id: id, transactions: transactions, reachedEnd: reachedEnd, now: now)
        default: self
        }
    }
}
