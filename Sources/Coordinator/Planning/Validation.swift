public import Merge

/// One thing that is wrong with a value. Code of an application throws it from the hooks of
/// ``ManagedObject``, such as ``ManagedObject/validateForUpdate()``.
public struct ValidationFailure: Error, Hashable, Sendable {
    /// The kind of mistake: Core Data's error numbers, or numbers of the application's own.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The number.
        public let rawValue: Int
        /// Makes a code of a number.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// A mandatory value is missing (NSValidationMissingMandatoryPropertyError).
        public static let missingMandatoryProperty = Code(rawValue: 1570)
        /// Too few objects in a to-many.
        public static let relationshipLacksMinimumCount = Code(rawValue: 1580)
        /// Too many objects in a to-many.
        public static let relationshipExceedsMaximumCount = Code(rawValue: 1590)
        /// A delete that a rule denies (NSValidationRelationshipDeniedDeleteError).
        public static let relationshipDeniedDelete = Code(rawValue: 1600)
        /// Above the greatest number.
        public static let numberTooLarge = Code(rawValue: 1610)
        /// Below the least number.
        public static let numberTooSmall = Code(rawValue: 1620)
        /// After the latest date.
        public static let dateTooLate = Code(rawValue: 1630)
        /// Before the earliest date.
        public static let dateTooSoon = Code(rawValue: 1640)
        /// More characters or bytes than allowed.
        public static let stringTooLong = Code(rawValue: 1660)
        /// Fewer characters or bytes than asked for.
        public static let stringTooShort = Code(rawValue: 1670)
        /// A text does not match its pattern.
        public static let stringPatternMatching = Code(rawValue: 1680)
        /// A value of another type than the property's.
        public static let wrongType = Code(rawValue: 1550)
        /// A reference to an object that is not there.
        public static let danglingReference = Code(rawValue: 1560)
    }

    /// Which object, as its URI or the name the request gave it.
    public internal(set) var object: String
    /// Which property; empty if it is the object as a whole.
    public let property: String
    /// The mistake, as a number.
    public let code: Code
    /// The mistake, for people.
    public let message: String

    /// Describes a failure.
    ///
    /// - Parameters:
    ///   - object: Nothing where a hook throws it: the save fills it in.
    ///   - property: Nothing if it is the object as a whole.
    public init(object: String = "", property: String = "", code: Code, message: String) {
        self.object = object
        self.property = property
        self.code = code
        self.message = message
    }
}

/// Checks of values against the model.
public enum Validation {
    /// Whether a value other than null is of an attribute's type, bounds of the type included.
    public static func fits(_ value: PropertyValue, type: AttributeType) -> Bool {
        switch (type, value) {
        case (.integer16, .integer(let number)): Int64(Int16.min)...Int64(Int16.max) ~= number
        case (.integer32, .integer(let number)): Int64(Int32.min)...Int64(Int32.max) ~= number
        case (.integer64, .integer), (.double, .double), (.string, .string),
            (.boolean, .boolean), (.date, .date), (.binary, .binary), (.uuid, .uuid),
            (.uri, .uri):
            true
        case (.float, .double(let number)):
            number.isNaN || Double(Float(number)) == number
        case (.decimal, .decimal(let text)): PropertyValue.canonicalDecimal(text) == text
        default: false
        }
    }
}
