import Merge

/// A request compiled for following its results: which objects belong to them, in which order, and
/// the entities that concern them.
struct LivePlan {
    let request: FetchRequest
    let entity: ManagedObjectModel.Entity
    private let predicate: PredicateEvaluator
    /// Gives the predicate as it is at the time; nil where it does not ask for `now()`.
    private let predicateNow: (() throws -> PredicateEvaluator)?
    let order: SortEvaluator
    /// How results that begin with the same sort key are a section; nil where they are not.
    private let sections: SectionKey?
    /// The entities that results have.
    let results: Set<String>
    /// Entities above them: the ID of a link's end can name one of these.
    let ancestors: Set<String>
    /// The entities that key paths read, other than the results' own columns.
    let crossed: Set<String>

    /// Whether the store alone can tell who moves into the results.
    var isPaged: Bool { request.fetchLimit > 0 || request.fetchOffset > 0 }

    /// Compiles a request that a fetch has accepted.
    ///
    /// - Throws: ``PredicateError`` where names or types do not fit the model.
    init(
        _ request: FetchRequest, hasSections: Bool, context: ManagedObjectContext
    ) throws {
        let model = context.managedObjectModel
        let cluster = context.persistentStoreCoordinator.cluster
        guard let entity = model.entity(named: request.entityName) else {
            throw CoordinatorError(.malformed, "There is no entity \(request.entityName).")
        }
        let wall = context.persistentStoreCoordinator.options.wallMilliseconds
        let now = { @Sendable in Int64(clamping: wall()) }
        self.request = request
        self.entity = entity
        predicate = try PredicateEvaluator(
            request.predicate, entity: entity, model: model, cluster: cluster, now: now)
        predicateNow =
            request.predicate?.description.contains("now()") ?? false
            ? {
                try PredicateEvaluator(
                    request.predicate, entity: entity, model: model, cluster: cluster, now: now)
            } : nil
        order = try SortEvaluator(request.sortDescriptors, entity: entity, model: model)
        results = Set(request.includesSubentities ? entity.familyNames : [entity.name])
        ancestors = Self.ancestors(of: entity, model)

        let resolver = PathResolver(model: model, entity: entity)
        var paths: [ResolvedPath] = []
        for descriptor in request.sortDescriptors {
            paths.append(try ResolvedSortKey(descriptor, resolver).path)
        }
        sections =
            try hasSections
            ? request.sortDescriptors.first.map {
                try SectionKey(ResolvedSortKey($0, resolver))
            } : nil
        if let predicate = request.predicate {
            var predicates = PredicateResolver(
                paths: resolver, cluster: cluster, now: now)
            Self.collect(try predicates.resolve(predicate), &paths)
        }
        crossed = paths.reduce(into: []) { $0.formUnion(Self.crossed(by: $1, model)) }
    }

    private static func ancestors(
        of entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) -> Set<String> {
        var result = Set<String>()
        var parent = entity.parent
        while let name = parent {
            result.insert(name)
            parent = model.entity(named: name)?.parent
        }
        return result
    }

    private static func collect(_ predicate: ResolvedPredicate, _ paths: inout [ResolvedPath]) {
        switch predicate {
        case .constant: break
        case .and(let parts), .or(let parts): for part in parts { collect(part, &paths) }
        case .not(let part): collect(part, &paths)
        case .test(let path, _), .quantified(_, let path, _): paths.append(path)
        case .computed(let expression, _): collect(expression, &paths)
        case .relation(let left, _, let right, _):
            for expression in [left] + right { collect(expression, &paths) }
        case .quantifiedRelation(_, let path, _, let right, _):
            paths.append(path)
            for expression in right { collect(expression, &paths) }
        }
    }

    private static func collect(_ expression: ResolvedExpression, _ paths: inout [ResolvedPath]) {
        switch expression {
        case .constant: break
        case .path(let path): paths.append(path)
        case .apply(_, let arguments): for one in arguments { collect(one, &paths) }
        case .ternary(let condition, let first, let second, _):
            collect(condition, &paths)
            collect(first, &paths)
            collect(second, &paths)
        }
    }

