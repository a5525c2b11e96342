/// An opening's choice if the store was written with another model.
public enum ModelMigration: Hashable, Sendable {
    /// It is refused, with `modelMismatch`.
    case none
    /// It is migrated where the way can be inferred, and refused where it cannot, or where rows
    /// there are have one key of a constraint that is new. A store that is refused is as before.
    case inferred
    /// The same, but rows that have one key form a group, as if several nodes had inserted them:
    /// where others have migrated already, refusing would not keep them apart.
    case inferredGroupingDuplicates
}
