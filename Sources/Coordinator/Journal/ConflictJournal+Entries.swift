import Merge

/// The entries, in `_conflict`.
extension ConflictJournal {
    /// - Parameter isNews: whether a notice names it though it was open before.
    func writeOpen(_ conflict: Conflict, isNews: Bool = false) throws {
        let statement = try database.prepared(
            """
            INSERT INTO _conflict (id, closed, entity, row, kind, state, opened, record)
            VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT (id, closed) DO UPDATE SET kind = excluded.kind,
                state = excluded.state, record = excluded.record
            RETURNING opened
            """)
        bind(statement, conflict)
        while try statement.step() {
            // Else it was open before this group.
            if isNews || UInt64(bitPattern: statement.integer(0)) == state.generation {
                group.conflicts.noteOpened(conflict)
            }
        }
    }

    func bind(_ statement: SQLStatement, _ conflict: Conflict) {
        statement.bind(1, conflict.id.asOpen.description)
        statement.bind(2, conflict.id.entity)
        statement.bind(3, conflict.id.row.rawValue)
        statement.bind(4, conflict.kind.rawValue)
        statement.bind(5, conflict.state.rawValue)
        statement.bind(6, Int64(bitPattern: conflict.openedAt))
        statement.bind(7, ConflictCoding.encode(conflict))
    }

    /// Moves an open entry to the closed ones.
    func close(_ conflict: Conflict) throws {
        var conflict = conflict
        if let known = try openEntry(conflict.id) { conflict.openedAt = known.openedAt }
        try removeOpenEntry(conflict.id)
        try writeClosed(conflict, openID: conflict.id)
    }

    func removeOpenEntry(_ id: ConflictID) throws {
        let remove = try database.prepared("DELETE FROM _conflict WHERE id = ?1 AND closed = 0")
        remove.bind(1, id.description)
        try remove.run()
        group.conflicts.noteEnded(id)
    }

    /// Writes an entry that another store has closed, under the name that it has.
    func writeClosedAsItWas(_ conflict: Conflict) throws {
        let statement = try database.prepared(
            """
            INSERT OR IGNORE INTO _conflict (id, closed, entity, row, kind, state, opened, record)
            VALUES (?1, ?8, ?2, ?3, ?4, ?5, ?6, ?7)
            """)
        statement.bind(8, Int64(bitPattern: conflict.id.closedAt ?? state.generation))
        bind(statement, conflict)
        try statement.run()
    }

    /// The entry of an open conflict as it was last written.
    func openEntry(_ id: ConflictID) throws -> Conflict? {
        // A closed one's name is no open one's.
        id.closedAt == nil ? try entry(id) : nil
    }

    /// The entry of that very name, open or closed; nil where there is none.
    func entry(_ id: ConflictID) throws -> Conflict? {
        let look = try database.prepared(
            "SELECT record, opened FROM _conflict WHERE id = ?1 AND closed = ?2")
        look.bind(1, id.asOpen.description)
        look.bind(2, Int64(bitPattern: id.closedAt ?? 0))
        guard try look.step() else { return nil }
        defer { look.reset() }
        return try ConflictCoding.decode(
            look.bytes(0), id: id, openedAt: UInt64(bitPattern: look.integer(1)))
    }

    /// The entry of a closed conflict, or the newest of those of an open one's name; nil where there is
    /// none that can be read.
    func closedEntry(_ id: ConflictID) throws -> Conflict? {
        let look = try database.prepared(
            """
            SELECT id, closed, opened, record FROM _conflict
            WHERE id = ?1 AND closed > 0 AND (?2 = 0 OR closed = ?2) ORDER BY closed DESC LIMIT 1
            """)
        look.bind(1, id.asOpen.description)
        look.bind(2, Int64(bitPattern: id.closedAt ?? 0))
        guard try look.step() else { return nil }
        defer { look.reset() }
        return try? ConflictCoding.entry(look)
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
        // A verification reports a damaged one.
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
    /// damaged one stays as it is, because no apply fails by the journal, and a verification tells
    /// of it.
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
    ///
    /// - Parameter openID: its name while it was open; nil if it never was.
    func writeClosed(_ conflict: Conflict, openID: ConflictID? = nil) throws {
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
        bind(statement, conflict)
        try statement.run()
        state.log.closedRecords += 1
        let closedID = ConflictID(
            entity: conflict.id.entity, row: conflict.id.row, subject: conflict.id.subject,
            closedAt: state.generation)
        group.conflicts.noteClosed(conflict, id: closedID, openID: openID)
        group.wroteApart = true
    }

    func openEntries(_ kind: ConflictKind) throws -> [Conflict] {
        let statement = try database.prepared(
            "SELECT id FROM _conflict WHERE closed = 0 AND kind = ?1 ORDER BY id")
        statement.bind(1, kind.rawValue)
        var ids: [ConflictID] = []
        while try statement.step() { if let id = ConflictID(statement.text(0)) { ids.append(id) } }
        return try ids.compactMap { try openEntry($0) }
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
    mutating func complete(from whole: LoadedRow, as present: Conflict? = nil) {
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
    mutating func complete(from loaded: LoadedRow, isPresent: Bool) {
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
    mutating func add(_ values: [RowValue]) {
        let named = Set(row.map(\.name))
        row += values.filter { !named.contains($0.name) }
        row.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }
}
