public import Merge

/// The identity of an object: its entity and its row, as NSManagedObjectID.
///
/// Before its first save an object has a temporary ID, whose number is below 0 and means
/// something only within its context.
public struct ManagedObjectID: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The name of the object's entity.
    public let entityName: String
    /// The row's identity.
    public let row: RowID

    /// Composes an identity.
    public init(entityName: String, row: RowID) {
        self.entityName = entityName
        self.row = row
    }

    /// Whether the object was never saved.
    public var isTemporaryID: Bool { row.rawValue < 0 }

    /// The URI of the object in a cluster: `x-tributary://CLUSTER/Entity/pDECIMAL`.
    public func uriRepresentation(cluster: String) -> String {
        "x-tributary://\(cluster)/\(entityName)/p\(row.rawValue)"
    }

    /// Whether both name the same row, by the same entity.
    public static func == (left: Self, right: Self) -> Bool {
        left.row == right.row && left.entityName == right.entityName
    }

    /// Hashes the row alone: two entities of a store have no row in common.
    public func hash(into hasher: inout Hasher) { hasher.combine(row) }

    /// Orders by row, then entity.
    public static func < (left: Self, right: Self) -> Bool {
        left.row == right.row ? left.entityName < right.entityName : left.row < right.row
    }

    /// `Entity/pDECIMAL`.
    public var description: String { "\(entityName)/p\(row.rawValue)" }
}
