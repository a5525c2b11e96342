import Merge

/// How faults get their values: from what was read already, where that is still the row, else from the store.
extension ObjectRegistry {
    private var cache: RowCache { persistentStoreCoordinator.rowCache }

    /// The generation that reads are from; nil for the newest, whichever that is then.
    var generation: UInt64? {
        if case .pinned(let pin) = graph.generation { return pin.token.generation }
        return nil
    }

    // MARK: Asking the store, or the parent

    /// The row of an entity, read now; it may be another that is shown in its place. Nil where there is
    /// none.
    func readRow(_ row: RowID, of entity: ManagedObjectModel.Entity) throws -> RowSnapshot? {
        if let parent = context.parent { return try parent.shown { try $0.row(row, of: entity) } }
        return try read { try $0.row(entity, row) }
    }

    /// The rows of an entity, read now, in no order, without those that are not there.
    func readRows(_ rows: [RowID], of entity: ManagedObjectModel.Entity) throws -> [RowSnapshot] {
        if let parent = context.parent {
            return try parent.shown { shown in
                try rows.compactMap { try shown.row($0, of: entity) }
            }
        }
        return try read { try $0.rows(entity, rows) }
    }

    /// What a to-many, or derived to-one, of a saved object leads to, read now.
    func readMembers(
        of relationship: ManagedObjectModel.Relationship, _ object: ManagedObject
    ) throws -> Set<ManagedObjectID> {
        if let parent = context.parent {
            return try parent.shown { try $0.members(of: relationship, object.objectID) }
        }
        return Set(
            try read {
                try $0.members(
                    of: relationship, entity: object.entity, row: object.objectID.row)
            })
    }

    /// Reads rows of the store, and keeps them for others.
    ///
    /// - Parameter body: gives what it has read with what is to be returned.
    func readRows<Result>(
        _ body: (StoreReader) throws -> (rows: [RowSnapshot], result: Result)
    ) throws -> (rows: [CachedRow], result: Result) {
        let now = persistentStoreCoordinator.options.monotonicMilliseconds()
        let (rows, result): ([CachedRow], Result) = try read { reader in
            let generation = try reader.generation
            let (rows, result) = try body(reader)
            return (
                rows.map { CachedRow($0, generation: generation, milliseconds: now) }, result
            )
        }
        cache.add(rows)
        graph.counting.countRows(rows.count)
        return (rows, result)
    }

    /// A row of an entity as the context's generation has it, from the cache or the store; nil where
    /// there is none. It may be another that is shown in its place.
    func row(_ row: RowID, of entity: ManagedObjectModel.Entity) throws -> CachedRow? {
        if context.parent != nil {
            graph.counting.countFault(isHit: true)
            return try readRow(row, of: entity).map(shownRow)
        }
        if let known = cachedRow(row) {
            if entity.familyNames.contains(known.snapshot.objectID.entityName) {
                graph.counting.countFault(isHit: true)
                return known
            }
        }
        graph.counting.countFault(isHit: false)
        return try readRows { (try $0.row(entity, row).map { [$0] } ?? [], ()) }.rows.first
    }

    /// A row as the parent shows it now. It holds for now alone: where a fault is fired later, the parent
    /// is asked again.
    private func shownRow(_ row: RowSnapshot) -> CachedRow {
        CachedRow(row, generation: 0, milliseconds: 0)
    }

    /// A row that the cache has, and that the context may use; never what a parent may show otherwise.
    func cachedRow(_ row: RowID) -> CachedRow? {
        if context.parent != nil { return nil }
        guard case .pinnedAtNextRead = graph.generation else {
            guard let known = cache.row(row, at: generation), isFresh(known.milliseconds) else {
                return nil
            }
            return known
        }
        return nil
    }

    /// Whether a row is not older than the context bears.
    private func isFresh(_ milliseconds: UInt64) -> Bool {
        let interval = context.stalenessInterval
        if interval < 0 { return true }
        let now = persistentStoreCoordinator.options.monotonicMilliseconds()
        return Double(now - min(now, milliseconds)) < interval * 1_000
    }

    /// Whether a row that was read already is what the context would read.
    func isUsable(_ row: CachedRow) -> Bool {
        isUsable(row.row, readAt: row.generation, row.milliseconds)
    }

