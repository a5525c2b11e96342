/// Whether a store may lack what its node had before, so that somebody must vouch for it.
///
/// A node that has told others of a transaction and then lost it would write against rows that
/// others have collected since (MODEL P15). It is kept in the store until
/// ``PersistentStoreCoordinator/vouch(founders:)``, over any number of openings.
package enum StoreRecovery: Int, Hashable, Sendable {
    /// The store is vouched for.
    case none = 0
    /// The store is new.
    case new = 1
    /// The store is from a backup, or a copy, or it was new and takes over from others.
    case restored = 2
    /// The store is new, and somebody who was vouched for has told that it lacks nothing:
    /// together they founded the cluster. It takes saves until it is vouched for.
    case founder = 3
}
