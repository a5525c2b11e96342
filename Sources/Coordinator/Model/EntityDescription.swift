public import Merge

/// An index that the application asks for, as NSFetchIndexDescription. No part of the version hash.
public struct IndexDescription: Hashable, Sendable {
    /// A property of an index, as NSFetchIndexElementDescription.
    public struct Element: Hashable, Sendable, ExpressibleByStringInterpolation,
        CustomStringConvertible
    {
        /// The stored or derived attribute, or the to-one.
        public var property: String
        /// Whether the index begins with the least.
        public var isAscending: Bool

        /// Describes an element.
        public init(_ property: String, ascending: Bool = true) {
            self.property = property
            isAscending = ascending
        }

        /// Describes an element as a model in JSON has it: with a minus in front it is descending.
        public init(stringLiteral value: String) {
            self.init(
                value.hasPrefix("-") ? String(value.dropFirst()) : value,
                ascending: !value.hasPrefix("-"))
        }

        /// The property, with a minus in front where the index begins with the greatest.
        public var description: String { (isAscending ? "" : "-") + property }
    }

    /// The index's name, unique within its entity.
    public var name: String
    /// The properties indexed, in order.
    public var elements: [Element]
    /// Which objects it holds, as a predicate's format: comparisons of the entity's own stored
    /// attributes with constants, with AND, OR and NOT. A fetch can use it where its own predicate
    /// has these comparisons, joined by AND. Nil for all objects.
    public var predicate: String?

    /// Describes an index.
    public init(name: String, elements: [Element], predicate: String? = nil) {
        self.name = name
        self.elements = elements
        self.predicate = predicate
    }
}

/// An entity as the application describes it, as NSEntityDescription.
///
/// A value; what the model makes of it, inheritance included, is ``ManagedObjectModel/Entity``.
public struct EntityDescription: Hashable, Sendable {
    /// The name, unique in the model: letters, digits and underscores, not beginning with one.
    public var name: String
    /// The entity it inherits from; both then share a table.
    public var parent: String?
    /// Whether there are no objects of just this entity.
    public var isAbstract: Bool
    /// How concurrent writes are settled; nil means the parent's, and ``MergePolicy/error`` at
    /// the root.
    public var mergePolicy: MergePolicy?
    /// Its own attributes, without the inherited.
    public var attributes: [AttributeDescription]
    /// Its own relationships, without the inherited.
    public var relationships: [RelationshipDescription]
    /// Lists of properties whose values together must be unique.
    public var uniquenessConstraints: [[String]]
    /// Its indexes.
    public var indexes: [IndexDescription]
    /// The name it had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// Changes the version hash where nothing else does.
    public var hashModifier: String?
    /// Notes for the application's use.
    public var userInfo: [String: String]

    /// Describes an entity.
    public init(
        _ name: String, parent: String? = nil, isAbstract: Bool = false,
        mergePolicy: MergePolicy? = nil, attributes: [AttributeDescription] = [],
        relationships: [RelationshipDescription] = [], uniquenessConstraints: [[String]] = [],
        indexes: [IndexDescription] = [], renamingIdentifier: String? = nil,
        hashModifier: String? = nil, userInfo: [String: String] = [:]
    ) {
        self.name = name
        self.parent = parent
        self.isAbstract = isAbstract
        self.mergePolicy = mergePolicy
        self.attributes = attributes
        self.relationships = relationships
        self.uniquenessConstraints = uniquenessConstraints
        self.indexes = indexes
        self.renamingIdentifier = renamingIdentifier
        self.hashModifier = hashModifier
        self.userInfo = userInfo
    }
}

extension IndexDescription.Element {
    /// The column, as an index's statement names it.
    var sql: String { EntityTable.quote(property) + (isAscending ? "" : " DESC") }
}
