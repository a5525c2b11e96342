import GRDB
public import Merge

/// A transaction of the log with its place in it.
package struct LoggedTransaction: Hashable, Sendable {
    /// Its place in the order applied here, from 1.
    package let position: UInt64
    /// The generation that made it visible here.
    package let generation: UInt64
    /// The transaction.
    package let encoded: EncodedTransaction
}

extension StoreReader {
    /// The log after a position, in the order applied here.
    ///
    /// - Parameters:
    ///   - position: 0 for the beginning.
    ///   - limit: the most transactions, at least 1.
    ///   - byteLimit: reading stops once so many bytes are read; the first is always read.
    ///   - name: of those that are wanted in the index of history, which must be there; nil for all.
    /// - Throws: ``CoordinatorError``: `storeDamaged` where a checksum does not match,
    ///   `historyTokenExpired` where what comes after the position was purged.
    package func history(
        afterPosition position: UInt64, limit: Int, byteLimit: Int = .max, named name: String? = nil
    ) throws -> [LoggedTransaction] {
        if position > 0 {
            let first = try database.prepared("SELECT min(position) FROM _transaction")
            _ = try first.step()
            let start = UInt64(bitPattern: first.integer(0))
            first.reset()
            // Not "position + 1 >= start": a forged token may hold the last number there is.
            guard position >= start || position + 1 == start else {
                throw CoordinatorError(
                    .historyTokenExpired,
                    "History before position \(start) was purged; begin without a token.")
            }
        }
        let statement = try database.prepared(
            name == nil
                ? """
                SELECT position, generation, checksum, bytes FROM _transaction
                WHERE position > ?1 ORDER BY position LIMIT ?2
                """
                : """
                SELECT t.position, t.generation, t.checksum, t.bytes
                FROM _historyIndex i CROSS JOIN _transaction t ON t.position = i.position
                WHERE i.name = ?3 AND i.position > ?1 ORDER BY i.position LIMIT ?2
                """)
        statement.bind(1, Int64(bitPattern: position))
        statement.bind(2, limit)
        if let name { statement.bind(3, name) }
        return try logged(statement, byteLimit: byteLimit)
    }

    /// The transactions of a statement that selects position, generation, checksum and bytes.
    private func logged(
        _ statement: SQLStatement, byteLimit: Int
    ) throws -> [LoggedTransaction] {
        defer { statement.reset() }
        // A consumer that follows the log mostly finds nothing new: then they are not looked at.
        var known: Beginnings?
        var result: [LoggedTransaction] = []
        var bytesRead = 0
        while try statement.step() {
            let bytes = statement.bytes(3)
            let position = UInt64(bitPattern: statement.integer(0))
            guard Transaction.checksum(bytes) == UInt64(bitPattern: statement.integer(2)),
                let encoded = try? EncodedTransaction(decoding: bytes)
            else {
                throw CoordinatorError(
                    .storeDamaged, "Transaction \(position) of the log is damaged.")
            }
            let beginnings = try known ?? beginnings()
            known = beginnings
            let whole = encoded.completed(by: beginnings)
            result.append(
                .init(
                    position: position,
                    generation: UInt64(bitPattern: statement.integer(1)), encoded: whole))
            bytesRead += whole.size
            if bytesRead >= byteLimit { break }
        }
        return result
    }

    /// The log before a position, newest first.
    ///
    /// - Parameters:
    ///   - position: `UInt64.max` for the end.
    ///   - limit: the most transactions, at least 1.
    ///   - byteLimit: reading stops once so many bytes are read; the first is always read.
    ///   - name: as for ``history(afterPosition:limit:byteLimit:named:)``.
    /// - Throws: ``CoordinatorError``: `storeDamaged`.
    package func history(
        beforePosition position: UInt64, limit: Int, byteLimit: Int = .max,
        named name: String? = nil
    ) throws -> [LoggedTransaction] {
        let statement = try database.prepared(
            name == nil
                ? """
                SELECT position, generation, checksum, bytes FROM _transaction
                WHERE position < ?1 ORDER BY position DESC LIMIT ?2
                """
                : """
                SELECT t.position, t.generation, t.checksum, t.bytes
                FROM _historyIndex i CROSS JOIN _transaction t ON t.position = i.position
                WHERE i.name = ?3 AND i.position < ?1 ORDER BY i.position DESC LIMIT ?2
                """)
        statement.bind(1, Int64(clamping: position))
        statement.bind(2, limit)
        if let name { statement.bind(3, name) }
        return try logged(statement, byteLimit: byteLimit)
    }

