/// The outcome of a collection.
public struct CollectionResult: Hashable, Sendable {
    /// Values that lost and were kept until now; those in conflict are in the journal.
    public var siblingsCollapsed = 0
    /// Deleted rows that only history still has.
    public var tombstonesCollected = 0
    /// Removed links that only history still has.
    public var linksCollected = 0
    /// Conflicts that closed: their outcome is for good.
    public var conflictsSettled = 0
    /// Whether all there was has been looked at; false where the limit was met, so that
    /// another call goes on.
    public var isDone = true

    /// Nothing collected.
    public init() {}
}
