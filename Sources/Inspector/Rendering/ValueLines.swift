// Values as people read them.

internal import Console
package import Coordinator

/// Shows values of the client interface.
package enum ValueLines {
    /// A value on one line, of about so many characters at most.
    package static func brief(_ value: JSONValue, maximum: Int) -> String {
        switch value {
        case .null: return "nil"
        case .string(let text):
            if let uri = ObjectURI(text) { return "\(uri.entityName)/\(uri.row)" }
            // Cut before it is quoted: a value may have megabytes.
            let cut = text.utf8.count > maximum ? String(text.prefix(maximum)) : text
            let quoted = JSONWriter.text(of: .string(cut))
            return cut.utf8.count < text.utf8.count ? quoted.dropLast() + "…\"" : quoted
        case .array(let elements):
            let shown = elements.prefix(8).map { brief($0, maximum: maximum) }
            let text = shown.joined(separator: ", ") + (elements.count > 8 ? ", …" : "")
            return cut("[\(text)]", maximum)
        case .object(let object):
            if let uri = object["object"]?.string, let values = object["values"]?.object {
                return cut(
                    "\(brief(.string(uri), maximum: maximum)) \(members(values, maximum))", maximum)
            }
            return cut(members(object, maximum), maximum)
        case .boolean, .integer, .double, .bytes: return cut(JSONWriter.text(of: value), maximum)
        }
    }

    private static func members(_ object: JSONObject, _ maximum: Int) -> String {
        object.members.prefix(8).map { "\($0.key): \(brief($0.value, maximum: maximum))" }
            .joined(separator: ", ") + (object.members.count > 8 ? ", …" : "")
    }

    private static func cut(_ text: String, _ maximum: Int) -> String {
        text.utf8.count > maximum && text.count > maximum ? text.prefix(maximum - 1) + "…" : text
    }

    /// The span since a time, such as "5 s", "2 min", "3 h", "4 d".
    package static func age(_ milliseconds: Int64, now: Int64) -> String {
        guard milliseconds > 0 else { return "" }
        let seconds = max(0, now - milliseconds) / 1000
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3_600 { return "\(seconds / 60) min" }
        if seconds < 86_400 { return "\(seconds / 3_600) h" }
        return "\(seconds / 86_400) d"
    }

    /// A date and time in UTC to the second.
    package static func time(_ milliseconds: Int64) -> String {
        guard milliseconds > 0 else { return "" }
        let text = ValueText.date(milliseconds)
        return text.prefix(19).replacing("T", with: " ") + " UTC"
    }

    /// `node:sequence` of each entry of a vector, in its order.
    static func vector(_ value: JSONValue?) -> String {
        (value?.object?.members ?? []).map { member in
            "\(member.key.prefix { $0 != "." }):\(member.value.integer ?? 0)"
        }.joined(separator: " ")
    }

    /// A dot by node and sequence, as people compare them: `2…-117`.
    static func shortDot(_ dot: String) -> String {
        guard let node = dot.split(separator: ".").first,
            let sequence = dot.split(separator: "-").last, dot.contains(".")
        else { return dot }
        return "\(node)-\(sequence)"
    }

    /// Text in lines of at most so many columns, cut between words where there is a place.
    package static func wrap(_ text: String, to columns: Int) -> [String] {
        let columns = max(1, columns)
        var lines: [String] = []
        for paragraph in text.split(separator: "\n", omittingEmptySubsequences: false) {
            var line = ""
            var width = 0
            for word in paragraph.split(separator: " ", omittingEmptySubsequences: false) {
                var word = String(word)
                var needed = DisplayText.width(word)
                if !line.isEmpty, width + 1 + needed <= columns {
                    line += " " + word
                    width += 1 + needed
                    continue
                }
                if !line.isEmpty { lines.append(line) }
                while needed > columns {
                    var head = ""
                    var used = 0
                    for character in word {
                        let next = DisplayText.width(String(character))
                        if used + next > columns, !head.isEmpty { break }
                        head.append(character)
                        used += next
                    }
                    lines.append(head)
                    word.removeFirst(head.count)
                    needed = DisplayText.width(word)
                }
                (line, width) = (word, needed)
            }
            lines.append(line)
        }
        return lines
    }
}
