package import Merge

extension CoordinatorError {
    static func departed(_ node: NodeID) -> CoordinatorError {
        CoordinatorError(
            .memberDeparted,
            "Node \(node) is not a member of this cluster any more, so it takes no saves. Save at "
                + "another node; this machine may join under another number.")
    }
}

extension PersistentStoreCoordinator {
    /// The members of the cluster, as far as transactions name them; empty before the first change
    /// of membership.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var membership: Membership {
        get throws {
            if let writer { return writer.current.membership }
            return try read { try $0.membership }
        }
    }

    /// Saves changes of membership, as one transaction, and waits until it is on disk.
    ///
    /// - Parameters:
    ///   - changes: at least one. The first that a cluster makes must have a join for each member
    ///     there is, this node among them.
    ///   - author: who, for history.
    /// - Throws: ``CoordinatorError``: `memberDeparted` if the node has departed, because numbers
    ///   are not used again; as ``save(_:)`` else.
    package func changeMembership(
        _ changes: [MembershipChange], author: String? = nil
    ) async throws -> SaveResult {
        try await save(Self.request(changes, author: author))
    }

    /// The same, blocking the calling thread.
    package func changeMembership(
        _ changes: [MembershipChange], author: String? = nil
    ) throws -> SaveResult {
        try save(Self.request(changes, author: author))
    }

    private static func request(_ changes: [MembershipChange], author: String?) -> SaveRequest {
        guard !changes.isEmpty else {
            fatalError("A change of membership names at least one node.")
        }
        var request = SaveRequest(operations: [], author: author)
        request.membership = changes
        return request
    }
}
