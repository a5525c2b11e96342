internal import Replication

/// The revision of the protocol between nodes, for whoever asks the program for its version.
public enum ProtocolRevision {
    /// What this program speaks; a node of another revision is refused.
    public static let current = Message.revision
}
