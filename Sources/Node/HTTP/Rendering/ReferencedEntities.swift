// The entities of the objects that references point to.

internal import Coordinator
internal import Merge

/// Tells the entity of an object that a reference leads to, so that every object has one URI only;
/// to be used within one read.
///
/// A reference leads to an object of its destination, or of an entity that inherits from it; only
/// the object's row tells which. Nothing is read where no entity inherits from the destination.
final class ReferencedEntities {
    private let reader: StoreReader
    private let model: ManagedObjectModel
    /// The entities of rows that were found. Those that are not there cost a look each time.
    private var known: [RowID: String] = [:]
    private static let rememberedRows = 10_000

    init(_ reader: StoreReader, _ model: ManagedObjectModel) {
        self.reader = reader
        self.model = model
    }

    /// The entity of a row; the destination if there is no such row, or not any more, or if another
    /// one is shown for it.
    func name(of row: RowID, destination: String) throws -> String {
        guard let entity = model.entity(named: destination), entity.familyNames.count > 1 else {
            return destination
        }
        if let name = known[row] { return name }
        guard let found = try reader.row(entity, row)?.objectID, found.row == row else {
            return destination
        }
        if known.count >= Self.rememberedRows { known = [:] }
        known[row] = found.entityName
        return found.entityName
    }
}
