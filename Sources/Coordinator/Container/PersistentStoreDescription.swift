public import Merge

/// Where a container's store is, and how it is opened. As NSPersistentStoreDescription.
public struct PersistentStoreDescription: Sendable {
    /// The path of the store's file. Its folder is made where there is none, unless the store is read only.
    public var path: String
    /// Whether the store is kept in memory alone, and goes with the container: ``inMemory()``.
    public private(set) var isInMemory = false
    /// Whether the store is only read: it must be there, and a save fails with `notWritable`.
    public var isReadOnly = false
    /// Whether a store that was written with another model is migrated, where the way can be inferred.
    /// Else, and where it cannot be, loading fails and says what differs. Default true.
    public var shouldMigrateStoreAutomatically = true
    /// The name of the cluster. A store that is never to be a node's may keep the default; one that is
    /// needs its cluster's name from the beginning.
    public var cluster = "local"
    /// The number of the node, as for ``cluster``.
    public var node = NodeID.first
    /// Limits and doors of the coordinator. What they say of migration does not count.
    public var options = PersistentStoreCoordinator.Options()

    /// Describes the store of a file.
    public init(path: String) { self.path = path }

    /// Describes a store that is kept in memory alone, new each time it is loaded; as one of
    /// NSInMemoryStoreType. It has no path. See
    /// ``PersistentStoreCoordinator/init(inMemory:cluster:node:options:)``.
    public static func inMemory() -> PersistentStoreDescription {
        var description = PersistentStoreDescription(path: "")
        description.isInMemory = true
        return description
    }
}
