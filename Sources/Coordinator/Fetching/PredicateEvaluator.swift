package import Merge

/// An object as a predicate sees it in memory.
///
/// A property that an object does not have reads as null. Methods may throw what firing a fault
/// throws.
package protocol PredicateSubject {
    /// The object's identity; temporary ones are below 0.
    var predicateRow: RowID { get }
    /// The name of the object's entity; nil where it is not known.
    var predicateEntity: String? { get throws }
    /// The value of an attribute.
    func predicateValue(ofAttribute name: String) throws -> PropertyValue
    /// The object a to-one leads to.
    func predicateTarget(ofToOne name: String) throws -> Self?
    /// The objects a to-many leads to, each once.
    func predicateTargets(ofToMany name: String) throws -> [Self]
}

extension PredicateSubject {
    /// Nil: a subject that does not say its entity cannot be asked for it.
    package var predicateEntity: String? { nil }
}

/// A predicate compiled for an entity, to be asked of objects in memory.
///
/// It holds of an object exactly where the same predicate's SQL fetches it, with SQL's logic of
/// three values: a comparison with a nil is unknown, its opposite too, and unknown is no match.
package struct PredicateEvaluator: Hashable, Sendable {
    private let predicate: ResolvedPredicate

    /// Compiles a predicate.
    ///
    /// - Parameters:
    ///   - predicate: the predicate; nil for all objects.
    ///   - entity: the entity whose objects are asked.
    ///   - cluster: the cluster that object URIs must have; nil for any.
    ///   - now: gives what `now()` is, in milliseconds since 1970; asked here, once at most.
    /// - Throws: ``PredicateError`` where names or types do not fit the model.
    package init(
        _ predicate: Predicate?, entity: ManagedObjectModel.Entity, model: ManagedObjectModel,
        cluster: String? = nil, now: @escaping @Sendable () -> Int64 = FetchCompiler.wallClock
    ) throws(PredicateError) {
        var resolver = PredicateResolver(
            paths: PathResolver(model: model, entity: entity), cluster: cluster, now: now)
        self.predicate = try resolver.resolve(predicate ?? .constant(true))
    }

    /// Tests that hold of every object that the predicate holds of: that an attribute of its own has one
    /// value.
    var equalities: [(attribute: String, value: PropertyValue, options: ComparisonOptions)] {
        let parts: [ResolvedPredicate] =
            if case .and(let parts) = predicate { parts } else { [predicate] }
        return parts.compactMap { part in
            guard case .test(let path, .compare(.equal, let value, let options)) = part,
                path.base == 0, path.steps.isEmpty,
                case .attribute(let name, _) = path.terminal
            else { return nil }
            return (name, value, options)
        }
    }

    /// Whether it asks for the object's own attributes alone.
    var isOwn: Bool { Self.isOwn(predicate) }

    private static func isOwn(_ predicate: ResolvedPredicate) -> Bool {
        switch predicate {
        case .constant: true
        case .and(let parts), .or(let parts): parts.allSatisfy(isOwn)
        case .not(let part): isOwn(part)
        case .test(let path, _): path.isOwn
        default: false
        }
    }

    /// Whether the predicate holds of an object.
    package func matches(_ subject: some PredicateSubject) throws -> Bool {
        try Self.truth(predicate, [subject]) ?? false
    }

    /// - Parameter subjects: the object that is asked, and those of the subqueries around.
    private static func truth<Subject: PredicateSubject>(
        _ predicate: ResolvedPredicate, _ subjects: [Subject]
    ) throws -> Bool? {
        switch predicate {
        case .constant(let truth): return truth
        case .not(let part): return try truth(part, subjects).map { !$0 }
        case .and(let parts):
            var result: Bool? = true
            for part in parts {
                switch try truth(part, subjects) {
                case false?: return false
                case nil: result = nil
                case true?: break
                }
            }
            return result
        case .or(let parts):
            var result: Bool? = false
            for part in parts {
                switch try truth(part, subjects) {
                case true?: return true
                case nil: result = nil
                case false?: break
                }
            }
            return result
        case .test(let path, let test): return test.holds(try value(path, subjects))
        case .computed(let expression, let test):
            return test.holds(try value(expression, subjects))
        case .relation(let left, let comparison, let right, let options):
            return comparison.holds(
                try value(left, subjects), try right.map { try value($0, subjects) }, options)
        case .quantified(let quantifier, let path, let test):
            return quantifier.holds(try values(path, subjects)) { test.holds($0) }
        case .quantifiedRelation(let quantifier, let path, let comparison, let right, let options):
            let right = try right.map { try value($0, subjects) }
            return quantifier.holds(try values(path, subjects)) {
                comparison.holds($0, right, options)
            }
        }
    }

    private static func value<Subject: PredicateSubject>(
        _ expression: ResolvedExpression, _ subjects: [Subject]
    ) throws -> PropertyValue {
        switch expression {
        case .constant(let value, _): value
        case .path(let path): try value(path, subjects)
        case .apply(let function, let arguments):
            function.apply(try arguments.map { try value($0, subjects) })
        case .ternary(let condition, let first, let second, _):
            try value(try truth(condition, subjects) == true ? first : second, subjects)
        }
    }

    /// The one value at a path; null where a to-one on the way leads nowhere.
    static func value<Subject: PredicateSubject>(
        _ path: ResolvedPath, _ subjects: [Subject]
    ) throws -> PropertyValue {
        var current: Subject? = subjects[path.base]
        for step in path.steps { current = try current?.predicateTarget(ofToOne: step.name) }
        return try value(path.terminal, current, subjects)
    }

    private static func value<Subject: PredicateSubject>(
        _ terminal: ResolvedPath.Terminal, _ subject: Subject?, _ subjects: [Subject]
    ) throws -> PropertyValue {
        switch terminal {
        case .attribute(let name, _):
            return try subject?.predicateValue(ofAttribute: name) ?? .null
        case .object: return subject.map { .reference($0.predicateRow) } ?? .null
        case .count(let relationship):
            let targets = try subject?.predicateTargets(ofToMany: relationship.name)
            return .integer(Int64(targets?.count ?? 0))
        case .aggregate(let aggregate): return try value(aggregate, subject, subjects)
        case .entityName:
            guard let subject else { return .null }
            guard let name = try subject.predicateEntity else {
                throw PredicateError(
                    "the entity of an object with unsaved changes cannot be asked here", offset: 0)
            }
            return .string(name)
        case .column: return .null
        }
    }

    private static func value<Subject: PredicateSubject>(
        _ aggregate: ResolvedAggregate, _ subject: Subject?, _ subjects: [Subject]
    ) throws -> PropertyValue {
        var values: [PropertyValue] = []
        let targets = try subject?.predicateTargets(ofToMany: aggregate.relationship.name) ?? []
        for target in targets {
            let inner = subjects + [target]
            if let filter = aggregate.filter, try truth(filter, inner) != true { continue }
            values.append(
                try aggregate.value.map { try value($0, inner) }
                    ?? .reference(target.predicateRow))
        }
        return aggregate.kind.apply(values, of: aggregate.value?.type)
    }

    /// All values at a path through to-manys. A to-one that leads nowhere gives a null, but
    /// nothing where a to-many follows it.
    private static func values<Subject: PredicateSubject>(
        _ path: ResolvedPath, _ subjects: [Subject]
    ) throws -> [PropertyValue] {
        var current: [Subject?] = [subjects[path.base]]
        for step in path.steps {
            var next: [Subject?] = []
            for element in current {
                if step.isToMany {
                    next += try element?.predicateTargets(ofToMany: step.name) ?? []
                } else {
                    next.append(try element?.predicateTarget(ofToOne: step.name))
                }
            }
            // Each object once, by however many ways it is reached: there are as many as the numbers of
            // members multiplied.
            if step.isToMany {
                var rows = Set<RowID>()
                next.removeAll { element in
                    element.map { !rows.insert($0.predicateRow).inserted } ?? true
                }
            }
            current = next
        }
        return try current.map { try value(path.terminal, $0, subjects) }
    }
}

