import Merge

extension SQLBuilder {
    /// The condition of a fetch.
    mutating func fetchCondition(_ predicate: ResolvedPredicate) throws -> String {
        isNarrow = Self.isNarrow(predicate)
        return try condition(predicate)
    }

    /// Whether a predicate holds of few objects only, which it names.
    private static func isNarrow(_ predicate: ResolvedPredicate) -> Bool {
        switch predicate {
        case .and(let parts): return parts.contains { isNarrow($0) }
        case .test(let path, let test):
            guard path.base == 0, path.steps.isEmpty, case .object = path.terminal else {
                return false
            }
            switch test {
            case .compare(.equal, _, _): return true
            case .isIn(let rows, _): return rows.count <= 10
            default: return false
            }
        default: return false
        }
    }

    /// A condition as SQL, in parentheses where it could be misread.
    ///
    /// - Parameter nullIsFalse: whether it makes no difference if it gives NULL instead of 0.
    mutating func condition(
        _ predicate: ResolvedPredicate, nullIsFalse: Bool = true
    ) throws -> String {
        switch predicate {
        case .constant(let truth): return truth ? "1" : "0"
        case .not(let part): return "NOT \(try condition(part, nullIsFalse: false))"
        case .and(let parts):
            return Self.joined(
                try Self.cheapFirst(parts).map { try condition($0, nullIsFalse: nullIsFalse) },
                " AND ", none: "1")
        case .or(let parts):
            return Self.joined(
                try Self.cheapFirst(parts).map { try condition($0, nullIsFalse: nullIsFalse) },
                " OR ", none: "0")
        case .test(let path, let test):
            if !literalTerms.isEmpty, path.base == 0, path.steps.isEmpty,
                case .attribute(let name, let type) = path.terminal,
                literalTerms.contains(.init(attribute: name, test: test)),
                let text = PartialIndex.literal(try value(path), test, type)
            {
                return text
            }
            let (path, test) = Self.canonical(path, test)
            return self.test(try value(path), path.type, test, isColumn: path.isColumn)
        case .computed(let expression, let test):
            return self.test(try value(expression), expression.kind.type, test)
        case .relation(let left, let comparison, let right, let options):
            return relation(
                try value(left), left.kind.type, comparison, try right.map { try value($0) },
                options)
        case .quantified(let quantifier, let path, let test):
            return try quantified(quantifier, path, nullIsFalse: nullIsFalse) { value, builder in
                builder.test(value, path.type, test, isColumn: path.isColumn)
            }
        case .quantifiedRelation(let quantifier, let path, let comparison, let right, let options):
            let others = try right.map { try value($0) }
            let isClosed = right.allSatisfy { $0.lowestLevel == .max }
            return try quantified(
                quantifier, path, nullIsFalse: nullIsFalse, isClosed: isClosed
            ) { value, builder in
                builder.relation(value, path.type, comparison, others, options)
            }
        }
    }

    /// Parts in the order of what they cost, else as given: SQLite asks them from the left.
    private static func cheapFirst(_ parts: [ResolvedPredicate]) -> [ResolvedPredicate] {
        parts.enumerated().map { (cost: cost($1), place: $0, part: $1) }
            .sorted { ($0.cost, $0.place) < ($1.cost, $1.place) }.map(\.part)
    }

    /// 0 for a column, 1 for a column of a related object, 2 for functions and texts that are
    /// folded, 3 for what looks into a to-many.
    private static func cost(_ predicate: ResolvedPredicate) -> Int {
        switch predicate {
        case .constant: 0
        case .and(let parts), .or(let parts): parts.map { cost($0) }.max() ?? 0
        case .not(let part): cost(part)
        case .test(let path, let test):
            max(cost(path), canonical(path, test).test.isPlain ? 0 : 2)
        case .computed(let expression, _): max(cost(expression), 2)
        case .relation(let left, let comparison, let right, let options):
            (right.map { cost($0) } + [cost(left)]).reduce(
                comparison.isOfTexts || !options.isEmpty ? 2 : 0, max)
        case .quantified, .quantifiedRelation: 3
        }
    }

