import Merge
import Synchronization

/// The objects that a transaction of a batch was done with, known once it is planned.
final class WrittenObjects: Sendable {
    private let isKept: Bool
    private let content = Mutex<(count: Int, objects: [ManagedObjectID])>((0, []))

    /// - Parameter isKept: whether it is asked which they are.
    init(isKept: Bool) { self.isKept = isKept }

    var count: Int { content.withLock(\.count) }
    var objects: [ManagedObjectID] { content.withLock(\.objects) }

    func note(_ operations: [SaveOperation]) {
        content.withLock { content in
            content.count = operations.count
            guard isKept else { return }
            content.objects = operations.map {
                ManagedObjectID(entityName: $0.entity.name, row: $0.row)
            }
        }
    }
}

/// The work as operations of a save.
extension ResolvedBatch {
    /// Whether it goes on where it stopped: what is left can be chosen again.
    var goesOn: Bool {
        guard let request else { return true }
        return request.fetchLimit == 0 && request.fetchOffset == 0
            && (request.predicate == nil || condition != nil)
    }

    /// How many of some rows, from the first, make a transaction of so many bytes; at least one.
    func count(of rows: ArraySlice<RowID>, within bytes: Int, _ reader: StoreReader) throws -> Int {
        var fixed = 0
        if case .update(let values) = action { fixed = values.reduce(0) { $0 + $1.value.memory } }
        guard let sizes = keptBytes(reader.catalog) else {
            return min(rows.count, max(1, bytes / max(1, fixed)))
        }
        let statement = try reader.database.prepared(
            "SELECT _id, \(sizes) FROM \(EntityTable.quote(entity.root)) "
                + "WHERE _id IN (SELECT value FROM json_each(?1)) ORDER BY _id")
        statement.bind(1, "[\(rows.map { "\($0.rawValue)" }.joined(separator: ","))]")
        defer { statement.reset() }
        var left = bytes
        var last: RowID?
        while try statement.step() {
            left -= fixed + Int(statement.integer(1))
            if left < 0, let last { return rows.prefix { $0 <= last }.count }
            last = RowID(statement.integer(0))
        }
        return rows.count
    }

    /// SQL of the bytes that an object adds to its change beside what is assigned: what history keeps of a
    /// deleted one, or all that it has where its row is one register; nil where that is nothing of note.
    private func keptBytes(_ catalog: StoreCatalog) -> String? {
        var names = Set<String>()
        for name in entity.familyNames {
            let table = catalog.table(name)
            var positions = table.preserved
            if case .update = action {
                positions =
                    table.entity.policies.isRowGrained ? Array(table.contents.indices) : []
            }
            for position in positions {
                switch table.contents[position] {
                case .attribute(.string), .attribute(.binary), .attribute(.uri),
                    .attribute(.decimal):
                    names.insert(table.entity.properties[position].name)
                default: continue
                }
            }
        }
        if names.isEmpty { return nil }
        return names.sorted().map {
            "coalesce(length(CAST(\(EntityTable.quote($0)) AS BLOB)), 0)"
        }.joined(separator: " + ")
    }

    /// Objects that were chosen, and where in the log.
    struct Chosen: Sendable {
        let rows: [RowID]
        let position: UInt64
    }

    /// Chooses the objects of a request that is several transactions.
    func chosen(_ reader: StoreReader) throws -> Chosen {
        Chosen(rows: try choose(reader), position: try reader.token.position)
    }

    /// The rows of the objects that the request is for, sorted.
    func choose(_ reader: StoreReader) throws -> [RowID] {
        guard var request else { return named }
        request.propertiesToFetch = []
        request.relationshipKeyPathsForPrefetching = []
        let cursor = try FetchCursor(reader, request, .identities)
        defer { cursor.close() }
        var rows: [RowID] = []
        while try cursor.next() { rows.append(cursor.objectID.row) }
        return rows.sorted()
    }

    /// How many objects the request is for.
    func count(_ reader: StoreReader) throws -> Int {
        if let request { return try reader.count(request) }
        return try named.count { try reader.row(entity, $0)?.objectID.row == $0 }
    }

