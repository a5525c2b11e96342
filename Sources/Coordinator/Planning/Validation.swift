public import Merge

/// One thing that is wrong with a value.
public struct ValidationFailure: Hashable, Sendable {
    /// Core Data's error numbers for what can be wrong.
    public enum Code: Int, Hashable, Sendable {
        /// A mandatory value is missing (NSValidationMissingMandatoryPropertyError).
        case missingMandatoryProperty = 1570
        /// Too few objects in a to-many.
        case relationshipLacksMinimumCount = 1580
        /// Too many objects in a to-many.
        case relationshipExceedsMaximumCount = 1590
        /// A delete that a rule denies (NSValidationRelationshipDeniedDeleteError).
        case relationshipDeniedDelete = 1600
        /// Above the greatest number.
        case numberTooLarge = 1610
        /// Below the least number.
        case numberTooSmall = 1620
        /// After the latest date.
        case dateTooLate = 1630
        /// Before the earliest date.
        case dateTooSoon = 1640
        /// More characters or bytes than allowed.
        case stringTooLong = 1660
        /// Fewer characters or bytes than asked for.
        case stringTooShort = 1670
        /// A text does not match its pattern.
        case stringPatternMatching = 1680
        /// A value of another type than the property's.
        case wrongType = 1550
        /// A reference to an object that is not there.
        case danglingReference = 1560
    }

    /// Which object, as its URI or the name the request gave it.
    public let object: String
    /// Which property.
    public let property: String
    /// The mistake, as a number.
    public let code: Code
    /// The mistake, for people.
    public let message: String

    /// Describes a failure.
    public init(object: String, property: String, code: Code, message: String) {
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
