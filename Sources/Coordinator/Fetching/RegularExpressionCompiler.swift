/// Compiles patterns to states, by recursive descent of bounded depth.
struct RegularExpressionCompiler {
    private typealias State = RegularExpression.State
    private typealias ScalarClass = RegularExpression.ScalarClass

    /// A part of the pattern, before counts are written out.
    private indirect enum Node {
        case empty
        case leaf(State)
        case sequence([Node])
        case choice([Node])
        case counted(Node, least: Int, most: Int?)
    }

    private static let maximumDepth = 40
    private static let maximumCount = 1_000

    private let scalars: [Unicode.Scalar]
    private let options: ComparisonOptions
    private var position = 0
    private var states: [State] = []

    init(_ pattern: String, options: ComparisonOptions) throws(PatternError) {
        scalars = Array(pattern.unicodeScalars)
        self.options = options
        guard scalars.count <= RegularExpression.maximumLength else {
            throw PatternError(
                message: "the pattern has more than \(RegularExpression.maximumLength) characters")
        }
    }

    mutating func compile() throws(PatternError) -> [RegularExpression.State] {
        let node = try choice(depth: 0)
        guard position == scalars.count else { throw fault("an unmatched )") }
        try emit(node)
        try append(.match)
        return states
    }

    private func fault(_ message: String) -> PatternError {
        PatternError(message: "\(message) at character \(position) of the pattern")
    }

    private func peek() -> Unicode.Scalar? {
        position < scalars.count ? scalars[position] : nil
    }

    private mutating func skip(_ scalar: Unicode.Scalar) -> Bool {
        guard peek() == scalar else { return false }
        position += 1
        return true
    }

    // MARK: Parsing

    private mutating func choice(depth: Int) throws(PatternError) -> Node {
        guard depth < Self.maximumDepth else { throw fault("groups nest too deeply") }
        var options = [try sequence(depth: depth)]
        while skip("|") { options.append(try sequence(depth: depth)) }
        return options.count == 1 ? options[0] : .choice(options)
    }

    private mutating func sequence(depth: Int) throws(PatternError) -> Node {
        var parts: [Node] = []
        while let scalar = peek(), scalar != "|", scalar != ")" {
            parts.append(try quantified(try atom(depth: depth)))
        }
        return parts.isEmpty ? .empty : .sequence(parts)
    }

    private mutating func quantified(_ atom: Node) throws(PatternError) -> Node {
        var least = 0
        var most: Int?
        switch peek() {
        case "*": position += 1
        case "+":
            position += 1
            least = 1
        case "?":
            position += 1
            most = 1
        case "{":
            position += 1
            least = try count()
            if skip(",") {
                if peek() != "}" { most = try count() }
            } else {
                most = least
            }
            guard skip("}") else { throw fault("expected }") }
            guard least <= most ?? least else { throw fault("a count that ends before it begins") }
        default: return atom
        }
        // Laziness changes which match is found, never whether the whole text matches.
        if !skip("?"), peek() == "+" { throw fault("possessive counts are not supported") }
        if let next = peek(), ["*", "+", "?", "{"].contains(next) {
            throw fault("a count that follows a count")
        }
        return .counted(atom, least: least, most: most)
    }

    private mutating func count() throws(PatternError) -> Int {
        var number = 0
        let start = position
        while let scalar = peek(), ("0"..."9").contains(scalar) {
            number = number * 10 + Int(scalar.value - 48)
            guard number <= Self.maximumCount else {
                throw fault("a count above \(Self.maximumCount)")
            }
            position += 1
        }
        guard position > start else { throw fault("expected a count") }
        return number
    }

    private mutating func atom(depth: Int) throws(PatternError) -> Node {
        guard let scalar = peek() else { return .empty }
        position += 1
        switch scalar {
        case "(":
            if skip("?") {
                guard skip(":") else { throw fault("only (?: of the groups with ? is known") }
            }
            let inner = try choice(depth: depth + 1)
            guard skip(")") else { throw fault("expected )") }
            return inner
        case "[": return .leaf(.set(try scalarClass()))
        case ".": return .leaf(.any)
        case "^": return .leaf(.start)
        case "$": return .leaf(.end)
        case "*", "+", "?", "{": throw fault("a count with nothing before it")
        case "\\":
            if let set = shorthand() { return .leaf(.set(set)) }
            return literal(try escaped())
        default: return literal(scalar)
        }
    }

