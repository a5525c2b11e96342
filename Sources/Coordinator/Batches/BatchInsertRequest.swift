public import Merge

/// Inserts objects of one entity, as NSBatchInsertRequest.
///
/// If an object has a row's unique key already, the row updates that object: its relationships, and
/// attributes that the row does not give, stay.
public struct BatchInsertRequest: BatchRequest {
    /// The entity's name.
    public let entityName: String
    /// The kind of result to give.
    public var resultType: BatchRequestResultType
    /// How it is done.
    public var options: BatchOptions
    /// What it does.
    public var batch: Batch { Batch(kind: .insert(entityName, rows)) }

    private let rows: BatchRows

    /// Inserts the rows of a sequence. Each execution goes through it once, and holds the rows of one
    /// transaction at a time.
    ///
    /// - Parameters:
    ///   - entityName: the entity's name.
    ///   - objects: attributes and to-ones of each row by name. What a row does not give gets its default.
    public init(
        _ entityName: String, objects: some Sequence<[String: PropertyValue]> & Sendable,
        resultType: BatchRequestResultType = .statusOnly, options: BatchOptions = BatchOptions()
    ) {
        self.entityName = entityName
        self.resultType = resultType
        self.options = options
        rows = .objects(objects)
    }

    /// Inserts rows that a handler fills, one at a time.
    ///
    /// - Parameters:
    ///   - entityName: the entity's name.
    ///   - dictionaryHandler: gets an empty dictionary to fill, and gives true where there is no further
    ///     row. It is called by the thread that executes the request. What it throws ends the request. To
    ///     be repeated under a save ID it must give the same rows from the first one on.
    public init(
        _ entityName: String, resultType: BatchRequestResultType = .statusOnly,
        options: BatchOptions = BatchOptions(),
        dictionaryHandler: @escaping @Sendable (inout [String: PropertyValue]) throws -> Bool
    ) {
        self.entityName = entityName
        self.resultType = resultType
        self.options = options
        rows = .handler(dictionaryHandler)
    }
}

/// The rows of an insert.
enum BatchRows: Sendable {
    case objects(any Sequence<[String: PropertyValue]> & Sendable)
    case handler(@Sendable (inout [String: PropertyValue]) throws -> Bool)
}

/// Gives the rows of an insert, one after the other.
struct BatchRowIterator {
    private enum Source {
        case iterator(any IteratorProtocol<[String: PropertyValue]>)
        case handler((inout [String: PropertyValue]) throws -> Bool)
    }

    private var source: Source
    private var following: [String: PropertyValue]?
    private var isBegun = false

    init(_ rows: BatchRows) {
        source =
            switch rows {
            case .objects(let objects): .iterator(objects.makeIterator())
            case .handler(let handler): .handler(handler)
            }
    }

    /// The next rows, and whether there are more after them.
    ///
    /// - Parameter bytes: of their values in memory, about; the first row is given in any case.
    mutating func next(
        atMost count: Int, bytes: Int
    ) throws -> (rows: [[String: PropertyValue]], isLast: Bool) {
        if !isBegun { following = try one() }
        isBegun = true
        var rows: [[String: PropertyValue]] = []
        var left = bytes
        while rows.count < count, left > 0 || rows.isEmpty, let row = following {
            left -= row.values.reduce(0) { $0 + $1.memory }
            rows.append(row)
            following = try one()
        }
        return (rows, following == nil)
    }

    private mutating func one() throws -> [String: PropertyValue]? {
        switch source {
        case .iterator(var iterator):
            let row = iterator.next()
            source = .iterator(iterator)
            return row
        case .handler(let handler):
            var row: [String: PropertyValue] = [:]
            return try handler(&row) ? nil : row
        }
    }
}