    private static func cost(_ expression: ResolvedExpression) -> Int {
        switch expression {
        case .constant: 0
        case .path(let path): cost(path)
        case .apply(_, let arguments): arguments.map { cost($0) }.reduce(2, max)
        case .ternary(let condition, let first, let second, _):
            max(cost(condition), cost(first), cost(second))
        }
    }

    private static func cost(_ path: ResolvedPath) -> Int {
        switch path.terminal {
        case .count, .aggregate: 3
        default: path.steps.isEmpty ? 0 : 1
        }
    }

    private static func joined(_ parts: [String], _ word: String, none: String) -> String {
        if parts.isEmpty { return none }
        var parts = parts
        while parts.count > maximumWidth {
            parts = stride(from: 0, to: parts.count, by: maximumWidth).map {
                let group = parts[$0..<min($0 + maximumWidth, parts.count)]
                return "(\(group.joined(separator: word)))"
            }
        }
        return "(\(parts.joined(separator: word)))"
    }

    // MARK: Expressions

    /// The value of an expression.
    mutating func value(_ expression: ResolvedExpression) throws -> String {
        switch expression {
        case .constant(let value, _): return bind(value)
        case .path(let path): return try value(path)
        case .apply(let function, let arguments):
            let operands = try zip(arguments, function.operands).map { argument, type in
                let operand = try value(argument)
                return type == .string ? "CAST(\(operand) AS BLOB)" : operand
            }
            let call =
                "\(FetchCompiler.applyFunction)(\(function.code), "
                + "\(operands.joined(separator: ", ")))"
            let isText = function.result == .string || function.result == .uri
            return isText ? "CAST(\(call) AS TEXT)" : call
        case .ternary(let predicate, let first, let second, _):
            return "CASE WHEN \(try condition(predicate)) THEN \(try value(first)) "
                + "ELSE \(try value(second)) END"
        }
    }

    private mutating func relation(
        _ left: String, _ type: AttributeType?, _ comparison: PredicateComparison.Operator,
        _ right: [String], _ options: ComparisonOptions
    ) -> String {
        if let kind = TextComparison(comparison) {
            let needle = "CAST(\(right[0]) AS BLOB)"
            let folded =
                kind == .matches || options.isEmpty
                ? needle : "\(FetchCompiler.foldFunction)(\(needle), \(options.rawValue))"
            return "\(FetchCompiler.textFunction)(\(kind.rawValue), CAST(\(left) AS BLOB), "
                + "\(folded), \(options.rawValue))"
        }
        let first = Self.folded(left, options)
        let others = right.map { Self.folded($0, options) }
        switch comparison {
        case .between:
            return "(\(ordered(first, type)) BETWEEN \(others[0]) AND \(others[1]))"
        case .isIn: return "(\(first) IN (\(others.joined(separator: ", "))))"
        default:
            let compared = comparison.isOrdering ? ordered(first, type) : first
            return "(\(compared) \(comparison.sql) \(others[0]))"
        }
    }

    // MARK: Tests

    /// An expression that SQLite is to order: decimals by value, not as text.
    func ordered(_ expression: String, _ type: AttributeType?) -> String {
        type == .decimal ? "\(expression) COLLATE \(FetchCompiler.decimalCollation)" : expression
    }

    private static func folded(_ expression: String, _ options: ComparisonOptions) -> String {
        options.isEmpty
            ? expression
            : "\(FetchCompiler.foldFunction)(CAST(\(expression) AS BLOB), \(options.rawValue))"
    }

    /// Binds a constant's value; folded texts are compared as bytes.
    private mutating func bind(_ value: PropertyValue, _ options: ComparisonOptions) -> String {
        switch value {
        case .string(let text) where !options.isEmpty, .uri(let text) where !options.isEmpty:
            bind(.binary(Array(text.utf8)))
        default: bind(value)
        }
    }

