package import Merge

/// Checks of single values against the properties they are for.
package enum ValueValidation {
    /// The mistake in a value, or nil. Does not look at a reference's target.
    ///
    /// - Parameter object: the object's URI or the name the request gave it, for the failure.
    package static func failure(
        _ value: PropertyValue, of property: ManagedObjectModel.Property,
        object: @autoclosure () -> String
    ) -> ValidationFailure? {
        func failure(_ code: ValidationFailure.Code, _ message: String) -> ValidationFailure {
            ValidationFailure(
                object: object(), property: property.name, code: code,
                message: "\(property.name) \(message).")
        }
        if value.isNull {
            return property.isOptional
                ? nil : failure(.missingMandatoryProperty, "is mandatory")
        }
        guard case .attribute(let type) = property.content else {
            if case .reference = value { return nil }
            return failure(.wrongType, "must lead to an object")
        }
        guard Validation.fits(value, type: type) else {
            return failure(.wrongType, "must be of type \(type.rawValue), within its range")
        }
        return bounds(value, property.validation, failure)
            ?? pattern(value, property.validation, failure)
    }

    private static func bounds(
        _ value: PropertyValue, _ validation: AttributeValidation,
        _ failure: (ValidationFailure.Code, String) -> ValidationFailure
    ) -> ValidationFailure? {
        guard validation.minimum != nil || validation.maximum != nil else { return nil }
        let measured: PropertyValue
        let tooSmall: (ValidationFailure.Code, String)
        let tooLarge: (ValidationFailure.Code, String)
        switch value {
        case .string(let text):
            // As Core Data counts.
            measured = .integer(Int64(text.utf16.count))
            tooSmall = (.stringTooShort, "has fewer characters than")
            tooLarge = (.stringTooLong, "has more characters than")
        case .binary(let bytes):
            measured = .integer(Int64(bytes.count))
            tooSmall = (.stringTooShort, "has fewer bytes than")
            tooLarge = (.stringTooLong, "has more bytes than")
        case .date:
            measured = value
            tooSmall = (.dateTooSoon, "is before")
            tooLarge = (.dateTooLate, "is after")
        default:
            measured = value
            tooSmall = (.numberTooSmall, "is below")
            tooLarge = (.numberTooLarge, "is above")
        }
        if let minimum = validation.minimum,
            ValueOrder.compare(measured, minimum) == .before
        {
            return failure(tooSmall.0, "\(tooSmall.1) \(shown(minimum))")
        }
        if let maximum = validation.maximum, ValueOrder.compare(measured, maximum) == .after {
            return failure(tooLarge.0, "\(tooLarge.1) \(shown(maximum))")
        }
        return nil
    }

    private static func shown(_ bound: PropertyValue) -> String {
        let value = bound.jsonValue { $0.description }
        return value.string ?? JSONWriter.text(of: value)
    }

    private static func pattern(
        _ value: PropertyValue, _ validation: AttributeValidation,
        _ failure: (ValidationFailure.Code, String) -> ValidationFailure
    ) -> ValidationFailure? {
        guard case .string(let text) = value, let pattern = validation.pattern else { return nil }
        // A pattern of a model made in code was not compiled before; nothing matches a wrong one.
        let matches = RegularExpressionCache.shared.expression(pattern, [])?.matches(text) ?? false
        return matches ? nil : failure(.stringPatternMatching, "does not match \(pattern)")
    }
}
