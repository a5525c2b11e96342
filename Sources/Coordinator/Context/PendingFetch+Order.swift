import Merge

extension PendingFetch {
    /// Whether sort keys lead to objects of entities with unsaved changes. Then the store's order is
    /// not the order of what the context shows.
    func sortsByUnsaved(_ request: FetchRequest, _ entity: ManagedObjectModel.Entity) -> Bool {
        guard request.includesPendingChanges, context.hasChanges else { return false }
        let resolver = PathResolver(model: managedObjectModel, entity: entity)
        let entities = request.sortDescriptors.reduce(into: Set<String>()) { entities, descriptor in
            // The store says what is wrong with a path.
            guard let key = try? ResolvedSortKey(descriptor, resolver) else { return }
            entities.formUnion(LivePlan.crossed(by: key.path, managedObjectModel))
        }
        if entities.isEmpty { return false }
        return [graph.inserted, graph.updated, graph.deleted].contains { objects in
            objects.keys.contains { entities.contains($0.entityName) }
        }
    }
}
