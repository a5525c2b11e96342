import Merge

/// The conflict journal of two stores that are joined: open entries follow from the rows, closed ones
/// are taken from both.
extension StoreJoining {
    /// Brings the entries of what was joined up to date, once everything is.
    func joinJournals(_ later: JournalLater) throws {
        let ended = try takeClosed()
        for (row, table) in later.rows.sorted(by: { $0.key < $1.key }) {
            let loaded = try rowStore.load(table, row)
            let before = try openConflicts(of: row)
            let after = try loaded.map { try openConflicts(of: $0, before) } ?? []
            try bring(
                from: before, to: after, ended,
                by: closing(loaded?.state.existence.siblings.map(\.stamp) ?? []))
        }
        for ends in later.links.sorted() {
            guard let link = model.link(named: ends.link) else { continue }
            let (source, target) = (ends.source, ends.target)
            let register = try linkStore.loadLink(link, source: source, target: target)
            let isOpen = try linkStore.hasLivingEnds(link, source: source, target: target)
            let after =
                isOpen
                ? ConflictReport.conflict(
                    history.settling(link, register), source: source, target: target,
                    register, generation: state.generation) : nil
            let before = try journal.openEntry(
                ConflictReport.conflictID(link, source: source, target: target))
            try bring(
                from: before.map { [$0] } ?? [], to: after.map { [$0] } ?? [], ended,
                by: closing(register.siblings.map(\.stamp)))
        }
        // Nobody can tell which of the writes that came to each other were one too many.
        try countTracker.settleCounts(by: nil)
        try derivedAttributes.settle()
    }

    /// The conflicts of a row that has been joined.
    private func openConflicts(of row: LoadedRow, _ before: [Conflict]) throws -> [Conflict] {
        try journal.conflicts(of: row, dangling: row.dangling) { reference, deaths in
            try wasConflict(reference, deaths)
        }.map { try withEarlierWrites($0, of: row, before) }
    }

    /// Whether a reference that leads nowhere is a conflict, where the logs have forgotten what would tell
    /// it. A store that has had both the reference and a delete of its target has judged them, and where it
    /// lists nothing a delete had seen the reference. Where none has had both, neither saw the other.
    private func wasConflict(_ reference: ListedReference, _ deaths: [Dot]) throws -> Bool {
        let former = try formerEntry(reference.id)?.listedReferences.contains(reference) ?? false
        let judges = [(seen, try journal.isListed(reference)), (formerSeen, former)]
        // Both have collected the tombstone: what either lists stays listed.
        if deaths.isEmpty { return judges.contains(where: \.1) }
        return judges.allSatisfy { seen, isListed in
            isListed || !seen.contains(reference.write) || !deaths.contains(where: seen.contains)
        }
    }

    /// An entry that both stores had, and the former one has closed.
    private struct Ended: Hashable {
        let id: ConflictID
        let sides: [Dot?]

        init(_ conflict: Conflict) {
            id = conflict.id.asOpen
            sides = conflict.sides.map(\.dot)
        }
    }

    /// Brings the journal from some conflicts to others; what the former store tells the end of is not
    /// listed a second time.
    private func bring(
        from before: [Conflict], to after: [Conflict], _ ended: Set<Ended>, by stamp: Stamp?
    ) throws {
        let told = before.filter { conflict in
            ended.contains(Ended(conflict)) && !after.contains { $0.id == conflict.id }
        }
        for conflict in told { try journal.removeOpenEntry(conflict.id) }
        try journal.update(
            from: before.filter { conflict in !told.contains { $0.id == conflict.id } },
            to: after, by: stamp)
    }

    /// A deleted row's conflict with what the entries of either store tell its sides stand on, for the
    /// logs that told it may be gone: writes that are still in the row's registers, and no side's own.
    private func withEarlierWrites(
        _ conflict: Conflict, of row: LoadedRow, _ known: [Conflict]
    ) throws -> Conflict {
        guard conflict.kind == .delete else { return conflict }
        let entries =
            known.filter { $0.id == conflict.id } + [try formerEntry(conflict.id)].compactMap { $0 }
        let kept = Set(row.state.properties.flatMap(\.siblings).map(\.stamp))
        var told = Set(
            conflict.sides.compactMap(\.dot)
                + conflict.sides.flatMap(\.row).compactMap { $0.stamp?.dot })
        var conflict = conflict
        for side in entries.flatMap(\.sides) {
            guard let place = conflict.sides.firstIndex(where: { $0.dot == side.dot }) else {
                continue
            }
            for entry in side.row {
                guard let stamp = entry.stamp, kept.contains(stamp), !told.contains(stamp.dot),
                    !conflict.sides[place].row.contains(where: { $0.name == entry.name })
                else { continue }
                conflict.sides[place].row.append(entry)
            }
            conflict.sides[place].row.sort {
                $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
            }
            told.formUnion(side.row.compactMap { $0.stamp?.dot })
        }
        return conflict
    }

