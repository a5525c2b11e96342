/// A living row as grouping sees it.
package struct GroupCandidate: Hashable, Sendable {
    /// The row.
    package let row: RowID
    /// The stamp that counts as its insertion: the earliest insert or revival.
    package let insertion: Stamp
    /// Its keys, at most one a constraint; none where a property of it is null.
    package let keys: [UniqueKey]

    /// Describes a row that is alive.
    package init(row: RowID, insertion: Stamp, keys: [UniqueKey]) {
        self.row = row
        self.insertion = insertion
        self.keys = keys
    }

    /// The order in which rows are taken: by insertion, ties within one save by identity.
    package static func isEarlier(_ left: Self, _ right: Self) -> Bool {
        left.insertion == right.insertion
            ? left.row < right.row : left.insertion < right.insertion
    }
}

/// Which rows are shown where several have one unique key (DESIGN section 5.5).
///
/// Living rows are taken in order of insertion. One that shares a key with rows *already visible*
/// is eclipsed by the earliest of them; else it is visible. There is no transitive closure, which
/// would fuse strangers (MODEL P11).
///
/// Laws, watched by MergeTests: the outcome does not depend on the order of the rows given; no two
/// visible rows share a key; an eclipsed row shares a key with its survivor, which is visible and
/// earlier.
///
/// **What can change when a row's keys or existence change.** Take rows as vertices, with an edge
/// between two that share a key, and let r be the row, with its keys before and after. A row x is
/// decided by nothing but the earlier rows that share a key with it and what they are. So, by
/// induction over the order of insertion, x is decided by the rows of its own connected component
/// alone, and components without r decide the same before and after. So only rows that are
/// connected with r, by its old or its new keys, can change; and to decide them it is enough to
/// know these. ``component(of:holders:)`` finds them. Nothing shorter bounds it: in a chain where
/// each row shares one key with the next, the first one's leaving shows or hides each second row.
package enum UniqueGroups {
    /// Decides which rows are eclipsed, and by whom.
    ///
    /// - Parameter rows: living rows, in any order, each once.
    /// - Returns: for each eclipsed row its survivor.
    package static func eclipses(_ rows: [GroupCandidate]) -> [RowID: RowID] {
        var holders: [UniqueKey: Int] = [:]
        var survivors: [RowID: RowID] = [:]
        let sorted = rows.sorted(by: GroupCandidate.isEarlier)
        for (rank, candidate) in sorted.enumerated() {
            // No two visible rows share a key, so a key has one holder.
            if let earliest = candidate.keys.compactMap({ holders[$0] }).min() {
                survivors[candidate.row] = sorted[earliest].row
            } else {
                for key in candidate.keys { holders[key] = rank }
            }
        }
        return survivors
    }

    /// The rows that are connected with some keys through keys that rows share.
    ///
    /// - Parameters:
    ///   - keys: where to begin: all keys, before and after, of the rows that have changed.
    ///   - holders: the living rows that have a key, each with all its keys. What it throws is
    ///     passed on.
    /// - Returns: the rows, each once, in the order in which they were found.
    package static func component(
        of keys: [UniqueKey],
        holders: (UniqueKey) throws -> [(row: RowID, keys: [UniqueKey])]
    ) rethrows -> [RowID] {
        var known = Set<UniqueKey>()
        var queue = keys.filter { known.insert($0).inserted }
        var found = Set<RowID>()
        var result: [RowID] = []
        var next = 0
        while next < queue.count {
            for holder in try holders(queue[next]) where found.insert(holder.row).inserted {
                result.append(holder.row)
                queue += holder.keys.filter { known.insert($0).inserted }
            }
            next += 1
        }
        return result
    }
}
