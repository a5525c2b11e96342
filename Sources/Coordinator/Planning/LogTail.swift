import Merge

/// The end of the log, read backwards as far as a save has to look, once for all its operations.
///
/// Bounded in transactions, bytes and steps, for the writer waits: past a bound the log does not
/// tell.
struct LogTail {
    private enum Limits {
        /// How many transactions are read.
        static let transactions = 500
        /// How many bytes of them.
        static let bytes = 1 << 20
        /// How many are read at once.
        static let page = 32
        /// How many are looked at, for all operations together.
        static let steps = 50_000
    }

    /// Newest first, by the names of the store's own model.
    private var transactions: [Transaction] = []
    private var position = Int64.max
    private var bytes = 0
    private var steps = 0
    private var isAtEnd = false

    /// The value of a property of a row for a reader that had seen exactly so much; nil if the log
    /// does not say, or if that reader saw several writes and a policy chose one.
    ///
    /// - Parameter known: what he had seen.
    mutating func value(
        of property: String, of row: RowID, within known: VersionVector, _ view: StoreView
    ) throws -> PropertyValue? {
        var index = 0
        var passed: [Dot] = []
        // The newest write that he had seen; and how many that he had seen, and its writer had not,
        // have not been looked at: one of those may be a write beside it.
        var found: (value: PropertyValue, seen: VersionVector)?
        var left: UInt64 = 0
        while try index < transactions.count || read(view) {
            steps += 1
            guard steps <= Limits.steps else { return nil }
            let transaction = transactions[index]
            index += 1
            guard known.contains(transaction.dot) else { continue }
            let value = transaction.value(of: property, of: row)
            if let found {
                if found.seen.contains(transaction.dot) { continue }
                if value != nil { return nil }
                left -= 1
            } else if let value {
                let seen = transaction.seen
                found = (value, seen)
                left = known.entries.reduce(0) {
                    $0 + ($1.sequence - min($1.sequence, seen[$1.actor]))
                }
                // It is one of those itself, and those passed by wrote nothing to the property.
                left -= 1 + UInt64(passed.count { !seen.contains($0) })
            } else {
                passed.append(transaction.dot)
            }
            if let found, left == 0 { return found.value }
        }
        return nil
    }

    /// Reads on.
    ///
    /// - Returns: whether there is another one.
    private mutating func read(_ view: StoreView) throws -> Bool {
        guard !isAtEnd else { return false }
        let before = transactions.count
        let page = try view.logged(
            before: position, limit: Limits.page, byteLimit: Limits.bytes - bytes)
        for (place, encoded) in page {
            guard bytes + encoded.count <= Limits.bytes,
                transactions.count < Limits.transactions,
                let logged = try? EncodedTransaction(decoding: encoded).completed(
                    by: view.state.beginnings),
                let own = try? view.asOwn(logged.transaction).transaction
            else {
                isAtEnd = true
                break
            }
            position = place
            bytes += logged.size
            transactions.append(own)
        }
        if transactions.count < before + Limits.page { isAtEnd = true }
        return transactions.count > before
    }
}

extension Transaction {
    /// The value that it wrote to a property of a row, null if it inserted the row without a value;
    /// nil if it wrote nothing there.
    func value(of property: String, of row: RowID) -> PropertyValue? {
        for change in changes
        where change.row == row && change.target == nil && change.kind != .delete {
            let shape = shapes[change.shape]
            if let index = (shape.assigned + shape.carried).firstIndex(of: property) {
                return change.values[index]
            }
            if change.kind == .insert || change.kind == .revival { return .null }
        }
        return nil
    }
}
