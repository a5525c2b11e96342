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
