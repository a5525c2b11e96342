import Merge
import Synchronization

/// An object that is not kept alive.
struct WeakObject {
    weak var object: ManagedObject?
}

/// The objects of a context: one instance a row, faults and how they are filled.
struct ObjectRegistry: ContextPart {
    let context: ManagedObjectContext

    func missing(_ objectID: ManagedObjectID) -> CoordinatorError {
        CoordinatorError(.objectNotFound, "\(objectID) does not exist.")
    }

    // MARK: Uniquing

    func register(_ object: ManagedObject) {
        makeRoom(for: 1)
        graph.registry[object.objectID] = WeakObject(object: object)
        if type(of: object) != ManagedObject.self { graph.hasSubclasses = true }
        graph.retained?.insert(object)
    }

    /// Makes room for so many objects more. Where so many came since the last time, those that nobody uses
    /// any more go first.
    func makeRoom(for count: Int) {
        guard graph.registry.count + count > graph.registrySweep else { return }
        graph.registry = graph.registry.filter { $0.value.object != nil }
        graph.registrySweep = max(1024, (graph.registry.count + count) * 2)
        graph.registry.reserveCapacity(graph.registry.count + count)
    }

    func makeFault(
        _ objectID: ManagedObjectID, _ entity: ManagedObjectModel.Entity
    ) -> ManagedObject {
        let object = context.objectClass(of: entity).init(entity: entity, insertInto: nil)
        object.row = objectID.row
        object.managedObjectContext = context
        register(object)
        return object
    }

    /// The registered objects that are still in use, sorted by ID.
    func liveObjects() -> [ManagedObject] {
        graph.registry.values.compactMap(\.object).sorted { $0.objectID < $1.objectID }
    }

    /// The object that a reference points to. The reference does not have its concrete entity.
    func resolve(_ row: RowID, destination: String) -> ManagedObject? {
        let entity = context.entityNamed(destination)
        if let object = registered(row, entity) { return object }
        if row.rawValue < 0 { return nil }
        if entity.familyNames.count == 1 {
            return makeFault(ManagedObjectID(entityName: entity.name, row: row), entity)
        }
        // Class and ID depend on the concrete entity, so the row must be read now.
        do {
            if let found = try self.row(row, of: entity) { return fault(for: found) }
        } catch { note(error) }
        return makeFault(ManagedObjectID(entityName: entity.name, row: row), entity)
    }

    /// The object of a row that the context has, of an entity or one that inherits from it.
    func registered(_ row: RowID, _ entity: ManagedObjectModel.Entity) -> ManagedObject? {
        for name in entity.familyNames {
            if let object = graph.registry[ManagedObjectID(entityName: name, row: row)]?.object {
                return object
            }
        }
        return nil
    }

    /// Fires a fault for property access, which cannot throw.
    func fire(_ object: ManagedObject) {
        guard object.isFault, !object.isInaccessible, object.change == .none else { return }
        do {
            try context.fulfillFault(object)
        } catch let error as CoordinatorError where error.code == .objectNotFound {
            let handler = context.settings.withLock(\.inaccessibleFaultHandler)
            if !(handler?(object) ?? context.shouldDeleteInaccessibleFaults) { note(error) }
        } catch { note(error) }
    }

    func note(_ error: any Error) {
        guard graph.faultingError == nil else { return }
        graph.faultingError =
            error as? CoordinatorError ?? CoordinatorError(.inputOutput, "\(error)")
    }

    func throwFaultingError() throws {
        if let error = graph.faultingError { throw error }
    }

    /// The one object of a row that was read; where it is a fault, it has its values from there.
    func fault(for row: CachedRow) -> ManagedObject {
        let objectID = row.snapshot.objectID
        let object =
            graph.registry[objectID]?.object
            ?? makeFault(objectID, context.entityNamed(objectID.entityName))
        if object.isFault, object.change == .none {
            object.source = .row(row)
            object.isInaccessible = false
        }
        return object
    }

    /// The one object of a row that was read, realised.
    func object(for row: CachedRow) -> ManagedObject {
        let object = fault(for: row)
        if object.isFault, object.change == .none {
            if context.parent == nil { fill(object, with: row.snapshot) } else { fire(object) }
        }
        return object
    }

    func fill(_ object: ManagedObject, with row: RowSnapshot) {
        object.values = row.values
        object.snapshot = row.values
        object.version = row.version
        object.source = .none
        object.isFault = false
        object.isInaccessible = false
        let wasAwakening = graph.isAwakening
        graph.isAwakening = true
        object.awakeFromFetch()
        graph.isAwakening = wasAwakening
    }

    /// Makes a clean object a fault again; its transient values stay.
    func turnIntoFault(_ object: ManagedObject) {
        let wasFault = object.isFault
        if !wasFault { object.willTurnIntoFault() }
        defer { if !wasFault { object.didTurnIntoFault() } }
        object.values = []
        object.snapshot = []
        object.version = nil
        object.assigned = []
        object.nullified = []
        object.memberBases = [:]
        object.shown = nil
        object.source = .none
        object.isFault = true
        object.isInaccessible = false
    }

    func markInaccessible(_ object: ManagedObject) {
        turnIntoFault(object)
        object.isInaccessible = true
    }

    /// Cuts an object off from the context for good.
    func detach(_ object: ManagedObject) {
        graph.retained?.remove(object)
        graph.registry[object.objectID] = nil
        object.change = .none
        object.memberBases = [:]
        object.shown = nil
        object.source = .none
        object.managedObjectContext = nil
    }

    /// The pin to read from, which is taken now if the context is to be pinned at its next read; nil for
    /// the newest generation.
    func readingPin() throws -> GenerationPin? {
        // A merge policy decides about what others have saved since.
        if graph.settled != nil { return nil }
        switch graph.generation {
        case .newest: return nil
        case .pinned(let pin): return pin
        case .pinnedAtNextRead:
            let pin = try persistentStoreCoordinator.pinCurrentGeneration()
            graph.generation = .pinned(pin)
            return pin
        }
    }

    /// Reads the store, without what any context has not saved, from the generation that the context is
    /// pinned to, or the newest.
    func read<Result>(_ body: (StoreReader) throws -> Result) throws -> Result {
        if let parent = context.parent {
            return try parent.performAndWait { try parent.objectRegistry.read(body) }
        }
        return try persistentStoreCoordinator.read(try readingPin()) { reader in
            var reader = reader
            reader.counting = graph.counting
            return try body(reader)
        }
    }

    /// Moves a pinned context to the newest generation; others stay unpinned.
    ///
    /// Cannot fail: where no pin is to be had, the next read takes one or says why not.
    func renewGeneration() {
        if case .newest = graph.generation { return }
        do {
            graph.generation = .pinned(try persistentStoreCoordinator.pinCurrentGeneration())
        } catch { graph.generation = .pinnedAtNextRead }
    }
}
