package import Merge

/// One save in an object's life.
package struct ObjectLogEntry: Hashable, Sendable {
    /// The save, with its changes of that object alone.
    package let transaction: Transaction
    /// The entries that it directly follows: none of a first one, several where it joins branches.
    package let after: [Dot]
}

/// An object's life, in order of causality.
package struct ObjectLog: Hashable, Sendable {
    /// The saves that changed it, oldest first. Two are concurrent where neither leads to the other by
    /// ``ObjectLogEntry/after``.
    package let entries: [ObjectLogEntry]
    /// Whether that is all: false where more came before, or where history was purged.
    package let isComplete: Bool
}

extension StoreReader {
    /// So many bytes of values end an object's log.
    private static var logBytes: Int { 8 << 20 }

    /// An object's life, as far as the log goes back.
    ///
    /// Reads the whole log where the object's insert is not found before; a second or two for a million
    /// transactions.
    ///
    /// - Parameters:
    ///   - object: which one; it may be gone.
    ///   - limit: the newest so many saves, 1...1,000.
    /// - Throws: ``CoordinatorError``, `objectNotFound` where neither store nor log know it.
    package func log(of object: ManagedObjectID, limit: Int = 100) throws -> ObjectLog {
        let limit = min(max(limit, 1), 1_000)
        var found: [Transaction] = []
        var hasInsert = false
        var bytes = 0
        try ObjectScan(reader: self, row: object.row).backwards { transaction in
            var own = transaction
            own.changes = transaction.changes.filter {
                $0.row == object.row || $0.target == object.row
            }
            if own.changes.isEmpty { return true }
            // Once it is inserted nothing came before. One more shows whether there is more.
            hasInsert = own.changes.contains { $0.kind == .insert && $0.row == object.row }
            found.append(own)
            bytes += EncodedTransaction(own).bytes.count
            return !hasInsert && found.count <= limit && bytes <= Self.logBytes
        }
        if try found.isEmpty && !knows(object.row) {
            throw CoordinatorError(
                .objectNotFound,
                "There is no \(object.entityName) \(object.row), and history has none.")
        }
        let isCut = found.count > limit || (bytes > Self.logBytes && !hasInsert)
        let oldest = Array(found.prefix(limit).reversed())
        return ObjectLog(
            entries: oldest.indices.map { index in
                ObjectLogEntry(
                    transaction: oldest[index], after: Self.predecessors(of: index, in: oldest))
            }, isComplete: hasInsert && !isCut)
    }

    /// The latest of the earlier ones that a save had seen: no other one of them had seen these.
    private static func predecessors(of index: Int, in entries: [Transaction]) -> [Dot] {
        var direct: [Transaction] = []
        for earlier in entries[..<index].reversed()
        where entries[index].seen.contains(earlier.dot)
            && !direct.contains(where: { $0.seen.contains(earlier.dot) })
        {
            direct.append(earlier)
        }
        return direct.map(\.dot).sorted()
    }
}
