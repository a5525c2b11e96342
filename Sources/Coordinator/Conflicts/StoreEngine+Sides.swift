import Merge

/// Which side of a conflict somebody means.
extension StoreEngine {
    /// The side with a number, from 1, in the order in which they are listed.
    func side(numbered number: Int, in conflict: Conflict) throws -> ConflictSide {
        guard conflict.sides.indices.contains(number - 1) else {
            throw CoordinatorError(
                .sidesChanged,
                "\(conflict.id) has \(conflict.sides.count) sides, and no side \(number).")
        }
        return conflict.sides[number - 1]
    }

    /// The side that a transaction wrote; of several objects that it gave one key, that object's.
    func side(
        _ dot: Dot, of object: ManagedObjectID?, in conflict: Conflict
    ) throws -> ConflictSide {
        var sides = conflict.sides.filter { $0.dot == dot }
        guard let object else {
            guard sides.count < 2 else {
                let objects = sides.compactMap(\.object).map(\.description)
                throw CoordinatorError(
                    .sideAmbiguous,
                    "\(dot) wrote several sides of \(conflict.id), of \(objects.joined(separator: ", ")); "
                        + "name the object beside the side, or decide by changes of their keys, or "
                        + "by deleting objects.")
            }
            guard let side = sides.first else {
                throw CoordinatorError(.sidesChanged, "\(conflict.id) has no side \(dot).")
            }
            return side
        }
        let root = try entity(object).root
        sides = try sides.filter { side in
            let other = side.object ?? conflict.object
            return try other.row == object.row && entity(other).root == root
        }
        guard let side = sides.first else {
            throw CoordinatorError(
                .sidesChanged, "\(conflict.id) has no side \(dot) of \(object).")
        }
        return side
    }

    func side(by policy: MergePolicy, of conflict: Conflict) throws -> ConflictSide {
        let writes = conflict.sides.filter { !$0.isDeleted }
        let chosen: ConflictSide?
        switch policy {
        case .error, .errorByRow:
            throw CoordinatorError(.malformed, "Policy \(policy.rawValue) decides nothing.")
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            let deletion = conflict.sides.first(where: \.isDeleted)
            chosen =
                conflict.kind == .link
                ? (policy.choice == .earliest ? conflict.sides.first : conflict.sides.last)
                : deletion ?? (policy.choice == .earliest ? writes.first : writes.last)
        case .rollback: chosen = conflict.sides.first
        case .overwrite: chosen = conflict.sides.last
        }
        guard let chosen else {
            throw CoordinatorError(.conflictNotFound, "\(conflict.id) has no sides.")
        }
        return chosen
    }
}