    /// What is done with those of the rows that are still there, and still meant.
    ///
    /// - Parameter isAsChosen: whether nobody else has written since the rows were chosen.
    func operations(
        _ rows: some Collection<RowID>, _ view: StoreView, _ options: BatchOptions,
        _ written: WrittenObjects, isAsChosen: Bool
    ) throws -> [SaveOperation] {
        let table = view.table(entity.name)
        // What this request did before was nothing to objects without relationships.
        let isKnown = isAsChosen && request != nil && table.isApart && !entity.sharesTable
        let rows = Array(rows)
        var operations: [SaveOperation] = []
        operations.reserveCapacity(rows.count)
        var valuesOfHeirs: [String: [(position: Int, value: PropertyValue)]] = [:]
        func append(_ row: RowID, _ own: ManagedObjectModel.Entity) {
            var operation = SaveOperation(
                kind: .delete, entity: own, row: row, resolves: options.resolvesConflicts)
            if case .update(let values) = action {
                operation.kind = .update
                operation.values =
                    valuesOfHeirs[own.name]
                    ?? values.map { position, value in
                        (own.position(of: entity.properties[position].name) ?? position, value)
                    }
                valuesOfHeirs[own.name] = operation.values
            }
            operations.append(operation)
        }
        if isKnown {
            for row in rows { append(row, entity) }
        } else {
            try choose(again: rows, view, append)
        }
        written.note(operations)
        return operations
    }

    /// Gives those of the rows that are there, and still meant, each with its entity.
    private func choose(
        again rows: [RowID], _ view: StoreView, _ body: (RowID, ManagedObjectModel.Entity) -> Void
    ) throws {
        let table = view.table(entity.name)
        let plainRows = try view.plainRows(of: table)
        var start = 0
        while start < rows.count {
            let end = PlainRowStore.end(of: rows, from: start) { $0 }
            let plain = try plainRows?.load(rows[start], count: end - start)
            for (place, row) in rows[start..<end].enumerated() {
                if let row = plain?[place] {
                    let object = StoredObject(row, of: table, view)
                    if try condition?.matches(object) ?? true { body(row.row, entity) }
                } else if let own = try meant(row, table, view) {
                    body(row, own)
                }
            }
            start = end
        }
    }

    /// The entity of a row that is there, and still meant; nil of any other.
    private func meant(
        _ row: RowID, _ table: EntityTable, _ view: StoreView
    ) throws -> ManagedObjectModel.Entity? {
        guard let loaded = try view.load(table, row), loaded.isVisible,
            loaded.table.entity.isKind(of: entity),
            try condition?.matches(StoredObject(loaded, view)) ?? true
        else { return nil }
        return loaded.table.entity
    }

    /// Inserts of rows.
    func inserts(
        _ rows: [[String: PropertyValue]], _ options: BatchOptions, _ written: WrittenObjects
    ) throws -> [SaveOperation] {
        // Rows mostly have the same properties, so that they are sorted once.
        var form: [(name: String, position: Int)] = []
        let operations = try rows.enumerated().map { place, row in
            var values = Self.values(row, of: entity, like: form)
            if values == nil {
                let sorted = try Self.values(row, of: entity)
                form = sorted.map { (entity.properties[$0.position].name, $0.position) }
                values = sorted
            }
            return SaveOperation(
                kind: .insert, entity: entity, row: RowID(-1 - Int64(place)),
                values: values ?? [], resolves: options.resolvesConflicts)
        }
        written.note(operations)
        return operations
    }

    /// How many objects a transaction of an earlier run was done with, as far as it tells: objects of the
    /// entity that a cascade took along count too.
    func count(_ transaction: EncodedTransaction?) -> Int {
        guard let transaction = transaction?.transaction else { return 0 }
        let isMeant = transaction.shapes.map { entity.familyNames.contains($0.entity) }
        return transaction.changes.count { isMeant[$0.shape] }
    }

    /// What tells the request from others under its save ID; of an insert that is its entity, and whether it
    /// is atomic.
    func fingerprint(isAtomic: Bool) -> [UInt8] {
        var writer = CBORWriter(capacity: 256)
        writer.write(entity.name)
        writer.write(isAtomic)
        switch action {
        case .insert: writer.write("insert")
        case .delete: writer.write("delete")
        case .update(let values):
            writer.write("update")
            for (position, value) in values {
                writer.write(entity.properties[position].name)
                writer.write(value)
            }
        }
        writer.write(request?.predicate?.description)
        for descriptor in request?.sortDescriptors ?? [] { writer.write(descriptor.text) }
        writer.write(Int64(request?.fetchLimit ?? 0))
        writer.write(Int64(request?.fetchOffset ?? 0))
        writer.write(request?.includesSubentities ?? true)
        for row in named { writer.write(row.rawValue) }
        var hasher = StableHasher(seed: 0xBA7C)
        hasher.combine(writer.bytes)
        return hasher.finalizedBytes
    }
}
