// What the inspector knows of the model: its properties and their types.

package import Coordinator

/// The entities' properties.
package struct ModelFacts: Hashable, Sendable {
    private struct Entity: Hashable, Sendable {
        let parent: String?
        /// Types by attribute; of a to-one ``ModelFacts/toOne``.
        let attributes: [String: String]
        /// Destinations by to-one.
        let destinations: [String: String]
    }

    /// What ``type(of:in:)`` gives for a reference to one object.
    package static let toOne = "reference"

    private var entities: [String: Entity] = [:]

    /// Knows nothing.
    package init() {}

    /// Reads a model as the interface gives it.
    package init(_ model: JSONObject) {
        for entity in (model["entities"]?.array ?? []).compactMap(\.object) {
            guard let name = entity["name"]?.string else { continue }
            var attributes: [String: String] = [:]
            for attribute in (entity["attributes"]?.array ?? []).compactMap(\.object) {
                guard let name = attribute["name"]?.string else { continue }
                attributes[name] = attribute["type"]?.string
            }
            var destinations: [String: String] = [:]
            for relationship in (entity["relationships"]?.array ?? []).compactMap(\.object) {
                guard let name = relationship["name"]?.string,
                    relationship["toMany"]?.boolean != true
                else { continue }
                attributes[name] = Self.toOne
                destinations[name] = relationship["destination"]?.string
            }
            entities[name] = Entity(
                parent: entity["parent"]?.string, attributes: attributes,
                destinations: destinations)
        }
    }

    /// The type of an attribute, also of one that is inherited; nil where there is none.
    package func type(of property: String, in entity: String) -> String? {
        look(in: entity) { $0.attributes[property] }
    }

    private func look(in entity: String, _ found: (Entity) -> String?) -> String? {
        var name: String? = entity
        // A model has no loops, but this one came over the network.
        for _ in 0..<64 {
            guard let known = name.flatMap({ entities[$0] }) else { return nil }
            if let text = found(known) { return text }
            name = known.parent
        }
        return nil
    }

    /// Reads what a person typed as a reference: `p17`, `Person/p17`, a URI, or nothing for none.
    package func reference(
        _ text: String, from property: String, of object: String, in entity: String
    ) -> Result<JSONValue, ValueMistake> {
        let text = text.split(whereSeparator: \.isWhitespace).joined()
        if text.isEmpty || text == "nil" { return .success(.null) }
        if ObjectURI(text) != nil { return .success(.string(text)) }
        let destination = look(in: entity) { $0.destinations[property] } ?? entity
        let path = text.contains("/") ? text : "\(destination)/\(text)"
        guard let cluster = ObjectURI(object)?.cluster,
            let uri = ObjectURI("\(ObjectURI.scheme)\(cluster)/\(path)")
        else { return .failure(.init("an object, such as \(destination)/p17")) }
        return .success(.string(uri.description))
    }

    /// Reads what a person typed as a value of a type.
    ///
    /// - Returns: the value, or a sentence that says what is expected.
    package static func value(_ text: String, type: String?) -> Result<JSONValue, ValueMistake> {
        let trimmed = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        switch type {
        case "string", "uuid", "uri", "UUID", "URI", nil: return .success(.string(text))
        case "integer16", "integer32", "integer64":
            if trimmed.isEmpty { return .success(.null) }
            guard let number = Int64(trimmed) else { return .failure(.init("a whole number")) }
            return .success(.integer(number))
        case "double", "float":
            if trimmed.isEmpty { return .success(.null) }
            guard let number = Double(trimmed), number.isFinite else {
                return .failure(.init("a number, such as 3.5"))
            }
            return .success(.double(number))
        case "decimal":
            return .success(trimmed.isEmpty ? .null : .string(trimmed))
        case "boolean":
            switch trimmed.lowercased() {
            case "": return .success(.null)
            case "true", "yes": return .success(.boolean(true))
            case "false", "no": return .success(.boolean(false))
            default: return .failure(.init("true or false"))
            }
        case "date":
            if trimmed.isEmpty { return .success(.null) }
            guard ValueText.milliseconds(fromDate: trimmed) != nil else {
                return .failure(.init("a date, such as 2026-01-31T12:00:00.000Z"))
            }
            return .success(.string(trimmed))
        default: return .failure(.init("a value that cannot be typed here"))
        }
    }
}

/// What was expected of a typed value.
package struct ValueMistake: Error, Hashable, Sendable {
    /// Such as "a whole number".
    package let expected: String

    init(_ expected: String) { self.expected = expected }
}