    private func isUsable(_ row: RowID, readAt read: UInt64, _ milliseconds: UInt64) -> Bool {
        if context.parent != nil { return false }
        if case .pinnedAtNextRead = graph.generation { return false }
        guard isFresh(milliseconds) else { return false }
        // Of a file that another process writes an object is as the fetch found it.
        if generation == nil, !cache.hearsCommits { return true }
        return cache.isValid(row, readAt: read, at: generation)
    }

    /// Realises a fault.
    ///
    /// - Throws: ``CoordinatorError`` `objectNotFound` where the row is gone; whatever reading throws.
    func fulfill(_ object: ManagedObject) throws {
        if let parent = context.parent {
            graph.counting.countFault(isHit: true)
            let found =
                try object.isInaccessible
                ? nil
                : parent.shown { shown in
                    try shown.object(object.row, of: object.entity).map {
                        ($0, shown.snapshot(of: $0))
                    }
                }
            guard let (shown, row) = found, row.objectID == object.objectID else {
                markInaccessible(object)
                throw missing(object.objectID)
            }
            fill(object, with: row)
            object.shown = shown
            return
        }
        if case .batch(let batch) = object.source { try load(batch) }
        if case .row(let row) = object.source, isUsable(row) {
            graph.counting.countFault(isHit: true)
            return fill(object, with: row.snapshot)
        }
        object.source = .none
        guard !object.isInaccessible,
            let row = try row(object.objectID.row, of: object.entity),
            row.snapshot.objectID == object.objectID
        else {
            markInaccessible(object)
            throw missing(object.objectID)
        }
        fill(object, with: row.snapshot)
    }

    /// Whether a fault's values are nowhere at hand; only told where somebody writes down what is read.
    func mustBeRead(_ object: ManagedObject) -> Bool {
        guard persistentStoreCoordinator.options.sqlDebug != nil, object.isFault,
            object.change == .none, case .none = object.source
        else { return false }
        return cachedRow(object.objectID.row) == nil
    }

    /// A value that a fetch gave along with a fault, if it is still the row's.
    func partialValue(of object: ManagedObject, _ position: Int) -> PropertyValue? {
        guard object.isFault, case .partial(let partial) = object.source,
            let value = partial.values[position]
        else { return nil }
        return isUsable(object.objectID.row, readAt: partial.generation, partial.milliseconds)
            ? value : nil
    }

    /// Reads the rows of all objects of a batch that are still faults of it: one statement an entity.
    func load(_ batch: FaultBatch) throws {
        let objectIDs = batch.objectIDs
        batch.objectIDs = []
        var waiting: [ManagedObjectID: ManagedObject] = [:]
        for objectID in objectIDs {
            guard let object = graph.registry[objectID]?.object, object.isFault,
                case .batch(let other) = object.source, other === batch
            else { continue }
            object.source = .none
            if let known = cachedRow(objectID.row), known.snapshot.objectID == objectID {
                object.source = .row(known)
            } else {
                waiting[objectID] = object
            }
        }
        for row in try rows(waiting.keys.sorted()) {
            waiting[row.snapshot.objectID]?.source = .row(row)
        }
    }

    /// The rows of an entity, in no order, without those that are not there.
    func rows(_ rows: [RowID], of entity: ManagedObjectModel.Entity) throws -> [CachedRow] {
        if context.parent != nil { return try readRows(rows, of: entity).map(shownRow) }
        return try readRows { (try $0.rows(entity, rows), ()) }.rows
    }

    /// The rows of some objects, in no order, without those that are not there: one statement an entity.
    func rows(_ objectIDs: [ManagedObjectID]) throws -> [CachedRow] {
        if objectIDs.isEmpty { return [] }
        let byEntity = Dictionary(grouping: objectIDs, by: \.entityName)
        if context.parent != nil {
            return try byEntity.keys.sorted().flatMap { name in
                try rows(byEntity[name]?.map(\.row) ?? [], of: context.entityNamed(name))
            }
        }
        return try readRows { reader in
            var rows: [RowSnapshot] = []
            for name in byEntity.keys.sorted() {
                guard let entity = managedObjectModel.entity(named: name) else { continue }
                rows += try reader.rows(entity, byEntity[name]?.map(\.row) ?? [])
            }
            return (rows, ())
        }.rows
    }
}