extension PredicateComparison.Quantifier {
    /// Whether values pass a test as it says; unknown is no pass.
    fileprivate func holds(
        _ values: [PropertyValue], _ test: (PropertyValue) throws -> Bool?
    ) rethrows -> Bool {
        switch self {
        case .any: try values.contains { try test($0) == true }
        case .none: try !values.contains { try test($0) == true }
        case .all: try values.allSatisfy { try test($0) == true }
        }
    }
}

extension PredicateComparison.Operator {
    /// Whether it holds of values: of BETWEEN two at the right, of IN any number; nil where that is
    /// unknown.
    func holds(
        _ left: PropertyValue, _ right: [PropertyValue], _ options: ComparisonOptions
    ) -> Bool? {
        func compare(_ other: PropertyValue, _ comparison: Self) -> Bool? {
            if left.isNull || other.isNull { return nil }
            return comparison.holds(
                ValueOrder.compare(
                    ValueTest.fold(left, options), ValueTest.fold(other, options)))
        }
        switch self {
        case .between:
            let (low, high) = (
                compare(right[0], .greaterOrEqual), compare(right[1], .lessOrEqual)
            )
            if low == false || high == false { return false }
            return low == nil || high == nil ? nil : true
        case .isIn:
            let found = right.map { compare($0, .equal) }
            return found.contains(true) ? true : found.contains(nil) ? nil : false
        default: break
        }
        guard let kind = TextComparison(self) else { return compare(right[0], self) }
        guard let text = ResolvedFunction.text(left), let needle = ResolvedFunction.text(right[0])
        else { return nil }
        return kind.holds(
            text, kind == .matches ? needle : TextFolding.fold(needle, options), options)
    }
}

