import Glibc
import Merge

/// Looks through the log for the transactions that changed one row, without decoding the others: a
/// transaction that names a row has its identity among its bytes.
struct ObjectScan {
    let reader: StoreReader
    let row: RowID

    /// Hands over the transactions that may have changed the row, newest first, by the names of the
    /// store's own model and with all that they had seen.
    ///
    /// - Parameters:
    ///   - position: the place in the log before which it begins.
    ///   - limit: how many transactions of the log are looked at.
    ///   - body: gives false to stop.
    /// - Returns: whether it came to the beginning of the log.
    @discardableResult
    func backwards(
        before position: Int64 = .max, limit: Int = .max, _ body: (Transaction) throws -> Bool
    ) throws -> Bool {
        let statement = try reader.database.prepared(
            "SELECT bytes FROM _transaction WHERE position < ?1 ORDER BY position DESC")
        statement.bind(1, position)
        defer { statement.reset() }
        var writer = CBORWriter(capacity: 9)
        writer.write(row.rawValue)
        let name = writer.bytes
        var looked = 0
        while try statement.step() {
            looked += 1
            if looked > limit { return false }
            if looked.isMultiple(of: 4_096) { try reader.checkGoingOn() }
            // Runs name most of their rows by ranges.
            guard
                statement.blob(0, contains: name)
                    || Transaction.hasRuns(statement.bytes(0, most: 2))
            else { continue }
            guard
                let encoded = try? EncodedTransaction(decoding: statement.bytes(0)).completed(
                    by: reader.beginnings())
            else { continue }
            if try !body(reader.catalog.asOwn(encoded.transaction)) { return false }
        }
        return true
    }
}

extension SQLStatement {
    /// Whether a blob has some bytes in it.
    fileprivate func blob(_ column: Int32, contains part: [UInt8]) -> Bool {
        withBlob(column) { blob in
            guard let start = blob.baseAddress, let last = part.last else { return false }
            // The last byte of a row's identity differs most.
            var offset = part.count - 1
            while offset < blob.count,
                let hit = memchr(start + offset, Int32(last), blob.count - offset)
            {
                let end = UnsafeRawPointer(hit) - start
                if memcmp(start + (end - part.count + 1), part, part.count) == 0 { return true }
                offset = end + 1
            }
            return false
        }
    }

    /// The first bytes of a blob.
    fileprivate func bytes(_ column: Int32, most count: Int) -> [UInt8] {
        withBlob(column) { Array($0.prefix(count)) }
    }
}
