internal import Replication

/// The revision of the protocol between nodes, as `tributary --version` shows it.
public enum ProtocolRevision {
    /// What this program speaks; a node of another revision is refused.
    public static let current = Message.revision
}
