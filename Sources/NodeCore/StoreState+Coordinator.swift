package import Coordinator
internal import Merge
package import Replication

/// The store's state as the replicator gets it. It is put together here and nowhere else.
extension StoreState {
    /// The store after its last commit.
    ///
    /// - Throws: ``CoordinatorError`` with `notWritable` where it is open for reading only.
    package init(of coordinator: PersistentStoreCoordinator) throws {
        guard let last = coordinator.lastCommit else {
            throw CoordinatorError(.notWritable, "The store is open for reading only.")
        }
        self.init(
            vector: last.token.versionVector, durable: last.durable, digest: last.digest,
            membership: last.membership, beginnings: last.token.beginnings)
    }

    /// The store after a commit of local saves. All of it is on disk, because such a commit waits
    /// for it.
    package init(_ notice: CommitNotice) {
        self.init(
            vector: notice.token.versionVector, digest: notice.digest,
            membership: notice.membership, beginnings: notice.token.beginnings)
    }

    /// The store after an apply.
    init(_ applied: ApplyResult) {
        self.init(
            vector: applied.versionVector, durable: applied.durable, digest: applied.digest,
            membership: applied.membership, beginnings: applied.beginnings)
    }

    /// Takes over a later state, from a commit or from the answer to a job. Digest and vector
    /// belong together, so an older state replaces neither. Such states do not know what is
    /// recorded beside the store.
    mutating func adopt(_ newer: StoreState) {
        if newer.vector.covers(vector) {
            vector = newer.vector
            digest = newer.digest
            membership = newer.membership
        }
        beginnings.join(newer.beginnings)
        durable.join(newer.durable)
    }

    /// A reported state, with what is known to be recorded beside the store.
    func recording(_ recorded: VersionVector) -> StoreState {
        var state = self
        state.recorded = recorded
        return state
    }
}
