package import Merge

extension ConflictID {
    /// The conflict of this name in a store.
    ///
    /// - Throws: ``CoordinatorError`` with `conflictNotFound`, which names the newest closed conflict of
    ///   an open one's name.
    package func conflict(in reader: StoreReader) throws -> Conflict {
        if let conflict = try reader.conflict(self) { return conflict }
        let statement = try reader.database.prepared(
            "SELECT max(closed) FROM _conflict WHERE id = ?1 AND closed > 0")
        statement.bind(1, asOpen.description)
        defer { statement.reset() }
        var closed: ConflictID?
        if try statement.step(), !statement.isNull(0) {
            closed = ConflictID(
                entity: entity, row: row, subject: subject,
                closedAt: UInt64(bitPattern: statement.integer(0)))
        }
        throw CoordinatorError.noConflict(self, closed: closed)
    }
}

extension CoordinatorError {
    /// The refusal of a name that no conflict has.
    ///
    /// - Parameter closed: the newest closed conflict of an open one's name.
    static func noConflict(_ id: ConflictID, closed: ConflictID?) -> CoordinatorError {
        CoordinatorError(
            .conflictNotFound,
            closed.map { "No conflict \(id) is open. The last one closed as \($0) at this node." }
                ?? "There is no conflict \(id).")
    }
}
