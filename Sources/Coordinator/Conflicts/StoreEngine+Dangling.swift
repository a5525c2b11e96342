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
///    other is there, the one that has gone was applied first, and had not seen the other. Of two stores
///    that are being joined the logs have no such order; what each had tells then;
/// 3. where both have gone, or the tombstone is collected, what the journal lists stays listed and
///    nothing else is. So a settled conflict may be listed at one node, and not at another that has
///    collected the tombstone. What a log lets go of is stable too, unless the log was at its limit.
///
/// A judgement stands until the reference is written again or its target is deleted again or is back:
/// other writes to the row ask the journal, not the log.
extension StoreEngine {
    /// Tells whether a reference was a conflict, where the log has forgotten what would tell it: of the
    /// deletes of its target that are given.
    typealias ReferenceMemory = (ListedReference, _ deaths: [Dot]) throws -> Bool

    /// Those of a row's references that lead nowhere which are conflicts.
    ///
    /// - Parameters:
    ///   - judged: the positions of which the journal has the judgement.
    ///   - memory: nil for what the journal lists.
    func disputed(
        _ row: LoadedRow, _ dangling: [(position: Int, target: RowID)],
        judged: Set<Int> = [], memory: ReferenceMemory? = nil
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
            return try memory?(reference, deaths) ?? isListed(reference)
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
    private func deaths(
        of target: RowID, _ row: LoadedRow, _ position: Int
    ) throws -> [Dot]? {
        let property = row.table.entity.properties[position]
        guard property.isOptional, case .toOne(let destination) = property.content else {
            return nil
        }
        let table = table(destination)
        // What is alive is claimed by another, or shown as what the reference cannot lead to.
        if try isAlive(target, root: table.entity.root) { return nil }
        return try (dying[target] ?? loadTombstone(table, target)?.state)?.deaths ?? []
    }

    /// Whether a delete and a write are not concurrent; nil where nobody can tell any more.
    ///
    /// - Parameter isInOrder: whether what has gone from the log was applied before what is there.
    private func areOrdered(_ one: Dot, _ other: Dot, isInOrder: Bool) throws -> Bool? {
        if one.actor == other.actor { return true }
        // What is here already cannot have seen what is only now applied.
        if let applying, applying.dot == one { return applying.seen.contains(other) }
        if let applying, applying.dot == other { return applying.seen.contains(one) }
        let past = try seen(by: one)
        if past?.contains(other) ?? false { return true }
        let otherPast = try seen(by: other)
        if otherPast?.contains(one) ?? false { return true }
        let isKnown =
            isInOrder ? past != nil || otherPast != nil : past != nil && otherPast != nil
        return isKnown ? false : nil
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
                try journal(old: loaded, new: loaded, by: stamp, isJudgedAnew: true)
            }
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
