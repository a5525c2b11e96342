// JSON values as people read them in a table.

import Coordinator

/// Shows values of the client interface.
enum JSONRendering {
    /// A value on one line; an object's URI by entity and row.
    static func brief(_ value: JSONValue?) -> String {
        switch value {
        case nil: ""
        case .null?: "nil"
        case .string(let text)?: shortURI(text)
        case .array(let elements)?: "[" + elements.map(brief).joined(separator: ", ") + "]"
        case .object(let object)?:
            object.members.map { "\($0.key): \(brief($0.value))" }.joined(separator: ", ")
        case .some(let other): JSONWriter.text(of: other)
        }
    }

    /// `Entity/pDECIMAL` of an object's URI; any other text as it is.
    static func shortURI(_ text: String) -> String {
        guard let uri = ObjectURI(text) else { return text }
        return "\(uri.entityName)/\(uri.row)"
    }

    /// A timestamp's time of day and date; empty where there is none.
    static func time(_ value: JSONValue?) -> String {
        guard let milliseconds = value?.object?["milliseconds"]?.integer else { return "" }
        return ValueText.date(milliseconds)
    }

    /// `node:sequence` of each entry of a vector, in order.
    static func vector(_ value: JSONValue?) -> String {
        (value?.object?.members ?? []).map { member in
            let node = member.key.split(separator: ".").first.map(String.init) ?? member.key
            return "\(node):\(brief(member.value))"
        }.joined(separator: " ")
    }
}
