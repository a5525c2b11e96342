import Merge

extension PredicateResolver {
    /// A side of a comparison that leads to many values, or to one.
    private enum Side {
        case many(ResolvedPath)
        case one(ResolvedExpression)

        var kind: ValueKind {
            switch self {
            case .many(let path): path.kind
            case .one(let expression): expression.kind
            }
        }
    }

    mutating func resolve(
        _ comparison: PredicateComparison, depth: Int
    ) throws(PredicateError) -> ResolvedPredicate {
        var comparison = comparison
        if comparison.options.contains(.normalized) {
            guard comparison.options == .normalized else {
                throw PredicateError("neither [c] nor [d] goes with [n]", offset: comparison.offset)
            }
            comparison.options = []
        }
        if let result = try exchanged(comparison, depth) { return result }
        return try ordinary(comparison, depth)
    }

    /// A comparison with a constant at its left, or that asks whether a to-many has a value.
    private mutating func exchanged(
        _ comparison: PredicateComparison, _ depth: Int
    ) throws(PredicateError) -> ResolvedPredicate? {
        var mirror = comparison
        (mirror.left, mirror.right) = (comparison.right, comparison.left)
        if comparison.comparison == .isIn, case .keyPath(let names) = comparison.right {
            guard try paths.resolve(names, offset: comparison.offset).firstToMany != nil else {
                throw PredicateError(
                    "IN needs a list or a path that leads to many at its right",
                    offset: comparison.offset)
            }
            mirror.comparison = .equal
            mirror.quantifier = comparison.quantifier ?? .any
            return try ordinary(mirror, depth)
        }
        guard case .constant(let constant) = comparison.left,
            let mirrored = comparison.comparison.mirrored
        else { return nil }
        if case .constant(let other) = comparison.right, !constant.isNull || other.isNull {
            return nil
        }
        mirror.comparison = mirrored
        return try ordinary(mirror, depth)
    }

    private mutating func ordinary(
        _ given: PredicateComparison, _ depth: Int
    ) throws(PredicateError) -> ResolvedPredicate {
        var comparison = given
        let left = try side(comparison, depth)
        if comparison.quantifier == nil, comparison.comparison == .contains,
            case .many = left, left.kind.type == nil
        {
            comparison.quantifier = .any
            comparison.comparison = .equal
        }
        func fault(_ message: String) -> PredicateError {
            PredicateError(message, offset: comparison.offset)
        }
        switch (comparison.quantifier, left) {
        case (nil, .many):
            throw fault(
                "the path leads to many: say ANY, ALL or NONE before it, or @count after it")
        case (let quantifier?, .one):
            throw fault("\(quantifier.rawValue) needs a path that leads to many")
        default: break
        }
        let rights = try right(comparison, left.kind, depth)
        if let constant = rights.constant {
            if comparison.left.isNullConstant {
                // Only nil equals nil; in an order it has no place.
                guard constant.isNull, comparison.comparison.isEquality else {
                    throw fault("nil can be compared with == and != only")
                }
            }
            let test: ValueTest
            do {
                test = try valueTest(
                    left.kind, comparison.comparison, constant, comparison.options)
            } catch { throw fault(error.message) }
            switch left {
            case .many(let path):
                return .quantified(comparison.quantifier ?? .any, path, test)
            case .one(.path(let path)):
                try checkEntityName(path, test, comparison.offset)
                return .test(path, test)
            case .one(let expression): return .computed(expression, test)
            }
        }
        for other in rights.expressions { try check(comparison, left.kind, other.kind) }
        switch left {
        case .many(let path):
            return .quantifiedRelation(
                comparison.quantifier ?? .any, path, comparison.comparison, rights.expressions,
                comparison.options)
        case .one(let expression):
            return .relation(
                expression, comparison.comparison, rights.expressions, comparison.options)
        }
    }

    private mutating func side(
        _ comparison: PredicateComparison, _ depth: Int
    ) throws(PredicateError) -> Side {
        if case .keyPath(let names) = comparison.left {
            let path = try paths.resolve(names, offset: comparison.offset)
            return path.firstToMany == nil ? .one(.path(path)) : .many(path)
        }
        let partner: ValueKind = comparison.comparison.isOfTexts ? .value(.string) : .null
        return .one(try expression(comparison.left, partner, comparison.offset, depth))
    }

