import Coordinator
import Merge
import Replication

@testable import Node

/// Frames as the holder of a node's key could forge them.
enum Forgeries {
    /// In its own name and in others', of other models and clusters, with gaps, and broken.
    ///
    /// - Parameters:
    ///   - forger: the node whose key it is.
    ///   - receiver: the node that gets them.
    ///   - other: a third one.
    static func frames(
        by forger: Int, against receiver: NodeHandle, inNameOf other: NodeHandle
    ) async throws -> [[UInt8]] {
        let status = try await (receiver.status(), other.status())
        guard let node = NodeID(forger), let otherNode = NodeID(other.number),
            let receiving = ActorID(status.0.text("actor")),
            let othering = ActorID(status.1.text("actor"))
        else { throw EndToEndError("A status without an actor: \(status)") }
        let model = bytes(ofHexadecimal: status.0.text("modelHash"))
        let own = ActorID(node: node, startedAtSeconds: 1_700_000_000, random: 7)
        let next = UInt64(max(0, status.1.vector("vector")[othering.description] ?? 0)) + 1
        let strange = [UInt8](repeating: 9, count: 32)
        var broken = transaction(own, 1, model)
        broken[broken.count / 2] ^= 0x40
        let large = transaction(own, 1_000_000, model, length: 250 << 10)
        return [
            // In the name of the third, as its next save; from the forger, and as if from it.
            frame(.notification([transaction(othering, next, model)]), by: node),
            frame(.notification([transaction(othering, next, model)]), by: otherNode),
            // In the name of the receiver.
            frame(.notification([transaction(receiving, 999_999, model)]), by: node),
            // Of another model, of another cluster, broken, and no transaction at all.
            frame(.notification([transaction(own, 1, strange)]), by: node),
            frame(.notification([transaction(own, 1, model)]), by: node, of: "other"),
            frame(.notification([broken]), by: node), frame(.notification([[1, 2, 3]]), by: node),
            // After a gap that nobody can fill.
            frame(.notification([large]), by: node),
            // An answer that nobody asked for.
            frame(
                .page(
                    Page(
                        id: 1, transactions: [transaction(othering, next, model)],
                        reachedEnd: true, vector: VersionVector())), by: node),
        ]
    }

    static func frame(
        _ message: Message, by sender: NodeID, of cluster: String = "test"
    ) -> [UInt8] {
        Envelope(cluster: cluster, sender: sender, message: message).encoded()
    }

    /// One insert, as long as is wished.
    static func transaction(
        _ actor: ActorID, _ sequence: UInt64, _ model: [UInt8], length: Int = 6
    ) -> [UInt8] {
        EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: sequence),
                timestamp: HybridTimestamp(milliseconds: 1_700_000_000_000, counter: 3) ?? .zero,
                seen: VersionVector(), author: "forger", modelHash: model,
                shapes: [ChangeShape(entity: "Rollback", assigned: ["name"])],
                changes: [
                    Change(
                        kind: .insert, shape: 0, row: RowID(99),
                        values: [.string(String(repeating: "forged", count: max(1, length / 6)))])
                ])
        ).bytes
    }

    static func bytes(ofHexadecimal text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count - 1, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
    }
}
