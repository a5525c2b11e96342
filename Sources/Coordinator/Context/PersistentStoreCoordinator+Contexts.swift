extension PersistentStoreCoordinator {
    /// Makes a context with the error policy, as NSPersistentContainer does. Usable from any
    /// thread.
    ///
    /// - Parameter classes: The classes of entities' objects, by the entity's name.
    public func newBackgroundContext(
        classes: [String: ManagedObject.Type] = [:]
    ) -> ManagedObjectContext {
        ManagedObjectContext(self, classes: classes)
    }

    /// Runs a block on the queue of a new context and gives its result. Usable from any task.
    ///
    /// - Throws: What the block throws.
    public func performBackgroundTask<Result: Sendable, Failure: Error>(
        _ block: @escaping @Sendable (ManagedObjectContext) throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let context = newBackgroundContext()
        return try await context.perform { () throws(Failure) -> Result in try block(context) }
    }

    /// Runs a block on the queue of a new context and returns at once. Usable from any thread.
    public func performBackgroundTask(
        _ block: @escaping @Sendable (ManagedObjectContext) -> Void
    ) {
        let context = newBackgroundContext()
        context.perform { block(context) }
    }
}
