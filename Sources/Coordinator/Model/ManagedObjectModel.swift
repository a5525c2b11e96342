public import Merge

/// The schema: entities, checked and resolved, with their merge policies. As NSManagedObjectModel.
///
/// Immutable and usable from any thread. The policies are part of ``versionHash``, because all
/// nodes must agree on them. By ``modelHash`` nodes tell models apart.
public final class ManagedObjectModel: Sendable, Hashable {
    /// The entities as described, by name.
    public let descriptions: [EntityDescription]
    /// The entities as resolved, sorted by name.
    public let entities: [Entity]
    /// The many-to-many relationships' links, sorted by name.
    public let links: [Link]
    /// 32 bytes that differ where models differ in what they store or how they merge.
    public let versionHash: [UInt8]
    /// 32 bytes that differ where version hashes do, or renaming identifiers, or what stands for
    /// missing values of attributes: their defaults, or former ones. Transactions and stores name models by it, and nodes compare it.
    public let modelHash: [UInt8]

    private let positions: [String: Int]
    /// The terms of indexes that hold some objects only, by the root of their entities.
    private let partialTerms: [String: Set<PartialIndex.Term>]

    /// Checks and resolves entities.
    ///
    /// - Throws: ``ModelError`` that names entity, property and reason.
    public convenience init(entities descriptions: [EntityDescription]) throws(ModelError) {
        let plain = try ManagedObjectModel(descriptions, partialTerms: [:])
        var terms: [String: Set<PartialIndex.Term>] = [:]
        for entity in plain.entities {
            for index in entity.indexes {
                guard let partial = try PartialIndex(index, of: entity, in: plain) else { continue }
                terms[entity.root, default: []].formUnion(partial.terms)
            }
        }
        self.init(plain, partialTerms: terms)
    }

    private init(_ plain: ManagedObjectModel, partialTerms: [String: Set<PartialIndex.Term>]) {
        descriptions = plain.descriptions
        entities = plain.entities
        links = plain.links
        positions = plain.positions
        versionHash = plain.versionHash
        modelHash = plain.modelHash
        self.partialTerms = partialTerms
    }

    private init(
        _ descriptions: [EntityDescription], partialTerms: [String: Set<PartialIndex.Term>]
    ) throws(ModelError) {
        self.partialTerms = partialTerms
        self.descriptions = descriptions.sorted {
            $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
        }
        let resolver = try ModelResolver(self.descriptions)
        entities = resolver.entities
        links = resolver.links
        positions = Dictionary(
            uniqueKeysWithValues: resolver.entities.enumerated().map { ($1.name, $0) })
        versionHash = ModelHash.versionHash(self.descriptions)
        modelHash = ModelHash.modelHash(self.descriptions, versionHash)
    }

    /// The terms of the indexes over an entity's table that hold some objects only.
    func partialTerms(of entity: Entity) -> Set<PartialIndex.Term> {
        partialTerms.isEmpty ? [] : partialTerms[entity.root] ?? []
    }

    /// The entity of that name, or nil.
    public func entity(named name: String) -> Entity? {
        positions[name].map { entities[$0] }
    }

    /// The link table's description of that name (`Entity.relationship`), or nil.
    public func link(named name: String) -> Link? { links.first { $0.name == name } }

    /// Whether a many-to-many is its own inverse, such as friends, and so holds both ways.
    ///
    /// The name alone does not tell: the other side may be another entity's relationship of the
    /// same name, and then each side is one end of the same links.
    func isOwnInverse(_ relationship: Relationship) -> Bool {
        guard case .link = relationship.storage,
            relationship.description.inverse == relationship.name
        else { return false }
        return entity(named: relationship.destination)?.relationship(named: relationship.name)?
            .storage == relationship.storage
    }

    /// The name of the entity that declares a property which an entity has or inherits.
    func declarer(of property: String, in entity: Entity) -> String {
        var owner = entity
        while let parent = owner.parent.flatMap({ self.entity(named: $0) }),
            parent.relationship(named: property) != nil || parent.position(of: property) != nil
        {
            owner = parent
        }
        return owner.name
    }

