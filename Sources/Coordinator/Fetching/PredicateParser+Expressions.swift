import Merge

extension PredicateParser {
    /// A part as an expression.
    func expression(_ part: Part) throws(PredicateError) -> Expression {
        guard case .expression(let expression) = part.node else {
            throw fault("expected a value, not a condition")
        }
        return expression
    }

    private func part(
        _ function: PredicateFunction, _ parts: [Part]
    ) throws(PredicateError) -> Part {
        var arguments: [Expression] = []
        for part in parts { arguments.append(try expression(part)) }
        return try nested(.function(function, arguments), parts)
    }

    /// An expression around others, unless that nests too deeply.
    private func nested(
        _ expression: Expression, _ parts: [Part]
    ) throws(PredicateError) -> Part {
        let height = (parts.map(\.height).max() ?? 0) + 1
        guard height <= Self.maximumHeight else {
            throw fault("functions and arithmetic nest deeper than \(Self.maximumHeight) levels")
        }
        return Part(node: .expression(expression), height: height)
    }

    // MARK: Arithmetic

    /// Whether what was read can be calculated with; else the rest is for the caller to judge.
    private func isExpression(_ part: Part) -> Bool {
        if case .expression = part.node { true } else { false }
    }

    mutating func sum(depth: Int) throws(PredicateError) -> Part {
        var result = try product(depth: depth)
        while isExpression(result), current == .symbol("+") || current == .symbol("-") {
            let function: PredicateFunction = current == .symbol("+") ? .add : .subtract
            advance()
            result = try part(function, [result, try product(depth: depth)])
        }
        return result
    }

    private mutating func product(depth: Int) throws(PredicateError) -> Part {
        var result = try power(depth: depth)
        while isExpression(result), current == .symbol("*") || current == .symbol("/") {
            let function: PredicateFunction = current == .symbol("*") ? .multiply : .divide
            advance()
            result = try part(function, [result, try power(depth: depth)])
        }
        return result
    }

    private mutating func power(depth: Int) throws(PredicateError) -> Part {
        var result = try sign(depth: depth)
        while isExpression(result), skip("**") {
            result = try part(.raise, [result, try sign(depth: depth)])
        }
        return result
    }

    private mutating func sign(depth: Int) throws(PredicateError) -> Part {
        var count = 0
        while skip("-") { count += 1 }
        var result = try primary(depth: depth)
        guard count > 0 else { return result }
        guard count <= Self.maximumHeight else { throw fault("\(count) signs in a row") }
        for _ in 0..<count { result = try part(.negate, [result]) }
        return result
    }

    // MARK: Values

    private mutating func primary(depth: Int) throws(PredicateError) -> Part {
        func leaf(_ expression: Expression) -> Part { Part(node: .expression(expression)) }
        switch current {
        case .symbol("("):
            try open(depth)
            let inner = try disjunction(depth: depth + 1)
            try expect(")")
            return inner
        case .symbol("{"): return try list(depth: depth)
        case .variable(let name) where variables.contains(name):
            advance()
            return leaf(.keyPath(["$\(name)"] + (skip(".") ? try keyPath() : [])))
        case .keyArgument: return leaf(.keyPath(try keyArgument()))
        case .word(_, true), .function: return leaf(.keyPath(try keyPath()))
        case .word(let word, false): return try self.word(word, depth: depth)
        default: return leaf(.constant(try constant()))
        }
    }

    private mutating func word(_ word: String, depth: Int) throws(PredicateError) -> Part {
        switch keyword {
        case nil:
            guard following == .symbol("(") || following == .symbol(":") else {
                return Part(node: .expression(.keyPath(try keyPath())))
            }
            return try function(depth: depth)
        case "SELF":
            advance()
            return Part(node: .expression(.keyPath(skip(".") ? try keyPath() : [])))
        case "CAST": return try cast(depth: depth)
        case "SUBQUERY": return try subquery(depth: depth)
        case "TERNARY":
            advance()
            try open(depth)
            let condition = try disjunction(depth: depth + 1)
            let predicate = try truth(condition)
            try expect(",")
            let first = try disjunction(depth: depth + 1)
            try expect(",")
            let second = try disjunction(depth: depth + 1)
            let ternary = Expression.ternary(
                predicate, try expression(first), try expression(second))
            try expect(")")
            return try nested(ternary, [condition, first, second])
        case "FUNCTION":
            throw fault("FUNCTION calls methods of objects, which no predicate can here")
        default: return Part(node: .expression(.constant(try constant())))
        }
    }

    /// Opens a parenthesis.
    private mutating func open(_ depth: Int) throws(PredicateError) {
        guard depth < Self.maximumDepth else {
            throw fault("nested deeper than \(Self.maximumDepth) levels")
        }
        try expect("(")
    }

    private mutating func keyArgument() throws(PredicateError) -> [String] {
        guard case .string(let path) = try argument() else {
            throw fault("the argument of %K must be a string")
        }
        return try Self.keyPath(path, offset: precedingOffset)
    }

