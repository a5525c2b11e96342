import Merge

/// A predicate resolved against the model: every key path known, every constant of its type.
///
/// SQL and memory both work from this, so that they cannot understand a predicate differently.
indirect enum ResolvedPredicate: Hashable, Sendable {
    case constant(Bool)
    case and([ResolvedPredicate])
    case or([ResolvedPredicate])
    case not(ResolvedPredicate)
    /// A test of the one value at a path.
    case test(ResolvedPath, ValueTest)
    /// A test of two values, whose paths lead through no to-many.
    case paths(ResolvedPath, PredicateComparison.Operator, ResolvedPath, ComparisonOptions)
    /// A test of the many values at a path.
    case quantified(PredicateComparison.Quantifier, ResolvedPath, ValueTest)
}

/// A test of one value. Of null it is unknown, but for the tests of null itself.
enum ValueTest: Hashable, Sendable {
    case isNull
    case isNotNull
    /// One of == != < <= > >=, the constant folded already.
    case compare(PredicateComparison.Operator, PropertyValue, ComparisonOptions)
    /// Both ends included, folded already.
    case between(PropertyValue, PropertyValue, ComparisonOptions)
    /// One of values, folded already. Of no values it is false, even of null.
    case isIn([PropertyValue], ComparisonOptions)
    /// A comparison of texts, the needle folded already but for a regular expression.
    case text(TextComparison, String, ComparisonOptions)
}

/// Resolves predicates.
struct PredicateResolver {
    /// How many constants a predicate may have, lists included; SQLite binds 32,766.
    static let maximumConstants = 30_000

    private typealias Operator = PredicateComparison.Operator
    private typealias Expression = PredicateComparison.Expression

    let paths: PathResolver
    /// The cluster that object URIs must have; nil for any.
    let cluster: String?
    private var constants = 0

    init(paths: PathResolver, cluster: String?) {
        self.paths = paths
        self.cluster = cluster
    }

    /// Resolves a predicate.
    ///
    /// - Throws: ``PredicateError`` with the comparison that is at fault.
    mutating func resolve(
        _ predicate: Predicate, depth: Int = 0
    ) throws(PredicateError) -> ResolvedPredicate {
        guard depth <= PredicateParser.maximumDepth * 3 else {
            throw PredicateError("the predicate nests too deeply", offset: 0)
        }
        switch predicate {
        case .constant(let truth): return .constant(truth)
        case .and(let parts): return .and(try resolve(parts, depth))
        case .or(let parts): return .or(try resolve(parts, depth))
        case .not(let part): return .not(try resolve(part, depth: depth + 1))
        case .comparison(let comparison): return try resolve(comparison)
        }
    }

    private mutating func resolve(
        _ parts: [Predicate], _ depth: Int
    ) throws(PredicateError) -> [ResolvedPredicate] {
        var result: [ResolvedPredicate] = []
        for part in parts { result.append(try resolve(part, depth: depth + 1)) }
        return result
    }

    // MARK: Comparisons

    private mutating func resolve(
        _ comparison: PredicateComparison
    ) throws(PredicateError) -> ResolvedPredicate {
        let offset = comparison.offset
        switch (comparison.left, comparison.right) {
        case (.keyPath(let left), .keyPath(let right)):
            return try resolve(
                comparison, paths.resolve(left, offset: offset),
                paths.resolve(right, offset: offset))
        case (.keyPath(let path), .constant(let constant)):
            return try resolve(
                comparison, paths.resolve(path, offset: offset), comparison.comparison, constant)
        case (.constant(let constant), .keyPath(let path)):
            let resolved = try paths.resolve(path, offset: offset)
            if comparison.comparison == .isIn, resolved.firstToMany != nil {
                return try resolve(comparison, resolved, .equal, constant, implied: .any)
            }
            guard let mirrored = comparison.comparison.mirrored else {
                throw PredicateError(
                    "\(comparison.comparison.rawValue) needs a key path at its left",
                    offset: offset)
            }
            return try resolve(comparison, resolved, mirrored, constant)
        case (.constant, .constant):
            throw PredicateError(
                "neither side is a key path; TRUEPREDICATE and FALSEPREDICATE are always and "
                    + "never true", offset: offset)
        }
    }

