import Merge
import Synchronization

/// Identities that no object has yet, for contexts that name objects before they are saved.
///
/// They are taken from the store a block at a time. Those that are left at the end of the process are
/// never used.
final class RowReserve: Sendable {
    /// How many are taken at a time, at least.
    static let block = 1_024

    private let rows = Mutex<[RowID]>([])

    /// Takes the next ones, in ascending order.
    ///
    /// - Parameter refill: gives so many further ones, greater than those before. The writer does not
    ///   ask for the lock that is held meanwhile.
    func take(_ count: Int, refill: (Int) throws -> [RowID]) throws -> [RowID] {
        try rows.withLock { rows in
            if rows.count < count { rows += try refill(max(count - rows.count, Self.block)) }
            defer { rows.removeFirst(count) }
            return Array(rows.prefix(count))
        }
    }
}

extension PersistentStoreCoordinator {
    /// Takes identities for objects that are not saved yet.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    func reserveRows(_ count: Int) throws -> [RowID] {
        // Identities of a former life of the node are known once it takes saves.
        if let savingRefusal = try savingRefusal { throw savingRefusal }
        return try rowReserve.take(count) { count in
            try maintainBlocking { engine in engine.reserveRows(count) }
        }
    }
}

extension StoreEngine {
    /// Takes identities out of those that saves give to objects.
    func reserveRows(_ count: Int) -> [RowID] {
        session.group.wroteApart = true
        return (0..<count).map { _ in session.state.allocator.next() }
    }
}
