/// A transaction together with its bytes, so that it is encoded once and decoded once.
///
/// Invariant: `bytes` are bytes of `transaction`, as its writer encoded it: canonical ones, or of format 1
/// by an earlier program.
package struct EncodedTransaction: Hashable, Sendable {
    /// The content. What it has seen is all there once it has been ``completed(by:)`` the beginnings of
    /// a store that has seen as much; before, it is as its bytes tell, which is enough to know whether
    /// it can be applied (``Beginnings``, law 2).
    package let transaction: Transaction
    /// The bytes, in the log and on the wire.
    package let bytes: [UInt8]
    /// About how many bytes there were without runs: what bounds what is done with it.
    package let plainSize: Int
    /// The frontier of what it has seen, as its bytes have it.
    package let frontier: VersionVector

    /// Encodes a transaction.
    ///
    /// - Parameter beginnings: of those that its writer has seen; without them its bytes name all that
    ///   it has seen.
    package init(_ transaction: Transaction, beginnings: Beginnings = Beginnings()) {
        self.transaction = transaction
        frontier = beginnings.frontier(of: transaction.seen, naming: transaction.dot.actor)
        (bytes, plainSize) = transaction.encodedTelling(frontier)
    }

    /// Decodes foreign bytes; total.
    package init(decoding bytes: [UInt8]) throws(DecodingFailure) {
        let told = try Transaction.decodeTold(bytes, keepsChanges: true)
        transaction = told.transaction
        plainSize = told.plainSize
        self.bytes = bytes
        frontier = transaction.seen
    }

    private init(_ transaction: Transaction, of encoded: EncodedTransaction) {
        self.transaction = transaction
        bytes = encoded.bytes
        plainSize = encoded.plainSize
        frontier = encoded.frontier
    }

    /// The same with all that it has seen.
    ///
    /// - Parameter beginnings: of a store that has all that it has seen; of another one as much comes
    ///   as that knows.
    package func completed(by beginnings: Beginnings) -> EncodedTransaction {
        var transaction = transaction
        transaction.seen = beginnings.closure(of: frontier)
        return EncodedTransaction(transaction, of: self)
    }

    /// About how many bytes it takes in memory: more than its own, where it has runs and where what it has
    /// seen is completed.
    package var size: Int {
        let implied = transaction.seen.entries.count - frontier.entries.count
        return plainSize + implied * MemoryLayout<VersionVector.Entry>.stride
    }

    /// The transaction's name.
    package var dot: Dot { transaction.dot }
}
