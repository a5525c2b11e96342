import Merge

/// The one-to-ones to report once all rows of a transaction are written.
///
/// They are written one after the other. In between, a row that takes a target over may come before
/// the one that gives it up: then either seems to lose to the other, and neither has.
struct HeldClaims {
    private(set) var entries: [RowID: (before: [Conflict], after: [Conflict])] = [:]

    /// Takes the entries of a row's one-to-ones out of what is journalled at once.
    mutating func take(
        from before: inout [Conflict], to after: inout [Conflict], of row: LoadedRow
    ) {
        if row.table.exclusive.isEmpty { return }
        let names = Set(row.table.exclusive.map(\.property))
        func isHeld(_ conflict: Conflict) -> Bool {
            conflict.kind == .dangling && conflict.property.map(names.contains) ?? false
        }
        let held = (before: before.filter(isHeld), after: after.filter(isHeld))
        before.removeAll(where: isHeld)
        after.removeAll(where: isHeld)
        if entries[row.row] != nil {
            entries[row.row]?.after = held.after
        } else if !held.before.isEmpty || !held.after.isEmpty {
            entries[row.row] = held
        }
    }
}

/// The journal of conflicts: open entries follow from what rows and links hold, closed ones stay.
struct ConflictJournal: StorePart {
    let session: StoreSession

    /// Brings the journal from a row's old conflicts to its new ones.
    ///
    /// An open conflict is a function of the row's state; so is its entry. What is no longer in
    /// conflict is closed by the write that ended it, and its entry stays with all its sides.
    ///
    /// - Parameter isJudgedAnew: whether what a reference's target is like has changed, and not the row.
    func update(
        old: LoadedRow?, new: LoadedRow, by stamp: Stamp, isJudgedAnew: Bool = false
    ) throws {
        let oldDangling = old.map(\.dangling) ?? []
        let newDangling = new.dangling
        let hadAny = old.map { mayConflict($0, oldDangling) } ?? false
        guard hadAny || mayConflict(new, newDangling) else { return }
        if scratch.journalLater?.note(new) != nil { return }
        var before = try old.map { try conflicts(of: $0, listed: listed($0, oldDangling)) } ?? []
        let judged = isJudgedAnew ? [] : old.map { Self.unchanged(oldDangling, of: $0, new) } ?? []
        var after = try conflicts(
            of: new,
            listed: disputed(
                new, newDangling, judged: judged,
                shownAgain: old.map { Self.changed(newDangling, of: $0, new) }))
        scratch.heldClaims?.take(from: &before, to: &after, of: new)
        try update(from: before, to: after, by: stamp)
    }

    /// Brings the journal from a link's old state to its new one.
    func update(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, old: Register<Bool>,
        new: Register<Bool>, by stamp: Stamp
    ) throws {
        guard old.siblings.count > 1 || new.siblings.count > 1 else { return }
        if scratch.journalLater?.note(link, source, target) != nil { return }
        func report(_ register: Register<Bool>) -> [Conflict] {
            ConflictReport.conflict(
                history.settling(link, register), source: source, target: target, register,
                generation: state.generation
            ).map { [$0] } ?? []
        }
        try update(from: report(old), to: report(new), by: stamp)
    }

    /// Brings the journal from some conflicts to others.
    ///
    /// A conflict that has ended is resolved if the transaction being applied had seen all its
    /// sides. Else it is settled: the write that ended it made the sides agree, or showed a
    /// reference's target again, or a migration, a constraint or a join of stores did, and no
    /// write.
    ///
    /// - Parameter stamp: of the write that ended the conflicts; nil if none did.
    func update(from before: [Conflict], to after: [Conflict], by stamp: Stamp?) throws {
        // While policies are adopted the entries are of another one's making, though the row as it
        // is loaded does not tell.
        for conflict in after where scratch.isAdopting || !before.contains(conflict) {
            let former = before.first { $0.id == conflict.id }
            try writeOpen(conflict, isNews: former.map { $0.state != conflict.state } ?? false)
        }
        for conflict in before where !after.contains(where: { $0.id == conflict.id }) {
            var closed = conflict
            let closer = scratch.applying.flatMap { $0.dot == stamp?.dot ? $0 : nil }
            let hasSeenAll = conflict.sides.compactMap(\.dot).allSatisfy {
                closer?.dot == $0 || closer?.seen.contains($0) == true
            }
            closed.state = closer != nil && hasSeenAll ? .resolved : .settled
            closed.closedBy = closer?.dot
            try close(closed)
        }
    }

