public import Merge

/// The changes of a commit, local or merged from other nodes; as a remote-change notification.
///
/// Delivered in the order of generations, one a commit, on the coordinator's own thread.
public struct CommitNotice: Sendable {
    /// The state after the commit.
    public let token: QueryGenerationToken
    /// The digest of that state.
    public let digest: ProjectionDigest
    /// The members in that state.
    public let membership: Membership
    /// The transactions committed, in the order applied.
    package let transactions: [EncodedTransaction]
    /// Whether they were saved here; else they came from other nodes.
    public let isLocal: Bool
    /// Objects that became visible.
    public let inserted: [ManagedObjectID]
    /// Objects whose visible values may have changed.
    public let updated: [ManagedObjectID]
    /// Objects that are no longer visible.
    public let deleted: [ManagedObjectID]
}

/// A store after its last commit.
package struct LastCommit: Hashable, Sendable {
    /// The state after the commit.
    package let token: QueryGenerationToken
    /// The digest of that state.
    package let digest: ProjectionDigest
    /// The members in that state.
    package let membership: Membership
    /// The part of its vector that is on disk for certain.
    package let durable: VersionVector
}