    /// The version hash in hexadecimal.
    public var versionHashText: String { Self.hexadecimal(versionHash) }

    /// The model hash in hexadecimal.
    public var modelHashText: String { Self.hexadecimal(modelHash) }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Whether both have the same version hash.
    public static func == (left: ManagedObjectModel, right: ManagedObjectModel) -> Bool {
        left.versionHash == right.versionHash
    }

    /// Hashes the version hash.
    public func hash(into hasher: inout Hasher) { hasher.combine(versionHash) }
}

/// Why a model was refused.
public struct ModelError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Which entity, with the property after a point where one is at fault.
    public let place: String
    /// The mistake in it.
    public let reason: String
    /// The merge policy that this program would have to register first, `name@version`; nil where
    /// something else is at fault.
    public let unregisteredPolicy: String?

    /// Describes a fault.
    public init(_ place: String, _ reason: String) {
        self.place = place
        self.reason = reason
        unregisteredPolicy = nil
    }

    /// Describes a model with a merge policy that this program has not registered.
    init(_ place: String, unregistered policy: String) {
        self.place = place
        reason = "this program has not registered the merge policy \"\(policy)\""
        unregisteredPolicy = policy
    }

    /// Place and reason.
    public var description: String { place.isEmpty ? reason : "\(place): \(reason)" }
}

extension ManagedObjectModel {
    /// A property that is stored as a column and merged as a register.
    public struct Property: Hashable, Sendable {
        /// The content of a column.
        public enum Content: Hashable, Sendable {
            /// An attribute's value.
            case attribute(AttributeType)
            /// The row that a to-one leads to, of this entity or one that inherits from it.
            case toOne(destination: String)
        }

        /// The property's name, and the column's.
        public let name: String
        /// The content of the column.
        public let content: Content
        /// Whether it may be null.
        public let isOptional: Bool
        /// The value that an insert gives it.
        public let defaultValue: PropertyValue
        /// The value that stands for one that another model does not have.
        let standIn: PropertyValue
        /// The checks of a save.
        public let validation: AttributeValidation

        /// Whether it is a to-one.
        public var isReference: Bool {
            if case .toOne = content { true } else { false }
        }
    }

    /// An attribute that the store computes.
    public struct DerivedAttribute: Hashable, Sendable {
        /// Its name, and the column's.
        public let name: String
        /// Its type.
        public let type: AttributeType
        /// What it follows from.
        public let derivation: Derivation
    }

    /// Where the state of a relationship is kept.
    public enum RelationshipStorage: Hashable, Sendable {
        /// In a column of its own row: a to-one.
        case column(position: Int)
        /// In the column of that name at the other side: a to-many, or the derived side of a
        /// one-to-one.
        case inverseColumn(entity: String, property: String)
        /// In a link table: a many-to-many. `isFirst` where this side is the link's first.
        case link(name: String, isFirst: Bool)
    }

    /// A relationship with where it is kept.
    public struct Relationship: Hashable, Sendable {
        /// The relationship as described.
        public let description: RelationshipDescription
        /// Where its state is kept.
        public let storage: RelationshipStorage
        /// Its name.
        public var name: String { description.name }
        /// Whether it leads to many.
        public var isToMany: Bool { description.isToMany }
        /// The entity it leads to.
        public var destination: String { description.destination }
    }

    /// A many-to-many relationship's links, named by the side whose `Entity.relationship` sorts
    /// first.
    public struct Link: Hashable, Sendable {
        /// `Entity.relationship` of the first side; the table's name too.
        public let name: String
        /// The entity of the first side.
        public let source: String
        /// The entity of the second side.
        public let target: String
        /// The policy that settles a concurrent add and remove: the first side's entity's.
        public let policy: MergePolicy
    }