    /// Brings up to date which sides readers see of the conflicts of united rows, once what they are
    /// shown as is written.
    func markShown(of survivor: LoadedRow) throws {
        for member in survivor.eclipsed where member.state.hasSiblings {
            if scratch.journalLater?.note(member) != nil { continue }
            for conflict in try conflicts(of: member, dangling: []) {
                guard let entry = try openEntry(conflict.id) else { continue }
                let isSame = entry.sides.map(\.isVisible) == conflict.sides.map(\.isVisible)
                // Only the entry says what another side stands on.
                if isSame || entry.sides.map(\.dot) != conflict.sides.map(\.dot) { continue }
                try writeOpen(conflict)
            }
        }
    }

    /// The references that read as nil before and after by the same write; but not one-to-ones:
    /// their entries are held back while a transaction is applied, so that the journal does not
    /// tell them.
    static func unchanged(
        _ dangling: [(position: Int, target: RowID)], of old: LoadedRow, _ new: LoadedRow
    ) -> Set<Int> {
        let exclusive = Set(new.table.exclusive.map(\.position))
        return Set(
            dangling.map(\.position).filter {
                !exclusive.contains($0) && old.shown($0)?.dot == new.shown($0)?.dot
            })
    }

    /// The references that were not shown before, or by another write.
    private static func changed(
        _ dangling: [(position: Int, target: RowID)], of old: LoadedRow, _ new: LoadedRow
    ) -> Set<Int> {
        Set(
            dangling.map(\.position).filter {
                !old.isVisible || old.shown($0)?.dot != new.shown($0)?.dot
            })
    }

    private func mayConflict(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)]
    ) -> Bool {
        row.state.hasSiblings || !dangling.isEmpty || !row.eclipsed.isEmpty || row.lacksReference
    }

    /// - Parameters:
    ///   - dangling: the row's references that lead nowhere.
    ///   - judged: the positions that the journal has judged.
    ///   - memory: what was listed where the journal does not tell it; nil where it does.
    func conflicts(
        of row: LoadedRow, dangling: [(position: Int, target: RowID)], judged: Set<Int> = [],
        memory: ReferenceMemory? = nil
    ) throws -> [Conflict] {
        try conflicts(of: row, listed: disputed(row, dangling, judged: judged, memory: memory))
    }

    /// - Parameter dangling: those of the row's references that are conflicts.
    func conflicts(
        of row: LoadedRow, listed dangling: [(position: Int, target: RowID)]
    ) throws -> [Conflict] {
        var survivor: LoadedRow?
        if let standing = row.survivor, row.state.hasSiblings {
            survivor = try rowStore.load(row.table, standing)
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
    func withEarlierWrites(_ conflict: Conflict, of row: LoadedRow) throws -> Conflict {
        var conflict = conflict
        /// The vectors that the sides had seen; nil where nobody knows any more.
        let pasts = try conflict.sides.map { side -> VersionVector? in
            guard let dot = side.dot else { return VersionVector() }
            if let applying = scratch.applying, applying.dot == dot { return applying.seen }
            return try transactionLog.seen(by: dot)
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

    /// Opens and closes the entries that were held back.
    func journalHeldClaims(by stamp: Stamp) throws {
        let held = scratch.heldClaims?.entries ?? [:]
        scratch.heldClaims = nil
        for (_, entries) in held.sorted(by: { $0.key < $1.key }) {
            try update(from: entries.before, to: entries.after, by: stamp)
        }
    }
}
