internal import Coordinator
internal import Merge

/// A context with objects that a client fetched, kept over several steps while others save.
///
/// It belongs to the coordinator of one process, and ends with it.
final class KeptContext {
    /// The context.
    let context: ManagedObjectContext
    /// The objects fetched, each with the row as it was then; strongly held, for a context lets go
    /// of objects that nobody uses.
    private(set) var objects: [(object: ManagedObject, fetched: RowSnapshot)] = []
    /// How many saves it has tried.
    var saves = 0

    init(_ coordinator: PersistentStoreCoordinator) { context = ManagedObjectContext(coordinator) }

    /// Fetches objects, and the same rows beside the context, of the same generation: nothing is
    /// saved in between.
    ///
    /// - Throws: CoordinatorError where the store cannot be read.
    func fetch(_ ids: [ManagedObjectID], _ session: WorkloadSession) throws {
        for id in ids where !objects.contains(where: { $0.1.objectID == id }) {
            guard let row = session.row(id) else { continue }
            let object = try context.performAndWait { try context.existingObject(with: id) }
            objects.append((object, row))
        }
    }

    /// After a save, what it wrote is what was fetched; objects that are gone are forgotten.
    func settle(_ after: [ManagedObjectID: RowSnapshot?]) {
        objects = context.performAndWait {
            objects.compactMap { object, fetched in
                guard object.managedObjectContext != nil else { return nil }
                guard let row = after[object.objectID] else { return (object, fetched) }
                return row.map { (object, $0) }
            }
        }
    }

    /// Whether the context has an object in the version that the store shows.
    func shows(_ row: RowSnapshot?) -> Bool {
        guard let row else { return false }
        return context.performAndWait {
            objects.contains { object, _ in
                object.objectID == row.objectID && object.version == row.version
            }
        }
    }

    /// Takes objects that the context itself deleted out of the references that were fetched, as
    /// their delete rule does: the context knows of that by itself, and no row gets a version by it.
    func nullify(_ deleted: [ManagedObjectID], _ model: ManagedObjectModel) {
        if deleted.isEmpty { return }
        let gone = Set(deleted.map { PropertyValue.reference($0.row) })
        let places = ModelStructure.toOnes(model).filter {
            $0.inverse?.description.deleteRule == .nullify
        }
        objects = objects.map { object, fetched in
            var values = fetched.values
            for place in places
            where place.entity === object.entity && gone.contains(values[place.position]) {
                values[place.position] = .null
            }
            return (
                object,
                RowSnapshot(
                    objectID: fetched.objectID, version: fetched.version, values: values,
                    isConflicted: fetched.isConflicted)
            )
        }
    }

    /// Gives up all changes; the objects stay as they were fetched, but for those that are gone.
    func rollBack() {
        objects = context.performAndWait {
            context.rollback()
            return objects.filter { $0.object.managedObjectContext != nil }
        }
    }
}
