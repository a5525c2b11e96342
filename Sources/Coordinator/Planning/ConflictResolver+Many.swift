package import Merge
import Synchronization

/// A conflict as somebody has seen it, who decides over many.
package struct SeenConflict: Hashable, Sendable {
    /// Its name.
    package let id: ConflictID
    /// The transactions of its sides.
    package let sides: [Dot]

    /// What of a conflict was seen.
    package init(_ conflict: Conflict) {
        id = conflict.id
        sides = conflict.sides.compactMap(\.dot)
    }
}

/// The decision over many conflicts.
package struct ManyResolved: Sendable {
    /// One that is decided: the side that a policy chooses.
    package struct Decided: Hashable, Sendable {
        /// The conflict.
        package let conflict: Conflict
        /// The side.
        package let side: ConflictSide
    }

    /// The conflicts that are decided.
    package var decided: [Decided] = []
    /// Those that are left open, each with the reason.
    package var skipped: [(id: ConflictID, reason: String)] = []
    /// The save; nil where there was nothing to decide, or where it was only tried.
    package var save: SaveResult?

    /// No decision.
    package init() {}
}

extension ConflictResolver {
    /// The save that resolves many conflicts as a policy chooses, and what it decides. Those that have closed
    /// or changed since they were seen are left out, as are those that no policy alone can decide.
    func resolution(
        of seen: [SeenConflict], _ policy: MergePolicy, by who: SaveDescription
    ) throws -> (request: SaveRequest, outcome: ManyResolved) {
        var outcome = ManyResolved()
        var operations: [SaveOperation] = []
        var places: [Place: Int] = [:]
        for wanted in seen {
            do {
                guard let conflict = try view.openEntry(wanted.id) else {
                    throw CoordinatorError(.conflictNotFound, "It has closed meanwhile.")
                }
                try check(wanted.sides, are: conflict.sides.compactMap(\.dot), of: wanted.id)
                guard conflict.kind != .uniqueness, conflict.kind != .count else {
                    throw CoordinatorError(
                        .malformed, "A \(conflict.kind.rawValue) conflict is resolved by itself.")
                }
                let side = try side(by: policy, of: conflict)
                let operation = try exact(try choosing(side, of: conflict), of: conflict)
                outcome.decided.append(.init(conflict: conflict, side: side))
                let place = Place(row: operation.row, isExact: operation.isExact)
                guard let known = places[place] else {
                    places[place] = operations.count
                    operations.append(operation)
                    continue
                }
                // A delete of the object decides over all of it.
                if operation.kind == .delete || operations[known].kind == .delete {
                    if operation.kind == .delete { operations[known] = operation }
                } else {
                    operations[known].values += operation.values
                    operations[known].relationships += operation.relationships
                }
            } catch let error as CoordinatorError where error.isOfOneConflict {
                outcome.skipped.append((wanted.id, error.message))
            }
        }
        return (SaveRequest(operations: operations, by: who), outcome)
    }

    private struct Place: Hashable {
        let row: RowID
        let isExact: Bool
    }
}

extension CoordinatorError {
    /// Whether it says of one conflict that it cannot be decided so.
    fileprivate var isOfOneConflict: Bool {
        [.conflictNotFound, .sidesChanged, .malformed, .objectNotFound].contains(code)
    }
}

/// The decision that the writer has planned, for the one who waits for its save.
private final class PlannedOutcome: Sendable {
    let outcome = Mutex(ManyResolved())
}

extension PersistentStoreCoordinator {
    /// Tells what ``resolve(_:_:by:)`` would decide, and writes nothing. Blocks while it is planned.
    package func tryResolving(
        _ seen: [SeenConflict], _ policy: MergePolicy
    ) throws -> ManyResolved {
        try maintainBlocking { engine in
            try engine.resolver.resolution(of: seen, policy, by: SaveDescription()).outcome
        }
    }

    /// Resolves many conflicts as a policy chooses, by one save.
    ///
    /// - Parameters:
    ///   - seen: the conflicts, as somebody has seen them.
    ///   - policy: chooses a side of each.
    ///   - who: who decides, where and why.
    /// - Throws: as ``resolve(_:_:sides:author:contextName:note:)``, and `limitExceeded` where they are of
    ///   more than 20,000 objects.
    package func resolve(
        _ seen: [SeenConflict], _ policy: MergePolicy, by who: SaveDescription
    ) async throws -> ManyResolved {
        let planned = PlannedOutcome()
        let save = try await saveWaiting(size: seen.count) { engine in
            let plan = try engine.resolver.resolution(of: seen, policy, by: who)
            planned.outcome.withLock { $0 = plan.outcome }
            guard !plan.request.operations.isEmpty else {
                throw CoordinatorError(
                    .conflictNotFound, "None of the conflicts can be decided so.")
            }
            return plan.request
        }
        var outcome = planned.outcome.withLock { $0 }
        outcome.save = save
        return outcome
    }
}
