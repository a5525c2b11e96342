import Merge

/// A reference that the journal lists: the conflict's name, and the visible write that refers.
struct ListedReference: Hashable {
    let id: ConflictID
    let write: Dot
}

/// Which references that lead nowhere are conflicts (DESIGN section 5.4).
///
/// Only what was concurrent is one. Where a dead sibling of the target's existence register had seen the
/// reference's visible write, or that write had seen it, the reference was nullified knowingly.
///
/// **Why nodes that have seen the same agree.** The rule is a function of the registers of the two
/// rows and of what the transactions of their dots had seen, and so of the set of transactions. The log
/// tells that, and nothing is kept beside it:
/// 1. of what is in the log, and of what is being applied, its `seen` tells;
/// 2. a log loses its beginning, in the order of application. Where one of two has gone and the
///    other is there, the one that has gone was applied first, and had not seen the other. Of two stores
///    that are being joined the logs have no such order; what each had tells then;
/// 3. where both have gone, or the tombstone is collected, what the journal lists stays listed and
///    nothing else is, except a reference by an earlier write that comes to be shown only now, as of a
///    row that was eclipsed. So a settled conflict may be listed at one node, and not at another that
///    has collected the tombstone. Whatever a log purges is stable too, unless the log was at its limit.
///
/// A judgement stands until the reference is written again or its target is deleted again or is back:
/// other writes to the row ask the journal, not the log.
extension ConflictJournal {
    /// Tells whether a reference was a conflict, where the log has forgotten what would tell it: of the
    /// deletes of its target that are given.
    typealias ReferenceMemory = (ListedReference, _ deaths: [Dot]) throws -> Bool

    /// Those of a row's references that lead nowhere which are conflicts.
    ///
    /// - Parameters:
    ///   - judged: the positions that the journal has judged.
    ///   - shownAgain: the positions that were not shown before, or by another write.
    ///   - memory: nil for what the journal lists.
    func disputed(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)],
        judged: Set<Int> = [], shownAgain: Set<Int>? = nil, memory: ReferenceMemory? = nil
    ) throws -> [(position: Int, target: RowID)] {
        try dangling.filter { position, target in
            guard let write = row.shown(position)?.dot,
                let deaths = try deaths(of: target, row, position)
            else { return true }
            let reference = ListedReference(
                id: ConflictReport.danglingID(row, position), write: write)
            if judged.contains(position) { return try isListed(reference) }
            let answers = try deaths.map {
                try areOrdered($0, write, isInOrder: memory == nil)
            }
            if answers.contains(true) { return false }
            if !answers.isEmpty, !answers.contains(nil) { return true }
            if let memory { return try memory(reference, deaths) }
            // An earlier write that comes to be shown only now was judged by nobody: it is not lost
            // without a word.
            if shownAgain?.contains(position) ?? false, let applying = scratch.applying,
                applying.dot != write
            {
                return true
            }
            return try isListed(reference)
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

    func isListed(_ reference: ListedReference) throws -> Bool {
        try openEntry(reference.id)?.listedReferences.contains(reference) ?? false
    }

    /// The deletes of a reference's target; nil where it is a conflict whatever they are, for a rule of the
    /// model needs the reference, or something else than a delete makes it lead nowhere.
    func deaths(
        of target: RowID, _ row: LoadedRow, _ position: Int
    ) throws -> [Dot]? {
        let property = row.table.entity.properties[position]
        guard property.isOptional, case .toOne(let destination) = property.content else {
            return nil
        }
        let table = table(destination)
        // A living target is claimed by another, or shown as an object that the reference cannot
        // have.
        if try rowStore.isAlive(target, root: table.entity.root) { return nil }
        return try (scratch.dying[target] ?? rowStore.loadTombstone(table, target)?.state)?.deaths
            ?? []
    }

    /// Whether a delete and a write are not concurrent; nil where nobody can tell any more.
    ///
    /// - Parameter isInOrder: whether what has gone from the log was applied before what is there.
    private func areOrdered(_ one: Dot, _ other: Dot, isInOrder: Bool) throws -> Bool? {
        if one.actor == other.actor { return true }
        // A write that is here already cannot have seen one that is only now applied.
        if let applying = scratch.applying {
            if applying.dot == one { return applying.seen.contains(other) }
            if applying.dot == other { return applying.seen.contains(one) }
        }
        let past = try transactionLog.seen(by: one)
        if past?.contains(other) ?? false { return true }
        let otherPast = try transactionLog.seen(by: other)
        if otherPast?.contains(one) ?? false { return true }
        let isKnown =
            isInOrder ? past != nil || otherPast != nil : past != nil && otherPast != nil
        return isKnown ? false : nil
    }
}

extension Conflict {
    /// The references that it lists as without a target; none if it is there because the model
    /// needs the reference, whatever was concurrent.
    var listedReferences: [ListedReference] {
        guard kind == .dangling, violation == nil else { return [] }
        return sides.compactMap(\.dot).map { ListedReference(id: id, write: $0) }
    }
}

extension RowState {
    /// The deletes that no other write to the row has seen.
    var deaths: [Dot] {
        existence.siblings.filter { !$0.value.isAlive }.map(\.dot)
    }
}
