import Merge

/// A key path resolved against the model.
struct ResolvedPath: Hashable, Sendable {
    /// The end of the path.
    indirect enum Terminal: Hashable, Sendable {
        /// An attribute's value.
        case attribute(name: String, AttributeType)
        /// The object itself.
        case object(entity: String)
        /// How many objects a to-many leads to.
        case count(ManagedObjectModel.Relationship)
        /// What is made of the objects that a to-many leads to.
        case aggregate(ResolvedAggregate)
        /// The name of the object's entity, which is one of a hierarchy.
        case entityName(root: String)
        /// A column of a grouped fetch, by its position, with the type it compares as.
        case column(Int, AttributeType)
    }

    /// Where the path begins: 0 at the object that is asked, else at the object of the subquery or
    /// aggregate that many levels in.
    var base = 0
    /// The relationships to follow, in order.
    var steps: [ManagedObjectModel.Relationship]
    /// The property or object there.
    var terminal: Terminal
    /// Of a text, the derived attribute beside it that has it without case and diacritics.
    var canonicalName: String?

    /// The type of the value; nil for objects.
    var type: AttributeType? {
        switch terminal {
        case .attribute(_, let type), .column(_, let type): type
        case .count: .integer64
        case .aggregate(let aggregate): aggregate.type
        case .entityName: .string
        case .object: nil
        }
    }

    /// What the value is.
    var kind: ValueKind {
        if case .object(let entity) = terminal { return .object(entity: entity) }
        return type.map { .value($0) } ?? .null
    }

    /// Whether it leads to an attribute of the object itself.
    var isOwn: Bool {
        if case .attribute = terminal { return steps.isEmpty }
        return false
    }

    /// How many steps come before the first to-many; nil where there is none.
    var firstToMany: Int? { steps.firstIndex { $0.isToMany } }
}

/// An aggregate of what a to-many leads to.
struct ResolvedAggregate: Hashable, Sendable {
    let kind: CollectionAggregate
    let relationship: ManagedObjectModel.Relationship
    /// Which objects count; nil for all.
    var filter: ResolvedPredicate?
    /// The value of each object, by a path that begins at it; nil to count objects.
    var value: ResolvedPath?
    /// The level of the objects, at which `filter` and `value` begin.
    let level: Int
    /// The type of the result.
    let type: AttributeType
}

/// What an expression gives.
enum ValueKind: Hashable, Sendable {
    /// Nothing but null.
    case null
    case value(AttributeType)
    case object(entity: String)

    var type: AttributeType? { if case .value(let type) = self { type } else { nil } }

    /// A constant and its type, where nothing else says what it is to be; nil of lists and objects.
    static func natural(_ constant: PredicateValue) -> (PropertyValue, AttributeType)? {
        switch constant {
        case .boolean(let truth): (.boolean(truth), .boolean)
        case .integer(let number): (.integer(number), .integer64)
        case .double(let number): (.double(number), .double)
        case .string(let text): (.string(text), .string)
        case .value(let value):
            switch value {
            case .boolean: (value, .boolean)
            case .integer: (value, .integer64)
            case .double: (value, .double)
            case .decimal(let text):
                // A numeral with too many digits for a decimal is taken as a double.
                PropertyValue.canonicalDecimal(text).map { (.decimal($0), .decimal) }
                    ?? (.double(Double(text) ?? .nan), .double)
            case .string: (value, .string)
            case .date: (value, .date)
            case .binary: (value, .binary)
            case .uuid: (value, .uuid)
            case .uri: (value, .uri)
            case .null, .reference: nil
            }
        case .null, .object, .list: nil
        }
    }
}

/// Resolves key paths.
struct PathResolver {
    /// How many names a path may have: each is a join, and SQLite joins 64 tables.
    static let maximumDepth = 10

    let model: ManagedObjectModel
    let entity: ManagedObjectModel.Entity
    /// Of a grouped fetch, what names mean instead of the entity's properties.
    var columns: [(name: String, position: Int, type: AttributeType)]?
    /// The variables of the subqueries around a path, outermost first.
    var variables: [(name: String, entity: ManagedObjectModel.Entity)] = []

    /// The level of objects that an aggregate here is of.
    var innerLevel: Int { variables.count + 1 }

    init(model: ManagedObjectModel, entity: ManagedObjectModel.Entity) {
        self.model = model
        self.entity = entity
    }

