/// A transaction together with its canonical bytes, so that it is encoded once and decoded once.
///
/// Invariant: `bytes` are the canonical bytes of `transaction`.
package struct EncodedTransaction: Hashable, Sendable {
    /// The content. What it has seen is all there once it has been ``completed(by:)`` the beginnings of
    /// a store that has seen as much; before, it is as its bytes tell, which is enough to know whether
    /// it can be applied (``Beginnings``, law 2).
    package let transaction: Transaction
    /// The canonical bytes.
    package let bytes: [UInt8]
    /// The frontier of what it has seen, as its bytes have it.
    package let frontier: VersionVector

    /// Encodes a transaction.
    ///
    /// - Parameter beginnings: of those that its writer has seen; without them its bytes name all that
    ///   it has seen.
    package init(_ transaction: Transaction, beginnings: Beginnings = Beginnings()) {
        self.transaction = transaction
        frontier = beginnings.frontier(of: transaction.seen, naming: transaction.dot.actor)
        bytes = transaction.encoded(telling: frontier)
    }

    /// Decodes foreign bytes; total.
    package init(decoding bytes: [UInt8]) throws(DecodingFailure) {
        transaction = try Transaction.decode(bytes)
        self.bytes = bytes
        frontier = transaction.seen
    }

    private init(_ transaction: Transaction, bytes: [UInt8], frontier: VersionVector) {
        self.transaction = transaction
        self.bytes = bytes
        self.frontier = frontier
    }

    /// The same with all that it has seen.
    ///
    /// - Parameter beginnings: of a store that has all that it has seen; of another one as much comes
    ///   as that knows.
    package func completed(by beginnings: Beginnings) -> EncodedTransaction {
        var transaction = transaction
        transaction.seen = beginnings.closure(of: frontier)
        return EncodedTransaction(transaction, bytes: bytes, frontier: frontier)
    }

    /// About how many bytes it takes in memory: more than its own, where what it has seen is completed.
    package var size: Int {
        let implied = transaction.seen.entries.count - frontier.entries.count
        return bytes.count + implied * MemoryLayout<VersionVector.Entry>.stride
    }

    /// The transaction's name.
    package var dot: Dot { transaction.dot }
}