    /// The bytes of the transactions that a vector does not cover, in the order applied here,
    /// which is a causal order.
    ///
    /// - Parameter byteLimit: reading stops once so many bytes are read; the first is always read.
    /// - Returns: the transactions, and whether that is all there are. Where the log does not
    ///   reach back to what the vector covers, that is none and all.
    public func transactions(
        notCoveredBy vector: VersionVector, byteLimit: Int
    ) throws -> (transactions: [[UInt8]], reachedEnd: Bool) {
        let actors = try actors()
        let own = try token.versionVector
        var first = Int64.max
        for entry in own.entries where vector[entry.actor] < entry.sequence {
            let next = Dot(actor: entry.actor, sequence: vector[entry.actor] + 1)
            let look = try database.prepared("SELECT position FROM _transaction WHERE dot = ?1")
            look.bind(1, actors.integer(next))
            let position = try look.step() ? look.integer(0) : nil
            look.reset()
            // Purged: what comes after it is of no use to one that lacks it.
            guard let position else { return ([], true) }
            first = min(first, position)
        }
        guard first < .max else { return ([], true) }
        let statement = try database.prepared(
            """
            SELECT dot, checksum, bytes FROM _transaction WHERE position >= ?1 ORDER BY position
            """)
        statement.bind(1, first)
        var result: [[UInt8]] = []
        var bytesRead = 0
        while try statement.step() {
            let dot = try actors.dot(statement.integer(0))
            if vector.contains(dot) { continue }
            if bytesRead >= byteLimit {
                statement.reset()
                return (result, false)
            }
            let bytes = statement.bytes(2)
            guard Transaction.checksum(bytes) == UInt64(bitPattern: statement.integer(1)) else {
                statement.reset()
                throw CoordinatorError(.storeDamaged, "Transaction \(dot) of the log is damaged.")
            }
            result.append(bytes)
            bytesRead += bytes.count
        }
        return (result, true)
    }

    /// The position in the log up to which a reader with a vector has read, on this node or another:
    /// everything at or before it is in the vector, and what comes after it may be.
    ///
    /// - Returns: nil where some of what the vector lacks was purged.
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public func position(seen vector: VersionVector) throws -> UInt64? {
        let token = try token
        return try LogSearch(database: database, actors: try actors()).position(
            seen: vector, own: token.versionVector,
            last: token.position)
    }

    /// The beginnings of the actors of the state that is read, and perhaps later ones: they
    /// complete transactions that were read as bytes.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func beginnings() throws -> Beginnings { try catalog.beginnings(database) }

    /// The transaction of that name; nil where the log does not have it.
    package func transaction(_ dot: Dot) throws -> EncodedTransaction? {
        guard let integer = try actors().knownInteger(dot) else { return nil }
        let statement = try database.prepared("SELECT bytes FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try? EncodedTransaction(decoding: statement.bytes(0)).completed(by: beginnings())
    }

    /// The value of a property before a set of concurrent writes, if the log still has it.
    ///
    /// - Parameters:
    ///   - seen: the causal past that all the writes have in common.
    ///   - scanLimit: how many transactions are looked at, newest first.
    ///   - byteLimit: how many bytes of them.
    public func lastWrite(
        of property: String, of object: ManagedObjectID, within seen: VersionVector,
        scanLimit: Int = 100_000, byteLimit: Int = .max
    ) throws -> (dot: Dot, value: PropertyValue)? {
        let actors = try actors()
        let statement = try database.prepared(
            "SELECT dot, bytes FROM _transaction ORDER BY position DESC LIMIT ?1")
        statement.bind(1, scanLimit)
        defer { statement.reset() }
        var left = byteLimit
        while try statement.step() {
            let dot = try actors.dot(statement.integer(0))
            guard seen.contains(dot) else { continue }
            let bytes = statement.bytes(1)
            left -= bytes.count
            if left < 0 { break }
            guard let logged = try? Transaction.decode(bytes) else { continue }
            let transaction = catalog.asOwn(logged)
            if let value = transaction.value(of: property, of: object.row) { return (dot, value) }
        }
        return nil
    }
}
