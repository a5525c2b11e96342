import Merge

extension PredicateComparison {
    /// One side of a comparison.
    public enum Expression: Hashable, Sendable {
        /// Names joined by points; empty for SELF. One of them may be `@count` or another `@`
        /// operator, and the first may be `$x` within a subquery.
        case keyPath([String])
        /// A constant.
        case constant(PredicateValue)
        /// Several values that are not all constants, for IN and BETWEEN.
        indirect case list([Expression])
        /// A function of values, or of what a to-many leads to.
        indirect case function(PredicateFunction, [Expression])
        /// A value as another type; null where it is none of that.
        indirect case cast(Expression, to: AttributeType)
        /// The first value where the predicate holds, else the second.
        indirect case ternary(Predicate, Expression, Expression)
        /// The objects of a to-many that match a predicate, aggregated.
        indirect case subquery(PredicateSubquery)
    }
}

/// `SUBQUERY(collection, $variable, predicate)` and what is asked of the objects it gives.
public struct PredicateSubquery: Hashable, Sendable {
    /// The key path of the to-many.
    public var collection: [String]
    /// The name of the variable that stands for each object, without its `$`.
    public var variable: String
    /// The condition that the objects match.
    public var predicate: Predicate
    /// The names after it: `@count`, or such as `@sum` and `price`.
    public var keyPath: [String]

    /// Composes a subquery.
    public init(
        _ collection: [String], variable: String, predicate: Predicate,
        keyPath: [String] = ["@count"]
    ) {
        self.collection = collection
        self.variable = variable
        self.predicate = predicate
        self.keyPath = keyPath
    }
}

/// The functions of the predicate language, by the names that NSExpression has for them.
public enum PredicateFunction: String, Hashable, Sendable, CaseIterable {
    /// The sum of two numbers, or a date so many seconds later.
    case add = "add:to:"
    /// The difference of two numbers, a date so many seconds earlier, or the seconds between dates.
    case subtract = "from:subtract:"
    /// The product of two numbers.
    case multiply = "multiply:by:"
    /// The quotient of two numbers, of integers the whole part of it; null by zero.
    case divide = "divide:by:"
    /// The remainder of a division, with the sign of the dividend; null by zero.
    case modulus = "modulus:by:"
    /// A number raised to another.
    case raise = "raise:toPower:"
    /// A number with the other sign.
    case negate = "negate:"
    /// A number without its sign.
    case absolute = "abs:"
    /// The least whole number that is not less.
    case ceiling = "ceiling:"
    /// The greatest whole number that is not greater.
    case floor = "floor:"
    /// The number without its fraction.
    case truncate = "trunc:"
    /// The square root; null of negative numbers.
    case squareRoot = "sqrt:"
    /// Text in lower case, by Unicode and no locale.
    case lowercase = "lowercase:"
    /// Text in upper case, by Unicode and no locale.
    case uppercase = "uppercase:"
    /// Text without what `[cd]` ignores.
    case canonical = "canonical:"
    /// How many Unicode scalars a text has.
    case length = "length:"
    /// The moment of the request.
    case now
    /// The moment at which the hour of a date begins. This function and the next ones take an offset from
    /// UTC in minutes after the date, -1,080...1,080; without it they go by UTC.
    case hour = "hour:"
    /// The moment at which the day of a date begins.
    case day = "day:"
    /// The moment at which the week of a date begins, on Monday.
    case week = "week:"
    /// The moment at which the month of a date begins.
    case month = "month:"
    /// The moment at which the quarter of a date's year begins.
    case quarter = "quarter:"
    /// The moment at which the year of a date begins.
    case year = "year:"
    /// How many objects a to-many leads to.
    case count = "count:"
    /// The sum of numbers; 0 of none.
    case sum = "sum:"
    /// The mean of numbers; null of none.
    case average = "average:"
    /// The least of values; null of none.
    case minimum = "min:"
    /// The greatest of values; null of none.
    case maximum = "max:"

    /// How many arguments it takes.
    var arity: ClosedRange<Int> {
        let least = rawValue.utf8.count { $0 == UInt8(ascii: ":") }
        return least...(period == nil ? least : least + 1)
    }

    /// A fault in how many arguments it is given; nil where there is none.
    func fault(ofArguments count: Int) -> String? {
        if arity.contains(count) { return nil }
        let takes =
            arity.count == 1 ? "\(arity.lowerBound)" : "\(arity.lowerBound) or \(arity.upperBound)"
        return "\(rawValue) takes \(takes) values, not \(count)"
    }

