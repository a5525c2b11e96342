package import Merge

/// Why a JSON value cannot be the value of a property.
package struct JSONConversionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The type that was expected, and the value that came.
    package let message: String

    /// Describes a failure.
    package init(_ message: String) { self.message = message }

    /// The message.
    package var description: String { message }
}

extension PropertyValue {
    /// Reads an attribute's value as the client interface writes it.
    ///
    /// - Throws: ``JSONConversionError`` where it is of another type or out of the type's range.
    package init(json: JSONValue, type: AttributeType) throws(JSONConversionError) {
        switch (type, json) {
        case (_, .null): self = .null
        case (.integer16, .integer(let number)) where Int16(exactly: number) == nil,
            (.integer32, .integer(let number)) where Int32(exactly: number) == nil:
            throw JSONConversionError("\(number) is out of the range of \(type.rawValue)")
        case (.integer16, .integer(let number)), (.integer32, .integer(let number)),
            (.integer64, .integer(let number)):
            self = .integer(number)
        // What is written as -0 is 0 but of doubles.
        case (.integer16, .double(let number)) where Self.isNegativeZero(number),
            (.integer32, .double(let number)) where Self.isNegativeZero(number),
            (.integer64, .double(let number)) where Self.isNegativeZero(number):
            self = .integer(0)
        case (.decimal, .double(let number)) where Self.isNegativeZero(number):
            self = .decimal("0")
        case (.double, .integer(let number)): self = .double(Double(number))
        case (.double, .double(let number)): self = .double(number)
        case (.float, .integer(let number)): self = try Self.float(Double(number))
        case (.float, .double(let number)): self = try Self.float(number)
        case (.boolean, .boolean(let truth)): self = .boolean(truth)
        case (.decimal, .integer(let number)): self = .decimal(String(number))
        case (.binary, .bytes(let bytes)): self = .binary(bytes)
        case (.string, .string(let text)): self = .string(text)
        case (.uri, .string(let text)): self = .uri(text)
        case (_, .string(let text)):
            guard let value = PropertyValue(text: text, type: type) else {
                throw JSONConversionError("expected \(Self.expectation(type)), not \"\(text)\"")
            }
            self = value
        default:
            throw JSONConversionError("expected \(Self.expectation(type)), not \(json.kind)")
        }
    }

    /// Reads the value of a type whose JSON form is a string, but for text and URIs; nil where
    /// the text is none.
    init?(text: String, type: AttributeType) {
        switch type {
        case .date:
            guard let date = ValueText.milliseconds(fromDate: text) else { return nil }
            self = .date(date)
        case .uuid:
            guard let (first, last) = ValueText.uuid(from: text) else { return nil }
            self = .uuid(first, last)
        case .binary:
            guard let bytes = ValueText.bytes(fromBase64: text) else { return nil }
            self = .binary(bytes)
        case .decimal:
            guard let decimal = PropertyValue.canonicalDecimal(text) else { return nil }
            self = .decimal(decimal)
        case .double, .float:
            switch text {
            case "NaN": self = .double(.nan)
            case "Infinity": self = .double(.infinity)
            case "-Infinity": self = .double(-.infinity)
            default: return nil
            }
        case .integer16, .integer32, .integer64, .string, .boolean, .uri: return nil
        }
    }

    private static func isNegativeZero(_ number: Double) -> Bool {
        number == 0 && number.sign == .minus
    }

    private static func float(_ number: Double) throws(JSONConversionError) -> PropertyValue {
        let rounded = Double(Float(number))
        guard rounded.isFinite else {
            throw JSONConversionError("\(number) is out of the range of float")
        }
        return .double(rounded)
    }

    /// The JSON value that a type expects, in words.
    static func expectation(_ type: AttributeType) -> String {
        switch type {
        case .integer16, .integer32, .integer64: "an integer"
        case .decimal: "a decimal number as a string"
        case .double, .float: "a number"
        case .string: "a string"
        case .boolean: "true or false"
        case .date: "a date such as \"2026-01-31T12:00:00.000Z\""
        case .binary: "base64"
        case .uuid: "a UUID"
        case .uri: "a URI as a string"
        }
    }

    /// The value as the client interface writes it.
    ///
    /// - Parameter uri: gives the URI of the object a reference leads to.
    package func jsonValue(uri: (RowID) -> String) -> JSONValue {
        switch self {
        case .null: .null
        case .boolean(let truth): .boolean(truth)
        case .integer(let number): .integer(number)
        case .double(let number):
            number.isFinite ? .double(number) : .string(JSONWriter.nonFinite(number))
        case .decimal(let text), .string(let text), .uri(let text): .string(text)
        case .date(let milliseconds): .string(ValueText.date(milliseconds))
        case .binary(let bytes): .string(ValueText.base64(bytes))
        case .uuid(let first, let last): .string(ValueText.uuid(first, last))
        case .reference(let row): .string(uri(row))
        }
    }

    /// The value as the client interface writes it; a reference leads to an object of that
    /// entity.
    package func jsonValue(cluster: String, destination: String) -> JSONValue {
        jsonValue { row in
            ObjectURI(cluster: cluster, entityName: destination, row: row).description
        }
    }
}