    /// Resolves a path.
    ///
    /// - Throws: ``PredicateError`` that names the path and what is wrong with it.
    func resolve(_ names: [String], offset: Int) throws(PredicateError) -> ResolvedPath {
        let path = names.joined(separator: ".")
        func fault(_ message: String) -> PredicateError {
            PredicateError(message, offset: offset)
        }
        if let columns {
            guard let column = columns.first(where: { $0.name == path }) else {
                throw fault("\"\(path)\" is neither grouped by nor the name of an aggregate")
            }
            return ResolvedPath(steps: [], terminal: .column(column.position, column.type))
        }
        guard names.count <= Self.maximumDepth else {
            throw fault("a key path has at most \(Self.maximumDepth) names")
        }
        var rest = names[...]
        var result = ResolvedPath(steps: [], terminal: .object(entity: entity.name))
        var current = entity
        if let name = names.first, name.utf8.first == UInt8(ascii: "$") {
            guard let index = variables.lastIndex(where: { "$\($0.name)" == name }) else {
                throw fault("\(name) is the variable of no subquery here")
            }
            result.base = index + 1
            current = variables[index].entity
            rest = rest.dropFirst()
        }
        while let name = rest.popFirst() {
            if name.utf8.first == UInt8(ascii: "@") {
                if name == "@count" {
                    return try count(result, rest, path, offset)
                }
                return try aggregate(name, names, rest, path, offset)
            }
            if let relationship = current.relationship(named: name) {
                guard let destination = model.entity(named: relationship.destination) else {
                    throw fault("\(relationship.destination) is not in the model")
                }
                result.steps.append(relationship)
                current = destination
                continue
            }
            guard let attribute = current.attribute(named: name) else {
                switch name {
                case "objectID" where rest.isEmpty, "self" where rest.isEmpty: continue
                case "entity" where rest.isEmpty || rest == ["name"]:
                    result.terminal = .entityName(root: current.root)
                    return result
                default: throw fault(current.noProperty(name, isSentence: false))
                }
            }
            guard !attribute.isTransient else {
                throw fault("\(current.name).\(name) is transient and cannot be fetched by")
            }
            guard rest.isEmpty else {
                guard rest.allSatisfy({ $0.utf8.first == UInt8(ascii: "@") }),
                    let name = rest.first, name != "@count"
                else { throw fault("\(current.name).\(name) in \"\(path)\" is no relationship") }
                return try aggregate(name, names, rest.dropFirst(), path, offset)
            }
            result.terminal = .attribute(name: name, attribute.type)
            result.canonicalName =
                current.derivedAttributes.first { $0.derivation == .canonical(name) }?.name
            return result
        }
        result.terminal = .object(entity: current.name)
        return result
    }

    /// A path that ends in `@count`. After a second to-many it counts for each object of the first.
    private func count(
        _ owner: ResolvedPath, _ rest: ArraySlice<String>, _ path: String, _ offset: Int
    ) throws(PredicateError) -> ResolvedPath {
        var result = owner
        guard rest.isEmpty, let last = result.steps.popLast(), last.isToMany else {
            throw PredicateError(
                "@count in \"\(path)\" must come last, after a to-many", offset: offset)
        }
        result.terminal = .count(last)
        return result
    }

    /// A path with another operator, wherever it stands after the to-many.
    ///
    /// - Parameter rest: the names after the operator.
    private func aggregate(
        _ name: String, _ names: [String], _ rest: ArraySlice<String>, _ path: String,
        _ offset: Int
    ) throws(PredicateError) -> ResolvedPath {
        func fault(_ message: String) -> PredicateError {
            PredicateError(message, offset: offset)
        }
        guard let kind = CollectionAggregate(name) else {
            throw fault(
                "\(name) in \"\(path)\" is not known; @count, @sum, @avg, @min, @max and "
                    + "@distinctUnionOfObjects are")
        }
        var rest = rest
        if kind == .distinctCount {
            guard rest.popLast() == "@count" else {
                throw fault("after \(name) in \"\(path)\" @count must come last")
            }
        }
        guard !rest.contains(where: { $0.utf8.first == UInt8(ascii: "@") }) else {
            throw fault("\"\(path)\" has more than one operator; use SUBQUERY")
        }
        let before = names[..<(names.firstIndex(of: name) ?? 0)]
        let whole = try resolve(Array(before + rest), offset: offset)
        let collection = try resolve(Array(before), offset: offset)
        guard let first = whole.firstToMany, collection.firstToMany != nil else {
            throw fault("\(name) in \"\(path)\" must come after a to-many")
        }
        return try aggregate(kind, of: whole, first: first, filter: nil, path, offset)
    }

    /// The aggregate of the values at a path through one to-many.
    func aggregate(
        _ kind: CollectionAggregate, of whole: ResolvedPath, first: Int,
        filter: ResolvedPredicate?, _ path: String, _ offset: Int
    ) throws(PredicateError) -> ResolvedPath {
        let after = Array(whole.steps[(first + 1)...])
        guard !after.contains(where: \.isToMany) else {
            throw PredicateError(
                "\"\(path)\" aggregates over two to-manys; use SUBQUERY or ANY", offset: offset)
        }
        guard let type = kind.result(of: whole.type) else {
            let type = whole.type?.rawValue ?? "object"
            throw PredicateError(
                "\"\(path)\": there is no such aggregate of values of type \(type)",
                offset: offset)
        }
        let value = ResolvedPath(base: innerLevel, steps: after, terminal: whole.terminal)
        return ResolvedPath(
            base: whole.base, steps: Array(whole.steps[..<first]),
            terminal: .aggregate(
                ResolvedAggregate(
                    kind: kind, relationship: whole.steps[first], filter: filter,
                    value: kind == .count ? nil : value, level: innerLevel, type: type)))
    }
}
