import Merge

/// Works out what a dictionary fetch selects and groups by.
struct DictionarySelection {
    private typealias Content = ManagedObjectModel.Property.Content

    private struct Item {
        let name: String
        let expression: String
        let content: ManagedObjectModel.Property.Content
    }

    private let request: FetchRequest
    private var plain: [Item] = []
    private var aggregates: [Item] = []
    private var grouped: [Item] = []
    private var items: [Item] = []

    init(
        _ request: FetchRequest, _ paths: PathResolver, _ builder: inout SQLBuilder
    ) throws {
        self.request = request
        var properties = request.propertiesToFetch
        if properties.isEmpty {
            properties =
                request.propertiesToGroupBy.isEmpty
                ? paths.entity.columns.map { .keyPath($0.name) }
                : request.propertiesToGroupBy.map { .keyPath($0) }
        }
        for key in request.propertiesToGroupBy {
            grouped.append(try Self.item(key, paths, &builder))
        }
        for property in properties {
            let item: Item
            switch property {
            case .keyPath(let path):
                item = try Self.item(path, paths, &builder)
                plain.append(item)
            case .aggregate(let name, let function, let path):
                item = try Self.aggregate(
                    name, function, path, position: items.count, paths, &builder)
                aggregates.append(item)
            }
            guard !items.contains(where: { $0.name == item.name }) else {
                throw FetchRequestError("\"\(item.name)\" is to be fetched twice")
            }
            items.append(item)
        }
        guard !grouped.isEmpty || !aggregates.isEmpty else { return }
        for item in plain where !grouped.contains(where: { $0.name == item.name }) {
            throw FetchRequestError(
                "\"\(item.name)\" is neither grouped by nor an aggregate")
        }
    }

    /// The selection.
    func selection() -> Selection {
        var selection = Selection(
            expressions: items.map(\.expression),
            columns: items.map { CompiledFetch.Column(name: $0.name, content: $0.content) })
        selection.groups = grouped.map(\.expression)
        let isAggregate = !aggregates.isEmpty || !grouped.isEmpty
        guard isAggregate || request.returnsDistinctResults else { return selection }
        let named = isAggregate ? aggregates + grouped : items
        var names: [(name: String, position: Int, type: AttributeType)] = []
        for (position, item) in named.enumerated() {
            guard case .attribute(let type) = item.content,
                !names.contains(where: { $0.name == item.name })
            else { continue }
            names.append((item.name, position, type))
        }
        selection.names = names
        selection.expressionsByPosition = named.map(\.expression)
        selection.tieBreakers =
            isAggregate && !request.returnsDistinctResults
            ? selection.groups : selection.expressions
        return selection
    }

    private static func item(
        _ text: String, _ paths: PathResolver, _ builder: inout SQLBuilder
    ) throws -> Item {
        if PeriodKey.isFunction(text) {
            let key = try PeriodKey(text, paths)
            return Item(name: text, expression: try key.sql(&builder), content: .attribute(.date))
        }
        let path = try paths.resolve(try PredicateParser.keyPath(text), offset: 0)
        guard path.firstToMany == nil else {
            throw FetchRequestError("\"\(text)\" leads to many and cannot be a value")
        }
        let content: Content
        switch path.terminal {
        case .attribute(_, let type), .column(_, let type): content = .attribute(type)
        case .count: content = .attribute(.integer64)
        case .aggregate(let aggregate): content = .attribute(aggregate.type)
        case .entityName: content = .attribute(.string)
        case .object(let entity): content = .toOne(destination: entity)
        }
        return Item(name: text, expression: try builder.value(path), content: content)
    }

    /// - Parameter position: which of the properties it is, for what cannot be added up: see
    ///   ``AggregateFunctions``.
    private static func aggregate(
        _ name: String, _ function: FetchedProperty.Function, _ text: String, position: Int,
        _ paths: PathResolver, _ builder: inout SQLBuilder
    ) throws -> Item {
        guard !name.isEmpty, name.utf8.count <= 200 else {
            throw FetchRequestError("the name of an aggregate has 1 to 200 bytes")
        }
        if text.isEmpty {
            guard function == .count else {
                throw FetchRequestError("\"\(name)\" needs a key path")
            }
            return Item(name: name, expression: "count(*)", content: .attribute(.integer64))
        }
        let item = try item(text, paths, &builder)
        if function == .count {
            return Item(
                name: name, expression: "count(\(item.expression))",
                content: .attribute(.integer64))
        }
        guard case .attribute(let type) = item.content else {
            throw FetchRequestError("\"\(name)\": objects have no \(function.rawValue)")
        }
        if function == .min || function == .max {
            let expression = builder.ordered(item.expression, type)
            return Item(
                name: name, expression: "\(function.rawValue)(\(expression))",
                content: item.content)
        }
        switch type {
        case .integer16, .integer32, .integer64:
            let sum =
                "\(FetchCompiler.integerSumFunction)(\(position), "
                + "sum(\(item.expression) >> 32), sum(\(item.expression) & 4294967295))"
            return function == .sum
                ? Item(name: name, expression: sum, content: .attribute(.integer64))
                : Item(
                    name: name, expression: "avg(\(item.expression))",
                    content: .attribute(.double))
        case .double, .float:
            return Item(
                name: name, expression: Self.ofDoubles(item.expression, function),
                content: .attribute(.double))
        case .decimal:
            let aggregate =
                function == .sum
                ? FetchCompiler.decimalSumFunction : FetchCompiler.decimalAverageFunction
            return Item(
                name: name, expression: "\(aggregate)(\(position), \(item.expression))",
                content: item.content)
        default:
            throw FetchRequestError(
                "\"\(name)\": a \(type.rawValue) has no \(function.rawValue)")
        }
    }

    /// The sum or the mean of doubles, as their columns keep them: SQLite has no NaN, so one is kept
    /// as bytes, which it would add as 0; and NULL is what it makes of Infinity - Infinity.
    private static func ofDoubles(
        _ number: String, _ function: FetchedProperty.Function
    ) -> String {
        let notANumber = "x'7FF8000000000000'"
        let (result, none) = function == .sum ? ("sum", "0.0") : ("avg", "NULL")
        return "CASE WHEN count(\(number)) = 0 THEN \(none) "
            + "WHEN total(typeof(\(number)) = 'blob') > 0 THEN \(notANumber) "
            + "ELSE COALESCE(\(result)(\(number)), \(notANumber)) END"
    }
}
