import Console
import Coordinator
import Merge

/// An object, and perhaps one of its properties, as people name it on the command line:
/// `Contact/p123.phone`, `Contact.p123.phone`, or a URI.
struct ObjectName: Hashable {
    let entity: String
    let row: String
    let property: String?

    /// - Throws: ``CommandFailure`` where it names no object.
    init(_ text: String) throws {
        var text = text[...]
        if let uri = ObjectURI(String(text.prefix { $0 != "." })) {
            // A URI has no dot of its own, unless its cluster has.
            text = "\(uri.entityName)/\(text.split(separator: "/").last ?? "")"
        }
        let parts = text.split(separator: "/", maxSplits: 1)
        let words =
            parts.count == 2
            ? [parts[0]] + parts[1].split(separator: ".", maxSplits: 1)
            : text.split(separator: ".", maxSplits: 2)
        guard words.count >= 2, RowID(words[1]) != nil else {
            throw CommandFailure.usage(
                "\(text) names no object. They look like Contact/p123, as `tributary fetch` shows them; "
                    + "with a property Contact/p123.phone.")
        }
        entity = String(words[0])
        row = String(words[1])
        property = words.count > 2 ? String(words[2]) : nil
    }

    /// `Contact/p123`.
    var short: String { "\(entity)/\(row)" }
}

/// A point of history as people name it: a token, a time in UTC, or how long ago.
enum PointText {
    /// What the interface takes for it: `2026-01-31 14:02` becomes `2026-01-31T14:02:00Z`, and `2h` the time
    /// two hours before now. A token stays as it is.
    ///
    /// - Parameter now: milliseconds since 1970.
    static func point(_ text: String, now: UInt64) -> String {
        if let ago = milliseconds(ago: text) {
            return ValueText.date(Int64(clamping: now) - ago)
        }
        if ValueText.milliseconds(fromDate: text) != nil { return text }
        var date = text.replacing(" ", with: "T")
        if date.hasSuffix("Z") { date.removeLast() }
        for rest in ["", ":00", "T00:00:00"] {
            let whole = date + rest + "Z"
            if ValueText.milliseconds(fromDate: whole) != nil { return whole }
        }
        return text
    }

    private static func milliseconds(ago text: String) -> Int64? {
        let units: [(String, Int64)] = [
            ("min", 60), ("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400),
        ]
        for (unit, seconds) in units where text.hasSuffix(unit) {
            if let count = Int64(text.dropLast(unit.count)), (0...1_000_000).contains(count) {
                return count * seconds * 1000
            }
        }
        return nil
    }
}