extension ValueTest {
    static func fold(_ value: PropertyValue, _ options: ComparisonOptions) -> PropertyValue {
        switch value {
        case .string(let text): .string(TextFolding.fold(text, options))
        case .uri(let text): .uri(TextFolding.fold(text, options))
        default: value
        }
    }

    /// Whether the test holds of a value; nil where that is unknown.
    func holds(_ value: PropertyValue) -> Bool? {
        switch self {
        case .isNull: return value.isNull
        case .isNotNull: return !value.isNull
        case .isIn(let values, _) where values.isEmpty: return false
        default: if value.isNull { return nil }
        }
        switch self {
        case .isNull, .isNotNull: return nil
        case .compare(let comparison, let constant, let options):
            return comparison.holds(ValueOrder.compare(Self.fold(value, options), constant))
        case .between(let low, let high, let options):
            let value = Self.fold(value, options)
            return ValueOrder.compare(value, low) != .before
                && ValueOrder.compare(value, high) != .after
        case .isIn(let values, let options):
            let value = Self.fold(value, options)
            return values.contains { ValueOrder.compare(value, $0) == .same }
        case .text(let kind, let needle, let options):
            switch value {
            case .string(let text), .uri(let text): return kind.holds(text, needle, options)
            default: return nil
            }
        }
    }
}

/// An order compiled for an entity, to sort objects in memory as SQL does.
package struct SortEvaluator: Hashable, Sendable {
    private let keys: [ResolvedSortKey]

    /// Compiles an order.
    ///
    /// - Throws: ``PredicateError`` where a key path does not fit the model.
    package init(
        _ descriptors: [SortDescriptor], entity: ManagedObjectModel.Entity,
        model: ManagedObjectModel
    ) throws(PredicateError) {
        let resolver = PathResolver(model: model, entity: entity)
        var keys: [ResolvedSortKey] = []
        for descriptor in descriptors { keys.append(try ResolvedSortKey(descriptor, resolver)) }
        self.keys = keys
    }

    /// Whether it is by the object's own attributes alone.
    var isOwn: Bool { keys.allSatisfy(\.path.isOwn) }

    /// The values an object is sorted by; to be fetched once an object.
    package func values(of subject: some PredicateSubject) throws -> [PropertyValue] {
        try keys.map { try $0.value(of: subject) }
    }

    /// Whether an object with these values comes before another. Equal ones come by identity,
    /// temporary ones last, in the order they were made.
    package func precedes(
        _ left: (values: [PropertyValue], row: RowID),
        _ right: (values: [PropertyValue], row: RowID)
    ) -> Bool {
        for (index, key) in keys.enumerated() {
            switch ValueOrder.compare(left.values[index], right.values[index]) {
            case .same: continue
            case .before: return key.ascending
            case .after: return !key.ascending
            }
        }
        switch (left.row.rawValue < 0, right.row.rawValue < 0) {
        case (false, true): return true
        case (true, false): return false
        case (false, false): return left.row < right.row
        case (true, true): return left.row > right.row
        }
    }

    /// Sorts objects.
    package func sort<Subject: PredicateSubject>(_ subjects: [Subject]) throws -> [Subject] {
        try subjects.map { (values: try values(of: $0), row: $0.predicateRow, subject: $0) }
            .sorted { precedes(($0.values, $0.row), ($1.values, $1.row)) }
            .map(\.subject)
    }
}
