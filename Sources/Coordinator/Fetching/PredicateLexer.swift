import Merge

/// Cuts the text of a predicate into tokens.
struct PredicateLexer {
    enum Token: Hashable {
        /// A name or a keyword, as written; `isEscaped` after a `#`.
        case word(String, isEscaped: Bool)
        case integer(Int64)
        case double(Double)
        /// A number that a double would round, as written.
        case decimal(String)
        case string(String)
        /// `$name`.
        case variable(String)
        /// `%@` and its like.
        case argument
        /// `%K`.
        case keyArgument
        /// `@count` and its like.
        case function(String)
        /// An operator or punctuation.
        case symbol(String)
        case end
    }

    private let scalars: [Unicode.Scalar]
    private(set) var position = 0
    /// Whether the token before is a value or ends one, so that a minus subtracts.
    private var followsOperand = false

    init(_ text: String) { scalars = Array(text.unicodeScalars) }

    private func peek(_ distance: Int = 0) -> Unicode.Scalar? {
        position + distance < scalars.count ? scalars[position + distance] : nil
    }

    private static func isWordStart(_ scalar: Unicode.Scalar) -> Bool {
        ("a"..."z").contains(scalar) || ("A"..."Z").contains(scalar) || scalar == "_"
    }

    private static func isWordPart(_ scalar: Unicode.Scalar) -> Bool {
        isWordStart(scalar) || ("0"..."9").contains(scalar)
    }

    private mutating func word() -> String {
        var result = String.UnicodeScalarView()
        while let scalar = peek(), Self.isWordPart(scalar) {
            result.append(scalar)
            position += 1
        }
        return String(result)
    }

    /// The next token, with where it begins.
    mutating func next() throws(PredicateError) -> (token: Token, offset: Int) {
        while let scalar = peek(), scalar == " " || scalar.properties.isWhitespace {
            position += 1
        }
        let start = position
        let token = try token()
        followsOperand = Self.endsOperand(token)
        return (token, start)
    }

    private static func endsOperand(_ token: Token) -> Bool {
        switch token {
        case .word(let word, let isEscaped):
            isEscaped || !PredicateText.operators.contains(word.uppercased())
        case .symbol(let symbol): symbol == ")" || symbol == "}"
        case .end: false
        default: true
        }
    }

    private func isDigit(_ distance: Int) -> Bool {
        peek(distance).map { ("0"..."9").contains($0) } ?? false
    }

    private mutating func token() throws(PredicateError) -> Token {
        guard let scalar = peek() else { return .end }
        if Self.isWordStart(scalar) { return .word(word(), isEscaped: false) }
        switch scalar {
        case "#":
            position += 1
            return .word(try name(after: "#"), isEscaped: true)
        case "$":
            position += 1
            return .variable(try name(after: "$"))
        case "@":
            position += 1
            return .function(try name(after: "@"))
        case "%": return try argument()
        case "'", "\"": return .string(try string(scalar))
        case "0"..."9": return try number()
        case "-":
            let isSigned = isDigit(1) || (peek(1) == "." && isDigit(2))
            if isSigned, !followsOperand { return try number() }
        case ".": if isDigit(1) { return try number() }
        default: break
        }
        for symbol in [
            "==", "=<", "=>", "!=", "<>", "<=", ">=", "&&", "||", "**", "=", "<", ">", "!", "(",
            ")", "{", "}", "[", "]", ",", ".", "+", "-", "*", "/", ":",
        ] where matches(symbol) {
            position += symbol.unicodeScalars.count
            return .symbol(symbol)
        }
        throw PredicateError("\"\(scalar)\" means nothing here", offset: position)
    }

    private func matches(_ symbol: String) -> Bool {
        for (distance, scalar) in symbol.unicodeScalars.enumerated()
        where peek(distance) != scalar {
            return false
        }
        return true
    }

    private mutating func name(after mark: String) throws(PredicateError) -> String {
        guard let scalar = peek(), Self.isWordStart(scalar) else {
            throw PredicateError("expected a name after \(mark)", offset: position)
        }
        return word()
    }

    private mutating func argument() throws(PredicateError) -> Token {
        let start = position
        position += 1
        switch peek() {
        case "@":
            position += 1
            return .argument
        case "K":
            position += 1
            return .keyArgument
        default:
            let kind = word()
            guard ["d", "i", "u", "f", "ld", "li", "lu", "lf", "lld", "llu"].contains(kind) else {
                throw PredicateError("expected %@, %K or %d", offset: start)
            }
            return .argument
        }
    }

    private mutating func number() throws(PredicateError) -> Token {
        let start = position
        var text = String.UnicodeScalarView()
        var isInteger = true
        while let scalar = peek() {
            let isSign = scalar == "-" || scalar == "+"
            let afterExponent = text.last == "e" || text.last == "E"
            guard
                ("0"..."9").contains(scalar) || scalar == "." || scalar == "e" || scalar == "E"
                    || (isSign && (text.isEmpty || afterExponent))
            else { break }
            if !("0"..."9").contains(scalar), !(isSign && text.isEmpty) { isInteger = false }
            text.append(scalar)
            position += 1
        }
        if let scalar = peek(), Self.isWordPart(scalar) {
            throw PredicateError("a number ends in \"\(scalar)\"", offset: start)
        }
        if isInteger, let integer = Int64(String(text)) { return .integer(integer) }
        guard let double = Double(String(text)), double.isFinite else {
            throw PredicateError("\"\(String(text))\" is no number", offset: start)
        }
        return Self.isExact(double, String(text)) ? .double(double) : .decimal(String(text))
    }

    /// Whether a double gives back the number that was written.
    static func isExact(_ double: Double, _ text: String) -> Bool {
        guard let written = PropertyValue.canonicalDecimal(text) else { return false }
        return PropertyValue.canonicalDecimal(double.description) == written
    }

    /// A literal in quotes. A backslash before anything but a quote, a backslash, n, r, t or u
    /// stands for itself, so that patterns need not double it.
    private mutating func string(_ quote: Unicode.Scalar) throws(PredicateError) -> String {
        let start = position
        position += 1
        var result = String.UnicodeScalarView()
        while let scalar = peek() {
            position += 1
            if scalar == quote { return String(result) }
            guard scalar == "\\" else {
                result.append(scalar)
                continue
            }
            guard let escaped = peek() else { break }
            position += 1
            switch escaped {
            case "\\", "'", "\"": result.append(escaped)
            case "n": result.append("\n")
            case "r": result.append("\r")
            case "t": result.append("\t")
            case "u":
                guard position + 4 <= scalars.count,
                    let code = UInt32(
                        String(String.UnicodeScalarView(scalars[position..<position + 4])),
                        radix: 16), let unicode = Unicode.Scalar(code)
                else {
                    throw PredicateError(
                        "expected four hexadecimal digits after \\u", offset: position)
                }
                result.append(unicode)
                position += 4
            default:
                result.append("\\")
                result.append(escaped)
            }
        }
        throw PredicateError("a text has no closing \(quote)", offset: start)
    }
}
