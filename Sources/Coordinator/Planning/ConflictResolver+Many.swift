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
        var deletes: [RowID: Int] = [:]
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
                // A delete of the object decides over all of it.
                if deletes[operation.row] != nil { continue }
                if operation.kind == .delete {
                    deletes[operation.row] = operations.count
                    operations.append(operation)
                    continue
                }
                let place = Place(row: operation.row, isExact: operation.isExact)
                guard let known = places[place] else {
                    places[place] = operations.count
                    operations.append(operation)
                    continue
                }
                operations[known].add(
                    operation, winsOver: conflict.kind == .update || conflict.kind == .link)
            } catch let error as CoordinatorError where error.isOfOneConflict {
                outcome.skipped.append((wanted.id, error.message))
            }
        }
        let kept = operations.filter { $0.kind == .delete || deletes[$0.row] == nil }
        return (SaveRequest(operations: kept, by: who), outcome)
    }

    private struct Place: Hashable {
        let row: RowID
        let isExact: Bool
    }
}

extension SaveOperation {
    /// Adds what another operation writes to the same row.
    ///
    /// - Parameter isExact: whether its values win: a decision over a property says more of that than
    ///   one over the whole row.
    fileprivate mutating func add(_ other: SaveOperation, winsOver isExact: Bool) {
        let known = Set(values.map(\.position))
        if isExact {
            let replaced = Set(other.values.map(\.position))
            values = values.filter { !replaced.contains($0.position) } + other.values
        } else {
            values += other.values.filter { !known.contains($0.position) }
        }
        relationships += other.relationships
    }
}

extension CoordinatorError {
    /// Whether it says of one conflict that it cannot be decided so.
    fileprivate var isOfOneConflict: Bool {
        [.conflictNotFound, .sidesChanged, .malformed, .objectNotFound].contains(code)
    }
}

/// None of the conflicts can be decided so.
private struct NothingDecided: Error {}

/// The decision that the writer has planned, for the one who waits for its save.
private final class PlannedOutcome: Sendable {
    let outcome = Mutex(ManyResolved())
}

extension PersistentStoreCoordinator {
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
        let save: SaveResult
        do {
            save = try await saveWaiting(size: seen.count) { engine in
                let plan = try engine.resolver.resolution(of: seen, policy, by: who)
                planned.outcome.withLock { $0 = plan.outcome }
                guard !plan.request.operations.isEmpty else { throw NothingDecided() }
                return plan.request
            }
        } catch is NothingDecided { return planned.outcome.withLock { $0 } }
        var outcome = planned.outcome.withLock { $0 }
        outcome.save = save
        return outcome
    }
}

extension StoreReader {
    /// Tells what resolving conflicts as a policy chooses would decide, and writes nothing.
    package func tryResolving(
        _ seen: [SeenConflict], _ policy: MergePolicy
    ) throws -> ManyResolved {
        var outcome = ManyResolved()
        for wanted in seen {
            guard let conflict = try conflict(wanted.id), let side = conflict.side(shownBy: policy),
                conflict.kind != .uniqueness, conflict.kind != .count
            else {
                outcome.skipped.append((wanted.id, "It is resolved by itself."))
                continue
            }
            outcome.decided.append(.init(conflict: conflict, side: side))
        }
        return outcome
    }
}
