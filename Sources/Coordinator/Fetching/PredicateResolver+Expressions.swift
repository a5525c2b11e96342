import Merge

extension PredicateResolver {
    /// Resolves an expression that gives one value.
    ///
    /// - Parameter partner: what it is compared with, by which a constant is understood.
    mutating func expression(
        _ expression: Expression, _ partner: ValueKind, _ offset: Int, _ depth: Int
    ) throws(PredicateError) -> ResolvedExpression {
        try check(depth, offset: offset)
        switch expression {
        case .keyPath(let names):
            let path = try paths.resolve(names, offset: offset)
            guard path.firstToMany == nil else {
                throw PredicateError(
                    "\"\(names.joined(separator: "."))\" leads to many where one value is "
                        + "needed; say @count, @max or the like after it", offset: offset)
            }
            return .path(path)
        case .constant(let constant):
            return try self.constant(constant, partner, offset)
        case .list:
            throw PredicateError("a list can be used with IN and BETWEEN only", offset: offset)
        case .function(let function, let arguments):
            if let fault = function.fault(ofArguments: arguments.count) {
                throw PredicateError(fault, offset: offset)
            }
            return try self.function(function, arguments, offset, depth)
        case .cast(let operand, let type):
            return try cast(try self.expression(operand, .null, offset, depth + 1), type, offset)
        case .ternary(let condition, let first, let second):
            return try ternary(condition, [first, second], partner, offset, depth)
        case .subquery(let subquery):
            guard let place = subquery.keyPath.firstIndex(where: { $0.first == "@" }) else {
                throw PredicateError(
                    "a subquery gives many objects; say @count or the like after it",
                    offset: offset)
            }
            let rest = subquery.keyPath[..<place] + subquery.keyPath[(place + 1)...]
            return .path(
                try self.subquery(subquery, subquery.keyPath[place], rest, offset, depth))
        }
    }

    // MARK: Constants

    private mutating func constant(
        _ constant: PredicateValue, _ partner: ValueKind, _ offset: Int
    ) throws(PredicateError) -> ResolvedExpression {
        if constant.isNull { return .constant(.null, partner) }
        do throws(JSONConversionError) {
            // A number between two integers is no integer, so it stays what it is.
            let isBetween = IntegerPlace.between(constant, partner.type) != nil
            switch (isBetween ? .null : partner, constant) {
            case (.null, .object(let object)):
                let kind = ValueKind.object(entity: object.entityName)
                return .constant(try value(constant, kind, []), kind)
            case (.null, _):
                try count()
                guard let (value, type) = ValueKind.natural(constant) else {
                    throw JSONConversionError("a list can be used with IN and BETWEEN only")
                }
                return .constant(value, .value(type))
            default: return .constant(try value(constant, partner, []), partner)
            }
        } catch { throw PredicateError(error.message, offset: offset) }
    }

    /// A constant that is calculated with: of the type of its partner where that says more than
    /// the constant itself.
    private mutating func operand(
        _ constant: PredicateValue, beside partner: ValueKind, _ offset: Int
    ) throws(PredicateError) -> ResolvedExpression {
        let natural = ValueKind.natural(constant)?.1
        switch (partner.type, natural) {
        case (.date?, .string?), (.decimal?, .string?), (.decimal?, .integer64?),
            (.decimal?, .double?),
            (.double?, .decimal?), (.float?, .decimal?):
            let type: AttributeType = partner.type == .float ? .double : partner.type ?? .double
            return try self.constant(constant, .value(type), offset)
        default: return try self.constant(constant, .null, offset)
        }
    }

    /// Several expressions; what is no constant says of what type the constants are.
    private mutating func operands(
        _ expressions: [Expression], _ partner: ValueKind, _ offset: Int, _ depth: Int,
        _ constant: (inout Self, PredicateValue, ValueKind) throws(PredicateError) ->
            ResolvedExpression
    ) throws(PredicateError) -> [ResolvedExpression] {
        var results: [ResolvedExpression?] = []
        var partner = partner
        for expression in expressions {
            if case .constant = expression {
                results.append(nil)
                continue
            }
            let result = try self.expression(expression, .null, offset, depth + 1)
            if partner == .null { partner = result.kind }
            results.append(result)
        }
        let areDecimal = expressions.contains {
            if case .constant(let value) = $0 {
                ValueKind.natural(value)?.1 == .decimal
            } else {
                false
            }
        }
        if partner == .null, areDecimal { partner = .value(.decimal) }
        var all: [ResolvedExpression] = []
        for (expression, result) in zip(expressions, results) {
            if let result {
                all.append(result)
            } else if case .constant(let value) = expression {
                all.append(try constant(&self, value, partner))
            }
        }
        return all
    }

