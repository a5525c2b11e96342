import Merge

/// The ends of links. A link is shown, and a conflict over it open, only while both its ends are
/// alive; its register stays, so that with an end that returns they return too (MODEL P7).
extension StoreEngine {
    private struct LinkEnds: Hashable {
        let source: RowID
        let target: RowID
    }

    /// Whether both ends of a link are alive.
    func hasLivingEnds(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        try isAlive(source, root: table(link.source).entity.root)
            && isAlive(target, root: table(link.target).entity.root)
    }

    /// Closes and opens the conflicts over links of which a transaction has made an end dead or
    /// alive; what is at the other end is to be counted anew.
    ///
    /// To be called when all its rows are written and before any link of it is.
    func settleLinks(
        died: [(RowID, EntityTable)], revived: [(RowID, EntityTable)], by stamp: Stamp
    ) throws {
        if model.links.isEmpty || (died.isEmpty && revived.isEmpty) { return }
        let dead = Set(died.map(\.0))
        let returned = Set(revived.map(\.0))
        for link in model.links {
            let sourceRoot = table(link.source).entity.root
            let targetRoot = table(link.target).entity.root
            func wasAlive(_ row: RowID, _ root: String) throws -> Bool {
                if dead.contains(row) { return true }
                return try !returned.contains(row) && isAlive(row, root: root)
            }
            // Both ends may have changed; the link is still looked at once.
            var settled = Set<LinkEnds>()
            for (row, table) in died + revived {
                var found: [LinkEnds] = []
                if table.entity.root == sourceRoot {
                    found += try disputedLinks(link, "source", row)
                    try noteCounts(link, ofAll: "target", with: "source", row)
                }
                if table.entity.root == targetRoot {
                    found += try disputedLinks(link, "target", row)
                    try noteCounts(link, ofAll: "source", with: "target", row)
                }
                for ends in found where settled.insert(ends).inserted {
                    let before =
                        try wasAlive(ends.source, sourceRoot) && wasAlive(ends.target, targetRoot)
                    try settle(link, ends, wasOpen: before, by: stamp)
                }
            }
        }
    }

    private func settle(
        _ link: ManagedObjectModel.Link, _ ends: LinkEnds, wasOpen: Bool, by stamp: Stamp
    ) throws {
        let (source, target) = (ends.source, ends.target)
        let isOpen = try hasLivingEnds(link, source: source, target: target)
        if isOpen == wasOpen { return }
        let register = try loadLink(link, source: source, target: target)
        let settled = history.settling(link, register)
        if let hash = Self.hash(settled, source, target, register, hasLivingEnds: wasOpen) {
            state.digest.subtract(hash)
        }
        if let hash = Self.hash(settled, source, target, register, hasLivingEnds: isOpen) {
            state.digest.add(hash)
        }
        try journal(
            link, source: source, target: target, old: wasOpen ? register : Register(),
            new: isOpen ? register : Register(), by: stamp)
    }

    /// The links of a row that may be in conflict: those with more siblings than one.
    private func disputedLinks(
        _ link: ManagedObjectModel.Link, _ end: String, _ row: RowID
    ) throws -> [LinkEnds] {
        let statement = try database.prepared(
            "SELECT source, target FROM \(EntityTable.quote(link.name)) "
                + "WHERE \(end) = ?1 AND substr(_siblings, 1, 1) <> ?2 ORDER BY source, target")
        statement.bind(1, row.rawValue)
        statement.bind(2, LinkCoding.headerOfOne)
        var found: [LinkEnds] = []
        while try statement.step() {
            found.append(
                LinkEnds(source: RowID(statement.integer(0)), target: RowID(statement.integer(1))))
        }
        return found
    }
}
