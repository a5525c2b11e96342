import GRDB
import Merge

/// The objects of a fetch as the store gives them, one after the other.
///
/// Of each its identity is known at once. Its values and what it is sorted by are read where somebody asks.
/// Valid as long as its reader.
struct FetchCursor {
    /// What the statement reads of each object.
    enum Content {
        /// Which it is.
        case identities
        /// Its row.
        case rows
    }

    private let reader: StoreReader
    private let statement: SQLStatement
    private let entity: ManagedObjectModel.Entity
    private let table: EntityTable
    private let actors: ActorTable
    /// Whether the statement gives the whole row, and not only its identity.
    private let isWhole: Bool
    /// The contents of the sort keys' columns, and where they begin.
    private let sortKeys: [ManagedObjectModel.Property.Content]
    private let firstSortKey: Int32

    /// Up to so many objects are sorted with all their values, which saves reading each of a page
    /// again.
    private static let sortedWhole = 256

    /// Begins a fetch.
    ///
    /// To sort many SQLite keeps all that it selects of them, and here in memory, so of those it is
    /// given their identities and what they are sorted by alone.
    ///
    /// - Parameter selectsSortKeys: whether ``sortValues()`` will be asked for.
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`.
    init(
        _ reader: StoreReader, _ request: FetchRequest, _ content: Content,
        selectsSortKeys: Bool = false
    ) throws {
        self.reader = reader
        entity = try reader.entity(request)
        table = reader.catalog.table(entity.name)
        let sorted =
            request.sortDescriptors.isEmpty
            ? 0 : request.fetchLimit == 0 ? .max : max(request.fetchLimit, request.fetchOffset)
        isWhole = content == .rows && !entity.sharesTable && sorted <= Self.sortedWhole
        let columns =
            entity.sharesTable
            ? ["_id", "_entity"] : isWhole ? table.selectedColumns : ["_id"]
        var request = request
        request.resultType = .objects
        let compiled = try reader.compile(
            request, selecting: columns.map { "t0.\($0)" }, selectsSortKeys: selectsSortKeys)
        statement = try reader.statement(compiled)
        sortKeys = compiled.columns.map(\.content)
        firstSortKey = Int32(columns.count)
        actors = try reader.actors()
    }

    /// Moves to the next object; false at the end.
    func next() throws -> Bool { try statement.step() }

    /// Ends the fetch before its end.
    func close() { statement.reset() }

    /// The current object's row.
    var row: RowID { RowID(statement.integer(0)) }

    /// The current object's identity.
    var objectID: ManagedObjectID {
        let name =
            entity.sharesTable
            ? reader.catalog.names.entityNames[statement.integer(1)] ?? entity.name : entity.name
        return ManagedObjectID(entityName: name, row: row)
    }

    /// The current object's values; nil where the table has a row of an entity that the model lacks.
    func snapshot() throws -> RowSnapshot? {
        if isWhole { return try reader.decode(statement, table, actors: actors) }
        guard entity.sharesTable else { return try reader.row(entity, row) }
        guard let name = reader.catalog.names.entityNames[statement.integer(1)],
            let concrete = reader.catalog.model.entity(named: name)
        else { return nil }
        return try reader.row(concrete, row)
    }

    /// What the current object is sorted by.
    func sortValues() throws -> [PropertyValue] {
        try sortKeys.enumerated().map { index, content in
            try statement.value(firstSortKey + Int32(index), content)
        }
    }
}