    /// An entity with all it inherits.
    ///
    /// ``properties`` are in canonical order, by the UTF-8 bytes of their names; positions in
    /// writes and snapshots mean this order.
    public final class Entity: Sendable, Hashable {
        /// The name.
        public let name: String
        /// The name of the entity at the root of the hierarchy, and of the table.
        public let root: String
        /// The entity it inherits from directly.
        public let parent: String?
        /// Whether there are no objects of just this entity.
        public let isAbstract: Bool
        /// This entity and all that inherit from it, sorted by name.
        public let familyNames: [String]
        /// Whether the root's table holds rows of several entities.
        public let sharesTable: Bool
        /// All attributes, inherited ones included, sorted by name.
        public let attributes: [AttributeDescription]
        /// All relationships, inherited ones included, sorted by name.
        public let relationships: [Relationship]
        /// The properties stored in columns: attributes that are not transient, and to-ones.
        public let properties: [Property]
        /// The attributes that the store computes, inherited ones included, sorted by name.
        public let derivedAttributes: [DerivedAttribute]
        /// What readers are given of a row: ``properties``, then ``derivedAttributes``.
        public let columns: [Property]
        /// The policies, with ``properties``' positions.
        public let policies: EntityPolicies
        /// Uniqueness constraints, inherited ones included, as positions of ``properties``.
        public let uniquenessConstraints: [[Int]]
        /// Indexes, its own.
        public let indexes: [IndexDescription]
        /// The names prepared for the digest.
        public let digestNames: DigestNames

        private let positions: [String: Int]
        private let relationshipPositions: [String: Int]

        init(
            name: String, root: String, parent: String?, isAbstract: Bool, familyNames: [String],
            sharesTable: Bool, attributes: [AttributeDescription], relationships: [Relationship],
            properties: [Property], derivedAttributes: [DerivedAttribute],
            policies: EntityPolicies, uniquenessConstraints: [[Int]],
            indexes: [IndexDescription]
        ) {
            self.name = name
            self.root = root
            self.parent = parent
            self.isAbstract = isAbstract
            self.familyNames = familyNames
            self.sharesTable = sharesTable
            self.attributes = attributes
            self.relationships = relationships
            self.properties = properties
            self.derivedAttributes = derivedAttributes
            columns =
                properties
                + derivedAttributes.map {
                    Property(
                        name: $0.name, content: .attribute($0.type), isOptional: true,
                        defaultValue: .null, standIn: .null, validation: .init())
                }
            self.policies = policies
            self.uniquenessConstraints = uniquenessConstraints
            self.indexes = indexes
            digestNames = DigestNames(entity: name, properties: properties.map(\.name))
            positions = Dictionary(
                uniqueKeysWithValues: properties.enumerated().map { ($1.name, $0) })
            relationshipPositions = Dictionary(
                uniqueKeysWithValues: relationships.enumerated().map { ($1.name, $0) })
        }

        /// The position of a stored property, or nil.
        public func position(of name: String) -> Int? { positions[name] }

        /// The position of a stored property or derived attribute among ``columns``, or nil.
        public func columnPosition(of name: String) -> Int? {
            positions[name]
                ?? derivedAttributes.firstIndex { $0.name == name }.map { $0 + properties.count }
        }

        /// The derived attribute of that name, or nil.
        public func derivedAttribute(named name: String) -> DerivedAttribute? {
            derivedAttributes.first { $0.name == name }
        }

        /// The relationship of that name, or nil.
        public func relationship(named name: String) -> Relationship? {
            relationshipPositions[name].map { relationships[$0] }
        }

        /// The attribute of that name, transient ones included, or nil.
        public func attribute(named name: String) -> AttributeDescription? {
            attributes.first { $0.name == name }
        }

        /// Whether it is that entity or inherits from it.
        public func isKind(of other: Entity) -> Bool { other.familyNames.contains(name) }

        /// Whether both are one entity of one model.
        public static func == (left: Entity, right: Entity) -> Bool { left === right }

        /// Hashes the name.
        public func hash(into hasher: inout Hasher) { hasher.combine(name) }
    }
}
