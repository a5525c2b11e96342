// JSON values as people read them in a table.

import Coordinator
import Merge

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

    /// A value on one line, text in quotes, so that an empty one and the word nil differ from nothing.
    static func quoted(_ value: JSONValue) -> String {
        value.string.map { ObjectURI($0) == nil ? JSONWriter.text(of: value) : shortURI($0) }
            ?? brief(value)
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

    /// A timestamp's date and minute, as `2026-01-31 14:02`, in UTC; empty where there is none.
    static func minute(_ value: JSONValue?) -> String {
        String(time(value).prefix(16)).replacing("T", with: " ")
    }

    /// A transaction's name as far as people type it: `2.6f3a91c0-117`. Other text stays as it is.
    static func shortDot(_ text: String) -> String {
        guard let dot = Dot(text) else { return text }
        return
            "\(dot.actor.node).\(dot.actor.description.split(separator: ".")[1].prefix(8))-\(dot.sequence)"
    }

    /// A span in milliseconds, as people say it: "45 s", "2 h 5 min"; empty where there is none.
    static func age(_ value: JSONValue?) -> String {
        guard let milliseconds = value?.integer else { return "" }
        let seconds = milliseconds / 1000
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400)
        if days > 0 { return "\(days) d \(hours % 24) h" }
        if hours > 0 { return "\(hours) h \(minutes % 60) min" }
        return minutes > 0 ? "\(minutes) min" : "\(seconds) s"
    }

    /// A count of bytes with a unit of 1,024, such as "3.2 MiB".
    static func bytes(_ value: JSONValue?) -> String {
        guard let count = value?.integer else { return "" }
        var (number, unit) = (Double(count), 0)
        while number >= 1024, unit < 4 { (number, unit) = (number / 1024, unit + 1) }
        let names = ["B", "KiB", "MiB", "GiB", "TiB"]
        let tenths = Int64((number * 10).rounded())
        return unit == 0 ? "\(count) B" : "\(tenths / 10).\(tenths % 10) \(names[unit])"
    }

    /// `node:sequence` of each entry of a vector, in order.
    static func vector(_ value: JSONValue?) -> String {
        (value?.object?.members ?? []).map { member in
            let node = member.key.split(separator: ".").first.map(String.init) ?? member.key
            return "\(node):\(brief(member.value))"
        }.joined(separator: " ")
    }
}