    // MARK: Functions

    private mutating func function(
        _ function: PredicateFunction, _ arguments: [Expression], _ offset: Int, _ depth: Int
    ) throws(PredicateError) -> ResolvedExpression {
        if function == .now { return .constant(.date(now()), .value(.date)) }
        if let name = function.collectionOperator {
            return .path(try collection(arguments[0], name, offset, depth))
        }
        let values = try operands(arguments, .null, offset, depth) {
            (resolver, constant, partner) throws(PredicateError) in
            try resolver.operand(constant, beside: partner, offset)
        }
        let types = values.map(\.kind.type)
        if values.contains(where: { $0.kind == .null }) {
            return .constant(.null, values.map(\.kind).first { $0 != .null } ?? .null)
        }
        func fault(_ message: String) -> PredicateError {
            let given = types.map { $0?.rawValue ?? "object" }.joined(separator: " and ")
            return PredicateError(
                "\(function.rawValue) \(message), not of \(given)", offset: offset)
        }
        if let text = Self.texts[function] {
            guard types[0] == .string || types[0] == .uri else { throw fault("is of a string") }
            return apply(.text(text), values)
        }
        if let period = function.period {
            guard types[0] == .date, types.count == 1 || types[1]?.isInteger == true else {
                throw fault("is of a date and whole minutes")
            }
            let ahead = values.count > 1 ? values[1] : .constant(.integer(0), .value(.integer64))
            if case .constant(.integer(let minutes), _) = ahead,
                !CalendarPeriod.offsets.contains(minutes)
            {
                throw PredicateError(
                    "\(function.rawValue) takes an offset from UTC of -1,080 to 1,080 minutes, "
                        + "not \(minutes)", offset: offset)
            }
            return apply(.period(period), [values[0], ahead])
        }
        if let moment = Self.moment(function, types) { return apply(.moment(moment), values) }
        guard let operation = Self.operations[function],
            types.allSatisfy({ $0 == .decimal || $0?.isNumber == true })
        else { throw fault("is of numbers") }
        var type: AttributeType = types.allSatisfy { $0?.isInteger == true } ? .integer64 : .double
        if types.contains(.decimal) {
            guard !types.contains(.double), !types.contains(.float) else {
                throw fault("is of decimals or of doubles; CAST one of them")
            }
            type = .decimal
        }
        switch (operation, type) {
        case (.ceiling, .integer64), (.floor, .integer64), (.truncate, .integer64):
            return values[0]
        case (.raise, .integer64), (.squareRoot, .integer64): type = .double
        case (.divide, .decimal), (.modulus, .decimal), (.raise, .decimal), (.squareRoot, .decimal):
            throw fault(
                "is not exact for decimals, so CAST them to 'double'; it is of other numbers")
        default: break
        }
        return apply(.arithmetic(operation, type), values)
    }

    private static let texts: [PredicateFunction: ResolvedFunction.Text] = [
        .lowercase: .lowercase, .uppercase: .uppercase, .canonical: .canonical, .length: .length,
    ]

    private static let operations: [PredicateFunction: ResolvedFunction.Arithmetic] = [
        .add: .add, .subtract: .subtract, .multiply: .multiply, .divide: .divide,
        .modulus: .modulus, .raise: .raise, .negate: .negate, .absolute: .absolute,
        .ceiling: .ceiling, .floor: .floor, .truncate: .truncate, .squareRoot: .squareRoot,
    ]

    private static func moment(
        _ function: PredicateFunction, _ types: [AttributeType?]
    ) -> ResolvedFunction.Moment? {
        guard types.first == .some(.date), types.count == 2 else { return nil }
        let isOfDates = types[1] == .date
        switch function {
        case .add where types[1]?.isNumber == true: return .later
        case .subtract where types[1]?.isNumber == true: return .earlier
        case .subtract where isOfDates: return .between
        default: return nil
        }
    }

    /// A function's value; that of constants is calculated once.
    private func apply(
        _ function: ResolvedFunction, _ arguments: [ResolvedExpression]
    ) -> ResolvedExpression {
        let constants = arguments.compactMap { argument -> PropertyValue? in
            if case .constant(let value, _) = argument { value } else { nil }
        }
        guard constants.count == arguments.count else { return .apply(function, arguments) }
        return .constant(function.apply(constants), .value(function.result))
    }

    private func cast(
        _ operand: ResolvedExpression, _ type: AttributeType, _ offset: Int
    ) throws(PredicateError) -> ResolvedExpression {
        if operand.kind == .null { return .constant(.null, .value(type)) }
        guard let from = operand.kind.type,
            let function = ResolvedFunction.cast(from: from, to: type)
        else {
            let name = operand.kind.type?.rawValue ?? "object"
            throw PredicateError("a \(name) is never cast to \(type.rawValue)", offset: offset)
        }
        return apply(function, [operand])
    }

