import Merge

/// Parses Core Data's predicate language by recursive descent of bounded depth.
///
///     predicate  = conjunction { (OR | ||) conjunction }
///     conjunction = negation { (AND | &&) negation }
///     negation   = (NOT | !) negation | ( predicate ) | TRUEPREDICATE | FALSEPREDICATE | comparison
///     comparison = [ANY | SOME | ALL | NONE] expression operator [flags] expression
package struct PredicateParser {
    /// How long a predicate may be, in bytes of UTF-8. Long lists belong into substitutions.
    package static let maximumLength = 65_536
    /// How deep parentheses and negations may nest: what SQLite's own parser bears, with room.
    package static let maximumDepth = 20

    private typealias Token = PredicateLexer.Token
    private typealias Operator = PredicateComparison.Operator
    private typealias Expression = PredicateComparison.Expression

    private let tokens: [(token: PredicateLexer.Token, offset: Int)]
    private let substitutions: [String: PredicateValue]
    private let arguments: [PredicateValue]
    private var index = 0
    private var argumentIndex = 0

    static func parse(
        _ text: String, substitutions: [String: PredicateValue], arguments: [PredicateValue]
    ) throws(PredicateError) -> Predicate {
        guard text.utf8.count <= maximumLength else {
            throw PredicateError(
                "a predicate has at most \(maximumLength) bytes; put long lists into "
                    + "substitutions", offset: 0)
        }
        var lexer = PredicateLexer(text)
        var tokens: [(token: PredicateLexer.Token, offset: Int)] = []
        repeat { tokens.append(try lexer.next()) } while tokens.last?.token != .end
        var parser = PredicateParser(
            tokens: tokens, substitutions: substitutions, arguments: arguments)
        let predicate = try parser.disjunction(depth: 0)
        guard parser.current == .end else {
            throw parser.fault("expected AND, OR or the end, not \(parser.shown)")
        }
        guard parser.argumentIndex == arguments.count else {
            throw parser.fault(
                "\(arguments.count) arguments were given and \(parser.argumentIndex) used")
        }
        return predicate
    }

    private init(
        tokens: [(token: PredicateLexer.Token, offset: Int)],
        substitutions: [String: PredicateValue], arguments: [PredicateValue]
    ) {
        self.tokens = tokens
        self.substitutions = substitutions
        self.arguments = arguments
    }

    private var current: PredicateLexer.Token { tokens[index].token }
    private var offset: Int { tokens[index].offset }

    private mutating func advance() { if index < tokens.count - 1 { index += 1 } }

    private func fault(_ message: String) -> PredicateError {
        PredicateError(message, offset: offset)
    }

    /// The current token, for messages.
    private var shown: String {
        switch current {
        case .word(let word, _): "\"\(word)\""
        case .integer(let number): String(number)
        case .double(let number): number.description
        case .decimal(let text): text
        case .string(let text): PredicateText.quoted(text)
        case .variable(let name): "$\(name)"
        case .argument: "%@"
        case .keyArgument: "%K"
        case .function(let name): "@\(name)"
        case .symbol(let symbol): "\"\(symbol)\""
        case .end: "the end"
        }
    }

    /// The current token as a keyword in upper case, or nil.
    private var keyword: String? {
        guard case .word(let word, false) = current else { return nil }
        let upper = word.uppercased()
        return PredicateText.reserved.contains(upper) ? upper : nil
    }

    private mutating func skip(_ symbol: String) -> Bool {
        guard current == .symbol(symbol) else { return false }
        advance()
        return true
    }

    private mutating func skip(keyword expected: String) -> Bool {
        guard keyword == expected else { return false }
        advance()
        return true
    }

    private mutating func expect(_ symbol: String) throws(PredicateError) {
        guard skip(symbol) else { throw fault("expected \(symbol), not \(shown)") }
    }

    // MARK: Logic

    private mutating func disjunction(depth: Int) throws(PredicateError) -> Predicate {
        var parts = [try conjunction(depth: depth)]
        while skip("||") || skip(keyword: "OR") { parts.append(try conjunction(depth: depth)) }
        return parts.count == 1 ? parts[0] : .or(parts)
    }

    private mutating func conjunction(depth: Int) throws(PredicateError) -> Predicate {
        var parts = [try negation(depth: depth)]
        while skip("&&") || skip(keyword: "AND") { parts.append(try negation(depth: depth)) }
        return parts.count == 1 ? parts[0] : .and(parts)
    }

    private mutating func negation(depth: Int) throws(PredicateError) -> Predicate {
        var isNegated = false
        while skip("!") || skip(keyword: "NOT") { isNegated.toggle() }
        let part: Predicate
        if current == .symbol("(") {
            guard depth < Self.maximumDepth else {
                throw fault("nested deeper than \(Self.maximumDepth) levels")
            }
            advance()
            part = try disjunction(depth: depth + 1)
            try expect(")")
        } else if skip(keyword: "TRUEPREDICATE") {
            part = .constant(true)
        } else if skip(keyword: "FALSEPREDICATE") {
            part = .constant(false)
        } else {
            part = .comparison(try comparison())
        }
        return isNegated ? .not(part) : part
    }

    // MARK: Comparisons

    private mutating func comparison() throws(PredicateError) -> PredicateComparison {
        let start = offset
        var quantifier: PredicateComparison.Quantifier?
        switch keyword {
        case "ANY", "SOME": quantifier = .any
        case "ALL": quantifier = .all
        case "NONE": quantifier = PredicateComparison.Quantifier.none
        default: break
        }
        if quantifier != nil { advance() }
        let left = try expression()
        let comparison = try comparisonOperator()
        var options: ComparisonOptions = []
        if skip("[") { options = try flags() }
        let right = try expression()
        return PredicateComparison(
            left, comparison, right, options: options, quantifier: quantifier, offset: start)
    }

    private mutating func comparisonOperator() throws(PredicateError) -> Operator {
        let found: Operator?
        switch current {
        case .symbol("="), .symbol("=="): found = .equal
        case .symbol("!="), .symbol("<>"): found = .notEqual
        case .symbol("<"): found = .less
        case .symbol("<="), .symbol("=<"): found = .lessOrEqual
        case .symbol(">"): found = .greater
        case .symbol(">="), .symbol("=>"): found = .greaterOrEqual
        default: found = keyword.flatMap { Operator(rawValue: $0) }
        }
        guard let found else { throw fault("expected a comparison, not \(shown)") }
        advance()
        return found
    }

    private mutating func flags() throws(PredicateError) -> ComparisonOptions {
        guard case .word(let letters, _) = current else {
            throw fault("expected c, d or cd, not \(shown)")
        }
        var options: ComparisonOptions = []
        for letter in letters {
            switch letter {
            case "c", "C": options.insert(.caseInsensitive)
            case "d", "D": options.insert(.diacriticInsensitive)
            default: throw fault("the flag \"\(letter)\" is not known; c and d are")
            }
        }
        advance()
        try expect("]")
        return options
    }

    private mutating func expression() throws(PredicateError) -> Expression {
        switch current {
        case .word(_, true): return .keyPath(try keyPath())
        case .word(_, false):
            switch keyword {
            case nil: return .keyPath(try keyPath())
            case "SELF":
                advance()
                return .keyPath(skip(".") ? try keyPath() : [])
            case "CAST": return .constant(try cast())
            case "SUBQUERY", "FUNCTION", "TERNARY": throw fault("\(shown) is not supported")
            default: return .constant(try constant())
            }
        case .keyArgument:
            guard case .string(let path) = try argument() else {
                throw fault("the argument of %K must be a string")
            }
            return .keyPath(try Self.keyPath(path, offset: tokens[index - 1].offset))
        case .function: return .keyPath(try keyPath())
        case .symbol("{"): return .constant(try list())
        default: return .constant(try constant())
        }
    }

    private mutating func keyPath() throws(PredicateError) -> [String] {
        var names: [String] = []
        repeat {
            switch current {
            case .word(let name, let isEscaped):
                guard isEscaped || !names.isEmpty || keyword == nil else {
                    throw fault("\(shown) is a keyword; write #\(name) for the key")
                }
                names.append(name)
            case .function(let name): names.append("@" + name)
            default: throw fault("expected a key, not \(shown)")
            }
            advance()
        } while skip(".")
        return names
    }

    /// A key path that came as text, such as that of a sort descriptor.
    static func keyPath(_ text: String, offset: Int = 0) throws(PredicateError) -> [String] {
        if text == "SELF" || text == "self" { return [] }
        let names = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        for name in names {
            let letters =
                name.utf8.first == UInt8(ascii: "@") ? name.utf8.dropFirst() : name.utf8[...]
            guard !letters.isEmpty,
                letters.allSatisfy({
                    (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0)
                        || $0 == 95
                })
            else {
                throw PredicateError(
                    "\(PredicateText.quoted(text)) is no key path", offset: offset)
            }
        }
        return names
    }

    private mutating func argument() throws(PredicateError) -> PredicateValue {
        guard argumentIndex < arguments.count else {
            throw fault("there is no argument for \(shown)")
        }
        argumentIndex += 1
        advance()
        return arguments[argumentIndex - 1]
    }

    private mutating func constant() throws(PredicateError) -> PredicateValue {
        let value: PredicateValue
        switch current {
        case .integer(let number): value = .integer(number)
        case .double(let number): value = .double(number)
        case .decimal(let text): value = .value(.decimal(text))
        case .string(let text): value = .string(text)
        case .argument: return try argument()
        case .variable(let name):
            guard let substitution = substitutions[name] else {
                throw fault("there is no value for $\(name)")
            }
            value = substitution
        default:
            switch keyword {
            case "NULL", "NIL": value = .null
            case "TRUE", "YES": value = .boolean(true)
            case "FALSE", "NO": value = .boolean(false)
            default: throw fault("expected a value or a key path, not \(shown)")
            }
        }
        advance()
        return value
    }

    private mutating func list() throws(PredicateError) -> PredicateValue {
        try expect("{")
        var values: [PredicateValue] = []
        if skip("}") { return .list(values) }
        repeat {
            let value = keyword == "CAST" ? try cast() : try constant()
            if case .list = value { throw fault("a list cannot hold another") }
            values.append(value)
        } while skip(",")
        try expect("}")
        return .list(values)
    }

    /// `CAST(constant, 'type')`. A number cast to a date is in seconds since 2001, as in Core
    /// Data.
    private mutating func cast() throws(PredicateError) -> PredicateValue {
        advance()
        try expect("(")
        let value = try constant()
        try expect(",")
        let place = offset
        guard case .string(let name) = current else { throw fault("expected the name of a type") }
        advance()
        try expect(")")
        let names: [String: AttributeType] = [
            "NSDate": .date, "NSDecimalNumber": .decimal, "NSUUID": .uuid, "NSURL": .uri,
            "NSString": .string,
        ]
        guard let type = names[name] ?? AttributeType(rawValue: name) else {
            throw PredicateError("there is no type \(PredicateText.quoted(name))", offset: place)
        }
        if type == .date {
            let seconds: Double? =
                switch value {
                case .integer(let number): Double(number)
                case .double(let number): number
                case .value(.decimal(let text)): Double(text)
                default: nil
                }
            if let seconds {
                let milliseconds = ((seconds + 978_307_200) * 1_000).rounded()
                guard let exact = Int64(exactly: milliseconds) else {
                    throw PredicateError("the date is out of range", offset: place)
                }
                return .value(.date(exact))
            }
        }
        do {
            return .value(try ConstantCoercion.coerce(value, to: type))
        } catch { throw PredicateError(error.message, offset: place) }
    }
}
