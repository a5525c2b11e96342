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
    package internal(set) var transactions: [EncodedTransaction]
    /// Whether they were saved here; else they came from other nodes.
    public let isLocal: Bool
    /// Objects that became visible.
    public let inserted: [ManagedObjectID]
    /// Objects whose visible values may have changed.
    public let updated: [ManagedObjectID]
    /// Objects that are no longer visible.
    public let deleted: [ManagedObjectID]
    /// The conflicts that the commit opened and that are open after it, in the order of opening.
    ///
    /// A conflict is open as long as no save has seen all its sides. So a merge opens one whatever the
    /// policy is: under an error policy it is unresolved, under any other the policy has settled what
    /// readers see. A conflict that was open before is among them if its ``ConflictSummary/state`` is
    /// another now, as by a write of a model with another policy, and not if it has more sides alone.
    public let openedConflicts: [ConflictSummary]
    /// The conflicts that the commit closed, in the order of closing; resolved if a save that had seen
    /// all sides ended them, settled if they ended otherwise.
    ///
    /// One may have been opened by the same commit, and one that the commit closed and opened again is in
    /// both lists. To keep a list of open conflicts, take away those of ``ConflictSummary/openID`` first,
    /// then add ``openedConflicts``. What a save's policy discarded is closed without having been open.
    public let closedConflicts: [ConflictSummary]
    /// Whether there may be more than either list names. Ask
    /// ``PersistentStoreCoordinator/conflicts(_:)`` then.
    public let hasMoreConflicts: Bool

    /// What a notice has at most.
    public enum Bounds {
        /// So many opened conflicts, and so many closed ones: a merge of many may have thousands.
        public static let conflicts = 1_000
    }
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
