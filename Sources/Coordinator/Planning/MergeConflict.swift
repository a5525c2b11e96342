public import Merge

/// An object that has moved on between a context's fetch and its save, as NSMergeConflict.
///
/// One a conflicting object, not one a property.
public struct MergeConflict: Hashable, Sendable {
    /// Which object.
    public let object: ManagedObjectID
    /// The properties in dispute: those changed on both sides, or all that the save changed.
    public let properties: [String]
    /// The version the context fetched; nil where it did not say.
    public let oldVersion: RowVersion?
    /// The version in the store; nil where the row is deleted.
    public let newVersion: RowVersion?
    /// The values as the context fetched them, attributes and to-ones only; nil where the save
    /// was made without a context.
    public let objectSnapshot: [String: PropertyValue]?
    /// The values this coordinator holds; nil where the row is deleted.
    public let cachedSnapshot: [String: PropertyValue]?
    /// The values in the store, where another node's save has put them there; nil where the
    /// other save went through this coordinator.
    public let persistedSnapshot: [String: PropertyValue]?
    /// How a request calls the object, where it is new and so has no identity yet; for who tells of it.
    public var name: String?

    /// Describes a conflict.
    public init(
        object: ManagedObjectID, properties: [String], oldVersion: RowVersion?,
        newVersion: RowVersion?, objectSnapshot: [String: PropertyValue]?,
        cachedSnapshot: [String: PropertyValue]?, persistedSnapshot: [String: PropertyValue]?
    ) {
        self.object = object
        self.properties = properties
        self.oldVersion = oldVersion
        self.newVersion = newVersion
        self.objectSnapshot = objectSnapshot
        self.cachedSnapshot = cachedSnapshot
        self.persistedSnapshot = persistedSnapshot
    }
}

extension MergeConflict {
    /// The same of an object that is known by another ID.
    func renamed(_ object: ManagedObjectID) -> MergeConflict {
        var result = MergeConflict(
            object: object, properties: properties, oldVersion: oldVersion, newVersion: newVersion,
            objectSnapshot: objectSnapshot, cachedSnapshot: cachedSnapshot,
            persistedSnapshot: persistedSnapshot)
        result.name = name
        return result
    }
}

extension CoordinatorError {
    /// The refusal of a save if objects have moved on.
    static func movedOn(_ first: MergeConflict, of conflicts: [MergeConflict]) -> CoordinatorError {
        CoordinatorError(
            .mergeConflict,
            conflicts.count == 1
                ? "\(first.object) has been changed since it was fetched."
                : "\(conflicts.count) objects have been changed since they were fetched.",
            conflicts: conflicts)
    }
}
