import Merge

/// Which references that lead nowhere are conflicts (DESIGN section 5.4).
///
/// Only what was concurrent is one: no dead sibling of the target's existence register had seen the
/// reference's visible write. Where a delete had seen it, the reference was nullified knowingly.
///
/// **Why nodes that have seen the same agree.** The rule is a function of the registers of the two
/// rows and of what the transactions of their dots had seen, and so of the set of transactions. A store
/// answers "had the delete d seen the write w?" without keeping anything beside its log:
/// 1. of d being applied, and of d in the log, its `seen` tells;
/// 2. a log goes from its beginning, in the order of application. Where d has gone and w is there, d
///    was applied before w; under causal delivery what d had seen was applied before d. So it had not;
/// 3. where both have gone, or the tombstone is collected, what the journal lists stays listed and
///    nothing else is. What a log lets go of is stable, and so is all of a collected tombstone; a
///    settled conflict of which all is stable may be listed at one node and not at another.
extension StoreEngine {
    /// Those of a row's references that lead nowhere which are conflicts.
    func disputed(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)]
    ) throws -> [(position: Int, target: RowID)] {
        try dangling.filter { try isDisputed(row, $0.position, $0.target) }
    }

    /// Those that the journal lists: the conflicts that there have been so far.
    func listed(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)]
    ) throws -> [(position: Int, target: RowID)] {
        try dangling.filter { position, _ in
            try openEntry(ConflictReport.danglingID(row, position)) != nil
        }
    }

    private func isDisputed(
        _ row: LoadedRow, _ position: Int, _ target: RowID
    ) throws -> Bool {
        let property = row.table.entity.properties[position]
        // A mandatory one breaks the model's rule, whoever had seen what.
        guard property.isOptional, case .toOne(let destination) = property.content,
            let write = row.shown(position)?.dot
        else { return true }
        let table = table(destination)
        // What is alive is claimed by another, or shown as what the reference cannot lead to.
        if try isAlive(target, root: table.entity.root) { return true }
        let state = try dying[target] ?? loadTombstone(table, target)?.state
        let deaths = state?.existence.siblings.filter { !$0.value.isAlive }.map(\.dot) ?? []
        var isKnown = !deaths.isEmpty
        for death in deaths {
            switch try hasSeen(death, write) {
            case true?: return false
            case false?: continue
            case nil: isKnown = false
            }
        }
        // What arrives now had no part in a delete that was here before.
        if isKnown || applying?.dot == write { return true }
        let entry = try openEntry(ConflictReport.danglingID(row, position))
        if let entry, entry.sides.contains(where: { $0.dot == write }) { return true }
        if formerlyListed.contains(ListedReference(row: row.row, write: write)) { return true }
        return !lastStable.isEmpty && !lastStable.contains(write)
    }

    /// Whether a delete had seen a write; nil where nobody can tell any more.
    private func hasSeen(_ death: Dot, _ write: Dot) throws -> Bool? {
        if death.actor == write.actor { return death.sequence >= write.sequence }
        if let applying, applying.dot == death { return applying.seen.contains(write) }
        if let seen = try seen(by: death) { return seen.contains(write) }
        // What a store has applied holds all that its transactions had seen.
        if joinedVectors.contains(where: { $0.contains(death) && !$0.contains(write) }) {
            return false
        }
        if applying?.dot == write { return false }
        return try isLogged(write) ? false : nil
    }

    private func isLogged(_ dot: Dot) throws -> Bool {
        guard let integer = state.actors.knownInteger(dot) else { return false }
        let statement = try database.prepared("SELECT 1 FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        defer { statement.reset() }
        return try statement.step()
    }

    /// Brings the journal up to date where deletes of a row that was dead already make a reference's
    /// fate known, or unknown again.
    func judgeReferences(
        _ touched: [RowID: TouchedRow], _ order: [RowID], by stamp: Stamp
    ) throws {
        func deaths(_ state: RowState) -> [Dot] {
            state.existence.siblings.filter { !$0.value.isAlive }.map(\.dot)
        }
        for row in order {
            guard let entry = touched[row], !entry.isAlive, let old = entry.old, !old.isAlive,
                deaths(old.state) != deaths(entry.state)
            else { continue }
            try restoreReferences(to: row, by: stamp)
        }
    }

    /// Takes entries off the journal that a former program listed though a delete had seen the reference.
    /// To be called while opening.
    func forgetSeenDeletes() throws {
        for entry in try openEntries(.dangling) {
            guard let loaded = try tables[entry.id.entity].flatMap({ try load($0, entry.id.row) })
            else { continue }
            let current = try conflicts(of: loaded, dangling: dangling(loaded))
            if !current.contains(where: { $0.id == entry.id }) { try removeOpenEntry(entry.id) }
        }
    }
}

/// A reference that the journal listed before a migration that writes it anew, or that leads nowhere
/// since its target's entity is gone.
struct ListedReference: Hashable {
    let row: RowID
    let write: Dot
}