    /// `lowercase:(name)`, `modulus:by:(a, b)`, `now()`; the colons may be left out.
    private mutating func function(depth: Int) throws(PredicateError) -> Part {
        let start = offset
        var name = ""
        while case .word(let part, _) = current {
            name += part
            advance()
            if skip(":") { name += ":" }
        }
        let found =
            PredicateFunction(rawValue: name)
            ?? PredicateFunction.allCases.first { $0.rawValue.split(separator: ":") == [name[...]] }
        guard let found else {
            let known = PredicateFunction.allCases.map(\.rawValue).joined(separator: ", ")
            throw PredicateError(
                "there is no function \(PredicateText.quoted(name)); there are \(known)",
                offset: start)
        }
        try open(depth)
        var parts: [Part] = []
        if current != .symbol(")") {
            repeat {
                parts.append(try disjunction(depth: depth + 1))
            } while parts.count < 8 && skip(",")
        }
        let result = try part(found, parts)
        try expect(")")
        if let fault = found.fault(ofArguments: parts.count) {
            throw PredicateError(fault, offset: start)
        }
        return result
    }

    /// `SUBQUERY(collection, $variable, predicate)` and the names after it.
    private mutating func subquery(depth: Int) throws(PredicateError) -> Part {
        advance()
        try open(depth)
        let collection: [String]
        switch current {
        case .variable(let name) where variables.contains(name):
            advance()
            try expect(".")
            collection = ["$\(name)"] + (try keyPath())
        case .keyArgument: collection = try keyArgument()
        case .word where keyword == "SELF":
            advance()
            try expect(".")
            collection = try keyPath()
        default: collection = try keyPath()
        }
        try expect(",")
        guard case .variable(let name) = current else {
            throw fault("expected a variable such as $x, not \(shown)")
        }
        guard !variables.contains(name) else {
            throw fault("$\(name) is the variable of a subquery around this one")
        }
        advance()
        try expect(",")
        variables.append(name)
        let condition = try disjunction(depth: depth + 1)
        let predicate = try truth(condition)
        variables.removeLast()
        try expect(")")
        let path = skip(".") ? try keyPath() : []
        return try nested(
            .subquery(
                PredicateSubquery(
                    collection, variable: name, predicate: predicate, keyPath: path)),
            [condition])
    }

    // MARK: Constants

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

    private mutating func list(depth: Int) throws(PredicateError) -> Part {
        try expect("{")
        var parts: [Part] = []
        var members: [Expression] = []
        var constants: [PredicateValue] = []
        if skip("}") { return Part(node: .expression(.constant(.list([])))) }
        repeat {
            if current == .symbol("{") { throw fault("a list cannot hold another") }
            let member = try sum(depth: depth)
            members.append(try expression(member))
            switch members.last {
            case .constant(.list): throw fault("a list cannot hold another")
            case .constant(let value): constants.append(value)
            default: break
            }
            parts.append(member)
        } while skip(",")
        try expect("}")
        if constants.count == members.count {
            return Part(node: .expression(.constant(.list(constants))))
        }
        guard members.count <= Self.maximumMembers else {
            throw fault(
                "a list that is not of constants has at most \(Self.maximumMembers) members")
        }
        return Part(node: .expression(.list(members)), height: parts.map(\.height).max() ?? 0)
    }

    /// How many members a list may have that are not all constants.
    static let maximumMembers = 100

    /// `CAST(value, 'type')`. A number cast to a date is in seconds since 2001, as in Core Data.
    private mutating func cast(depth: Int) throws(PredicateError) -> Part {
        advance()
        try open(depth)
        let part = try disjunction(depth: depth + 1)
        let operand = try expression(part)
        try expect(",")
        let place = offset
        guard case .string(let name) = current else { throw fault("expected the name of a type") }
        advance()
        try expect(")")
        let names: [String: AttributeType] = [
            "NSDate": .date, "NSDecimalNumber": .decimal, "NSUUID": .uuid, "NSURL": .uri,
            "NSString": .string, "NSNumber": .double,
        ]
        guard let type = names[name] ?? AttributeType(rawValue: name) else {
            throw PredicateError("there is no type \(PredicateText.quoted(name))", offset: place)
        }
        guard case .constant(let value) = operand else {
            return try nested(.cast(operand, to: type), [part])
        }
        func leaf(_ value: PropertyValue) -> Part {
            Part(node: .expression(.constant(.value(value))))
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
                return leaf(.date(exact))
            }
        }
        do {
            let coerced = try ConstantCoercion.coerce(value, to: type)
            guard case .double = coerced, type.isInteger else { return leaf(coerced) }
        } catch {
            guard ValueKind.natural(value) != nil else {
                throw PredicateError(error.message, offset: place)
            }
        }
        guard let (natural, own) = ValueKind.natural(value),
            let function = ResolvedFunction.cast(from: own, to: type)
        else { throw PredicateError("a \(type.rawValue) is never cast from that", offset: place) }
        let cast = function.apply([natural])
        guard !cast.isNull else {
            throw PredicateError(
                "\(ConstantCoercion.shortened(value)) is no \(type.rawValue)", offset: place)
        }
        return leaf(cast)
    }
}
