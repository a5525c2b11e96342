internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 3, of what a save carries along: a property that it did not assign has the value that the
/// register held in all that the save has seen, never its projection (DESIGN section 5.2).
///
/// The oracle of ``OracleChecker`` takes transactions at their word, so a value that was carried
/// wrongly would show as if somebody had meant it.
struct CarriedValueChecker: Checker {
    let law = 3

    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        guard case .committed(let node, let notice) = observation, notice.isLocal else {
            return []
        }
        for transaction in notice.transactions { check(transaction.transaction, node, run) }
        return findings.take()
    }

    private mutating func check(_ transaction: Transaction, _ node: Int, _ run: RunContext) {
        guard run.archive.covers(transaction.seen) else { return }
        for change in transaction.changes where change.kind == .update {
            guard transaction.shapes.indices.contains(change.shape) else { continue }
            let shape = transaction.shapes[change.shape]
            guard !shape.carried.isEmpty, change.values.count == shape.valueCount else { continue }
            let oracle = run.archive.oracle(
                at: transaction.seen,
                of: OracleChecker.subjects(ofEntity: shape.entity, run.model))
            // Of an eclipsed row that is written with its survivor, what that one shows counts.
            let survivor = oracle.survivor(of: change.row)
            let isGroups =
                survivor.map { row in
                    transaction.changes.contains { $0.kind == .update && $0.row == row }
                } ?? false
            // Other checkers report values that were not alive.
            guard survivor != nil || oracle.isAlive(change.row) else { continue }
            for (name, found) in zip(shape.carried, change.values[shape.assigned.count...]) {
                let own = oracle.ownValue(change.row, name) ?? .null
                var expected = oracle.rawValue(change.row, name) ?? own
                if let survivor, isGroups, own != found {
                    expected = oracle.rawValue(survivor, name) ?? own
                }
                if expected == found { continue }
                findings.note(
                    "carried",
                    "\(Telling.node(node)) \(transaction.dot) of \(shape.entity)/\(change.row)."
                        + "\(name): expected \(Telling.value(expected)) carried, which its "
                        + "register held, found \(Telling.value(found))")
            }
        }
    }
}