    private mutating func ternary(
        _ condition: Predicate, _ branches: [Expression], _ partner: ValueKind, _ offset: Int,
        _ depth: Int
    ) throws(PredicateError) -> ResolvedExpression {
        let predicate = try resolve(condition, depth: depth + 1)
        let values = try operands(branches, .null, offset, depth) {
            (resolver, constant, kind) throws(PredicateError) in
            let isNumber = kind.type?.isNumber == true && ValueKind.natural(constant)?.1 != .decimal
            let kind = kind == .null ? partner : isNumber ? .null : kind
            return try resolver.constant(constant, kind, offset)
        }
        let kinds = values.map(\.kind)
        let kind: ValueKind
        switch (kinds[0], kinds[1]) {
        case (.null, let other), (let other, .null): kind = other
        case (.object(let first), .object(let second))
        where paths.model.entity(named: first)?.root == paths.model.entity(named: second)?.root:
            kind = kinds[0]
        case (.value(let first), .value(let second)) where first.isNumber && second.isNumber:
            kind = .value(first.isInteger && second.isInteger ? .integer64 : .double)
        case (let first, let second) where first == second: kind = first
        default:
            throw PredicateError("the two values of TERNARY are of different types", offset: offset)
        }
        return .ternary(predicate, values[0], values[1], kind)
    }

    // MARK: Collections

    /// The aggregate of a key path or a subquery.
    private mutating func collection(
        _ argument: Expression, _ name: String, _ offset: Int, _ depth: Int
    ) throws(PredicateError) -> ResolvedPath {
        switch argument {
        case .keyPath(let names):
            let path = try paths.resolve(names + [name], offset: offset)
            guard path.firstToMany == nil else {
                throw PredicateError(
                    "\(name) of a path over two to-manys; use SUBQUERY or ANY", offset: offset)
            }
            return path
        case .subquery(let subquery):
            return try self.subquery(subquery, name, subquery.keyPath[...], offset, depth)
        default:
            throw PredicateError(
                "\(name.dropFirst()): is of a key path or a subquery", offset: offset)
        }
    }

    private mutating func subquery(
        _ subquery: PredicateSubquery, _ name: String, _ rest: ArraySlice<String>, _ offset: Int,
        _ depth: Int
    ) throws(PredicateError) -> ResolvedPath {
        func fault(_ message: String) -> PredicateError { PredicateError(message, offset: offset) }
        try check(depth, offset: offset)
        guard paths.columns == nil else { throw fault("a grouped fetch has no subqueries") }
        let collection = try paths.resolve(subquery.collection, offset: offset)
        let path = subquery.collection.joined(separator: ".")
        guard case .object(let member) = collection.terminal, let first = collection.firstToMany,
            first == collection.steps.count - 1, let entity = paths.model.entity(named: member)
        else { throw fault("SUBQUERY needs a path that ends in its only to-many, not \"\(path)\"") }
        guard !paths.variables.contains(where: { $0.name == subquery.variable }) else {
            throw fault("$\(subquery.variable) is the variable of a subquery around this one")
        }
        var kind: CollectionAggregate = .count
        var names = Array(rest)
        if name != "@count" {
            guard let known = CollectionAggregate(name) else { throw fault("\(name) is not known") }
            kind = known
            if kind == .distinctCount, names.popLast() != "@count" {
                throw fault("after \(name) @count must come last")
            }
        } else if !names.isEmpty {
            throw fault("@count must come last")
        }
        paths.variables.append((subquery.variable, entity))
        defer { paths.variables.removeLast() }
        let filter = try resolve(subquery.predicate, depth: depth + 1)
        var whole = try paths.resolve(["$\(subquery.variable)"] + names, offset: offset)
        guard whole.firstToMany == nil else {
            throw fault("\"\(path)\" aggregates over two to-manys")
        }
        switch whole.terminal {
        case .count, .aggregate: throw fault("an aggregate after SUBQUERY(...) is of plain values")
        default: break
        }
        guard let type = kind.result(of: whole.type) else {
            throw fault("there is no \(name) of values of type \(whole.type?.rawValue ?? "object")")
        }
        whole.base = paths.innerLevel - 1
        return ResolvedPath(
            base: collection.base, steps: Array(collection.steps[..<first]),
            terminal: .aggregate(
                ResolvedAggregate(
                    kind: kind, relationship: collection.steps[first], filter: filter,
                    value: kind == .count ? nil : whole, level: paths.innerLevel - 1, type: type)))
    }
}
