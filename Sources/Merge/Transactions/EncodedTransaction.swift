/// A transaction together with its canonical bytes, so that it is encoded once and decoded once.
///
/// Invariant: `bytes` are the canonical bytes of `transaction`.
public struct EncodedTransaction: Hashable, Sendable {
    /// The content.
    public let transaction: Transaction
    /// The canonical bytes.
    public let bytes: [UInt8]

    /// Encodes a transaction.
    public init(_ transaction: Transaction) {
        self.transaction = transaction
        bytes = transaction.encoded()
    }

    /// Encodes a transaction whose changes have been written already, in their order.
    public init(_ transaction: Transaction, changes: CBORWriter) {
        self.transaction = transaction
        bytes = transaction.encoded(changes: changes)
    }

    /// Decodes foreign bytes; total.
    public init(decoding bytes: [UInt8]) throws(DecodingFailure) {
        transaction = try Transaction.decode(bytes)
        self.bytes = bytes
    }

    /// The transaction's name.
    public var dot: Dot { transaction.dot }
}
