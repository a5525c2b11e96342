/// A JSON value, with what the usual decoders lose: 64-bit integers are exact, doubles keep their
/// bits, and objects keep the order of their members so that unknown keys can be named.
package enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case boolean(Bool)
    /// A number without fraction and exponent that fits 64 bits.
    case integer(Int64)
    /// Any other number. Never NaN or infinite when it was parsed.
    case double(Double)
    /// Text.
    case string(String)
    /// Bytes, which CBOR has as they are and JSON as base64. No JSON text is read as bytes.
    case bytes([UInt8])
    /// A list.
    case array([JSONValue])
    /// Members by name.
    case object(JSONObject)

    /// Whether both are the same, texts byte for byte: Swift's own take an é in one scalar for one in
    /// two, which in a store are two values.
    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.boolean(let left), .boolean(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.double(let left), .double(let right)): left == right
        case (.string(let left), .string(let right)): left.utf8.elementsEqual(right.utf8)
        case (.bytes(let left), .bytes(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }

    /// Hashes what ``==(_:_:)`` compares.
    package func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .boolean(let truth): hasher.combine(truth)
        case .integer(let number): hasher.combine(number)
        case .double(let number): hasher.combine(number)
        case .string(let text):
            var text = text
            text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        case .bytes(let bytes): hasher.combine(bytes)
        case .array(let values): hasher.combine(values)
        case .object(let object): hasher.combine(object)
        }
    }

    /// The kind of value in words, for messages.
    package var kind: String {
        switch self {
        case .null: "null"
        case .boolean: "a truth value"
        case .integer, .double: "a number"
        case .string: "a string"
        case .bytes: "a byte string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// The text of a string, or nil.
    package var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The elements of an array, or nil.
    package var array: [JSONValue]? { if case .array(let values) = self { values } else { nil } }
    /// The members of an object, or nil.
    package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    /// A truth value, or nil.
    package var boolean: Bool? { if case .boolean(let truth) = self { truth } else { nil } }
    /// An integer, or nil.
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
}

/// The members of a JSON object, in their order.
///
/// Invariant: no two members have the same key.
package struct JSONObject: Hashable, Sendable, ExpressibleByDictionaryLiteral {
    /// One member.
    package struct Member: Hashable, Sendable {
        /// The member's name.
        package let key: String
        /// Its value.
        package let value: JSONValue
    }

    /// All members, in their order.
    package private(set) var members: [Member] = []

    /// Positions by key; kept only for objects so large that a search would cost.
    private var positions: [String: Int] = [:]
    private static let searchable = 12

    /// Makes an empty object.
    package init() {}

    /// Makes an object of members; of several with one key the last stands.
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (key, value) in elements { self[key] = value }
    }

    /// The value of a member; assigning nil removes it.
    package subscript(key: String) -> JSONValue? {
        get { position(of: key).map { members[$0].value } }
        set {
            switch (position(of: key), newValue) {
            case (let position?, let value?):
                members[position] = Member(key: key, value: value)
            case (let position?, nil):
                members.remove(at: position)
                rebuildPositions()
            case (nil, let value?): append(key, value)
            case (nil, nil): break
            }
        }
    }

    /// Adds a member; false, and nothing is added, where there is one of that key.
    @discardableResult
    mutating func insert(_ key: String, _ value: JSONValue) -> Bool {
        guard position(of: key) == nil else { return false }
        append(key, value)
        return true
    }

    /// Sets memory aside for so many members.
    mutating func reserveCapacity(_ count: Int) { members.reserveCapacity(count) }

    private mutating func append(_ key: String, _ value: JSONValue) {
        members.append(Member(key: key, value: value))
        if members.count == Self.searchable + 1 {
            rebuildPositions()
        } else if members.count > Self.searchable {
            positions[key] = members.count - 1
        }
    }

    private mutating func rebuildPositions() {
        positions = [:]
        guard members.count > Self.searchable else { return }
        for (index, member) in members.enumerated() { positions[member.key] = index }
    }

    private func position(of key: String) -> Int? {
        members.count > Self.searchable
            ? positions[key] : members.firstIndex { $0.key == key }
    }

    /// Whether both have the same members in the same order.
    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.members == right.members
    }

    /// Hashes the members.
    package func hash(into hasher: inout Hasher) { hasher.combine(members) }
}

/// Why a text is no JSON, and where.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistake.
    package let message: String
    /// Where, in bytes from 0.
    package let offset: Int
    /// In which line, from 1.
    package let line: Int
    /// At which byte of the line, from 1.
    package let column: Int
    /// Whether the text is no JSON; false where it is, but with what is not taken, such as a number
    /// out of range.
    package let isSyntax: Bool

    /// The place and what is wrong there.
    package var description: String { "line \(line), column \(column): \(message)" }
}