    /// The period that it gives the beginning of; nil where it does something else.
    var period: CalendarPeriod? {
        switch self {
        case .hour: .hour
        case .day: .day
        case .week: .week
        case .month: .month
        case .quarter: .quarter
        case .year: .year
        default: nil
        }
    }

    /// The operator that stands for it between its arguments; nil where there is none.
    var infix: String? {
        switch self {
        case .add: "+"
        case .subtract: "-"
        case .multiply: "*"
        case .divide: "/"
        case .raise: "**"
        default: nil
        }
    }

    /// The `@` operator of a key path that does the same to what a to-many leads to.
    var collectionOperator: String? {
        switch self {
        case .count: "@count"
        case .sum: "@sum"
        case .average: "@avg"
        case .minimum: "@min"
        case .maximum: "@max"
        default: nil
        }
    }
}

extension PredicateComparison.Expression: CustomStringConvertible {
    /// The expression as text.
    public var description: String { text(isTyped: false) }

    var isKeyPath: Bool { if case .keyPath = self { true } else { false } }

    /// The expression as text that parses to it.
    ///
    /// - Parameter isTyped: whether a constant says its type where its text alone does not.
    func text(isTyped: Bool) -> String {
        switch self {
        case .keyPath(let names): return names.isEmpty ? "SELF" : PredicateText.path(names)
        case .constant(let value): return value.text(isTyped: isTyped)
        case .list(let members): return "{\(Self.joined(members, isTyped: isTyped))}"
        case .function(.negate, let arguments) where arguments.count == 1:
            return "-(\(arguments[0].text(isTyped: true)))"
        case .function(let function, let arguments):
            if let infix = function.infix, arguments.count == 2 {
                let (left, right) = (arguments[0], arguments[1])
                return "(\(left.text(isTyped: true)) \(infix) \(right.text(isTyped: true)))"
            }
            return "\(function.rawValue)(\(Self.joined(arguments, isTyped: true)))"
        case .cast(let value, let type):
            return "CAST(\(value.text(isTyped: true)), \"\(type.rawValue)\")"
        case .ternary(let condition, let first, let second):
            return "TERNARY(\(condition), \(Self.joined([first, second], isTyped: true)))"
        case .subquery(let subquery):
            let path = PredicateText.path(subquery.collection)
            let end = subquery.keyPath.map { ".\($0)" }.joined()
            return "SUBQUERY(\(path), $\(subquery.variable), \(subquery.predicate))\(end)"
        }
    }

    private static func joined(_ parts: [Self], isTyped: Bool) -> String {
        parts.map { $0.text(isTyped: isTyped) }.joined(separator: ", ")
    }
}

extension PredicateText {
    /// A key path as a predicate writes it.
    static func path(_ names: [String]) -> String {
        names.map { reserved.contains($0.uppercased()) ? "#\($0)" : $0 }.joined(separator: ".")
    }
}

extension PredicateValue {
    /// The constant as a predicate writes it.
    ///
    /// - Parameter isTyped: whether it says its type where its text alone does not.
    func text(isTyped: Bool) -> String {
        switch self {
        case .double(let number) where !number.isFinite:
            return "CAST(\"\(JSONWriter.nonFinite(number))\", \"double\")"
        case .list(let values):
            return "{\(values.map { $0.text(isTyped: isTyped) }.joined(separator: ", "))}"
        case .value(.string(let text)): return PredicateText.quoted(text)
        case .value(.boolean(let truth)): return PredicateValue.boolean(truth).description
        case .value(.double(let number)):
            return PredicateValue.double(number).text(isTyped: isTyped)
        case .value(.decimal(let text)):
            // A numeral of few digits would come back as an integer or a double.
            let isInteger = Int64(text) != nil
            guard PropertyValue.canonicalDecimal(text) == text, let double = Double(text),
                isInteger || PredicateLexer.isExact(double, text),
                isTyped || !(isInteger || double.description == text)
            else { return text }
            return "CAST(\"\(text)\", \"decimal\")"
        case .value(let value) where isTyped:
            let type: AttributeType
            switch value {
            case .date: type = .date
            case .binary: type = .binary
            case .uuid: type = .uuid
            case .uri: type = .uri
            default: return description
            }
            return "CAST(\(description), \"\(type.rawValue)\")"
        default: return description
        }
    }
}
