import GRDB
import Merge

/// The objects of a fetch as the store gives them, one after the other.
///
/// Of each its identity is known at once. Its values are read where somebody asks for them, perhaps together
/// with those of the next. Valid as long as its reader.
final class FetchCursor {
    /// What the statement reads of each object.
    enum Content {
        /// Which it is.
        case identities
        /// Its row.
        case rows
        /// Some of its properties, by name.
        case properties([String])
    }

    private let reader: StoreReader
    private let statement: SQLStatement
    private let entity: ManagedObjectModel.Entity
    private let table: EntityTable
    private let actors: ActorTable
    /// Whether the statement gives the whole row, and not only its identity.
    private let isWhole: Bool
    /// The names of the properties that are read alone, and where their columns begin.
    private let properties: [String]
    private let firstProperty: Int32
    /// The contents of the sort keys' columns, and where they begin.
    private let sortKeys: [ManagedObjectModel.Property.Content]
    private let firstSortKey: Int32

    /// Up to so many objects are sorted with all their values, which saves reading each of a page
    /// again.
    private static let sortedWhole = 256
    /// How many objects are read together, where the statement gives identities alone.
    private static let chunkSize = 256

    private let run: FetchRun
    /// How many rows the statement has given.
    private var given = 0

    /// An object as a statement of identities alone gave it.
    private struct Waiting {
        let objectID: ManagedObjectID
        let sortValues: [PropertyValue]
    }

    /// Those that the statement gave last, and which of them is the current one.
    private var chunk: [Waiting] = []
    private var place = 0
    /// The rows of the chunk, once somebody has asked for one.
    private var rows: [ManagedObjectID: RowSnapshot]?
    private let isByChunk: Bool
    private var isOver = false
    private var last: RowVersion?

    /// Begins a fetch.
    ///
    /// - Parameters:
    ///   - selectsSortKeys: whether ``sortValues()`` will be asked for.
    ///   - isHeld: whether all objects will be held in memory. If not they are not held to be sorted
    ///     either: SQLite keeps all that it selects of what it sorts, so of many it is given
    ///     their identities and what they are sorted by alone.
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`.
    init(
        _ reader: StoreReader, _ request: FetchRequest, _ content: Content,
        selectsSortKeys: Bool = false, isHeld: Bool = false
    ) throws {
        self.reader = reader
        entity = try reader.entity(request)
        table = reader.catalog.table(entity.name)
        let sorted =
            request.sortDescriptors.isEmpty
            ? 0 : request.fetchLimit == 0 ? .max : max(request.fetchLimit, request.fetchOffset)
        if case .rows = content {
            isWhole = !entity.sharesTable && (isHeld || sorted <= Self.sortedWhole)
            isByChunk = !isWhole
        } else {
            isWhole = false
            isByChunk = false
        }
        var columns =
            entity.sharesTable
            ? ["_id", "_entity"] : isWhole ? table.selectedColumns : ["_id"]
        firstProperty = Int32(columns.count)
        if case .properties(let names) = content {
            for name in names where entity.columnPosition(of: name) == nil {
                throw CoordinatorError(
                    .malformed,
                    "A fetch of objects can read the stored attributes and to-ones of "
                        + "\(entity.name) alone, and \"\(name)\" is none of them.")
            }
            properties = names
            columns += names.map(EntityTable.quote)
        } else {
            properties = []
        }
        var request = request
        request.resultType = .objects
        let compiled = try reader.compile(
            request, selecting: columns.map { "t0.\($0)" }, selectsSortKeys: selectsSortKeys,
            isHeld: isHeld)
        statement = try reader.statement(compiled)
        sortKeys = compiled.columns.map(\.content)
        firstSortKey = Int32(columns.count)
        actors = try reader.actors()
        run = reader.begin(compiled)
    }

    deinit { run.end(rows: given) }

    private func step() throws -> Bool {
        guard try statement.step() else { return false }
        given += 1
        return true
    }

    /// Moves to the next object; false at the end.
    func next() throws -> Bool {
        guard isByChunk else { return try step() }
        place += 1
        if place < chunk.count { return true }
        chunk.removeAll(keepingCapacity: true)
        rows = nil
        place = 0
        // A statement that is stepped past its end begins once more.
        while !isOver, chunk.count < Self.chunkSize {
            isOver = try !step()
            if isOver { break }
            chunk.append(Waiting(objectID: currentID, sortValues: try currentSortValues()))
        }
        return !chunk.isEmpty
    }

    /// Ends the fetch before its end.
    func close() { statement.reset() }

    /// The current object's identity.
    var objectID: ManagedObjectID { isByChunk ? chunk[place].objectID : currentID }

    private var currentID: ManagedObjectID {
        let name =
            entity.sharesTable
            ? reader.catalog.names.entityNames[statement.integer(1)] ?? entity.name : entity.name
        return ManagedObjectID(entityName: name, row: RowID(statement.integer(0)))
    }

    /// The current object's values; nil where the table has a row of an entity that the model lacks.
    func snapshot() throws -> RowSnapshot? {
        if isWhole {
            let snapshot = try reader.decode(statement, table, actors: actors, last: last)
            last = snapshot.version
            return snapshot
        }
        if rows == nil {
            let byEntity = Dictionary(grouping: chunk[place...].map(\.objectID), by: \.entityName)
            var found: [ManagedObjectID: RowSnapshot] = [:]
            for name in byEntity.keys.sorted() {
                guard let entity = reader.catalog.model.entity(named: name) else { continue }
                for row in try reader.rows(entity, byEntity[name]?.map(\.row) ?? []) {
                    found[row.objectID] = row
                }
            }
            rows = found
        }
        return rows?[objectID]
    }

    /// The current object's values of the properties that are read alone.
    func partial(generation: UInt64, milliseconds: UInt64) throws -> PartialRow {
        let concrete = reader.catalog.table(objectID.entityName).entity
        var values = [PropertyValue?](repeating: nil, count: concrete.columns.count)
        for (index, name) in properties.enumerated() {
            guard let position = concrete.columnPosition(of: name) else { continue }
            values[position] = try statement.value(
                firstProperty + Int32(index), concrete.columns[position].content)
        }
        return PartialRow(values, generation: generation, milliseconds: milliseconds)
    }

    /// What the current object is sorted by.
    func sortValues() throws -> [PropertyValue] {
        isByChunk ? chunk[place].sortValues : try currentSortValues()
    }

    private func currentSortValues() throws -> [PropertyValue] {
        try sortKeys.enumerated().map { index, content in
            try statement.value(firstSortKey + Int32(index), content)
        }
    }
}