    private mutating func test(
        _ expression: String, _ type: AttributeType?, _ test: ValueTest, isColumn: Bool = false
    ) -> String {
        switch test {
        case .isNull: return "(\(expression) IS NULL)"
        case .isNotNull: return "(\(expression) IS NOT NULL)"
        case .compare(let comparison, let constant, let options):
            let folded = Self.folded(expression, options)
            let compared = comparison.isOrdering ? ordered(folded, type) : folded
            return "(\(compared) \(comparison.sql) \(bind(constant, options)))"
        case .between(let low, let high, let options):
            return "(\(ordered(Self.folded(expression, options), type)) BETWEEN "
                + "\(bind(low, options)) AND \(bind(high, options)))"
        case .isIn(let values, let options):
            return isIn(Self.folded(expression, options), values, options)
        case .text(let kind, let needle, let options):
            return text(expression, kind, needle, options, isColumn: isColumn)
        }
    }

    /// A test that ignores case and diacritics, made of the derived attribute that lacks them where
    /// there is one: an index over that serves it.
    static func canonical(
        _ path: ResolvedPath, _ test: ValueTest
    ) -> (path: ResolvedPath, test: ValueTest) {
        guard let name = path.canonicalName, let plain = test.ofCanonical else {
            return (path, test)
        }
        var path = path
        path.terminal = .attribute(name: name, .string)
        return (path, plain)
    }

    private mutating func isIn(
        _ expression: String, _ values: [PropertyValue], _ options: ComparisonOptions
    ) -> String {
        if values.isEmpty { return "0" }
        if values.count > Self.maximumWidth, let list = Self.integerList(values) {
            return "(\(expression) IN (SELECT value FROM json_each(\(bind(.string(list))))))"
        }
        let marks = values.map { bind($0, options) }.joined(separator: ", ")
        return "(\(expression) IN (\(marks)))"
    }

    /// Whole numbers as a JSON list, so that a long one takes one binding.
    private static func integerList(_ values: [PropertyValue]) -> String? {
        var numbers: [String] = []
        numbers.reserveCapacity(values.count)
        for value in values {
            switch value {
            case .integer(let number), .date(let number): numbers.append(String(number))
            case .reference(let row): numbers.append(String(row.rawValue))
            default: return nil
            }
        }
        return "[\(numbers.joined(separator: ","))]"
    }

    private mutating func text(
        _ expression: String, _ kind: TextComparison, _ needle: String,
        _ options: ComparisonOptions, isColumn: Bool
    ) -> String {
        if kind == .beginsWith, options.isEmpty, isColumn {
            // A range, so that an index serves it. It names the value twice, so of a column alone.
            let start = "\(expression) >= \(bind(.string(needle)))"
            guard let end = Self.end(ofPrefix: needle) else { return "(\(start))" }
            return "(\(start) AND \(expression) < \(bind(.string(end))))"
        }
        if kind == .contains, options.isEmpty {
            return "(instr(\(expression), \(bind(.string(needle)))) > 0)"
        }
        return "\(FetchCompiler.textFunction)(\(kind.rawValue), CAST(\(expression) AS BLOB), "
            + "\(bind(.binary(Array(needle.utf8)))), \(options.rawValue))"
    }
}

extension PredicateComparison.Operator {
    /// The operator in SQL; for equality and order only.
    fileprivate var sql: String { self == .equal ? "=" : rawValue }
}

extension ValueTest {
    /// Whether SQLite's own operators make the test.
    fileprivate var isPlain: Bool {
        switch self {
        case .isNull, .isNotNull: true
        case .compare(_, _, let options), .between(_, _, let options), .isIn(_, let options):
            options.isEmpty
        case .text(let kind, _, let options): kind == .beginsWith && options.isEmpty
        }
    }
}

extension ValueTest {
    /// The same test of a text that has neither case nor diacritics; nil where it asks for more, or less.
    fileprivate var ofCanonical: ValueTest? {
        let all: ComparisonOptions = [.caseInsensitive, .diacriticInsensitive]
        return switch self {
        case .compare(let comparison, let value, all): .compare(comparison, value, [])
        case .between(let low, let high, all): .between(low, high, [])
        case .isIn(let values, all): .isIn(values, [])
        case .text(let kind, let needle, all) where kind != .like && kind != .matches:
            .text(kind, needle, [])
        default: nil
        }
    }
}

extension ResolvedPath {
    /// Whether the value is that of a column, so that it may stand in a statement more than once.
    fileprivate var isColumn: Bool { if case .attribute = terminal { true } else { false } }
}
