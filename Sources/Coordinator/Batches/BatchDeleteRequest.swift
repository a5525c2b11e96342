/// Deletes objects, as NSBatchDeleteRequest.
///
/// Delete rules are carried out. An object that one denies ends the request (`deleteDenied`). The objects are chosen once, at the beginning. One that does not meet
/// the predicate any more by the time it would be deleted stays, where the predicate asks for its own
/// attributes alone.
public struct BatchDeleteRequest: BatchRequest {
    /// The kind of result to give.
    public var resultType: BatchRequestResultType
    /// How it is done.
    public var options: BatchOptions
    /// What it does.
    public let batch: Batch

    /// Deletes what a request fetches: its predicate, its order with its limit and offset, and whether it
    /// includes subentities count. A request with groups is refused.
    public init(
        fetchRequest: FetchRequest, resultType: BatchRequestResultType = .statusOnly,
        options: BatchOptions = BatchOptions()
    ) {
        self.resultType = resultType
        self.options = options
        batch = Batch(kind: .delete(fetchRequest))
    }

    /// Deletes objects by their permanent IDs, which must be of one entity. Those that are gone are left
    /// out.
    public init(
        objectIDs: [ManagedObjectID], resultType: BatchRequestResultType = .statusOnly,
        options: BatchOptions = BatchOptions()
    ) {
        self.resultType = resultType
        self.options = options
        batch = Batch(kind: .deleteObjects(objectIDs))
    }
}
