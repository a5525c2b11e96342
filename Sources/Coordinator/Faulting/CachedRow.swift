import Merge

/// A row as it was read in a generation. Shared by the row cache and the faults that wait for its values.
final class CachedRow: Sendable {
    let snapshot: RowSnapshot
    /// The generation that it was read from.
    let generation: UInt64
    /// When, in milliseconds of the coordinator's monotonic clock.
    let milliseconds: UInt64

    init(_ snapshot: RowSnapshot, generation: UInt64, milliseconds: UInt64) {
        self.snapshot = snapshot
        self.generation = generation
        self.milliseconds = milliseconds
    }

    var row: RowID { snapshot.objectID.row }

    /// About how much memory it takes, in bytes.
    var size: Int {
        snapshot.values.reduce(200) { $0 + $1.memory }
    }
}

/// Chosen values of a row, which a fetch gave for an object that stays a fault.
final class PartialRow: Sendable {
    /// By position; nil where the fetch did not ask for it.
    let values: [PropertyValue?]
    let generation: UInt64
    let milliseconds: UInt64

    init(_ values: [PropertyValue?], generation: UInt64, milliseconds: UInt64) {
        self.values = values
        self.generation = generation
        self.milliseconds = milliseconds
    }
}

/// The objects of a fetch that are read together, once the first of them is touched.
///
/// Belongs to its context's queue.
final class FaultBatch {
    /// Those that were not read yet.
    var objectIDs: [ManagedObjectID]

    init(_ objectIDs: [ManagedObjectID]) { self.objectIDs = objectIDs }
}

/// Where a fault's values are to be had without asking the store for it alone.
enum FaultSource {
    /// Nowhere.
    case none
    /// A row that was read already.
    case row(CachedRow)
    /// Some values of it; the others are not read yet.
    case partial(PartialRow)
    /// A batch that is read as a whole.
    case batch(FaultBatch)
}