    private mutating func resolve(
        _ comparison: PredicateComparison, _ path: ResolvedPath, _ comparisonOperator: Operator,
        _ constant: PredicateValue, implied: PredicateComparison.Quantifier? = nil
    ) throws(PredicateError) -> ResolvedPredicate {
        var quantifier = comparison.quantifier ?? implied
        var comparisonOperator = comparisonOperator
        if quantifier == nil, comparisonOperator == .contains, path.firstToMany != nil,
            path.type == nil
        {
            quantifier = .any
            comparisonOperator = .equal
        }
        let test: ValueTest
        do {
            test = try valueTest(path, comparisonOperator, constant, comparison.options)
        } catch { throw PredicateError(error.message, offset: comparison.offset) }
        switch (quantifier, path.firstToMany != nil) {
        case (nil, false): return .test(path, test)
        case (let quantifier?, true): return .quantified(quantifier, path, test)
        case (nil, true):
            throw PredicateError(
                "the path leads to many: say ANY, ALL or NONE before it, or @count after it",
                offset: comparison.offset)
        case (let quantifier?, false):
            throw PredicateError(
                "\(quantifier.rawValue) needs a path that leads to many",
                offset: comparison.offset)
        }
    }

    private func resolve(
        _ comparison: PredicateComparison, _ left: ResolvedPath, _ right: ResolvedPath
    ) throws(PredicateError) -> ResolvedPredicate {
        func fault(_ message: String) -> PredicateError {
            PredicateError(message, offset: comparison.offset)
        }
        guard comparison.quantifier == nil, left.firstToMany == nil, right.firstToMany == nil
        else { throw fault("two key paths can be compared only where both lead to one value") }
        let name = comparison.comparison.rawValue
        guard comparison.comparison.isOrdering || comparison.comparison.isEquality else {
            throw fault("\(name) needs a constant at its right")
        }
        switch (left.terminal, right.terminal) {
        case (.object(let first), .object(let second)):
            guard comparison.comparison.isEquality, comparison.options.isEmpty else {
                throw fault("objects can be compared with == and != only")
            }
            guard
                paths.model.entity(named: first)?.root == paths.model.entity(named: second)?.root
            else { throw fault("a \(first) is never a \(second)") }
        case (.object, _), (_, .object): throw fault("an object is no value")
        default:
            guard let first = left.type, let second = right.type,
                first.comparesAs == second.comparesAs
            else { throw fault("the two sides are of types that do not compare") }
            guard comparison.options.isEmpty || first == .string else {
                throw fault("[c] and [d] are for strings")
            }
        }
        return .paths(left, comparison.comparison, right, comparison.options)
    }

    // MARK: Tests

    private mutating func valueTest(
        _ path: ResolvedPath, _ comparison: Operator, _ constant: PredicateValue,
        _ options: ComparisonOptions
    ) throws(JSONConversionError) -> ValueTest {
        let isNull = constant == .null || constant == .value(.null)
        if isNull, comparison.isEquality {
            return comparison == .equal ? .isNull : .isNotNull
        }
        guard options.isEmpty || path.type == .string || path.type == .uri else {
            throw JSONConversionError("[c] and [d] are for strings")
        }
        switch comparison {
        case .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual:
            if path.type == nil, !comparison.isEquality {
                throw JSONConversionError("objects can be compared with == and != only")
            }
            let bound = try value(constant, path, options)
            if let integer = IntegerPlace.between(constant, path.type) {
                return IntegerPlace.test(comparison, above: integer)
            }
            return .compare(comparison, bound, options)
        case .between:
            guard path.type != nil, case .list(let ends) = constant, ends.count == 2 else {
                throw JSONConversionError("BETWEEN needs a list of two values")
            }
            let low = try value(ends[0], path, options)
            let above = IntegerPlace.between(ends[0], path.type).map { IntegerPlace.next($0) }
            return .between(above ?? low, try value(ends[1], path, options), options)
        case .isIn:
            guard case .list(let elements) = constant else {
                throw JSONConversionError("IN needs a list")
            }
            var values: [PropertyValue] = []
            values.reserveCapacity(elements.count)
            for element in elements {
                if element == .null { throw JSONConversionError("nil cannot be in a list") }
                let member = try value(element, path, options)
                if IntegerPlace.between(element, path.type) == nil { values.append(member) }
            }
            return values.isEmpty && !elements.isEmpty ? IntegerPlace.never : .isIn(values, options)
        case .beginsWith, .endsWith, .contains, .like, .matches:
            return try text(path, comparison, constant, options)
        }
    }

