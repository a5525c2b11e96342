import Merge

/// One part that two models have otherwise.
///
/// Entities and properties of two models are the same where their *identities* are: the renaming
/// identifier, or the name where there is none. So an identity is a property of one model alone,
/// and what corresponds to what does not depend on the way by which a store came from the one to
/// the other.
public struct ModelDifference: Hashable, Sendable, CustomStringConvertible {
    /// The kinds of difference.
    public enum Part: String, Hashable, Sendable {
        /// An entity, attribute or relationship that only one of them has.
        case presence
        /// The name of what is the same by its renaming identifier.
        case name
        /// An attribute's type.
        case type
        /// Whether it may be null.
        case optionality
        /// The merge policy, an entity's or a property's own.
        case mergePolicy
        /// An entity's parent, or whether it is abstract.
        case hierarchy
        /// Where a relationship leads, how often, or what leads back.
        case relationship
        /// The uniqueness constraints.
        case constraint
        /// A hash modifier.
        case hashModifier
        /// An identity: of a name that both have, or one that is ambiguous.
        case identity
        /// An attribute's default, as far as it stands for missing values.
        case defaultValue = "default"
    }

    /// Which entity, with the property after a point.
    public let place: String
    /// Which part of it.
    public let part: Part
    /// The first model's value.
    public let first: String
    /// The second model's value.
    public let second: String
    /// Why no lightweight migration leads from the first to the second; nil where one does.
    public let obstacle: String?

    /// Place, part and what both say.
    public var description: String {
        let what = part == .presence ? "" : " \(part.rawValue):"
        return "\(place)\(what) \(first) / \(second)"
    }

    /// All that two models have otherwise, by place. Both must be resolved models.
    ///
    /// Nothing is found in what is no part of the version hash.
    public static func between(
        _ first: ManagedObjectModel, _ second: ManagedObjectModel
    ) -> [ModelDifference] {
        var comparison = ModelComparison(first, second)
        comparison.compare()
        return comparison.found
    }

    /// The same with what stands for missing values of attributes: why nodes take the two for two models.
    package static func betweenPeers(
        _ first: ManagedObjectModel, _ second: ManagedObjectModel
    ) -> [ModelDifference] {
        var comparison = ModelComparison(first, second)
        comparison.compare()
        comparison.compareDefaults()
        return comparison.found
    }

    /// The first few differences as one line, for people.
    public static func summary(_ differences: [ModelDifference], limit: Int = 5) -> String {
        let shown = differences.prefix(limit).map(\.description).joined(separator: "; ")
        let left = differences.count - limit
        return left > 0 ? "\(shown); and \(left) more" : shown
    }
}

extension EntityDescription {
    /// The identity by which other models have it.
    var identity: String { renamingIdentifier ?? name }

    /// The names of the properties that it declares itself.
    var propertyNames: Set<String> { Set(attributes.map(\.name) + relationships.map(\.name)) }
}

extension AttributeDescription {
    /// The identity by which other models have it.
    var identity: String { renamingIdentifier ?? name }

    /// The value that stands for one that another model does not have.
    var standIn: PropertyValue { formerDefault ?? defaultValue }

    /// A value as a model file has it, for people; the beginning of a long one.
    static func text(of value: PropertyValue) -> String {
        if value.isNull { return "none" }
        let text = JSONWriter.text(of: value.jsonValue(cluster: "", destination: ""))
        return text.count > 60 ? text.prefix(60) + "…" : text
    }
}

extension RelationshipDescription {
    /// The identity by which other models have it.
    var identity: String { renamingIdentifier ?? name }
}

extension ManagedObjectModel {
    /// The identity by which other models have the entity.
    func identity(ofEntity name: String) -> String {
        descriptions.first { $0.name == name }?.identity ?? name
    }

    /// The entity of an identity, or nil.
    func entity(identity: String) -> Entity? {
        descriptions.first { $0.identity == identity }.flatMap { entity(named: $0.name) }
    }
}

extension ManagedObjectModel.Entity {
    /// The identities of its attributes and relationships, by name.
    var identities: [String: String] {
        var result: [String: String] = [:]
        for attribute in attributes { result[attribute.name] = attribute.identity }
        for relationship in relationships {
            result[relationship.name] = relationship.description.identity
        }
        return result
    }

    /// The identities of what its rows or links keep, by name.
    var storedIdentities: [String: StoredIdentity] {
        var result: [String: StoredIdentity] = [:]
        for attribute in attributes where attribute.isWritten {
            result[attribute.name] = StoredIdentity(attribute)
        }
        for relationship in relationships {
            result[relationship.name] = StoredIdentity(relationship.description)
        }
        return result
    }

    /// The identities of the attributes that its rows may keep null in.
    var optionalIdentities: Set<StoredIdentity> {
        Set(attributes.filter { $0.isWritten && $0.isOptional }.map { StoredIdentity($0) })
    }
}

/// The identity of what is kept. An attribute and a relationship are never the same, whatever they
/// are called.
struct StoredIdentity: Hashable {
    let identity: String
    let isRelationship: Bool

    init(_ attribute: AttributeDescription) {
        identity = attribute.identity
        isRelationship = false
    }

    init(_ relationship: RelationshipDescription) {
        identity = relationship.identity
        isRelationship = true
    }
}