    private func literal(_ scalar: Unicode.Scalar) -> Node {
        let folded = TextFolding.fold(String(Character(scalar)), options).unicodeScalars
        return .sequence(folded.map { .leaf(.scalar($0.value)) })
    }

    /// `\d`, `\w`, `\s` or the opposite, if one follows.
    private mutating func shorthand() -> RegularExpression.ScalarClass? {
        guard let scalar = peek() else { return nil }
        let ranges: [ClosedRange<UInt32>]
        switch scalar {
        case "d", "D": ranges = [48...57]
        case "w", "W": ranges = [48...57, 65...90, 95...95, 97...122]
        case "s", "S": ranges = [9...13, 32...32]
        default: return nil
        }
        position += 1
        return ScalarClass(ranges: ranges, isNegated: scalar.value < 97)
    }

    private mutating func escaped() throws(PatternError) -> Unicode.Scalar {
        guard let scalar = peek() else { throw fault("a \\ at the end") }
        position += 1
        switch scalar {
        case "t": return "\t"
        case "n": return "\n"
        case "r": return "\r"
        case "u":
            guard position + 4 <= scalars.count,
                let code = UInt32(
                    String(String.UnicodeScalarView(scalars[position..<position + 4])), radix: 16),
                let result = Unicode.Scalar(code)
            else { throw fault("expected four hexadecimal digits") }
            position += 4
            return result
        case "a"..."z", "A"..."Z", "0"..."9": throw fault("\\\(scalar) is not supported")
        default: return scalar
        }
    }

    private mutating func scalarClass() throws(PatternError) -> RegularExpression.ScalarClass {
        var result = ScalarClass()
        result.isNegated = skip("^")
        var isFirst = true
        while let scalar = peek(), scalar != "]" || isFirst {
            isFirst = false
            position += 1
            guard scalar != "[" else { throw fault("a [ in a class must be escaped") }
            var low = scalar
            if scalar == "\\" {
                if let set = shorthand() {
                    guard !set.isNegated else { throw fault("an opposite within a class") }
                    result.ranges += set.ranges
                    continue
                }
                low = try escaped()
            }
            guard peek() == "-", position + 1 < scalars.count, scalars[position + 1] != "]" else {
                add(low, to: &result)
                continue
            }
            position += 1
            var high = scalars[position]
            position += 1
            if high == "\\" { high = try escaped() }
            guard low <= high else { throw fault("a range that ends before it begins") }
            result.ranges.append(low.value...high.value)
        }
        guard skip("]") else { throw fault("expected ]") }
        return result
    }

    private func add(_ scalar: Unicode.Scalar, to set: inout RegularExpression.ScalarClass) {
        set.ranges.append(scalar.value...scalar.value)
        let folded = TextFolding.fold(String(Character(scalar)), options).unicodeScalars
        if folded.count == 1, let only = folded.first {
            set.ranges.append(only.value...only.value)
        }
    }

    // MARK: Writing states

    private mutating func append(_ state: RegularExpression.State) throws(PatternError) {
        guard states.count < RegularExpression.maximumStates else {
            throw PatternError(message: "the pattern is too large once its counts are written out")
        }
        states.append(state)
    }

    private mutating func emit(_ node: Node) throws(PatternError) {
        switch node {
        case .empty: try append(.jump(states.count + 1))
        case .leaf(let state): try append(state)
        case .sequence(let parts): for part in parts { try emit(part) }
        case .choice(let options):
            var exits: [Int] = []
            for (index, option) in options.enumerated() {
                let split = states.count
                if index < options.count - 1 { try append(.jump(0)) }
                try emit(option)
                guard index < options.count - 1 else { break }
                exits.append(states.count)
                try append(.jump(0))
                states[split] = .split(split + 1, states.count)
            }
            for exit in exits { states[exit] = .jump(states.count) }
        case .counted(let part, let least, let most):
            for _ in 0..<least {
                let before = states.count
                try emit(part)
                // A part that writes nothing never will, and nested counts of it, a thousand
                // each, would go on for ever without ever meeting the bound of states.
                if states.count == before { break }
            }
            guard let most else {
                let split = states.count
                try append(.jump(0))
                try emit(part)
                try append(.jump(split))
                states[split] = .split(split + 1, states.count)
                return
            }
            var splits: [Int] = []
            for _ in least..<most {
                splits.append(states.count)
                try append(.jump(0))
                try emit(part)
            }
            for split in splits { states[split] = .split(split + 1, states.count) }
        }
    }
}
