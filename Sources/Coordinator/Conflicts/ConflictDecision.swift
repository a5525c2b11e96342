public import Merge

/// The save that resolved a conflict: one that had seen all its sides.
public struct ConflictDecision: Hashable, Sendable {
    /// The transaction.
    public let dot: Dot
    /// When it was made; nil where the log has not got it any more.
    public let timestamp: HybridTimestamp?
    /// Who made it, in the application's words.
    public let author: String?
    /// The deciding context's name.
    public let contextName: String?
}

extension StoreEngine {
    /// Refuses to resolve what somebody has resolved.
    ///
    /// - Throws: ``CoordinatorError`` (`alreadyResolved`).
    func checkUndecided(_ id: ConflictID) throws {
        if id.closedAt == nil, try openEntry(id) != nil { return }
        let statement = try database.prepared(
            """
            SELECT id, closed, opened, record FROM _conflict
            WHERE id = ?1 AND closed > 0 AND (?2 = 0 OR closed = ?2) ORDER BY closed DESC LIMIT 1
            """)
        statement.bind(1, id.asOpen.description)
        statement.bind(2, Int64(bitPattern: id.closedAt ?? 0))
        defer { statement.reset() }
        guard try statement.step(), let entry = try? ConflictCoding.entry(statement),
            entry.state == .resolved, let dot = entry.closedBy
        else { return }
        let transaction = try transaction(dot)?.transaction
        var error = CoordinatorError(
            .alreadyResolved,
            "\(entry.id) was resolved by \(dot)"
                + (transaction?.author.map { " of \($0)" } ?? "")
                + "; undo that, or save as usual.")
        error.decision = ConflictDecision(
            dot: dot, timestamp: transaction?.timestamp, author: transaction?.author,
            contextName: transaction?.contextName)
        throw error
    }
}
