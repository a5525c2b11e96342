public import Merge

/// A constant of a predicate, before the model says what type it is to have.
public enum PredicateValue: Hashable, Sendable {
    /// No value.
    case null
    /// A truth value.
    case boolean(Bool)
    /// An integer.
    case integer(Int64)
    /// A number with a fraction.
    case double(Double)
    /// Text, which also stands for what JSON writes as text: dates, UUIDs, decimals, bytes, URIs.
    case string(String)
    /// A value of a certain type.
    case value(PropertyValue)
    /// An object.
    case object(ManagedObjectID)
    /// Several values, for IN and BETWEEN.
    case list([PredicateValue])

    /// Reads a substitution of the client interface.
    ///
    /// - Throws: ``JSONConversionError`` for objects and lists within lists.
    package init(json: JSONValue) throws(JSONConversionError) {
        switch json {
        case .null: self = .null
        case .boolean(let truth): self = .boolean(truth)
        case .integer(let number): self = .integer(number)
        case .double(let number): self = .double(number)
        case .string(let text): self = .string(text)
        // As JSON has them, so that a repeated save is known again in either form.
        case .bytes(let bytes): self = .string(ValueText.base64(bytes))
        case .array(let elements):
            self = .list(
                try elements.map { element throws(JSONConversionError) in
                    if case .array = element {
                        throw JSONConversionError("a list cannot hold another")
                    }
                    return try PredicateValue(json: element)
                })
        case .object: throw JSONConversionError("an object is no value of a predicate")
        }
    }
}

extension PredicateValue: CustomStringConvertible {
    /// The constant as a predicate writes it.
    public var description: String {
        switch self {
        case .null: "nil"
        case .boolean(let truth): truth ? "TRUE" : "FALSE"
        case .integer(let number): String(number)
        case .double(let number): number.description
        case .string(let text): PredicateText.quoted(text)
        case .value(.decimal(let text)): text
        case .value(let value): JSONWriter.text(of: value.jsonValue { $0.description })
        case .object(let object): "<\(object)>"
        case .list(let values): "{\(values.map(\.description).joined(separator: ", "))}"
        }
    }
}