    private mutating func text(
        _ path: ResolvedPath, _ comparison: Operator, _ constant: PredicateValue,
        _ options: ComparisonOptions
    ) throws(JSONConversionError) -> ValueTest {
        guard path.type == .string || path.type == .uri else {
            throw JSONConversionError("\(comparison.rawValue) is for strings")
        }
        let needle: String
        switch constant {
        case .string(let text), .value(.string(let text)): needle = text
        default: throw JSONConversionError("\(comparison.rawValue) needs a string at its right")
        }
        try count()
        let kind: TextComparison =
            switch comparison {
            case .beginsWith: .beginsWith
            case .endsWith: .endsWith
            case .contains: .contains
            case .like: .like
            default: .matches
            }
        if kind == .matches {
            do {
                _ = try RegularExpression(needle, options: options)
            } catch { throw JSONConversionError(error.message) }
            return .text(kind, needle, options)
        }
        guard kind != .like || needle.utf8.count <= 10_000 else {
            throw JSONConversionError("a pattern of LIKE has at most 10000 bytes")
        }
        return .text(kind, TextFolding.fold(needle, options), options)
    }

    private mutating func count() throws(JSONConversionError) {
        constants += 1
        guard constants <= Self.maximumConstants else {
            throw JSONConversionError("more than \(Self.maximumConstants) constants")
        }
    }

    private mutating func value(
        _ constant: PredicateValue, _ path: ResolvedPath, _ options: ComparisonOptions
    ) throws(JSONConversionError) -> PropertyValue {
        try count()
        guard case .object(let entity) = path.terminal else {
            let value = try ConstantCoercion.coerce(constant, to: path.type ?? .string)
            switch value {
            case .string(let text): return .string(TextFolding.fold(text, options))
            case .uri(let text): return .uri(TextFolding.fold(text, options))
            default: return value
            }
        }
        let object: ManagedObjectID
        switch constant {
        case .object(let given): object = given
        case .string(let text), .value(.string(let text)), .value(.uri(let text)):
            guard let uri = ObjectURI(text) else {
                throw JSONConversionError(
                    "expected an object's URI, not \(ConstantCoercion.shortened(constant))")
            }
            if let cluster, cluster != uri.cluster {
                throw JSONConversionError("the object is of another cluster, \(uri.cluster)")
            }
            object = uri.objectID
        default:
            throw JSONConversionError(
                "expected an object, not \(ConstantCoercion.shortened(constant))")
        }
        guard let given = paths.model.entity(named: object.entityName),
            given.root == paths.model.entity(named: entity)?.root
        else { throw JSONConversionError("\(object.entityName) is no \(entity)") }
        return .reference(object.row)
    }
}

extension PredicateComparison.Operator {
    /// Whether it asks for the same or another value.
    var isEquality: Bool { self == .equal || self == .notEqual }

    /// Whether it asks which of two values is less.
    var isOrdering: Bool {
        [.less, .lessOrEqual, .greater, .greaterOrEqual].contains(self)
    }

    /// The same comparison with its sides exchanged; nil where there is none.
    var mirrored: Self? {
        switch self {
        case .equal, .notEqual: self
        case .less: .greater
        case .lessOrEqual: .greaterOrEqual
        case .greater: .less
        case .greaterOrEqual: .lessOrEqual
        default: nil
        }
    }

    /// Whether it holds of values that lie so to each other; for equality and order only.
    func holds(_ order: ValueOrder.Result) -> Bool {
        switch self {
        case .equal: order == .same
        case .notEqual: order != .same
        case .less: order == .before
        case .lessOrEqual: order != .after
        case .greater: order == .after
        case .greaterOrEqual: order != .before
        default: false
        }
    }
}

extension AttributeType {
    /// Types with one of these compare with each other.
    var comparesAs: AttributeType {
        switch self {
        case .integer16, .integer32, .integer64, .double, .float: .double
        default: self
        }
    }
}
