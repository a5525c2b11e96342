import Merge

/// The objects of a fetch, read a batch at a time as they are touched, as the array that a fetch with a
/// batch size gives in Core Data.
///
/// It holds which objects there are, and the objects of the batches touched last. Others are made again
/// when they are touched again, or are those that somebody holds. An object that was deleted meanwhile
/// stays in its place, and is a deleted one.
///
/// Threading: as the objects, it belongs to its context's queue.
public struct FetchResultsCollection<Object: ManagedObject>: RandomAccessCollection {
    private let batches: FetchedBatches

    init(_ batches: FetchedBatches) { self.batches = batches }

    /// Always 0.
    public var startIndex: Int { 0 }
    /// How many objects there are.
    public var endIndex: Int { batches.count }
    /// The identities of all, in order; nothing is read.
    public var objectIDs: [ManagedObjectID] { batches.objectIDs }

    /// An object. The first touch of a batch reads its rows: one statement an entity.
    ///
    /// Reading cannot throw here. Where it fails the object is a fault, and the context says why at its
    /// next fetch or save: see ``ManagedObjectContext/faultingError``.
    public subscript(position: Int) -> Object {
        guard let object = batches.object(at: position) as? Object else {
            misuse(
                "\(batches.objectID(at: position)) is no \(Object.self); register the class with the "
                    + "context.", at: SourcePlace(#fileID, #line))
        }
        return object
    }
}

/// The batches of a fetch's objects. Belongs to the context's queue.
final class FetchedBatches {
    /// Batches with objects in use at once: the one that is touched, and those beside it.
    private static let kept = 3

    private let found: [ManagedObjectID]
    /// Those with unsaved changes at the fetch, by place: their identities may become others.
    private let pending: [Int: ManagedObject]
    private let context: ManagedObjectContext
    private let size: Int
    private let keyPaths: [String]
    private let entity: ManagedObjectModel.Entity
    /// The batches touched last, the latest at the end, each with what was prefetched along.
    private var recent: [(index: Int, objects: [ManagedObject], kept: [ManagedObject])] = []

    init(
        _ found: [PendingFetch.Found], _ context: ManagedObjectContext, size: Int,
        _ request: FetchRequest, _ entity: ManagedObjectModel.Entity
    ) {
        self.found = found.map(\.objectID)
        var pending: [Int: ManagedObject] = [:]
        for (place, one) in found.enumerated() {
            if case .pending(let object) = one { pending[place] = object }
        }
        self.pending = pending
        self.context = context
        self.size = size
        self.entity = entity
        keyPaths = request.relationshipKeyPathsForPrefetching
    }

    var count: Int { found.count }

    var objectIDs: [ManagedObjectID] {
        if pending.isEmpty { return found }
        return found.indices.map { objectID(at: $0) }
    }

    func objectID(at place: Int) -> ManagedObjectID { pending[place]?.objectID ?? found[place] }

    func object(at position: Int) -> ManagedObject {
        context.confine()
        let index = position / size
        if let place = recent.firstIndex(where: { $0.index == index }) {
            if place < recent.count - 1 { recent.append(recent.remove(at: place)) }
        } else {
            if recent.count >= Self.kept { recent.removeFirst() }
            let (objects, kept) = read(index)
            recent.append((index, objects, kept))
        }
        return recent[recent.count - 1].objects[position - index * size]
    }

    private func read(_ index: Int) -> (objects: [ManagedObject], kept: [ManagedObject]) {
        let range = index * size..<min((index + 1) * size, found.count)
        let objects = range.map { pending[$0] ?? context.object(with: found[$0]) }
        let faults = objects.filter { $0.isFault && $0.change == .none && !$0.isInaccessible }
        let batch = FaultBatch(faults.map(\.objectID))
        for object in faults { object.source = .batch(batch) }
        let registry = context.objectRegistry
        do {
            try registry.load(batch)
            for object in faults where object.isFault {
                guard case .none = object.source else { continue }
                registry.markInaccessible(object)
                if !context.shouldDeleteInaccessibleFaults {
                    registry.note(registry.missing(object.objectID))
                }
            }
            let kept = try Prefetcher(context: context).prefetch(
                keyPaths, along: objects, of: entity)
            return (objects, kept)
        } catch {
            registry.note(error)
            return (objects, [])
        }
    }
}

extension ManagedObjectContext {
    /// Fetches a list that is read a batch at a time as it is touched: one statement for which objects
    /// there are, and one an entity for each batch. To be used on its queue.
    ///
    /// Unsaved inserts are in their places, and unsaved deletes left out, as ``fetch(_:)`` does it, as
    /// of now. In a context that is pinned all batches are of one generation. Else each is of the
    /// newest at its time.
    ///
    /// - Parameters:
    ///   - request: without properties to fetch, and not to refresh what is fetched again; its result type
    ///     and `fetchBatchSize` are not regarded.
    ///   - batchSize: how many objects are read at a time, 1...10,000.
    ///   - type: the objects' class.
    /// - Throws: as ``fetch(_:)``.
    public func fetch<Object: ManagedObject>(
        _ request: FetchRequest, batchSize: Int, as type: Object.Type = ManagedObject.self,
        file: StaticString = #fileID, line: UInt = #line
    ) throws -> FetchResultsCollection<Object> {
        let place = SourcePlace(file, line)
        confine("fetch(_:batchSize:as:)", at: place)
        require(
            (1...10_000).contains(batchSize), "A batch has 1 to 10,000 objects, not \(batchSize).",
            at: place)
        try objectRegistry.throwFaultingError()
        guard request.propertiesToFetch.isEmpty, !request.shouldRefreshRefetchedObjects else {
            throw CoordinatorError(
                .malformed,
                "A batch has whole objects, without chosen properties, and refreshes none.")
        }
        let found = try pendingFetch.found(request, .identities)
        let entity = entityNamed(request.entityName, at: place)
        try Prefetcher(context: self).check(
            request.relationshipKeyPathsForPrefetching, of: entity)
        return FetchResultsCollection(
            FetchedBatches(found, self, size: batchSize, request, entity))
    }
}

extension ManagedObject {
    /// The identities of the objects that a relationship of an object leads to, unsaved changes
    /// included, sorted. No objects are made.
    ///
    /// - Precondition: The entity has that relationship.
    public func objectIDs(
        forRelationshipNamed name: String, file: StaticString = #fileID, line: UInt = #line
    ) -> [ManagedObjectID] {
        let place = SourcePlace(file, line)
        confine("objectIDs(forRelationshipNamed:)", at: place)
        guard let relationship = entity.relationship(named: name) else {
            misuse("\(entity.name) has no relationship \(name).", at: place)
        }
        guard let context = usableContext() else { return [] }
        guard case .column(let position) = relationship.storage else {
            return context.relationshipTracker.members(of: self, relationship).sorted()
        }
        guard case .reference(let row) = read(position) else { return [] }
        let destination = context.entityNamed(relationship.destination, at: place)
        if let known = context.objectRegistry.registered(row, destination) {
            return [known.objectID]
        }
        if destination.familyNames.count == 1 {
            return [ManagedObjectID(entityName: destination.name, row: row)]
        }
        do {
            guard let found = try context.objectRegistry.row(row, of: destination) else {
                return []
            }
            return [found.snapshot.objectID]
        } catch {
            context.objectRegistry.note(error)
            return []
        }
    }
}