    /// The right side, as a constant if it is one.
    private mutating func right(
        _ comparison: PredicateComparison, _ kind: ValueKind, _ depth: Int
    ) throws(PredicateError) -> (constant: PredicateValue?, expressions: [ResolvedExpression]) {
        let offset = comparison.offset
        let members: [Expression]
        switch (comparison.comparison, comparison.right) {
        case (_, .constant(let constant)): return (constant, [])
        case (.isIn, .list(let list)), (.between, .list(let list)): members = list
        case (.isIn, _): throw PredicateError("IN needs a list", offset: offset)
        case (.between, _):
            throw PredicateError("BETWEEN needs a list of two values", offset: offset)
        case (_, .list):
            throw PredicateError(
                "a list can be used with IN and BETWEEN only", offset: offset)
        case (_, let one): members = [one]
        }
        guard comparison.comparison != .between || members.count == 2 else {
            throw PredicateError("BETWEEN needs a list of two values", offset: offset)
        }
        guard members.count <= PredicateParser.maximumMembers else {
            throw PredicateError(
                "a list that is not of constants has at most "
                    + "\(PredicateParser.maximumMembers) members", offset: offset)
        }
        var expressions: [ResolvedExpression] = []
        for member in members {
            if member.isNullConstant {
                throw PredicateError(
                    "nil can be compared with == and != only", offset: offset)
            }
            expressions.append(try expression(member, kind, offset, depth))
        }
        // What was calculated from constants alone is one, which an index can serve.
        let values = expressions.compactMap { expression -> PredicateValue? in
            guard case .constant(let value, _) = expression, !value.isNull else { return nil }
            // An integer can be compared with a number that is none, but no constant says so.
            if case .double(let number) = value, !number.isFinite { return nil }
            return .value(value)
        }
        guard values.count == members.count, kind.type != nil else { return (nil, expressions) }
        let isList = comparison.comparison == .isIn || comparison.comparison == .between
        return (isList ? .list(values) : values[0], [])
    }

    /// Whether two values can be compared so.
    private func check(
        _ comparison: PredicateComparison, _ left: ValueKind, _ right: ValueKind
    ) throws(PredicateError) {
        func fault(_ message: String) -> PredicateError {
            PredicateError(message, offset: comparison.offset)
        }
        switch (left, right) {
        case (.object(let first), .object(let second)):
            guard comparison.comparison.isEquality || comparison.comparison == .isIn,
                comparison.options.isEmpty
            else { throw fault("objects can be compared with == and != only") }
            guard
                paths.model.entity(named: first)?.root == paths.model.entity(named: second)?.root
            else { throw fault("a \(first) is never a \(second)") }
        case (.object, .value), (.value, .object): throw fault("an object is no value")
        case (.null, _), (_, .null): break
        case (.value(let first), .value(let second)):
            let areTexts = [first, second].allSatisfy { $0 == .string || $0 == .uri }
            guard comparison.options.isEmpty || areTexts else {
                throw fault("[c] and [d] are for strings")
            }
            if comparison.comparison.isOfTexts {
                guard areTexts else {
                    throw fault("\(comparison.comparison.rawValue) is for strings")
                }
            } else if first.comparesAs != second.comparesAs {
                throw fault(
                    "the two sides are of types that do not compare: \(first.rawValue) and "
                        + "\(second.rawValue); CAST one of them")
            }
        }
        if comparison.comparison.isOfTexts, left.type == nil || right.type == nil {
            guard left == .null || right == .null else {
                throw fault("\(comparison.comparison.rawValue) is for strings")
            }
        }
    }

    /// An entity that the model does not have is a mistake, and not merely never found.
    private func checkEntityName(
        _ path: ResolvedPath, _ test: ValueTest, _ offset: Int
    ) throws(PredicateError) {
        guard case .entityName = path.terminal else { return }
        let names: [PropertyValue] =
            switch test {
            case .compare(let comparison, let name, []) where comparison.isEquality: [name]
            case .isIn(let names, []): names
            default: []
            }
        for case .string(let name) in names where paths.model.entity(named: name) == nil {
            throw PredicateError("there is no entity \"\(name)\"", offset: offset)
        }
    }
}

extension PredicateComparison.Operator {
    /// Whether it compares texts alone.
    var isOfTexts: Bool {
        [.beginsWith, .endsWith, .contains, .like, .matches].contains(self)
    }
}

extension PredicateValue {
    var isNull: Bool { self == .null || self == .value(.null) }
}

extension PredicateComparison.Expression {
    var isNullConstant: Bool { if case .constant(let value) = self { value.isNull } else { false } }
}
