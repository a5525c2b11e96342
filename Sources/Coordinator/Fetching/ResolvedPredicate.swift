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
    /// A test of a value that is calculated.
    case computed(ResolvedExpression, ValueTest)
    /// A comparison with values that are no constants: of BETWEEN two, of IN any number.
    case relation(
        ResolvedExpression, PredicateComparison.Operator, [ResolvedExpression], ComparisonOptions)
    /// A test of the many values at a path.
    case quantified(PredicateComparison.Quantifier, ResolvedPath, ValueTest)
    /// A comparison of the many values at a path with values that are no constants.
    case quantifiedRelation(
        PredicateComparison.Quantifier, ResolvedPath, PredicateComparison.Operator,
        [ResolvedExpression], ComparisonOptions)
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

    typealias Operator = PredicateComparison.Operator
    typealias Expression = PredicateComparison.Expression

    var paths: PathResolver
    /// The cluster that object URIs must have; nil for any.
    let cluster: String?
    /// What `now()` is, in milliseconds since 1970; asked once at most.
    private let clock: @Sendable () -> Int64
    private var moment: Int64?
    private var constants = 0

    init(paths: PathResolver, cluster: String?, now: @escaping @Sendable () -> Int64) {
        self.paths = paths
        self.cluster = cluster
        clock = now
    }

    mutating func now() -> Int64 {
        let result = moment ?? clock()
        moment = result
        return result
    }

    /// Resolves a predicate.
    ///
    /// - Throws: ``PredicateError`` with the comparison that is at fault.
    mutating func resolve(
        _ predicate: Predicate, depth: Int = 0
    ) throws(PredicateError) -> ResolvedPredicate {
        try check(depth, offset: 0)
        switch predicate {
        case .constant(let truth): return .constant(truth)
        case .and(let parts): return .and(try resolve(parts, depth))
        case .or(let parts): return .or(try resolve(parts, depth))
        case .not(let part): return .not(try resolve(part, depth: depth + 1))
        case .comparison(let comparison): return try resolve(comparison, depth: depth + 1)
        }
    }

    func check(_ depth: Int, offset: Int) throws(PredicateError) {
        guard depth <= PredicateParser.maximumDepth * 4 else {
            throw PredicateError("the predicate nests too deeply", offset: offset)
        }
    }

    private mutating func resolve(
        _ parts: [Predicate], _ depth: Int
    ) throws(PredicateError) -> [ResolvedPredicate] {
        var result: [ResolvedPredicate] = []
        for part in parts { result.append(try resolve(part, depth: depth + 1)) }
        return result
    }

    // MARK: Tests

    mutating func valueTest(
        _ kind: ValueKind, _ comparison: Operator, _ constant: PredicateValue,
        _ options: ComparisonOptions
    ) throws(JSONConversionError) -> ValueTest {
        let isNull = constant == .null || constant == .value(.null)
        if isNull, comparison.isEquality {
            return comparison == .equal ? .isNull : .isNotNull
        }
        guard options.isEmpty || kind.type == .string || kind.type == .uri else {
            throw JSONConversionError("[c] and [d] are for strings")
        }
        switch comparison {
        case .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual:
            if kind.type == nil, !comparison.isEquality {
                throw JSONConversionError("objects can be compared with == and != only")
            }
            let bound = try value(constant, kind, options)
            if let integer = IntegerPlace.between(constant, kind.type) {
                return IntegerPlace.test(comparison, above: integer)
            }
            return .compare(comparison, bound, options)
        case .between:
            guard kind.type != nil, case .list(let ends) = constant, ends.count == 2 else {
                throw JSONConversionError("BETWEEN needs a list of two values")
            }
            let low = try value(ends[0], kind, options)
            let above = IntegerPlace.between(ends[0], kind.type).map { IntegerPlace.next($0) }
            return .between(above ?? low, try value(ends[1], kind, options), options)
        case .isIn:
            guard case .list(let elements) = constant else {
                throw JSONConversionError("IN needs a list")
            }
            var values: [PropertyValue] = []
            values.reserveCapacity(elements.count)
            for element in elements {
                if element == .null { throw JSONConversionError("nil cannot be in a list") }
                let member = try value(element, kind, options)
                if IntegerPlace.between(element, kind.type) == nil { values.append(member) }
            }
            return values.isEmpty && !elements.isEmpty ? IntegerPlace.never : .isIn(values, options)
        case .beginsWith, .endsWith, .contains, .like, .matches:
            return try text(kind, comparison, constant, options)
        }
    }

    private mutating func text(
        _ kind: ValueKind, _ comparison: Operator, _ constant: PredicateValue,
        _ options: ComparisonOptions
    ) throws(JSONConversionError) -> ValueTest {
        guard kind.type == .string || kind.type == .uri else {
            throw JSONConversionError("\(comparison.rawValue) is for strings")
        }
        let needle: String
        switch constant {
        case .string(let text), .value(.string(let text)): needle = text
        default: throw JSONConversionError("\(comparison.rawValue) needs a string at its right")
        }
        try count()
        guard let found = TextComparison(comparison) else {
            throw JSONConversionError("\(comparison.rawValue) is not for strings")
        }
        if found == .matches {
            do {
                _ = try RegularExpression(needle, options: options)
            } catch { throw JSONConversionError(error.message) }
            return .text(found, needle, options)
        }
        guard found != .like || needle.utf8.count <= 10_000 else {
            throw JSONConversionError("a pattern of LIKE has at most 10000 bytes")
        }
        return .text(found, TextFolding.fold(needle, options), options)
    }

    mutating func count() throws(JSONConversionError) {
        constants += 1
        guard constants <= Self.maximumConstants else {
            throw JSONConversionError("more than \(Self.maximumConstants) constants")
        }
    }

    mutating func value(
        _ constant: PredicateValue, _ kind: ValueKind, _ options: ComparisonOptions
    ) throws(JSONConversionError) -> PropertyValue {
        try count()
        guard case .object(let entity) = kind else {
            let value = try ConstantCoercion.coerce(constant, to: kind.type ?? .string)
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
