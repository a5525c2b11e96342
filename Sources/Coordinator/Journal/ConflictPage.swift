public import Merge

/// Some entries of the conflict journal, newest first.
public struct ConflictPage: Hashable, Sendable {
    /// The entries.
    public let conflicts: [Conflict]
    /// Where the next page begins, for ``ConflictQuery/after``; nil where nothing follows.
    public let next: ConflictPlace?
}

extension PersistentStoreCoordinator {
    /// The conflicts that a query asks for, newest first, with authors where the log has them.
    ///
    ///     let open = try coordinator.conflicts(ConflictQuery(state: .unresolved, entity: "Note"))
    ///     for conflict in open.conflicts {
    ///         let seen = conflict.sides.compactMap(\.dot)
    ///         try coordinator.resolve(conflict.id, .policy(.overwrite), sides: seen)
    ///     }
    ///
    /// Usable from any thread, and blocks it while it reads.
    ///
    /// - Parameter query: which ones, and how many; without it the newest 100 of all, open and closed.
    /// - Returns: the conflicts, and where the next page begins.
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public func conflicts(_ query: ConflictQuery = ConflictQuery()) throws -> ConflictPage {
        try read { reader in
            let limit = min(max(query.limit, 1), 10_000)
            var asked = query
            // One more than wanted shows whether there is more.
            asked.limit = limit + 1
            var found: [Conflict] = []
            var (last, next): (ConflictPlace?, ConflictPlace?) = (nil, nil)
            try reader.forEachConflict(asked) { conflict, place in
                if found.count == limit {
                    next = last
                    return false
                }
                found.append(conflict)
                last = place
                return true
            }
            return ConflictPage(conflicts: found, next: next)
        }
    }

    /// A conflict with all its sides. Usable from any thread, and blocks it while it reads.
    ///
    /// - Parameter id: as in a notice, a page or an answer. A closed conflict has another name than it had
    ///   while it was open.
    /// - Returns: nil where there is none of that name.
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public func conflict(_ id: ConflictID) throws -> Conflict? {
        try read { try $0.conflict(id) }
    }
}
