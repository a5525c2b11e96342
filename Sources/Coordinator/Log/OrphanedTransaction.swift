package import Merge

/// A save of another node that can never be applied, because an earlier one of that node is lost
/// (DESIGN section 8, *orphaned*). That node acknowledged it, so it is kept as it came: a person
/// can see what it would have written, save that again, and discard it.
///
/// It is no entry of the conflict journal: it lost against nothing, it has no place in the log, and
/// it is kept until somebody has seen to it, not for as long as history is.
package struct OrphanedTransaction: Hashable, Sendable {
    /// The most orphans that a store keeps. When it is full the newest are left out, so that none
    /// that a person was shown disappears by itself. Each name that is left out is reported.
    package struct Bounds: Hashable, Sendable {
        /// The most transactions: as many as replication gives at once (`Limits.orphans`).
        package var count = 10_000
        /// The most bytes of them: twice what replication gives at once (`Limits.orphanBytes`), so
        /// that a second node may be lost before somebody has seen to the first.
        package var bytes = 64 << 20

        /// The defaults.
        package init() {}
    }

    /// Its name.
    package let dot: Dot
    /// When it was kept here, in milliseconds since 1970.
    package let keptAtMilliseconds: UInt64
    /// Its operations; nil if its bytes are damaged, which a verification reports too.
    package let encoded: EncodedTransaction?
}

/// The outcome of keeping orphans.
package struct OrphanKeeping: Hashable, Sendable {
    /// The orphans that are kept from now on, by dot.
    package var kept: [Dot] = []
    /// The orphans without room, by dot.
    package var leftOut: [Dot] = []

    /// Describes what was kept and left out.
    package init(kept: [Dot] = [], leftOut: [Dot] = []) {
        self.kept = kept
        self.leftOut = leftOut
    }
}
