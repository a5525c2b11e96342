internal import Replication

/// The revision of the protocol between nodes, as `tributary --version` shows it.
public enum ProtocolRevision {
    /// This program's revision; a node of another one is refused.
    public static let current = Message.revision
}
