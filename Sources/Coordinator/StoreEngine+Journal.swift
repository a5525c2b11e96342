import Merge

extension StoreEngine {
    /// Brings the journal from a row's old conflicts to its new ones.
    ///
    /// An open conflict is a function of the row's state; so is its entry. What is no longer in
    /// conflict is closed by the write that ended it, and its entry stays with all its sides.
    ///
    /// - Parameter isJudgedAnew: whether what a reference's target is like has changed, and not the row.
    func journal(
        old: LoadedRow?, new: LoadedRow, by stamp: Stamp, isJudgedAnew: Bool = false
    ) throws {
        let oldDangling = old.map(dangling) ?? []
        let newDangling = dangling(new)
        let hadAny = old.map { mayConflict($0, oldDangling) } ?? false
        guard hadAny || mayConflict(new, newDangling) else { return }
        if journalLater?.note(new) != nil { return }
        var before = try old.map { try conflicts(of: $0, listed: listed($0, oldDangling)) } ?? []
        let judged = isJudgedAnew ? [] : old.map { Self.unchanged(oldDangling, of: $0, new) } ?? []
        var after = try conflicts(of: new, dangling: newDangling, judged: judged)
        heldClaims?.take(from: &before, to: &after, of: new)
        try journal(from: before, to: after, by: stamp)
    }

    /// Brings up to date which sides readers see of the conflicts of united rows, once what they are
    /// shown as is written.
    func markShown(of survivor: LoadedRow) throws {
        for member in survivor.eclipsed where member.state.hasSiblings {
            if journalLater?.note(member) != nil { continue }
            for conflict in try conflicts(of: member, dangling: []) {
                guard let entry = try openEntry(conflict.id) else { continue }
                let isSame = entry.sides.map(\.isVisible) == conflict.sides.map(\.isVisible)
                // What another side stands on is told by the entry alone.
                if isSame || entry.sides.map(\.dot) != conflict.sides.map(\.dot) { continue }
                try writeOpen(conflict)
            }
        }
    }

    /// The references that read as nil before and after by the same write; but not one-to-ones, whose
    /// entries are held back while a transaction is applied, so that the journal does not tell them.
    private static func unchanged(
        _ dangling: [(position: Int, target: RowID)], of old: LoadedRow, _ new: LoadedRow
    ) -> Set<Int> {
        let exclusive = Set(new.table.exclusive.map(\.position))
        return Set(
            dangling.map(\.position).filter {
                !exclusive.contains($0) && old.shown($0)?.dot == new.shown($0)?.dot
            })
    }

