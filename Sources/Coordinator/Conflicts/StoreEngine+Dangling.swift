import Merge

/// Which references that lead nowhere are conflicts (DESIGN section 5.4).
///
/// Only what was concurrent is one. Where a dead sibling of the target's existence register had seen the
/// reference's visible write, or that write had seen it, the reference was nullified knowingly.
///
/// **Why nodes that have seen the same agree.** The rule is a function of the registers of the two
/// rows and of what the transactions of their dots had seen, and so of the set of transactions. The log
/// tells that, and nothing is kept beside it:
/// 1. of what is in the log, and of what is being applied, its `seen` tells;
/// 2. a log lets go of its beginning, in the order of application. Where one of two has gone and the
///    other is there, the one that has gone was applied first, and had not seen the other. So that this
///    holds where two stores are joined, the copy's log goes if the former store's is not whole;
/// 3. where both have gone, or the tombstone is collected, what the journal lists stays listed and
///    nothing else is. What a log lets go of is stable as a rule, and so is all of a collected tombstone;
///    a settled conflict of which all is stable may be listed at one node and not at another.
extension StoreEngine {
    /// Those of a row's references that lead nowhere which are conflicts.
    ///
    /// - Parameter listed: what was listed before the journal was emptied to be written anew.
    func disputed(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)],
        listed: Set<ListedReference> = []
    ) throws -> [(position: Int, target: RowID)] {
        try dangling.filter { position, target in
            guard let write = row.shown(position)?.dot,
                try areOrdered(row, position, target, write)
                    ?? !isListed(row, position, write, listed)
            else { return true }
            return false
        }
    }

    /// Those that the journal lists: the conflicts that there have been so far.
    func listed(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)]
    ) throws -> [(position: Int, target: RowID)] {
        try dangling.filter { position, _ in
            try openEntry(ConflictReport.danglingID(row, position)) != nil
        }
    }

    private func isListed(
        _ row: LoadedRow, _ position: Int, _ write: Dot, _ listed: Set<ListedReference>
    ) throws -> Bool {
        let id = ConflictReport.danglingID(row, position)
        if listed.contains(ListedReference(id: id, write: write)) { return true }
        return try openEntry(id)?.listedReferences.contains { $0.write == write } ?? false
    }

    /// Whether a delete of the target and the write that refers to it are not concurrent; nil where
    /// nobody can tell any more. A reference that a rule of the model needs, or that something else than a
    /// delete makes lead nowhere, is never quiet.
    private func areOrdered(
        _ row: LoadedRow, _ position: Int, _ target: RowID, _ write: Dot
    ) throws -> Bool? {
        let property = row.table.entity.properties[position]
        guard property.isOptional, case .toOne(let destination) = property.content else {
            return false
        }
        let table = table(destination)
        // What is alive is claimed by another, or shown as what the reference cannot lead to.
        if try isAlive(target, root: table.entity.root) { return false }
        let state = try dying[target] ?? loadTombstone(table, target)?.state
        let deaths = state?.deaths ?? []
        var isKnown = !deaths.isEmpty
        for death in deaths {
            switch try areOrdered(death, write) {
            case true?: return true
            case false?: continue
            case nil: isKnown = false
            }
        }
        return isKnown ? false : nil
    }

    private func areOrdered(_ one: Dot, _ other: Dot) throws -> Bool? {
        if one.actor == other.actor { return true }
        // What is here already cannot have seen what is only now applied.
        if let applying, applying.dot == one { return applying.seen.contains(other) }
        if let applying, applying.dot == other { return applying.seen.contains(one) }
        let past = try seen(by: one)
        if past?.contains(other) ?? false { return true }
        let otherPast = try seen(by: other)
        if otherPast?.contains(one) ?? false { return true }
        return past == nil && otherPast == nil ? nil : false
    }

    /// Brings the journal up to date where one more delete of a row had seen what refers to it in vain: the
    /// row was dead already, or another stands in the way of the reference.
    func judgeReferences(
        _ touched: [RowID: TouchedRow], _ order: [RowID], by stamp: Stamp
    ) throws {
        for row in order {
            guard let entry = touched[row], !entry.isAlive,
                entry.old?.state.deaths != entry.state.deaths
            else { continue }
            for (referring, table) in try rowsReferringInVain(to: row) {
                guard let loaded = try load(table, referring) else { continue }
                try journal(old: loaded, new: loaded, by: stamp)
            }
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

/// A reference that the journal lists: the conflict's name, and the visible write that refers.
struct ListedReference: Hashable {
    let id: ConflictID
    let write: Dot
}

extension Conflict {
    /// What it lists as leading nowhere; none where it is there because the model needs the reference,
    /// whatever was concurrent.
    var listedReferences: [ListedReference] {
        guard kind == .dangling, violation == nil else { return [] }
        return sides.compactMap(\.dot).map { ListedReference(id: id, write: $0) }
    }
}

extension RowState {
    /// The deletes that no other write to the row has seen.
    fileprivate var deaths: [Dot] {
        existence.siblings.filter { !$0.value.isAlive }.map(\.dot)
    }
}
