package import Merge

/// One row as readers see it at some generation.
package struct RowSnapshot: Hashable, Sendable {
    /// Which object.
    package let objectID: ManagedObjectID
    /// The row's version, to save against.
    package let version: RowVersion
    /// The visible values, in the entity's canonical order of properties; references lead to
    /// rows that are alive, or are null. After them those of derived attributes.
    package let values: [PropertyValue]
    /// Whether a conflict of the row is unresolved.
    package let isConflicted: Bool

    /// Composes a snapshot.
    package init(
        objectID: ManagedObjectID, version: RowVersion, values: [PropertyValue],
        isConflicted: Bool
    ) {
        self.objectID = objectID
        self.version = version
        self.values = values
        self.isConflicted = isConflicted
    }
}