    private func mayConflict(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)]
    ) -> Bool {
        row.state.hasSiblings || !dangling.isEmpty || !row.eclipsed.isEmpty || row.lacksReference
    }

    /// - Parameters:
    ///   - dangling: the row's references that lead nowhere.
    ///   - judged: the positions of those of which the journal has the judgement.
    ///   - memory: what was listed where the journal does not tell it; nil where it does.
    func conflicts(
        of row: LoadedRow, dangling: [(position: Int, target: RowID)], judged: Set<Int> = [],
        memory: ReferenceMemory? = nil
    ) throws -> [Conflict] {
        try conflicts(of: row, listed: disputed(row, dangling, judged: judged, memory: memory))
    }

    /// - Parameter dangling: those of the row's references that are conflicts.
    private func conflicts(
        of row: LoadedRow, listed dangling: [(position: Int, target: RowID)]
    ) throws -> [Conflict] {
        var survivor: LoadedRow?
        if let standing = row.survivor, row.state.hasSiblings {
            survivor = try load(row.table, standing)
        }
        let found = ConflictReport.conflicts(
            of: row, dangling: dangling, generation: state.generation, survivor: survivor)
        if row.isAlive || row.table.entity.policies.isRowGrained { return found }
        return try found.map { $0.kind == .delete ? try withEarlierWrites($0, of: row) : $0 }
    }

    /// A deleted row's conflict with what its edits stand on: earlier writes to other properties
    /// that the delete had not seen either. Nobody else lists them, so they would be lost.
    ///
    /// Each is listed with a side that had seen it. There is one, or it would be a side itself. Where
    /// the log has forgotten what a side had seen, the entry as it was written last tells, and where
    /// that is the first, the order of time: one that came later is the most likely.
    private func withEarlierWrites(_ conflict: Conflict, of row: LoadedRow) throws -> Conflict {
        var conflict = conflict
        /// What each side had seen; nil where nobody knows any more.
        let pasts = try conflict.sides.map { side -> VersionVector? in
            guard let dot = side.dot else { return VersionVector() }
            if let applying, applying.dot == dot { return applying.seen }
            return try seen(by: dot)
        }
        let written = pasts.contains(nil) ? try openEntry(conflict.id)?.sides ?? [] : []
        /// Whether a side had seen a write; nil where nobody knows.
        func hasSeen(_ index: Int, _ dot: Dot) -> Bool? {
            guard let own = conflict.sides[index].dot else { return false }
            if own.actor == dot.actor { return own.sequence >= dot.sequence }
            return pasts[index].map { $0.contains(dot) }
        }
        let edits = conflict.sides.indices.filter { !conflict.sides[$0].isDeleted }
        let deletes = conflict.sides.indices.filter { conflict.sides[$0].isDeleted }
        for (position, register) in row.state.properties.enumerated() {
            let name = row.table.entity.properties[position].name
            for sibling in register.siblings {
                let isKnown =
                    conflict.sides.contains { $0.dot == sibling.dot }
                    || deletes.contains { hasSeen($0, sibling.dot) == true }
                if isKnown { continue }
                let lister =
                    edits.first { hasSeen($0, sibling.dot) == true }
                    ?? edits.first { index in
                        written.contains { side in
                            side.dot == conflict.sides[index].dot
                                && side.row.contains {
                                    $0.name == name && $0.stamp?.dot == sibling.dot
                                }
                        }
                    }
                    ?? edits.first { index in
                        hasSeen(index, sibling.dot) == nil
                            && conflict.sides[index].timestamp.map {
                                $0 > sibling.stamp.timestamp
                            } ?? false
                    }
                guard let lister else { continue }
                conflict.sides[lister].row.append(
                    .init(name: name, value: sibling.value, stamp: sibling.stamp))
            }
        }
        for index in conflict.sides.indices {
            conflict.sides[index].row.sort {
                $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
            }
        }
        return conflict
    }

    /// What a transaction of the log had seen; nil where it is not there.
    ///
    /// Of many rows that one save wrote, each asks for the same: to decode it for each would take time in
    /// the square of their number.
    func seen(by dot: Dot) throws -> VersionVector? {
        if pasts.generation != state.generation || pasts.seen.count >= Self.pastsLimit {
            pasts = (state.generation, [:])
        }
        if let known = pasts.seen[dot] { return known }
        guard let seen = try transaction(dot)?.transaction.seen else { return nil }
        pasts.seen[dot] = seen
        return seen
    }

    /// Transactions of which it is kept what they had seen, within one generation: as many as the sides of a
    /// few rows, with vectors of up to a thousand actors some megabytes.
    private static let pastsLimit = 256

    /// Brings the journal from a link's old state to its new one.
    func journal(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, old: Register<Bool>,
        new: Register<Bool>, by stamp: Stamp
    ) throws {
        guard old.siblings.count > 1 || new.siblings.count > 1 else { return }
        if journalLater?.note(link, source, target) != nil { return }
        func report(_ register: Register<Bool>) -> [Conflict] {
            ConflictReport.conflict(
                history.settling(link, register), source: source, target: target, register,
                generation: state.generation
            ).map { [$0] } ?? []
        }
        try journal(from: report(old), to: report(new), by: stamp)
    }

    /// Brings the journal from some conflicts to others.
    ///
    /// What is no more is resolved where the transaction being applied had seen all its sides. Else it
    /// is settled: the write that ended it made the sides agree, or showed a reference's target again,
    /// or a migration, a constraint or a join of stores did, and no write.
    ///
    /// - Parameter stamp: of the write that ended what is no more; nil where none did.
    func journal(from before: [Conflict], to after: [Conflict], by stamp: Stamp?) throws {
        // While policies are adopted the entries are of another one's making, though the row as it
        // is loaded does not tell.
        for conflict in after where isAdopting || !before.contains(conflict) {
            try writeOpen(conflict)
        }
        for conflict in before where !after.contains(where: { $0.id == conflict.id }) {
            var closed = conflict
            let closer = applying.flatMap { $0.dot == stamp?.dot ? $0 : nil }
            let hasSeenAll = conflict.sides.compactMap(\.dot).allSatisfy {
                closer?.dot == $0 || closer?.seen.contains($0) == true
            }
            closed.state = closer != nil && hasSeenAll ? .resolved : .settled
            closed.closedBy = closer?.dot
            try close(closed)
        }
    }

    func writeOpen(_ conflict: Conflict) throws {
        let statement = try database.prepared(
            """
            INSERT INTO _conflict (id, closed, entity, row, kind, state, opened, record)
            VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT (id, closed) DO UPDATE SET kind = excluded.kind,
                state = excluded.state, record = excluded.record
            """)
        try run(statement, conflict)
    }

    private func run(_ statement: SQLStatement, _ conflict: Conflict) throws {
        statement.bind(1, conflict.id.asOpen.description)
        statement.bind(2, conflict.id.entity)
        statement.bind(3, conflict.id.row.rawValue)
        statement.bind(4, conflict.kind.rawValue)
        statement.bind(5, conflict.state.rawValue)
        statement.bind(6, Int64(bitPattern: conflict.openedAt))
        statement.bind(7, ConflictCoding.encode(conflict))
        try statement.run()
    }

    /// Moves an open entry to the closed ones.
    private func close(_ conflict: Conflict) throws {
        var conflict = conflict
        if let known = try openEntry(conflict.id) { conflict.openedAt = known.openedAt }
        try removeOpenEntry(conflict.id)
        try writeClosed(conflict)
    }

    func removeOpenEntry(_ id: ConflictID) throws {
        let remove = try database.prepared("DELETE FROM _conflict WHERE id = ?1 AND closed = 0")
        remove.bind(1, id.description)
        try remove.run()
    }

    /// Writes an entry that another store has closed, under the name that it has.
    func writeClosedAsItWas(_ conflict: Conflict) throws {
        let statement = try database.prepared(
            """
            INSERT OR IGNORE INTO _conflict (id, closed, entity, row, kind, state, opened, record)
            VALUES (?1, ?8, ?2, ?3, ?4, ?5, ?6, ?7)
            """)
        statement.bind(8, Int64(bitPattern: conflict.id.closedAt ?? state.generation))
        try run(statement, conflict)
    }

    /// The entry of an open conflict as it was last written.
    func openEntry(_ id: ConflictID) throws -> Conflict? {
        let look = try database.prepared(
            "SELECT record, opened FROM _conflict WHERE id = ?1 AND closed = 0")
        look.bind(1, id.description)
        guard try look.step() else { return nil }
        defer { look.reset() }
        return try ConflictCoding.decode(
            look.bytes(0), id: id, openedAt: UInt64(bitPattern: look.integer(1)))
    }

    /// Whether a conflict was open and is closed, with the sides that it has.
    func isClosed(_ conflict: Conflict) throws -> Bool {
        if try openEntry(conflict.id) != nil { return false }
        let look = try database.prepared(
            """
            SELECT id, closed, opened, record FROM _conflict
            WHERE id = ?1 AND closed > 0 ORDER BY closed DESC LIMIT 1
            """)
        look.bind(1, conflict.id.asOpen.description)
        guard try look.step() else { return false }
        defer { look.reset() }
        // A damaged one is told of by a verification.
        guard let entry = try? ConflictCoding.entry(look) else { return true }
        return Set(entry.sides.map(\.dot)) == Set(conflict.sides.map(\.dot))
    }

    /// Closes what stability has settled for good: the entries stay with all their sides, and
    /// no transaction has closed them.
    ///
    /// The entry is kept as it was written, for by now the log may have forgotten what it told.
    ///
    /// - Parameter whole: the last values of a row whose tombstone goes. What a side did not
    ///   write is added to it, so that it can still be brought back whole (MODEL P5); so it is where
    ///   somebody has resolved the conflict by the delete.
    /// - Returns: how many were closed.
    func settle(
        from before: [Conflict], to after: [Conflict], whole: LoadedRow? = nil
    ) throws -> Int {
        var count = 0
        for conflict in before where !after.contains(where: { $0.id == conflict.id }) {
            var closed = try openEntry(conflict.id) ?? conflict
            closed.state = .settled
            closed.closedBy = nil
            if let whole { closed.complete(from: whole, as: conflict) }
            try close(closed)
            count += 1
        }
        if let whole { try completeClosed(from: whole) }
        return count
    }

    /// Adds a row's last values to what the newest closed entries tell of deletes against writes; a
    /// damaged one stays as it is, for no apply fails by the journal, and a verification tells of it.
    private func completeClosed(from whole: LoadedRow) throws {
        let look = try database.prepared(
            """
            SELECT id, closed, opened, record FROM _conflict
            WHERE row = ?1 AND kind IN (?2, ?3) AND closed > 0 ORDER BY position DESC LIMIT 10
            """)
        look.bind(1, whole.row.rawValue)
        look.bind(2, ConflictKind.delete.rawValue)
        look.bind(3, ConflictKind.save.rawValue)
        defer { look.reset() }
        var entries: [Conflict] = []
        while try look.step() {
            if let entry = try? ConflictCoding.entry(look) { entries.append(entry) }
        }
        // Of a context's save, too, where it is about a delete.
        for entry in entries
        where !entry.hasFormerNames && entry.sides.contains(where: \.isDeleted) {
            var completed = entry
            completed.complete(from: whole)
            if completed == entry { continue }
            let write = try database.prepared(
                "UPDATE _conflict SET record = ?3 WHERE id = ?1 AND closed = ?2")
            write.bind(1, entry.id.asOpen.description)
            write.bind(2, Int64(bitPattern: entry.id.closedAt ?? 0))
            write.bind(3, ConflictCoding.encode(completed))
            try write.run()
            group.wroteApart = true
        }
    }

    /// Writes an entry that is closed, under a name nobody has in this generation.
    func writeClosed(_ conflict: Conflict) throws {
        var conflict = conflict
        let subject = conflict.id.subject
        for attempt in 1...1_000_000 {
            conflict.id = ConflictID(
                entity: conflict.id.entity, row: conflict.id.row,
                subject: attempt == 1 ? subject : "\(subject).\(attempt)")
            let look = try database.prepared(
                "SELECT 1 FROM _conflict WHERE id = ?1 AND closed = ?2")
            look.bind(1, conflict.id.description)
            look.bind(2, Int64(bitPattern: state.generation))
            let isTaken = try look.step()
            look.reset()
            if !isTaken { break }
        }
        let statement = try database.prepared(
            """
            INSERT INTO _conflict (id, closed, entity, row, kind, state, opened, record)
            VALUES (?1, ?8, ?2, ?3, ?4, ?5, ?6, ?7)
            """)
        statement.bind(8, Int64(bitPattern: state.generation))
        try run(statement, conflict)
        state.log.closedRecords += 1
        group.closedConflicts.append(
            ConflictID(
                entity: conflict.id.entity, row: conflict.id.row, subject: conflict.id.subject,
                closedAt: state.generation))
        group.wroteApart = true
    }
}

