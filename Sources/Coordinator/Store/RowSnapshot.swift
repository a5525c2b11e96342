public import Merge

/// One row as readers see it at some generation.
public struct RowSnapshot: Hashable, Sendable {
    /// Which object.
    public let objectID: ManagedObjectID
    /// The row's version, to save against.
    public let version: RowVersion
    /// The visible values, in the entity's canonical order of properties; references lead to
    /// rows that are alive, or are null.
    public let values: [PropertyValue]
    /// Whether a conflict of the row is unresolved.
    public let isConflicted: Bool

    /// Composes a snapshot.
    public init(
        objectID: ManagedObjectID, version: RowVersion, values: [PropertyValue],
        isConflicted: Bool
    ) {
        self.objectID = objectID
        self.version = version
        self.values = values
        self.isConflicted = isConflicted
    }
}
