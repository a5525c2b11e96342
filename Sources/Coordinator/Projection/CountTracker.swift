import Merge

/// To-manys that lead to too few objects, or too many. Each save keeps to the counts that the model
/// asks for; of two that are made at once each may, and what is made of both may not. That is shown
/// as it is, and listed as a conflict: the next save of the object is refused until it is mended.
///
/// Which rows are listed is a function of what is shown, so it is the same wherever the same saves
/// were applied. Whatever changes what is shown notes the rows at which something may have changed;
/// they are counted once, when all that the transaction writes is written.
struct CountTracker: StorePart {
    let session: StoreSession

    // MARK: What may have changed

    /// Notes what must be counted again, because a row is shown otherwise than before.
    ///
    /// - Parameters:
    ///   - before: what its columns showed; nil where it was not shown.
    ///   - after: what they show now; nil where it is not shown any more.
    func noteCounts(
        _ table: EntityTable, _ row: RowID, from before: [PropertyValue]?,
        to after: [PropertyValue]?
    ) {
        guard table.isCounted else { return }
        if table.hasCounts, (before == nil) != (after == nil) { scratch.recounted[row] = table }
        for reference in table.countedReferences {
            let values = [before, after].map { $0?[reference.position] ?? .null }
            if values[0] == values[1] { continue }
            for case .reference(let target) in values {
                scratch.recounted[target] = self.table(reference.root)
            }
        }
    }

    /// Notes the ends of a link that is shown otherwise than before.
    func noteCounts(_ link: ManagedObjectModel.Link, source: RowID, target: RowID) {
        if counted(link, isFirst: true) != nil { scratch.recounted[source] = table(link.source) }
        if counted(link, isFirst: false) != nil { scratch.recounted[target] = table(link.target) }
    }

    /// Notes what is at the other ends of a row's links.
    func noteCounts(
        _ link: ManagedObjectModel.Link, ofAll far: String, with near: String, _ row: RowID
    ) throws {
        guard counted(link, isFirst: far == "source") != nil else { return }
        let table = table(far == "source" ? link.source : link.target)
        for other in try linkStore.linked(link, with: near, row) {
            scratch.recounted[other] = table
        }
    }

    /// The to-many at one side of a link, where it has a least or greatest count.
    func counted(_ link: ManagedObjectModel.Link, isFirst: Bool) -> CountedRelationship? {
        guard countedLinks.contains(link.name) else { return nil }
        let side = ManagedObjectModel.RelationshipStorage.link(name: link.name, isFirst: isFirst)
        return table(isFirst ? link.source : link.target).counted.first {
            $0.relationship.storage == side
        }
    }

    // MARK: Counting

    /// Opens and closes the conflicts over counts of the rows that were noted.
    ///
    /// - Parameter stamp: of the write that changed them; nil where nobody can tell.
    func settleCounts(by stamp: Stamp?) throws {
        if scratch.recounted.isEmpty { return }
        let rows = scratch.recounted.sorted { $0.key < $1.key }
        scratch.recounted.removeAll()
        for (row, table) in rows {
            let before = try openCounts(of: row)
            let after =
                try rowStore.load(table, row).map { try countConflicts(of: $0, before) } ?? []
            try journal.update(from: before, to: after, by: stamp)
        }
    }

    private func openCounts(of row: RowID) throws -> [Conflict] {
        let statement = try database.prepared(
            "SELECT id FROM _conflict WHERE row = ?1 AND closed = 0 AND kind = ?2 ORDER BY id")
        statement.bind(1, row.rawValue)
        statement.bind(2, ConflictKind.count.rawValue)
        var ids: [ConflictID] = []
        while try statement.step() { if let id = ConflictID(statement.text(0)) { ids.append(id) } }
        return try ids.compactMap { try journal.openEntry($0) }
    }

    private func countConflicts(of row: LoadedRow, _ known: [Conflict]) throws -> [Conflict] {
        guard row.isVisible else { return [] }
        return try row.table.counted.compactMap { counted in
            // No further than it takes to tell whether there are too many: there may be very many.
            let count = try count(
                counted, of: row.row, atMost: max(counted.least, counted.most + 1))
            guard
                var conflict = ConflictReport.conflict(
                    counted, of: row, count: count, generation: state.generation)
            else { return nil }
            if let known = known.first(where: { $0.id == conflict.id }) {
                conflict.openedAt = known.openedAt
            }
            return conflict
        }
    }

    /// How many objects a to-many of a row shows, and no more than so many.
    func count(
        _ counted: CountedRelationship, of row: RowID, atMost limit: Int
    ) throws -> Int {
        let statement = try database.prepared(
            "SELECT " + countSQL(counted, owner: "?1", limit: "?2"))
        statement.bind(1, row.rawValue)
        statement.bind(2, Int64(limit))
        defer { statement.reset() }
        return try statement.step() ? Int(statement.integer(0)) : 0
    }

    func countSQL(
        _ counted: CountedRelationship, owner: String, limit: String
    ) -> String {
        let source = MemberReader.source(
            of: counted.relationship, isOwned: "= \(owner)", model: model)
        return "(SELECT count(*) FROM (SELECT 1 FROM \(source ?? "_state") LIMIT \(limit)))"
    }
}