    /// The former store's entry of an open conflict.
    private func formerEntry(_ id: ConflictID) throws -> Conflict? {
        let statement = try former.database.prepared(
            "SELECT record, opened FROM _conflict WHERE id = ?1 AND closed = 0")
        statement.bind(1, id.description)
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return try ConflictCoding.decode(
            statement.bytes(0), id: id, openedAt: UInt64(bitPattern: statement.integer(1)))
    }

    /// The write that ended a conflict that is gone: the latest that the copy had not had.
    private func closing(_ stamps: [Stamp]) -> Stamp? {
        stamps.filter { !seen.contains($0.dot) }.max()
    }

    /// The open entries of a row that follow from its registers.
    private func openConflicts(of row: RowID) throws -> [Conflict] {
        let statement = try database.prepared(
            "SELECT id FROM _conflict WHERE row = ?1 AND closed = 0 "
                + "AND kind NOT IN (?2, ?3) ORDER BY id")
        statement.bind(1, row.rawValue)
        statement.bind(2, ConflictKind.link.rawValue)
        statement.bind(3, ConflictKind.count.rawValue)
        var ids: [ConflictID] = []
        while try statement.step() { if let id = ConflictID(statement.text(0)) { ids.append(id) } }
        return try ids.compactMap { try journal.openEntry($0) }
    }

    /// Takes the entries that the former store has closed over writes which the copy had not had, or by
    /// one: nobody else may have witnessed them.
    ///
    /// The entries of saves' conflicts are taken already, with all that only a node itself knows;
    /// like them these keep their order, behind all of the copy's.
    ///
    /// - Returns: those that are open in the copy, whether they are to be closed or were opened again.
    private func takeClosed() throws -> Set<Ended> {
        var ended = Set<Ended>()
        let moved = state.generation &- (try former.token.generation)
        var position: Int64 = 0
        while true {
            let page = try closedEntries(after: position, moved)
            guard let end = page.last else { break }
            position = end.position
            for (_, conflict) in page where isNews(conflict) {
                if let open = try journal.openEntry(conflict.id.asOpen),
                    Ended(open) == Ended(conflict)
                {
                    ended.insert(Ended(open))
                }
                try journal.writeClosedAsItWas(conflict)
            }
        }
        return ended
    }

    private func isNews(_ conflict: Conflict) -> Bool {
        (conflict.sides.map(\.dot) + [conflict.closedBy]).contains { dot in
            dot.map { !seen.contains($0) } ?? false
        }
    }

    private func closedEntries(
        after position: Int64, _ moved: UInt64
    ) throws -> [(position: Int64, conflict: Conflict)] {
        let statement = try former.database.prepared(
            """
            SELECT position, id, closed, opened, record FROM _conflict
            WHERE closed > 0 AND kind <> ?1 AND position > ?2 ORDER BY position LIMIT ?3
            """)
        statement.bind(1, ConflictKind.save.rawValue)
        statement.bind(2, position)
        statement.bind(3, Self.rowsAtOnce)
        defer { statement.reset() }
        var found: [(Int64, Conflict)] = []
        var bytes = 0
        while bytes < Self.bytesAtOnce, try statement.step() {
            guard let id = ConflictID(statement.text(1)) else {
                throw CoordinatorError(.storeDamaged, "An entry of the journal has no name.")
            }
            bytes += statement.size(4)
            let closed = UInt64(bitPattern: statement.integer(2)) &+ moved
            found.append(
                (
                    statement.integer(0),
                    try ConflictCoding.decode(
                        statement.bytes(4),
                        id: ConflictID(
                            entity: id.entity, row: id.row, subject: id.subject, closedAt: closed),
                        openedAt: UInt64(bitPattern: statement.integer(3)) &+ moved)
                ))
        }
        return found
    }
}

/// Rows and links whose entries in the journal are to be brought up to date, once all is joined.
final class JournalLater {
    /// A link's table and ends.
    struct Link: Hashable, Comparable {
        let link: String
        let source: RowID
        let target: RowID

        static func < (left: Self, right: Self) -> Bool {
            if left.link != right.link {
                return left.link.utf8.lexicographicallyPrecedes(right.link.utf8)
            }
            return (left.source, left.target) < (right.source, right.target)
        }
    }

    private(set) var rows: [RowID: EntityTable] = [:]
    private(set) var links = Set<Link>()

    func note(_ loaded: LoadedRow) { rows[loaded.row] = loaded.table }

    func note(_ link: ManagedObjectModel.Link, _ source: RowID, _ target: RowID) {
        links.insert(Link(link: link.name, source: source, target: target))
    }
}
