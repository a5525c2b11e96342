@testable import Merge
@testable import Replication

extension Decoder {
    /// A replicator that hostile peers talk to: a run of frames, ticks and answers of the store.
    ///
    /// Input: steps of a byte each with what it takes; see ``MeshWorld/step(_:)``.
    static let replicator = Decoder(
        name: "replicator", maximumLength: 8192,
        seeds: { random in
            let messages = MeshSamples.messages(&random)
            let hello = MeshWorld.step(
                frame: MeshSamples.frame(.hello(MeshSamples.heads(of: 2, VersionVector()))))
            return (0..<30).map { _ in
                var input = hello
                for _ in 0..<1 + random.below(8) {
                    input +=
                        random.chance(60)
                        ? MeshWorld.step(frame: MeshSamples.frame(random.pick(messages)))
                        : [UInt8(random.below(6)), UInt8(random.below(256)), 1]
                }
                return input
            }
        },
        run: { bytes in
            var world = MeshWorld()
            var reader = InputReader(bytes)
            var steps = 0
            while !reader.isAtEnd, steps < 200 {
                world.step(&reader)
                steps += 1
            }
        })
}

/// One replicator with a store that takes everything, or refuses it, as the input says.
struct MeshWorld {
    private var replicator: Replicator
    private var now: UInt64 = 1_000
    private var vector = VersionVector()
    private var reads: [UInt64] = []
    private var applying: [[EncodedTransaction]] = []

    init() {
        replicator = Replicator(
            configuration: .init(
                cluster: MeshSamples.cluster, actor: MeshSamples.actor(1),
                modelHash: MeshSamples.modelHash), generator: SeededGenerator(seed: 1))
        handle(
            .started(
                state: state, peers: [MeshSamples.node(2), MeshSamples.node(3)], now: now,
                wallMilliseconds: 1_800_000_000_000))
    }

    private var state: StoreState {
        StoreState(vector: vector, digest: ProjectionDigest(high: 5, low: 3))
    }

    /// A step that hands over a frame, as the input has it.
    static func step(frame: [UInt8]) -> [UInt8] {
        [6] + InputReader.part(Array(frame.dropLast(9)))
    }

    mutating func step(_ reader: inout InputReader) {
        switch reader.byte() % 10 {
        case 0:
            now += reader.number(bytes: 2)
            handle(.tick(now: now, wallMilliseconds: 1_800_000_000_000 + now))
        case 1: finishApplying(rejecting: reader.byte())
        case 2:
            guard !reads.isEmpty else { return }
            let id = reads.removeFirst()
            let isFull = reader.byte() & 1 == 0
            let logged = isFull ? [MeshSamples.transaction(1, 1).encoded()] : []
            handle(.logRead(id: id, transactions: logged, reachedEnd: isFull, now: now))
        case 3:
            let node = MeshSamples.node(1 + Int(reader.byte() % 4))
            handle(
                reader.byte() & 1 == 0
                    ? .peerConnected(node, now: now) : .peerDisconnected(node, now: now))
        case 4: handle(.quarantineLifted(MeshSamples.node(2), now: now))
        case 5:
            let transaction = MeshSamples.transaction(
                1, vector[MeshSamples.actor(1)] + 1, seen: vector)
            vector.advance(to: transaction.dot)
            handle(.committed([EncodedTransaction(transaction)], state: state, now: now))
        case let kind:
            let bytes = MeshSamples.sealed(reader.part())
            handle(
                .messageReceived(
                    bytes: bytes, from: kind == 8 ? nil : MeshSamples.node(kind == 9 ? 3 : 2),
                    over: kind == 7 ? .publish : .exchange, now: now))
        }
    }

    private mutating func finishApplying(rejecting choice: UInt8) {
        guard !applying.isEmpty else { return }
        let batch = applying.removeFirst()
        var rejected: [Rejection] = []
        for (index, encoded) in batch.enumerated() {
            if choice & 0x80 != 0, index == Int(choice & 3) {
                rejected.append(Rejection(dot: encoded.dot, reason: "refused"))
                break
            }
            vector.advance(to: encoded.dot)
        }
        handle(.applied(state: state, rejected: rejected, now: now))
    }

    private mutating func handle(_ input: Input) {
        for effect in replicator.handle(input) {
            switch effect {
            case .apply(let batch):
                demand(applying.isEmpty, "two batches are being applied at once")
                check(batch)
                applying.append(batch)
            case .readLog(let id, _, let limit):
                demand(limit > 0, "a read of no bytes")
                reads.append(id)
            case .publish(let bytes), .send(_, let bytes), .reply(_, let bytes):
                let decoded = attempt(
                    throwing: MessageFailure.self,
                    { try Envelope.decode(bytes, cluster: MeshSamples.cluster) })
                demand(decoded != nil, "what is sent cannot be read")
            default: break
            }
        }
        let gauges = replicator.status.gauges
        let limits = Limits()
        demand(
            gauges.waitingCount <= limits.waitingCount
                && gauges.waitingBytes
                    <= limits.waitingBytes,
            "the queue is over its bound")
        demand(replicator.status.peers.count <= limits.peers, "there are too many peers")
    }

    /// What is handed to the store must be causally ready, each after those before it.
    private func check(_ batch: [EncodedTransaction]) {
        var known = vector
        for encoded in batch {
            let transaction = encoded.transaction
            demand(
                known.covers(transaction.seen)
                    && known[transaction.dot.actor] + 1 == transaction.dot.sequence,
                "\(transaction.dot) is applied before its time")
            known.advance(to: transaction.dot)
        }
    }
}
