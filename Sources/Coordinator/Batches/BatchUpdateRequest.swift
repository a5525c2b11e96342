public import Merge

/// Gives objects of an entity new values, as NSBatchUpdateRequest.
///
/// The objects are chosen once, at the beginning. One that is gone by the time it would be written is left
/// out, and so is one that does not meet the predicate any more, where that asks for its own attributes
/// alone.
public struct BatchUpdateRequest: BatchRequest {
    /// The entity's name.
    public let entityName: String
    /// Which objects; nil for all.
    public var predicate: Predicate?
    /// The new values: attributes and to-ones by name.
    public var propertiesToUpdate: [String: PropertyValue]
    /// Whether objects of entities that inherit from the entity are updated too. Default true.
    public var includesSubentities = true
    /// The kind of result to give.
    public var resultType: BatchRequestResultType
    /// How it is done.
    public var options: BatchOptions

    /// Describes an update.
    public init(
        _ entityName: String, predicate: Predicate? = nil,
        propertiesToUpdate: [String: PropertyValue],
        resultType: BatchRequestResultType = .statusOnly, options: BatchOptions = BatchOptions()
    ) {
        self.entityName = entityName
        self.predicate = predicate
        self.propertiesToUpdate = propertiesToUpdate
        self.resultType = resultType
        self.options = options
    }

    /// What it does.
    public var batch: Batch {
        var request = FetchRequest(entityName, predicate: predicate)
        request.includesSubentities = includesSubentities
        return Batch(kind: .update(request, propertiesToUpdate))
    }
}
