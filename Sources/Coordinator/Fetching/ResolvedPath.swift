import Merge

/// A key path resolved against the model.
struct ResolvedPath: Hashable, Sendable {
    /// The end of the path.
    enum Terminal: Hashable, Sendable {
        /// An attribute's value.
        case attribute(name: String, AttributeType)
        /// The object itself.
        case object(entity: String)
        /// How many objects a to-many leads to.
        case count(ManagedObjectModel.Relationship)
        /// A column of a grouped fetch, by its position, with the type it compares as.
        case column(Int, AttributeType)
    }

    /// The relationships to follow, in order.
    var steps: [ManagedObjectModel.Relationship]
    /// The property or object there.
    var terminal: Terminal

    /// The type of the value; nil for objects.
    var type: AttributeType? {
        switch terminal {
        case .attribute(_, let type), .column(_, let type): type
        case .count: .integer64
        case .object: nil
        }
    }

    /// How many steps come before the first to-many; nil where there is none.
    var firstToMany: Int? { steps.firstIndex { $0.isToMany } }
}

/// Resolves key paths.
struct PathResolver {
    /// How many names a path may have: each is a join, and SQLite joins 64 tables.
    static let maximumDepth = 10

    let model: ManagedObjectModel
    let entity: ManagedObjectModel.Entity
    /// Of a grouped fetch, what names mean instead of the entity's properties.
    var columns: [(name: String, position: Int, type: AttributeType)]?

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
        var steps: [ManagedObjectModel.Relationship] = []
        var current = entity
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            if name.utf8.first == UInt8(ascii: "@") {
                guard name == "@count" else {
                    throw fault("\(name) in \"\(path)\" is not known; @count is")
                }
                guard isLast, let last = steps.popLast(), last.isToMany else {
                    throw fault("@count in \"\(path)\" must come last, after a to-many")
                }
                guard !steps.contains(where: \.isToMany) else {
                    throw fault("\"\(path)\" counts within a to-many, which is not supported")
                }
                return ResolvedPath(steps: steps, terminal: .count(last))
            }
            if let relationship = current.relationship(named: name) {
                guard let destination = model.entity(named: relationship.destination) else {
                    throw fault("\(relationship.destination) is not in the model")
                }
                steps.append(relationship)
                current = destination
                continue
            }
            guard let attribute = current.attribute(named: name) else {
                throw fault("\(current.name) has no property \"\(name)\"")
            }
            guard !attribute.isTransient else {
                throw fault("\(current.name).\(name) is transient and cannot be fetched by")
            }
            guard isLast else {
                throw fault("\(current.name).\(name) in \"\(path)\" is no relationship")
            }
            return ResolvedPath(
                steps: steps, terminal: .attribute(name: name, attribute.type))
        }
        return ResolvedPath(steps: steps, terminal: .object(entity: current.name))
    }
}
