/// How often relationships were followed to what had not been read, within one event: many times, and a
/// prefetch would have read all at once.
struct FollowedRelationships {
    private struct Place: Hashable {
        let entity: String
        let relationship: String
    }

    private var counts: [Place: Int] = [:]

    /// Counts, where SQL is written down, and warns once an event.
    mutating func note(
        _ relationship: ManagedObjectModel.Relationship, of entity: ManagedObjectModel.Entity,
        _ options: PersistentStoreCoordinator.Options
    ) {
        guard let debug = options.sqlDebug else { return }
        let place = Place(entity: entity.name, relationship: relationship.name)
        let before = counts[place, default: 0]
        counts[place] = before + 1
        guard before == debug.faultLimit else { return }
        debug.warn(
            """
            faults: \(entity.name).\(relationship.name) was followed to more than \
            \(debug.faultLimit) objects one by one in one event; a fetch with \
            relationshipKeyPathsForPrefetching = ["\(relationship.name)"] reads all at once
            """)
    }

    /// Begins a new event.
    mutating func reset() { if !counts.isEmpty { counts = [:] } }
}
