/// The newest open conflicts, up to a bound: what a watch knows of a node's.
struct ConflictWindow: Hashable {
    /// Their IDs, newest first, each once.
    var ids: [String] = []
    /// Whether there are older ones, beyond the bound.
    var isCut = false

    /// The conflicts that arose and those that closed since an earlier look.
    ///
    /// Where a window is cut, what leaves at its end for newer ones has not closed, and what comes
    /// in there when others close is not new: only what stands above an entry that both have can
    /// tell. Where they have none in common all of the later is taken for new, and nothing for closed.
    ///
    /// - Returns: the new ones, oldest first, and those that closed, by ID.
    func changes(since before: ConflictWindow) -> (new: [String], closed: [String]) {
        let isShared = !Set(ids).isDisjoint(with: before.ids)
        let new = before.isCut && isShared ? above(before) : missing(from: before)
        let closed =
            isCut ? (isShared ? before.above(self) : []) : before.missing(from: self)
        return (new.reversed(), closed.sorted())
    }

    private func missing(from other: ConflictWindow) -> [String] {
        let others = Set(other.ids)
        return ids.filter { !others.contains($0) }
    }

    /// Those another window lacks that stand above the last that both have.
    private func above(_ other: ConflictWindow) -> [String] {
        let others = Set(other.ids)
        let last = ids.lastIndex { others.contains($0) } ?? ids.startIndex
        return ids[..<last].filter { !others.contains($0) }
    }
}
