@testable import Merge
@testable import Replication

extension Decoder {
    /// A frame of the mesh. The input is what is under the checksum, for no mutation would find
    /// the right one; and the frame is decoded as it came too.
    static let message = Decoder(
        name: "message", maximumLength: 4096,
        seeds: { random in
            MeshSamples.messages(&random).map { Array(MeshSamples.frame($0).dropLast(9)) }
        },
        run: { bytes in
            for frame in [bytes, MeshSamples.sealed(bytes)] {
                _ = attempt(
                    throwing: DecodingFailure.self, { _ = try Transaction.head(frame) })
                guard
                    let envelope = attempt(
                        throwing: MessageFailure.self,
                        { try Envelope.decode(frame, cluster: MeshSamples.cluster) })
                else { continue }
                switch envelope.message {
                case .heads(let heads), .hello(let heads):
                    demand(
                        heads.vector.covers(heads.durable) && heads.durable.covers(heads.recorded),
                        "heads contradict themselves")
                    // What completes a frontier is not known here.
                    if !heads.isWhole { continue }
                default: break
                }
                demand(envelope.encoded() == frame, "a frame has two encodings")
            }
        })
}

/// Messages of a small mesh.
enum MeshSamples {
    static let cluster = "fuzz"
    static let modelHash = [UInt8](repeating: 7, count: 32)

    static func node(_ number: Int) -> NodeID {
        guard let node = NodeID(number) else { preconditionFailure("\(number) is no node") }
        return node
    }

    static func actor(_ number: Int) -> ActorID {
        ActorID(node: node(number), incarnation: UInt64(number) << 32 | 1)
    }

    static func frame(_ message: Message, from number: Int = 2) -> [UInt8] {
        Envelope(cluster: cluster, sender: node(number), message: message).encoded()
    }

    /// Puts the right checksum after bytes.
    static func sealed(_ body: [UInt8]) -> [UInt8] {
        let sum = Transaction.checksum(body)
        return body + [0x48] + (0..<8).map { UInt8(truncatingIfNeeded: sum >> (56 - 8 * $0)) }
    }

    static func heads(of number: Int, _ vector: VersionVector) -> Heads {
        Heads(
            actor: actor(number), vector: vector, durable: vector,
            digest: ProjectionDigest(high: 5, low: 3),
            clock: HybridTimestamp(milliseconds: 55, counter: 2) ?? .zero,
            wallMilliseconds: 1_800_000_000_000, modelHash: modelHash)
    }

    /// A transaction that could be applied after what has been seen.
    static func transaction(
        _ number: Int, _ sequence: UInt64, seen: VersionVector = VersionVector()
    ) -> Transaction {
        var seen = seen
        seen.advance(actor(number), to: sequence - 1)
        return Transaction(
            dot: Dot(actor: actor(number), sequence: sequence),
            timestamp: HybridTimestamp(milliseconds: 1_000 + sequence, counter: 0) ?? .zero,
            seen: seen, modelHash: modelHash, shapes: [], changes: [])
    }

    static func messages(_ random: inout Random) -> [Message] {
        let vector = VersionVector([
            .init(actor: actor(2), sequence: 3), .init(actor: actor(3), sequence: 70_000),
        ])
        let dot = Dot(actor: actor(2), sequence: 1)
        let copy = TransferCopy(number: 9, total: 90_000, digest: [UInt8](repeating: 6, count: 16))
        var messages: [Message] = [
            .heads(heads(of: 2, vector)), .hello(heads(of: 2, VersionVector())),
            .announcement([Announced(dot: dot, size: 1 << 40)]),
            .pull(Pull(id: 7, vector: vector, credit: 4_000_000)),
            .pull(
                Pull(
                    id: 7, vector: VersionVector(), credit: 0,
                    resume: .init(dot: dot, offset: .max))),
            .page(Page(id: 0, transactions: [], reachedEnd: true, vector: VersionVector())),
            .piece(Piece(id: 1, dot: dot, offset: 10, total: 20, bytes: [1, 2])),
            .piece(Piece(id: 1, dot: dot, offset: 0, total: 2, bytes: [1, 2])),
            .transferPull(
                TransferPull(id: 3, number: 0, offset: 0, credit: 1 << 20, vector: vector)),
            .transferPull(TransferPull(id: 4, number: 9, offset: 70_000, credit: 0)),
            .transferPart(TransferPart(id: 3, copy: nil)),
            .transferPart(TransferPart(id: 3, copy: copy, bytes: [1, 2, 3])),
            .transferPart(TransferPart(id: 4, copy: copy, offset: copy.total)),
            .models(ModelList(isAnswer: false, models: [])),
            .models(
                ModelList(
                    isAnswer: true,
                    models: [ModelText(hash: modelHash, text: Array("{\"entities\":[]}".utf8))])),
        ]
        for sequence in 1...4 as ClosedRange<UInt64> {
            let next = transaction(2, sequence).encoded()
            messages.append(.notification([next]))
            messages.append(
                .notification([next, random.transaction().encoded()]))
            messages.append(
                .page(
                    Page(
                        id: sequence, transactions: [next], reachedEnd: sequence.isMultiple(of: 2),
                        vector: vector)))
            messages.append(
                .announcement([
                    Announced(dot: Dot(actor: actor(2), sequence: sequence), size: 300_000)
                ]))
        }
        return messages
    }
}
