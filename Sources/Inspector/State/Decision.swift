// What a person decided, as a request and as a command.

package import Coordinator

/// A decision over a conflict, not yet made.
package struct Decision: Hashable, Sendable {
    /// How it is decided.
    package enum Way: Hashable, Sendable {
        /// A side by its number from 1, and where several have its transaction by its object too.
        case side(Int, dot: String, object: String?)
        /// A value for a property.
        case value(property: String, JSONValue)
        case policy(String)
        case delete
        case undo
        /// An ordinary save: the conflict is closed already.
        case save(property: String, JSONValue, version: String?)
        /// Undoes such a save, by its transaction.
        case undoSave(dot: String)
    }

    /// The conflict's ID.
    package let id: String
    /// The object's URI.
    package let object: String
    /// The transactions of the sides that were on the screen.
    package let dots: [String]
    package let way: Way
    /// What will be, in a sentence.
    package let summary: String
    /// Who decides; nil for nobody.
    package let author: String?
    /// Why; empty for no reason.
    package var note = ""

    /// The request that makes it.
    package var request: (path: String, body: JSONValue) {
        var body = JSONObject()
        switch way {
        case .side(_, let dot, let object):
            body["side"] = .string(dot)
            if let object { body["object"] = .string(object) }
        case .value(let property, let value): body["values"] = .object([property: value])
        case .policy(let policy): body["policy"] = .string(policy)
        case .delete: body["delete"] = .boolean(true)
        case .undo: break
        case .undoSave(let dot):
            if let author { body["author"] = .string(author) }
            if !note.isEmpty { body["note"] = .string(note) }
            return ("/v1/saves/\(URLText.encode(dot))/undo", .object(body))
        case .save:
            body = saveBody
            if !note.isEmpty { body["note"] = .string(note) }
            return ("/v1/save", .object(body))
        }
        body["sides"] = .array(dots.map { .string($0) })
        if let author { body["author"] = .string(author) }
        if !note.isEmpty { body["note"] = .string(note) }
        return (
            "/v1/conflicts/\(URLText.encode(id))/\(way == .undo ? "undo" : "resolution")",
            .object(body)
        )
    }

    private var saveBody: JSONObject {
        guard case .save(let property, let value, let version) = way else { return JSONObject() }
        var operation: JSONObject = [
            "update": .string(object), "values": .object([property: value]),
        ]
        if let version { operation["version"] = .string(version) }
        var body: JSONObject = ["operations": .array([.object(operation)])]
        if let author { body["author"] = .string(author) }
        return body
    }

    /// The command that does the same.
    package func command(_ source: InspectorSource) -> String {
        var words = ["tributary", "conflicts", way == .undo ? "undo" : "resolve", id]
        switch way {
        case .side(_, let dot, let object):
            words += ["--side", dot]
            if let object { words += ["--object", object] }
        case .value(let property, let value):
            words += ["--values", JSONWriter.text(of: .object([property: value]))]
        case .policy(let policy): words += ["--policy", policy]
        case .delete: words.append("--delete")
        case .undo: break
        case .undoSave(let dot):
            words = ["tributary", "undo", dot]
            if let author { words += ["--author", author] }
            if !note.isEmpty { words += ["--note", note] }
            return ShellText.line(words + source.flags)
        case .save:
            var body = saveBody
            if !note.isEmpty { body["note"] = .string(note) }
            let text = ShellText.quoted(JSONWriter.text(of: .object(body)))
            return "printf %s \(text) | "
                + ShellText.line(["tributary", "save", "-"] + source.flags)
        }
        if !dots.isEmpty { words += ["--seen", dots.joined(separator: ",")] }
        if let author { words += ["--author", author] }
        if !note.isEmpty { words += ["--note", note] }
        return ShellText.line(words + source.flags)
    }
}

/// Words for a shell.
package enum ShellText {
    /// A command line of words that a shell takes as they are.
    package static func line(_ words: [String]) -> String {
        words.map(quoted).joined(separator: " ")
    }

    /// A word as a shell takes it: in quotes where it has to be.
    package static func quoted(_ word: String) -> String {
        let plain = word.utf8.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122: true
            default: "-_./:,@=+%".utf8.contains(byte)
            }
        }
        if plain, !word.isEmpty { return word }
        return "'" + word.replacing("'", with: "'\\''") + "'"
    }
}

/// Text in addresses.
package enum URLText {
    /// Percent-encodes all but what RFC 3986 calls unreserved.
    package static func encode(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 48...57, 65...90, 97...122: result.append(byte)
            case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.append(byte)
            default: result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
