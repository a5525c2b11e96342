public import Merge
import Synchronization

/// The identity of an object: its entity and its row, as NSManagedObjectID.
///
/// Before its first save, or ``ManagedObjectContext/obtainPermanentIDs(for:)``, an object has a
/// temporary ID, whose number is below 0. No other object of the process has the same.
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

    /// Whether the object has no identity in the store yet.
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

    // swift-format-ignore: NoLeadingUnderscores
    /// The same, as the row does it.
    public func _rawHashValue(seed: Int) -> Int { row._rawHashValue(seed: seed) }

    /// Orders by row, then entity.
    public static func < (left: Self, right: Self) -> Bool {
        left.row == right.row ? left.entityName < right.entityName : left.row < right.row
    }

    /// `Entity/pDECIMAL`.
    public var description: String { "\(entityName)/p\(row.rawValue)" }
}

/// The numbers of objects that were never saved, unique in the process.
enum TemporaryRows {
    private static let last = Atomic<Int64>(0)

    /// The next, below all before.
    static func next() -> RowID { RowID(-last.add(1, ordering: .relaxed).newValue) }
}
