/// Whether a store may lack what its node has reported before, kept in the store by the shell.
///
/// A node that has reported a transaction and then lost it would write against rows that others
/// have collected by that report (MODEL.md, P15). It is *vouched for* once it has on its disk all
/// that a member which has met it, and is itself vouched for, had then; or all that every
/// configured peer had when it had met it.
package enum Recovery: UInt64, Hashable, Sendable {
    /// The store is vouched for.
    case none = 0
    /// The store is new and holds only what was written on stores that are new as well; or it is
    /// one of the founders of its cluster (``Heads/founders``). It may save: what it writes touches
    /// no row that others have collected.
    case new = 1
    /// The store is from a backup or a copy, or was new and takes over from an older one. It
    /// may not save until it is vouched for.
    case restored = 2
}
