package import Merge

/// What another merge policy would have shown, by the conflicts that a store has and had.
package struct PolicyTrial: Sendable {
    /// A value that would be another.
    package struct Change: Sendable {
        /// The conflict.
        package let conflict: Conflict
        /// The side that is shown, or was when it closed; nil where none is.
        package let shown: ConflictSide?
        /// The side that the policy would show; nil where it leaves that undecided.
        package let would: ConflictSide?
    }

    /// How many conflicts were looked at.
    package var looked = 0
    /// How many of them would show something else, or nothing decided.
    package var changed = 0
    /// The newest of those.
    package var changes: [Change] = []
}

extension Conflict {
    /// The side that a policy would show; nil where it leaves that undecided, or where it is for other
    /// conflicts.
    package func side(shownBy policy: MergePolicy) -> ConflictSide? {
        let writes = sides.filter { !$0.isDeleted }
        switch policy {
        case .error, .errorByRow, .named: return nil
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            if kind == .link { return policy.choice == .earliest ? sides.first : sides.last }
            return sides.first(where: \.isDeleted)
                ?? (policy.choice == .earliest ? writes.first : writes.last)
        case .rollback: return sides.first
        case .overwrite: return sides.last
        }
    }
}

extension StoreReader {
    /// The most conflicts that a trial looks at, newest first.
    private static var tried: Int { 1_000_000 }

    /// Tells what a policy would show of the conflicts of an entity, open and closed. Nothing is written.
    ///
    /// Of a conflict that somebody resolved it compares with the decision's side, where that was one.
    ///
    /// - Parameters:
    ///   - policy: not an application's own.
    ///   - entity: with those that inherit from it.
    ///   - property: only over this one; nil for all.
    ///   - limit: how many changes are given, newest first.
    /// - Throws: ``CoordinatorError`` (`malformed`) for an unknown entity or property.
    package func tryPolicy(
        _ policy: MergePolicy, entity: String, property: String? = nil, limit: Int
    ) throws -> PolicyTrial {
        guard let named = catalog.model.entity(named: entity) else {
            throw CoordinatorError(.malformed, catalog.model.noEntity(entity))
        }
        if let property, named.position(of: property) == nil,
            named.relationship(named: property) == nil
        {
            throw CoordinatorError(.malformed, named.noProperty(property))
        }
        let family = Set(named.familyNames)
        var trial = PolicyTrial()
        var query = ConflictQuery(limit: 10_000)
        while trial.looked < Self.tried {
            var last: ConflictPlace?
            var count = 0
            try forEachConflict(query) { conflict, place in
                (last, count) = (place, count + 1)
                guard family.contains(conflict.id.entity), conflict.isOfPolicy else { return true }
                if let property, conflict.property != property { return true }
                trial.looked += 1
                let shown = conflict.sides.first(where: \.isVisible)
                let would = conflict.side(shownBy: policy)
                if shown?.dot == would?.dot, would != nil || conflict.state == .unresolved {
                    return true
                }
                trial.changed += 1
                if trial.changes.count < limit {
                    trial.changes.append(.init(conflict: conflict, shown: shown, would: would))
                }
                return true
            }
            guard count == query.limit, let last else { break }
            try checkGoingOn()
            query.after = last
        }
        return trial
    }
}

extension Conflict {
    /// Whether a merge policy of the model decides it.
    fileprivate var isOfPolicy: Bool { [.update, .delete, .row, .link].contains(kind) }
}
