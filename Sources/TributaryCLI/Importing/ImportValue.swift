// Text of a file as a value of an attribute.

import Coordinator
import Merge

/// Converts what is read.
enum ImportValue {
    /// A field as a value of an attribute; an empty text is no value, unless it must be a string.
    ///
    /// - Parameter isTyped: whether the file tells null from an empty text, which is a string or bytes then
    ///   like any other.
    /// - Throws: ``JSONConversionError`` where it is none of the attribute's type.
    static func json(
        _ value: JSONValue, _ attribute: AttributeDescription, isTyped: Bool
    ) throws(JSONConversionError) -> JSONValue {
        let mayBeEmpty =
            isTyped
            ? [.string, .binary].contains(attribute.type)
            : attribute.type == .string && !attribute.isOptional
        if value == .string(""), !mayBeEmpty { return .null }
        return try json(value, attribute.type)
    }

    /// A field as a value of a type, as a node writes it: what is there already is known by that.
    ///
    /// A file may have a UUID in lower case, a date without its milliseconds, `1.50` or more digits than
    /// a float has.
    static func json(
        _ value: JSONValue, _ type: AttributeType
    ) throws(JSONConversionError) -> JSONValue {
        let converted = value.string.map { text(ControlReader.trimmed($0), type, $0) } ?? value
        // No attribute leads to an object.
        return try PropertyValue(json: converted, type: type).jsonValue { $0.description }
    }

    private static func text(_ text: String, _ type: AttributeType, _ whole: String) -> JSONValue {
        switch type {
        case .integer16, .integer32, .integer64:
            if let number = Int64(text) { return .integer(number) }
        case .double, .float:
            if let number = Double(text), number.isFinite { return .double(number) }
        case .boolean:
            switch text.lowercased() {
            case "true", "yes", "1": return .boolean(true)
            case "false", "no", "0": return .boolean(false)
            default: break
            }
        case .string: return .string(whole)
        case .date: return .string(ImportDate(text)?.text ?? whole)
        default: return .string(text)
        }
        return .string(whole)
    }

    /// The elements of a list that is separated by commas.
    ///
    /// - Parameter strippingVersions: of `a (>= 1) | b, c:any [amd64]` gives `a` and `c`: the
    ///   first alternative of each, without version, architecture and profile.
    static func list(_ text: String, strippingVersions: Bool) -> [String] {
        text.split(whereSeparator: { $0 == "," || $0 == "\n" }).map { part in
            guard strippingVersions else { return ControlReader.trimmed(part) }
            let first = part.prefix { $0 != "|" }
            return ControlReader.trimmed(first.prefix { !"([<".contains($0) }).split(
                separator: ":"
            ).first.map { ControlReader.trimmed($0) } ?? ""
        }.filter { !$0.isEmpty }
    }
}
