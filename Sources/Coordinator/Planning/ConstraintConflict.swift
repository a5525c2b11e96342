public import Merge

/// Objects of a save that would have one unique key, with each other or with an object of the
/// store, as NSConstraintConflict.
///
/// One for each set of objects: it names all the constraints by which they share values.
public struct ConstraintConflict: Hashable, Sendable {
    /// The entity of the objects that the constraint compares, with its sub-entities.
    let scope: String
    /// The properties of the constraint, or of all that these objects break.
    public internal(set) var constraint: [String]
    /// The values in dispute, by property.
    public internal(set) var constraintValues: [String: PropertyValue]
    /// The object of the store that has the key; nil where objects of the save alone compete.
    public let databaseObject: ManagedObjectID?
    /// Its values; nil where there is none.
    public let databaseSnapshot: [String: PropertyValue]?
    /// The objects of the save that want the key, inserted ones under their temporary identities.
    public internal(set) var conflictingObjects: [ManagedObjectID]
    /// For each of them the values that it had in the store; nil where the store has none of it.
    public let conflictingSnapshots: [[String: PropertyValue]?]
}

extension CoordinatorError {
    /// The refusal of a save that would give several objects one unique key.
    static func keyTaken(
        _ first: ConstraintConflict, of conflicts: [ConstraintConflict]
    ) -> CoordinatorError {
        let merge = conflicts.compactMap { conflict in
            (conflict.databaseObject ?? conflict.conflictingObjects.first).map { object in
                MergeConflict(
                    object: object, properties: conflict.constraint, oldVersion: nil,
                    newVersion: nil, objectSnapshot: nil,
                    cachedSnapshot: conflict.databaseSnapshot ?? conflict.constraintValues,
                    persistedSnapshot: nil)
            }
        }
        let names = first.constraint.joined(separator: " and ")
        var error = CoordinatorError(
            .constraintConflict, "\(first.scope) has another object with the same \(names).",
            conflicts: merge)
        error.constraintConflicts = conflicts
        return error
    }
}