extension ConflictID {
    /// The name of the conflict while it is open.
    var asOpen: ConflictID { ConflictID(entity: entity, row: row, subject: subject) }
}

extension Conflict {
    /// Adds what a row held last to what its writers wrote.
    ///
    /// - Parameter present: the conflict as the row's registers tell it now, where it is open: an entry
    ///   keeps the names that it was written with, whatever a migration has made of them since.
    fileprivate mutating func complete(from whole: LoadedRow, as present: Conflict? = nil) {
        for index in sides.indices where !sides[index].isDeleted {
            let dot = sides[index].dot
            let same = present?.sides.first { $0.dot == dot && !$0.isDeleted }
            if let same { sides[index].add(same.row) }
            sides[index].complete(from: whole, isPresent: same != nil)
        }
    }
}

extension ConflictSide {
    /// Adds what a row held in properties that the side did not write.
    ///
    /// Where a row is one register its sides have all of it. A name that the entity does not have is of
    /// a former model, and what the side wrote may have another name by now: another's value of that, or
    /// null, must not pass for it.
    ///
    /// - Parameter isPresent: whether the side has its values by the names of the present.
    fileprivate mutating func complete(from loaded: LoadedRow, isPresent: Bool) {
        let entity = loaded.table.entity
        guard !entity.policies.isRowGrained,
            isPresent || row.allSatisfy({ entity.position(of: $0.name) != nil })
        else { return }
        add(
            entity.properties.enumerated().map { position, property in
                let policies = loaded.table.policies(for: loaded.state)
                let stamp = loaded.state.visible(position, policies)?.stamp
                return .init(
                    name: property.name, value: loaded.columns[position],
                    stamp: stamp?.dot == dot ? nil : stamp)
            })
    }

    /// Adds values of properties that the side does not name.
    fileprivate mutating func add(_ values: [RowValue]) {
        let named = Set(row.map(\.name))
        row += values.filter { !named.contains($0.name) }
        row.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }
}
