import Foundation

/// Files that a command makes.
enum NewFiles {
    /// Has all that this process makes from now on be for its own user alone: a store and its backups
    /// hold all data in clear.
    static func keepToOwner() { _ = umask(0o077) }
}
