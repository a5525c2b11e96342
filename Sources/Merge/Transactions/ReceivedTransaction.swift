/// A transaction as it came from another node: checked from its first byte to its last, with its
/// changes still encoded.
///
/// A value that takes a byte on the wire takes 24 in memory, so transactions that wait are kept
/// like this: then they take as much as was sent.
package struct ReceivedTransaction: Hashable, Sendable {
    /// Its name.
    package let dot: Dot
    /// When it was saved, by its writer's hybrid clock.
    package let timestamp: HybridTimestamp
    /// The part of what it has seen that its bytes have: enough to know whether it can be applied
    /// (``Beginnings``, law 2).
    package let seen: VersionVector
    /// The hash of the model it was written with, 32 bytes.
    package let modelHash: [UInt8]
    /// How many changes it has.
    package let changeCount: Int
    /// How many values they have together.
    package let valueCount: Int
    /// About how many bytes there were without runs: what bounds what is done with it.
    package let plainSize: Int
    /// The bytes, as they came.
    package let bytes: [UInt8]

    /// Checks foreign bytes; total.
    package init(checking bytes: [UInt8]) throws(DecodingFailure) {
        let told = try Transaction.decodeTold(bytes, keepsChanges: false)
        dot = told.transaction.dot
        timestamp = told.transaction.timestamp
        seen = told.transaction.seen
        modelHash = told.transaction.modelHash
        changeCount = told.changeCount
        valueCount = told.valueCount
        plainSize = told.plainSize
        self.bytes = bytes
    }

    /// About how many bytes it takes in memory while it waits.
    package var size: Int {
        bytes.count + seen.entries.count * MemoryLayout<VersionVector.Entry>.stride
    }

    /// The whole of it.
    package func decoded() -> EncodedTransaction {
        do throws(DecodingFailure) {
            return try EncodedTransaction(decoding: bytes)
        } catch {
            fatalError("transaction \(dot) was checked, and cannot be decoded: \(error)")
        }
    }
}
