/// What a request asks of an entity's rows, without its constants: what an index could help.
///
/// Only comparisons count that all must hold, of the entity's own to-ones and attributes, derived ones
/// included. What is folded ([c], [d]) counts where a derived attribute has it without case and diacritics;
/// what is calculated, or reached through a relationship, is left out.
public struct RequestShape: Hashable, Sendable, CustomStringConvertible {
    /// A key that rows are sorted or grouped by.
    public struct SortKey: Hashable, Sendable {
        /// The property.
        public let property: String
        /// Whether the least comes first.
        public let isAscending: Bool
    }

    /// The entity that was asked for.
    public let entity: String
    /// The properties compared with ==, IN or nil, by name; at most eight.
    public private(set) var equal: [String] = []
    /// The properties compared with <, <=, >, >=, BETWEEN or BEGINSWITH, by name; at most eight.
    public private(set) var ranged: [String] = []
    /// The first keys that rows are grouped by, or else sorted by, up to one that is no property of the
    /// entity; at most eight.
    public private(set) var sort: [SortKey] = []

    /// How many of each kind are told apart.
    static let maximumColumns = 8

    /// The shape of a request and its resolved predicate.
    init(
        _ request: FetchRequest, _ predicate: ResolvedPredicate,
        of entity: ManagedObjectModel.Entity
    ) {
        self.entity = entity.name
        note(predicate)
        if equal.count > 1 { equal.sort() }
        if ranged.count > 1 { ranged.sort() }
        if !request.propertiesToGroupBy.isEmpty {
            for name in request.propertiesToGroupBy {
                guard note(key: name, true, of: entity) else { return }
            }
        } else if request.resultType != .count {
            for descriptor in request.sortDescriptors {
                guard let name = Self.column(descriptor, of: entity),
                    note(key: name, descriptor.ascending, of: entity)
                else { return }
            }
        }
    }

    /// Whether no index could help.
    var isPlain: Bool { equal.isEmpty && ranged.isEmpty && sort.isEmpty }

    private mutating func note(_ predicate: ResolvedPredicate) {
        switch predicate {
        case .and(let parts): for part in parts { note(part) }
        case .test(let path, let test):
            let (path, test) = SQLBuilder.canonical(path, test)
            guard let name = path.ownColumn, let isEquality = test.isEquality else { return }
            if isEquality {
                Self.insert(name, &equal)
            } else {
                Self.insert(name, &ranged)
            }
        default: break
        }
    }

    private static func insert(_ name: String, _ names: inout [String]) {
        guard names.count < maximumColumns, !names.contains(name) else { return }
        names.append(name)
    }

    /// The property that a key sorts by; nil where no column has it.
    private static func column(
        _ descriptor: SortDescriptor, of entity: ManagedObjectModel.Entity
    ) -> String? {
        guard case .localizedStandard(let locale) = descriptor.comparison else {
            return descriptor.keyPath
        }
        return Collation(locale).flatMap { entity.keys(of: descriptor.keyPath, in: $0) }
    }

    /// - Returns: whether the keys after it count.
    private mutating func note(
        key name: String, _ isAscending: Bool, of entity: ManagedObjectModel.Entity
    ) -> Bool {
        guard sort.count < Self.maximumColumns, entity.columnPosition(of: name) != nil else {
            return false
        }
        sort.append(SortKey(property: name, isAscending: isAscending))
        return true
    }

    /// Such as `name = ?, age in a range, sorted by -born`.
    public var description: String {
        var parts = equal.map { "\($0) = ?" } + ranged.map { "\($0) in a range" }
        if !sort.isEmpty {
            let keys = sort.map { "\($0.isAscending ? "" : "-")\($0.property)" }
            parts.append("sorted by \(keys.joined(separator: ", "))")
        }
        return parts.isEmpty ? "nothing that an index could help" : parts.joined(separator: ", ")
    }
}

extension ResolvedPath {
    /// The column of the object itself that the path reads; nil where it reads another.
    fileprivate var ownColumn: String? {
        guard base == 0 else { return nil }
        switch terminal {
        case .attribute(let name, _): return steps.isEmpty ? name : nil
        case .object:
            guard steps.count == 1, case .column = steps[0].storage else { return nil }
            return steps[0].name
        default: return nil
        }
    }
}

extension ValueTest {
    /// Whether it asks for certain values, or for a range of them; nil where an index tells neither.
    fileprivate var isEquality: Bool? {
        switch self {
        case .isNull: return true
        case .isIn(_, let options): return options.isEmpty ? true : nil
        case .compare(let comparison, _, let options):
            guard options.isEmpty else { return nil }
            return comparison == .equal ? true : comparison.isOrdering ? false : nil
        case .between(_, _, let options): return options.isEmpty ? false : nil
        case .text(let kind, _, let options):
            return kind == .beginsWith && options.isEmpty ? false : nil
        case .isNotNull: return nil
        }
    }
}

extension RequestShape {
    /// Whether an index over all rows finds those of one of its ranges. Decimals are compared by an order
    /// that no index has.
    func isRangeOfAnIndex(_ entity: ManagedObjectModel.Entity) -> Bool {
        entity.indexes.contains { index in
            if index.predicate != nil { return false }
            let first = index.elements.first { !equal.contains($0.property) }
            guard let first, ranged.contains(first.property) else { return false }
            return entity.attribute(named: first.property)?.type != .decimal
        }
    }
}
