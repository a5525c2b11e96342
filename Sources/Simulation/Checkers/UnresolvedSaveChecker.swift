internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 12, of saves: nobody writes over an unresolved conflict unless they say that they resolve
/// it (DESIGN section 6).
///
/// Such a save dominates the siblings, so that the conflict is gone from every oracle: only at
/// what the save had seen does it show.
struct UnresolvedSaveChecker: Checker {
    let law = 12

    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        guard case .acknowledged(let node, let save, let result) = observation,
            let dot = result.transaction, let transaction = run.archive.transaction(dot),
            run.archive.covers(transaction.seen)
        else { return [] }
        let resolved = Self.resolved(by: save, transaction, run)
        for change in transaction.changes where !resolved.contains(change.row) {
            guard [.update, .delete].contains(change.kind),
                transaction.shapes.indices.contains(change.shape)
            else { continue }
            check(change, transaction.shapes[change.shape], of: transaction, resolved, node, run)
        }
        return findings.take()
    }

    /// The rows that a save says it resolves: those that it names so, those that readers see in
    /// their place, and those that its delete rules take along without naming them.
    private static func resolved(
        by save: SaveRequest, _ transaction: Transaction, _ run: RunContext
    ) -> Set<RowID> {
        let named = Set(save.operations.map(\.row))
        var resolved = Set(save.operations.filter(\.resolves).map(\.row))
        var deleted: [RowID: String] = [:]
        for change in transaction.changes where change.kind == .delete {
            guard transaction.shapes.indices.contains(change.shape) else { continue }
            deleted[change.row] = transaction.shapes[change.shape].entity
        }
        if resolved.isEmpty || deleted.keys.allSatisfy(named.contains) { return resolved }
        let oracle = run.archive.oracle(at: transaction.seen)
        resolved.formUnion(resolved.compactMap(oracle.survivor).filter { !named.contains($0) })
        var queue = resolved.filter { deleted[$0] != nil }.sorted()
        while let row = queue.popLast() {
            let entity = deleted[row].flatMap { run.model.entity(named: $0) }
            for relationship in entity?.relationships ?? []
            where relationship.description.deleteRule == .cascade {
                for member in oracle.members(row, relationship.name)
                where deleted[member] != nil && !named.contains(member) {
                    if resolved.insert(member).inserted { queue.append(member) }
                }
            }
        }
        return resolved
    }

    private mutating func check(
        _ change: Change, _ shape: ChangeShape, of transaction: Transaction,
        _ resolved: Set<RowID>, _ node: Int, _ run: RunContext
    ) {
        guard let policies = run.model.entity(named: shape.entity)?.policies,
            policies.entity.leavesUnresolved
                || policies.properties.contains(where: \.leavesUnresolved)
        else { return }
        let oracle = run.archive.oracle(
            at: transaction.seen, of: OracleChecker.subjects(ofEntity: shape.entity, run.model))
        let unresolved = oracle.unresolvedConflicts()
        if unresolved.isEmpty { return }
        // Who says it of one row of a group says it of all that are written with it.
        let shown = oracle.survivor(of: change.row) ?? change.row
        let standing = oracle.ownEntity(of: shown).flatMap { run.model.entity(named: $0) }
        let isWritten = standing?.policies.entity.leavesUnresolved == false
        let group = isWritten ? [shown] + oracle.eclipsed(by: shown).map(\.row) : []
        if group.contains(where: resolved.contains) { return }
        let written = change.kind == .update ? shape.assigned : []
        for subject in ["object"] + written {
            let id = ConflictID(entity: shape.entity, row: change.row, subject: subject).description
            guard unresolved.contains(id) else { continue }
            findings.note(
                "overwritten",
                "\(Telling.node(node)) \(transaction.dot): expected refused, for \(id) was "
                    + "unresolved and it does not say that it resolves it, found it saved")
        }
    }
}
