public import Merge

/// The types an attribute can have.
public enum AttributeType: String, Hashable, Sendable, CaseIterable {
    /// -32,768...32,767.
    case integer16
    /// -2,147,483,648...2,147,483,647.
    case integer32
    /// All of Int64.
    case integer64
    /// A decimal number of up to 38 digits.
    case decimal
    /// A 64-bit floating-point number.
    case double
    /// A 32-bit floating-point number.
    case float
    /// Text in UTF-8.
    case string
    /// True or false.
    case boolean
    /// A moment, in milliseconds since 1970.
    case date
    /// Bytes.
    case binary
    /// A UUID.
    case uuid
    /// A URI.
    case uri
}

/// Bounds that a save checks. They are no part of the model's version hash.
public struct AttributeValidation: Hashable, Sendable {
    /// The least number or date, or the least length of a text, in UTF-16 units as in Core Data, or of
    /// binary, in bytes.
    public var minimum: PropertyValue?
    /// The greatest number or date, or the greatest length.
    public var maximum: PropertyValue?
    /// A regular expression that a text must match as a whole.
    public var pattern: String?

    /// Describes bounds.
    public init(
        minimum: PropertyValue? = nil, maximum: PropertyValue? = nil, pattern: String? = nil
    ) {
        self.minimum = minimum
        self.maximum = maximum
        self.pattern = pattern
    }
}

/// An attribute of an entity, as NSAttributeDescription.
public struct AttributeDescription: Hashable, Sendable {
    /// The name, unique among the properties of its entity.
    public var name: String
    /// The type.
    public var type: AttributeType
    /// Whether it may be null. Default true.
    public var isOptional: Bool
    /// The value that an insert gives it if nothing was assigned. No part of the version hash.
    public var defaultValue: PropertyValue
    /// The value in objects from before the attribute was there, or was mandatory; nil for the
    /// default. It is the default at the time when the attribute was added, if that has changed
    /// since.
    public var formerDefault: PropertyValue?
    /// A policy of its own; nil means the entity's. Must be property-grained.
    public var mergePolicy: MergePolicy?
    /// Whether it lives in memory only.
    public var isTransient: Bool
    /// What it follows from, where the store computes it; nil for one that is assigned. Like an index
    /// it is no part of the version hash.
    public var derivation: Derivation?
    /// Whether history keeps the value of a deleted object. No part of the version hash. Default false.
    public var preservesValueInHistoryOnDeletion = false
    /// The checks of a save.
    public var validation: AttributeValidation
    /// The name it had in an earlier version of the model.
    public var renamingIdentifier: String?
    /// Changes the version hash where nothing else does.
    public var hashModifier: String?
    /// Notes for the application's use.
    public var userInfo: [String: String]

    /// Describes an attribute.
    public init(
        _ name: String, _ type: AttributeType, isOptional: Bool = true,
        defaultValue: PropertyValue = .null, formerDefault: PropertyValue? = nil,
        mergePolicy: MergePolicy? = nil,
        isTransient: Bool = false, derivation: Derivation? = nil,
        validation: AttributeValidation = .init(),
        renamingIdentifier: String? = nil, hashModifier: String? = nil,
        userInfo: [String: String] = [:]
    ) {
        self.name = name
        self.type = type
        self.isOptional = isOptional
        self.defaultValue = defaultValue
        self.formerDefault = formerDefault
        self.mergePolicy = mergePolicy
        self.isTransient = isTransient
        self.derivation = derivation
        self.validation = validation
        self.renamingIdentifier = renamingIdentifier
        self.hashModifier = hashModifier
        self.userInfo = userInfo
    }

    /// Whether saves write it, and nodes merge it.
    var isWritten: Bool { !isTransient && derivation == nil }
}
