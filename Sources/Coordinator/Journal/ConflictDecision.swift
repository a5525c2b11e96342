public import Merge

/// The save that resolved a conflict: one that had seen all its sides.
public struct ConflictDecision: Hashable, Sendable {
    /// The transaction.
    public let dot: Dot
    /// When it was made; nil where the log has not got it any more.
    public let timestamp: HybridTimestamp?
    /// The author of the decision, in the application's words.
    public let author: String?
    /// The deciding context's name.
    public let contextName: String?
    /// The reason, in the words of who decided.
    public let note: String?
    /// The value that the save gave the property in dispute; nil where the conflict is about no property,
    /// and in lists.
    public internal(set) var value: PropertyValue?
}
