/// A condition on objects, as NSPredicate; a value, parsed from Core Data's predicate language.
///
/// It knows no model yet: names and types are checked when it is compiled for an entity.
public indirect enum Predicate: Hashable, Sendable {
    /// Always or never.
    case constant(Bool)
    /// All of them.
    case and([Predicate])
    /// At least one of them.
    case or([Predicate])
    /// The opposite. What is unknown because of a nil stays unknown, and is not fetched.
    case not(Predicate)
    /// A comparison.
    case comparison(PredicateComparison)

    /// Parses a predicate.
    ///
    /// - Parameters:
    ///   - format: at most ``PredicateParser/maximumLength`` bytes of the predicate language.
    ///   - substitutions: the values of `$name`.
    /// - Throws: ``PredicateError`` that says what is wrong and at which character.
    public init(
        format: String, substitutions: [String: PredicateValue] = [:]
    ) throws(PredicateError) {
        self = try PredicateParser.parse(format, substitutions: substitutions, arguments: [])
    }

    /// Parses a predicate with `%@` for each argument, and `%K` for each that is a key path.
    ///
    /// - Throws: ``PredicateError`` that says what is wrong and at which character.
    public init(_ format: String, _ arguments: [PredicateValue] = []) throws(PredicateError) {
        self = try PredicateParser.parse(format, substitutions: [:], arguments: arguments)
    }
}

/// A comparison of two expressions.
public struct PredicateComparison: Hashable, Sendable {
    /// The comparisons there are.
    public enum Operator: String, Hashable, Sendable, CaseIterable {
        /// Equal.
        case equal = "=="
        /// Not equal; a nil neither equals nor differs from a value.
        case notEqual = "!="
        /// Less.
        case less = "<"
        /// Less or equal.
        case lessOrEqual = "<="
        /// Greater.
        case greater = ">"
        /// Greater or equal.
        case greaterOrEqual = ">="
        /// One of a list.
        case isIn = "IN"
        /// Between two values or equal to one of them.
        case between = "BETWEEN"
        /// A text begins with another.
        case beginsWith = "BEGINSWITH"
        /// A text ends with another.
        case endsWith = "ENDSWITH"
        /// A text contains another, or a to-many an object.
        case contains = "CONTAINS"
        /// A text matches a pattern with `*` and `?`.
        case like = "LIKE"
        /// A text matches a regular expression as a whole.
        case matches = "MATCHES"
    }

    /// How a comparison over a to-many relationship is meant.
    public enum Quantifier: String, Hashable, Sendable {
        /// For at least one object. False over none.
        case any = "ANY"
        /// For every object. True over none.
        case all = "ALL"
        /// For no object. True over none.
        case none = "NONE"
    }

    /// The left side of the comparison.
    public var left: Expression
    /// How.
    public var comparison: Operator
    /// With what.
    public var right: Expression
    /// Which differences between texts are ignored.
    public var options: ComparisonOptions
    /// The quantifier, if there are many values.
    public var quantifier: Quantifier?
    /// Where the comparison begins in the text, in Unicode scalars from 0.
    public var offset: Int

    /// Composes a comparison.
    public init(
        _ left: Expression, _ comparison: Operator, _ right: Expression,
        options: ComparisonOptions = [], quantifier: Quantifier? = nil, offset: Int = 0
    ) {
        self.left = left
        self.comparison = comparison
        self.right = right
        self.options = options
        self.quantifier = quantifier
        self.offset = offset
    }
}

extension Predicate: CustomStringConvertible {
    /// The predicate as text, every part in parentheses that could be misread.
    public var description: String {
        switch self {
        case .constant(let truth): truth ? "TRUEPREDICATE" : "FALSEPREDICATE"
        case .and(let parts): Self.joined(parts, " AND ", none: "TRUEPREDICATE")
        case .or(let parts): Self.joined(parts, " OR ", none: "FALSEPREDICATE")
        case .not(let part): "NOT (\(part))"
        case .comparison(let comparison): comparison.description
        }
    }

    private static func joined(_ parts: [Predicate], _ word: String, none: String) -> String {
        parts.isEmpty ? none : "(\(parts.map(\.description).joined(separator: word)))"
    }
}

extension PredicateComparison: CustomStringConvertible {
    /// The comparison as text.
    public var description: String {
        let flags =
            (options.contains(.caseInsensitive) ? "c" : "")
            + (options.contains(.diacriticInsensitive) ? "d" : "")
            + (options.contains(.normalized) ? "n" : "")
        // Beside a key path the type of a constant is clear, else it has to be said.
        let isTyped = !left.isKeyPath && !right.isKeyPath
        return (quantifier.map { "\($0.rawValue) " } ?? "")
            + "\(left.text(isTyped: isTyped)) \(comparison.rawValue)"
            + "\(flags.isEmpty ? "" : "[\(flags)]") \(right.text(isTyped: isTyped))"
    }
}

/// Words and quoting of the predicate language.
enum PredicateText {
    /// Words that are no key unless `#` stands before them.
    static let reserved: Set<String> = operators.union([
        "NULL", "NIL", "TRUE", "FALSE", "YES", "NO", "TRUEPREDICATE", "FALSEPREDICATE", "SELF",
        "CAST", "SUBQUERY", "FUNCTION", "TERNARY",
    ])
    /// Those of them that a value follows, so that a minus after one is a sign.
    static let operators: Set<String> = [
        "AND", "OR", "NOT", "IN", "BETWEEN", "BEGINSWITH", "ENDSWITH", "CONTAINS", "LIKE",
        "MATCHES", "ANY", "SOME", "ALL", "NONE",
    ]

    /// Text as a literal.
    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
