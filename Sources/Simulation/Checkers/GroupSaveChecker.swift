internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 3, of what a save to a group writes: what is written to the row that is shown is written to
/// every row that it eclipses, and a delete deletes them all (DESIGN section 5.5).
///
/// The oracle of ``OracleChecker`` takes transactions at their word, so a row that a save had left
/// out would show as if nobody had meant it.
struct GroupSaveChecker: Checker {
    let law = 3

    /// By how its author begins a person's decision is known, which is for the rows it names alone.
    private static let inspector = "inspector"

    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        guard case .committed(let node, let notice) = observation, notice.isLocal,
            !UniqueKeys.entities(run.model).isEmpty
        else { return [] }
        for transaction in notice.transactions { check(transaction.transaction, node, run) }
        return findings.take()
    }

    private mutating func check(_ transaction: Transaction, _ node: Int, _ run: RunContext) {
        guard run.archive.covers(transaction.seen),
            transaction.author?.hasPrefix(Self.inspector) != true
        else { return }
        let kinds = Dictionary(
            transaction.changes.filter { $0.target == nil }.map { ($0.row, $0.kind) },
            uniquingKeysWith: { first, _ in first })
        for change in transaction.changes where [.update, .delete].contains(change.kind) {
            guard transaction.shapes.indices.contains(change.shape) else { continue }
            let shape = transaction.shapes[change.shape]
            guard let entity = run.model.entity(named: shape.entity),
                !entity.policies.entity.leavesUnresolved,
                UniqueKeys.entities(run.model).contains(where: { $0.root == entity.root })
            else { continue }
            let oracle = run.archive.oracle(
                at: transaction.seen, of: OracleChecker.subjects(ofEntity: entity.name, run.model))
            for (row, _) in oracle.eclipsed(by: change.row) where kinds[row] != change.kind {
                // A row of another entity of the hierarchy may lack what was assigned.
                let other = oracle.ownEntity(of: row)
                if change.kind == .update, other != entity.name { continue }
                findings.note(
                    "left",
                    "\(Telling.node(node)) \(transaction.dot) \(change.kind) of \(entity.name)/"
                        + "\(change.row): expected the same of \(row), which it eclipsed, found "
                        + (kinds[row].map { "\($0)" } ?? "nothing"))
            }
        }
    }
}