    /// The entities that a path reads. Where it ends with a reference that the object before has
    /// in a column, the object there is not read.
    static func crossed(by path: ResolvedPath, _ model: ManagedObjectModel) -> Set<String> {
        var relationships = path.steps
        switch path.terminal {
        case .count(let relationship): relationships.append(relationship)
        case .object: if case .column? = relationships.last?.storage { relationships.removeLast() }
        case .aggregate(let aggregate): relationships.append(aggregate.relationship)
        case .attribute, .column, .entityName: break
        }
        var result = Set<String>()
        if case .aggregate(let aggregate) = path.terminal {
            var inner = aggregate.value.map { [$0] } ?? []
            if let filter = aggregate.filter { collect(filter, &inner) }
            for path in inner { result.formUnion(crossed(by: path, model)) }
        }
        for relationship in relationships {
            guard let destination = model.entity(named: relationship.destination) else { continue }
            result.formUnion(destination.familyNames)
            result.formUnion(ancestors(of: destination, model))
        }
        return result
    }

    // MARK: Objects

    /// Whether an object can be among the results.
    func concerns(_ object: ManagedObject) -> Bool { results.contains(object.entity.name) }

    /// Whether a row can be among the results.
    func concerns(_ objectID: ManagedObjectID) -> Bool {
        results.contains(objectID.entityName) || ancestors.contains(objectID.entityName)
    }

    /// The place of an object among the results; nil where it is none of them.
    func entry(for object: ManagedObject) throws -> LiveEntry? {
        let subject = GraphSubject(object: object)
        guard try (predicateNow?() ?? predicate).matches(subject) else { return nil }
        let entry = try placed(object)
        // Reading it may have shown that its row is gone.
        return object.isDeleted ? nil : entry
    }

    /// An object with what places it.
    func placed(_ object: ManagedObject) throws -> LiveEntry {
        let subject = GraphSubject(object: object)
        let values = try order.values(of: subject)
        return LiveEntry(
            object, values,
            section: try sections?.value(of: subject, placedBy: values[0]) ?? .null)
    }

    func precedes(_ left: LiveEntry, _ right: LiveEntry) -> Bool {
        order.precedes((left.values, left.row), (right.values, right.row))
    }

    /// Whether two results that follow each other are of one section.
    func isSameSection(_ left: LiveEntry, _ right: LiveEntry) -> Bool {
        guard hasSections else { return true }
        return ValueOrder.compare(left.values[0], right.values[0]) == .same
            || SectionName.isEmpty(left.section) && SectionName.isEmpty(right.section)
    }

    /// Whether results that begin with the same sort key are a section.
    var hasSections: Bool { sections != nil }

    func sectionName(of entry: LiveEntry) -> String {
        hasSections ? SectionName.text(of: entry.section) : ""
    }
}

/// A result in its place: with the ID and the sort keys that it was placed by, by which the place is
/// found again although the object has changed.
final class LiveEntry {
    let object: ManagedObject
    let values: [PropertyValue]
    /// The value that its section has its name of; null where there are none.
    let section: PropertyValue
    let row: RowID
    /// The row's version when it was placed or last looked at.
    var version: RowVersion?

    init(_ object: ManagedObject, _ values: [PropertyValue], section: PropertyValue) {
        self.object = object
        self.values = values
        self.section = section
        row = object.objectID.row
        version = object.version
    }

    /// Whether it is placed by the same keys as another.
    func hasPlace(of other: LiveEntry) -> Bool {
        row == other.row && values == other.values && section == other.section
    }
}

/// What the sections of results have their names of.
private struct SectionKey {
    /// The text of an order of texts; nil where the sort key itself tells.
    private let path: ResolvedPath?

    init(_ key: ResolvedSortKey) { path = key.collation == nil ? nil : key.path }

    /// - Parameter key: what the object is sorted by first.
    func value(of subject: GraphSubject, placedBy key: PropertyValue) throws -> PropertyValue {
        guard let path else { return key }
        return try PredicateEvaluator.value(path, [subject])
    }
}

/// The names of sections.
enum SectionName {
    static func isEmpty(_ value: PropertyValue) -> Bool {
        switch value {
        case .null, .string(""): true
        default: false
        }
    }

    /// The name of the section of objects with this value. Values that sort as different ones have
    /// different names, but for nil and the empty text.
    static func text(of value: PropertyValue) -> String {
        switch value {
        case .null: ""
        case .boolean(let truth): truth ? "1" : "0"
        case .integer(let number): String(number)
        case .double(let number): number == 0 ? "0.0" : String(number)
        case .decimal(let text), .string(let text), .uri(let text): text
        case .date(let milliseconds): ValueText.date(milliseconds)
        case .binary(let bytes): ValueText.base64(bytes)
        case .uuid(let high, let low): ValueText.uuid(high, low)
        case .reference(let row): String(row.rawValue)
        }
    }
}
