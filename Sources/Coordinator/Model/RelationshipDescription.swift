public import Merge

/// The effect of an object's delete on the objects that a relationship points to.
public enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// Nothing: the reference is left and reads as nil.
    case noAction
    /// They lose their reference to the deleted object.
    case nullify
    /// They are deleted too.
    case cascade
    /// While there are any, the delete is refused.
    case deny
}

/// A relationship of an entity, as NSRelationshipDescription.
public struct RelationshipDescription: Hashable, Sendable {
    /// The name, unique among the properties of its entity.
    public var name: String
    /// The name of the entity it leads to.
    public var destination: String
    /// The name of the relationship that leads back, if there is one.
    public var inverse: String?
    /// Whether it leads to many objects.
    public var isToMany: Bool
    /// The effect of the owner's delete. Default ``DeleteRule/nullify``.
    public var deleteRule: DeleteRule
    /// Whether it may lead nowhere. Default true.
    public var isOptional: Bool
    /// The least count of a to-many; 0 for none.
    public var minimumCount: Int
    /// The greatest count of a to-many; 0 for none.
    public var maximumCount: Int
    /// A policy of its own; nil means the entity's.
    public var mergePolicy: MergePolicy?
    /// The name it had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// Changes the version hash where nothing else does.
    public var hashModifier: String?
    /// Notes for the application's use.
    public var userInfo: [String: String]

    /// The permitted counts.
    static let counts = 0...1_000_000_000

    /// Describes a relationship.
    public init(
        _ name: String, to destination: String, inverse: String? = nil, isToMany: Bool = false,
        deleteRule: DeleteRule = .nullify, isOptional: Bool = true, minimumCount: Int = 0,
        maximumCount: Int = 0, mergePolicy: MergePolicy? = nil,
        renamingIdentifier: String? = nil, hashModifier: String? = nil,
        userInfo: [String: String] = [:]
    ) {
        self.name = name
        self.destination = destination
        self.inverse = inverse
        self.isToMany = isToMany
        self.deleteRule = deleteRule
        self.isOptional = isOptional
        self.minimumCount = minimumCount
        self.maximumCount = maximumCount
        self.mergePolicy = mergePolicy
        self.renamingIdentifier = renamingIdentifier
        self.hashModifier = hashModifier
        self.userInfo = userInfo
    }
}
