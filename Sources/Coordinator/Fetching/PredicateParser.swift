import Merge

/// Parses Core Data's predicate language by recursive descent of bounded depth.
///
///     predicate  = conjunction { (OR | ||) conjunction }
///     conjunction = negation { (AND | &&) negation }
///     negation   = (NOT | !) negation | ( predicate ) | TRUEPREDICATE | FALSEPREDICATE | comparison
///     comparison = [ANY | SOME | ALL | NONE] expression operator [flags] expression
///     expression = product { (+ | -) product }
///     product    = power { (* | /) power }
///     power      = sign { ** sign }
///     sign       = - sign | ( expression ) | key path | constant | { list } | function ( ... )
package struct PredicateParser {
    /// How long a predicate may be, in bytes of UTF-8. Long lists belong into substitutions.
    package static let maximumLength = 65_536
    /// How deep parentheses and negations may nest: what SQLite's own parser bears, with room.
    package static let maximumDepth = 20

    /// How deep functions and arithmetic may nest; `a + b + c` nests two deep.
    package static let maximumHeight = 24

    typealias Expression = PredicateComparison.Expression
    private typealias Operator = PredicateComparison.Operator

    private let tokens: [(token: PredicateLexer.Token, offset: Int)]
    let substitutions: [String: PredicateValue]
    private let arguments: [PredicateValue]
    /// The variables of the subqueries around the current token.
    var variables: [String] = []
    private var index = 0
    private var argumentIndex = 0

    static func parse(
        _ text: String, substitutions: [String: PredicateValue], arguments: [PredicateValue]
    ) throws(PredicateError) -> Predicate {
        var parser = PredicateParser(
            tokens: try tokens(text), substitutions: substitutions, arguments: arguments)
        let predicate = try parser.truth(try parser.disjunction(depth: 0))
        guard parser.current == .end else {
            throw parser.fault("expected AND, OR or the end, not \(parser.shown)")
        }
        guard parser.argumentIndex == arguments.count else {
            throw parser.fault(
                "\(arguments.count) arguments were given and \(parser.argumentIndex) used")
        }
        return predicate
    }

    /// Parses a text that is one expression.
    static func expression(_ text: String) throws(PredicateError) -> Expression {
        var parser = PredicateParser(tokens: try tokens(text), substitutions: [:], arguments: [])
        let part = try parser.sum(depth: 0)
        guard parser.current == .end else {
            throw parser.fault("expected the end, not \(parser.shown)")
        }
        return try parser.expression(part)
    }

    private static func tokens(
        _ text: String
    ) throws(PredicateError) -> [(token: PredicateLexer.Token, offset: Int)] {
        guard text.utf8.count <= maximumLength else {
            throw PredicateError(
                "a predicate has at most \(maximumLength) bytes; put long lists into "
                    + "substitutions", offset: 0)
        }
        var lexer = PredicateLexer(text)
        var tokens: [(token: PredicateLexer.Token, offset: Int)] = []
        repeat { tokens.append(try lexer.next()) } while tokens.last?.token != .end
        return tokens
    }

    private init(
        tokens: [(token: PredicateLexer.Token, offset: Int)],
        substitutions: [String: PredicateValue], arguments: [PredicateValue]
    ) {
        self.tokens = tokens
        self.substitutions = substitutions
        self.arguments = arguments
    }

    var current: PredicateLexer.Token { tokens[index].token }
    var offset: Int { tokens[index].offset }

    mutating func advance() { if index < tokens.count - 1 { index += 1 } }

    /// The token after the current one.
    var following: PredicateLexer.Token { tokens[min(index + 1, tokens.count - 1)].token }
    /// Where the token before the current one begins.
    var precedingOffset: Int { tokens[max(index - 1, 0)].offset }

    func fault(_ message: String) -> PredicateError {
        PredicateError(message, offset: offset)
    }

    /// The current token, for messages.
    var shown: String {
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
    var keyword: String? {
        guard case .word(let word, false) = current else { return nil }
        let upper = word.uppercased()
        return PredicateText.reserved.contains(upper) ? upper : nil
    }

    mutating func skip(_ symbol: String) -> Bool {
        guard current == .symbol(symbol) else { return false }
        advance()
        return true
    }

    mutating func skip(keyword expected: String) -> Bool {
        guard keyword == expected else { return false }
        advance()
        return true
    }

    mutating func expect(_ symbol: String) throws(PredicateError) {
        guard skip(symbol) else { throw fault("expected \(symbol), not \(shown)") }
    }

    // MARK: Logic

    /// What a part of the text is: a parenthesis may hold either.
    enum Node {
        case predicate(Predicate)
        case expression(Expression)
    }

    /// A part of the text, with how deep functions nest in it.
    struct Part {
        var node: Node
        var height = 0
    }

    /// A part as a predicate.
    func truth(_ part: Part) throws(PredicateError) -> Predicate {
        guard case .predicate(let predicate) = part.node else {
            throw fault("expected a comparison, not \(shown)")
        }
        return predicate
    }

    mutating func disjunction(depth: Int) throws(PredicateError) -> Part {
        let first = try conjunction(depth: depth)
        guard current == .symbol("||") || keyword == "OR" else { return first }
        var height = first.height
        var parts = [try truth(first)]
        while skip("||") || skip(keyword: "OR") {
            let next = try conjunction(depth: depth)
            height = max(height, next.height)
            parts.append(try truth(next))
        }
        return Part(node: .predicate(.or(parts)), height: height)
    }

    private mutating func conjunction(depth: Int) throws(PredicateError) -> Part {
        let first = try negation(depth: depth)
        guard current == .symbol("&&") || keyword == "AND" else { return first }
        var height = first.height
        var parts = [try truth(first)]
        while skip("&&") || skip(keyword: "AND") {
            let next = try negation(depth: depth)
            height = max(height, next.height)
            parts.append(try truth(next))
        }
        return Part(node: .predicate(.and(parts)), height: height)
    }

    private mutating func negation(depth: Int) throws(PredicateError) -> Part {
        var isNegation = false
        var isNegated = false
        while skip("!") || skip(keyword: "NOT") {
            isNegation = true
            isNegated.toggle()
        }
        let part = try comparison(depth: depth)
        guard isNegation else { return part }
        let predicate = try truth(part)
        return Part(node: .predicate(isNegated ? .not(predicate) : predicate), height: part.height)
    }

    // MARK: Comparisons

    private mutating func comparison(depth: Int) throws(PredicateError) -> Part {
        if skip(keyword: "TRUEPREDICATE") { return Part(node: .predicate(.constant(true))) }
        if skip(keyword: "FALSEPREDICATE") { return Part(node: .predicate(.constant(false))) }
        let start = offset
        var quantifier: PredicateComparison.Quantifier?
        switch keyword {
        case "ANY", "SOME": quantifier = .any
        case "ALL": quantifier = .all
        case "NONE": quantifier = PredicateComparison.Quantifier.none
        default: break
        }
        if quantifier != nil { advance() }
        let first = try sum(depth: depth)
        // Of a parenthesis that holds a predicate, or of an expression that ends here, the rest is
        // for who opened it to judge.
        guard case .expression(let left) = first.node else { return first }
        if quantifier == nil, [.symbol(")"), .symbol(",")].contains(current) { return first }
        let comparison = try comparisonOperator()
        var options: ComparisonOptions = []
        if skip("[") { options = try flags() }
        let second = try sum(depth: depth)
        let result = PredicateComparison(
            left, comparison, try expression(second), options: options, quantifier: quantifier,
            offset: start)
        return Part(
            node: .predicate(.comparison(result)), height: max(first.height, second.height))
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
            throw fault("expected c, d, cd or n, not \(shown)")
        }
        var options: ComparisonOptions = []
        for letter in letters {
            switch letter {
            case "c", "C": options.insert(.caseInsensitive)
            case "d", "D": options.insert(.diacriticInsensitive)
            case "n", "N": options.insert(.normalized)
            case "l", "L":
                throw fault("[l] would compare by a locale, which nodes need not share; use [cd]")
            default: throw fault("the flag \"\(letter)\" is not known; c, d and n are")
            }
        }
        guard options == .normalized || !options.contains(.normalized) else {
            throw fault("[n] compares bytes, so neither c nor d goes with it")
        }
        advance()
        try expect("]")
        return options
    }

    mutating func keyPath() throws(PredicateError) -> [String] {
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

    mutating func argument() throws(PredicateError) -> PredicateValue {
        guard argumentIndex < arguments.count else {
            throw fault("there is no argument for \(shown)")
        }
        argumentIndex += 1
        advance()
        return arguments[argumentIndex - 1]
    }
}
