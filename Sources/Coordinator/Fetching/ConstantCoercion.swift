import Merge

/// Brings a constant to the type of what it is compared with.
enum ConstantCoercion {
    /// The constant as a value of the type. Integers compared with doubles, and doubles with
    /// integers, stay what they are, since they compare exactly.
    ///
    /// - Throws: ``JSONConversionError`` where it is of another kind.
    static func coerce(
        _ constant: PredicateValue, to type: AttributeType
    ) throws(JSONConversionError) -> PropertyValue {
        switch (type, constant) {
        case (_, .null): throw JSONConversionError("nil can be compared with == and != only")
        case (_, .list): throw JSONConversionError("a list can be used with IN and BETWEEN only")
        case (.integer16, .double(let number)), (.integer32, .double(let number)),
            (.integer64, .double(let number)):
            guard number.isFinite else {
                throw JSONConversionError("an integer cannot be compared with \(number)")
            }
            return .double(number)
        case (.integer16, .integer(let number)), (.integer32, .integer(let number)),
            (.integer64, .integer(let number)), (.double, .integer(let number)):
            return .integer(number)
        case (.double, .double(let number)): return .double(number)
        case (.float, .integer(let number)): return .double(Double(Float(number)))
        case (.float, .double(let number)):
            // The value that a float column holds for this number: 0.1 must find 0.1.
            return .double(Double(Float(number)))
        case (.boolean, .boolean(let truth)): return .boolean(truth)
        case (.boolean, .integer(let number)) where number == 0 || number == 1:
            return .boolean(number == 1)
        case (.decimal, .integer(let number)): return .decimal(String(number))
        case (.decimal, .double(let number)):
            guard let decimal = PropertyValue.canonicalDecimal(number.description) else { break }
            return .decimal(decimal)
        case (.string, .string(let text)): return .string(text)
        case (.uri, .string(let text)): return .uri(text)
        case (_, .string(let text)):
            if let value = PropertyValue(text: text, type: type) { return value }
        case (_, .value(let value)): return try coerce(value, to: type)
        default: break
        }
        throw JSONConversionError(
            "expected \(PropertyValue.expectation(type)), not \(shortened(constant))")
    }

    private static func coerce(
        _ value: PropertyValue, to type: AttributeType
    ) throws(JSONConversionError) -> PropertyValue {
        let plain: PredicateValue?
        switch value {
        case .null: plain = .null
        case .boolean(let truth): plain = .boolean(truth)
        case .integer(let number): plain = .integer(number)
        case .double(let number): plain = .double(number)
        case .string(let text): plain = .string(text)
        default: plain = nil
        }
        if let plain { return try coerce(plain, to: type) }
        switch (value, type) {
        case (.decimal(let text), .decimal):
            guard let decimal = PropertyValue.canonicalDecimal(text) else {
                throw JSONConversionError("\(shortened(.value(value))) has more than 38 digits")
            }
            return .decimal(decimal)
        case (.decimal(let text), .double), (.decimal(let text), .float):
            guard let number = Double(text) else { break }
            return try coerce(PredicateValue.double(number), to: type)
        case (.decimal(let text), .integer16), (.decimal(let text), .integer32),
            (.decimal(let text), .integer64):
            guard let place = IntegerPlace(of: text) else { break }
            return place.value
        case (.date, .date), (.binary, .binary), (.uuid, .uuid), (.uri, .uri): return value
        default: break
        }
        throw JSONConversionError(
            "expected \(PropertyValue.expectation(type)), "
                + "not \(shortened(PredicateValue.value(value)))")
    }

    /// A constant for a message, cut where it is long.
    static func shortened(_ constant: PredicateValue) -> String {
        if case .list = constant { return "a list" }
        let text = constant.description
        return text.count > 80 ? String(text.prefix(80)) + "..." : text
    }
}
