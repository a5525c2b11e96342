import Merge

/// An expression resolved against the model.
indirect enum ResolvedExpression: Hashable, Sendable {
    case constant(PropertyValue, ValueKind)
    case path(ResolvedPath)
    case apply(ResolvedFunction, [ResolvedExpression])
    case ternary(ResolvedPredicate, ResolvedExpression, ResolvedExpression, ValueKind)

    /// What it gives.
    var kind: ValueKind {
        switch self {
        case .constant(_, let kind), .ternary(_, _, _, let kind): kind
        case .path(let path): path.kind
        case .apply(let function, _): .value(function.result)
        }
    }

    /// The lowest level that a path in it begins at.
    var lowestLevel: Int {
        switch self {
        case .constant: .max
        case .path(let path): path.lowestLevel
        case .apply(_, let arguments): arguments.map(\.lowestLevel).min() ?? .max
        case .ternary(let condition, let first, let second, _):
            min(condition.lowestLevel, first.lowestLevel, second.lowestLevel)
        }
    }
}

extension ResolvedPath {
    var lowestLevel: Int {
        guard case .aggregate(let aggregate) = terminal else { return base }
        return min(base, aggregate.filter?.lowestLevel ?? .max)
    }
}

extension ResolvedPredicate {
    /// The lowest level that a path in it begins at.
    var lowestLevel: Int {
        switch self {
        case .constant: .max
        case .and(let parts), .or(let parts): parts.map(\.lowestLevel).min() ?? .max
        case .not(let part): part.lowestLevel
        case .test(let path, _), .quantified(_, let path, _): path.lowestLevel
        case .computed(let expression, _): expression.lowestLevel
        case .relation(let left, _, let right, _):
            min(left.lowestLevel, right.map(\.lowestLevel).min() ?? .max)
        case .quantifiedRelation(_, let path, _, let right, _):
            min(path.lowestLevel, right.map(\.lowestLevel).min() ?? .max)
        }
    }
}
