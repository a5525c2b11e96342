import Console
import Coordinator

/// Conflicts in a table, a line each.
enum ConflictTable {
    typealias Column = Table.Column

    /// All columns. On a narrow terminal those of the greatest rank are left out first.
    static let columns: [Column] = [
        Column("#", isNumeric: true, fit: .whole), Column("ID", fit: .whole),
        Column("WHAT", fit: .middle, least: 10), Column("WHO", fit: .middle, rank: 1, least: 3),
        Column("STATE", fit: .whole, rank: 2),
        Column("WHEN", fit: .whole, rank: 3, goesBelow: true),
        Column("VALUES", fit: .middle, rank: 4, least: 9, goesBelow: true),
        Column("OBJECT", fit: .whole, rank: 7, isExtra: true),
        Column("KIND", fit: .whole, rank: 6, isExtra: true),
        Column("POLICY", fit: .end, rank: 8, least: 12, isExtra: true),
        Column("VIOLATES", fit: .middle, rank: 5, least: 10, isExtra: true),
    ]

    static func table(_ conflicts: [JSONObject], chosen: [String]? = nil) -> Table {
        // A column that says nothing takes no room.
        let violates = conflicts.contains { $0["violation"]?.string != nil }
        let isWanted = { (column: Column) in
            column.title != "VIOLATES" || violates || chosen != nil
        }
        var table = Table(columns.filter(isWanted))
        table.chosen = chosen
        for (index, conflict) in conflicts.enumerated() {
            let cells = zip(columns, row(index + 1, conflict)).filter { isWanted($0.0) }
            table.add(cells.map(\.1))
        }
        return table
    }

    private static func row(_ number: Int, _ conflict: JSONObject) -> [Table.Cell] {
        let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
        let isOpen = conflict["open"]?.boolean ?? false
        let state = conflict["state"]?.string ?? ""
        let colour: Colour? = !isOpen ? .dim : state == "unresolved" ? .red : nil
        let time = JSONRendering.minute(when(conflict, sides))
        return [
            Table.Cell(String(number)),
            Table.Cell(conflict["short"]?.string ?? conflict["id"]?.string ?? "", .cyan),
            Table.Cell(what(conflict)), Table.Cell(who(sides), short: nodes(sides)),
            Table.Cell(
                isOpen ? state : "\(state), closed", colour,
                short: isOpen || state == "resolved" ? state : "closed"),
            Table.Cell(time, short: String(time.dropFirst(5))),
            Table.Cell(parts: values(sides)),
            Table.Cell(JSONRendering.brief(conflict["object"])),
            Table.Cell(conflict["kind"]?.string ?? ""),
            Table.Cell(conflict["policy"]?.string ?? ""),
            Table.Cell(conflict["violation"]?.string ?? "", .red),
        ]
    }

    /// `Contact.phone`; of a row or its existence `Contact`, with the kind.
    static func what(_ conflict: JSONObject) -> String {
        let entity = conflict["entity"]?.string ?? ""
        if let property = conflict["property"]?.string { return "\(entity).\(property)" }
        return "\(entity) (\(conflict["kind"]?.string ?? ""))"
    }

    /// `anna@1 / bob@2`.
    static func who(_ sides: [JSONObject]) -> String {
        sides.map { side in
            let node = side["node"]?.integer.map(String.init) ?? "-"
            return side["author"]?.string.map { "\($0)@\(node)" } ?? node
        }.joined(separator: " / ")
    }

    private static func nodes(_ sides: [JSONObject]) -> String {
        sides.map { $0["node"]?.integer.map(String.init) ?? "-" }.joined(separator: "/")
    }

    /// When it was decided, or else the time of the latest side.
    private static func when(_ conflict: JSONObject, _ sides: [JSONObject]) -> JSONValue? {
        if let decided = conflict["decision"]?.object?["timestamp"], decided != .null {
            return decided
        }
        return sides.compactMap { $0["timestamp"] }.max {
            ($0.object?["milliseconds"]?.integer ?? 0) < ($1.object?["milliseconds"]?.integer ?? 0)
        }
    }

    /// `*555-1 | 555-2`, with a star before the one that is shown.
    static func values(_ sides: [JSONObject]) -> [String] {
        sides.map { side in
            let isDeleted = side["deleted"]?.boolean ?? false
            let mark = side["visible"]?.boolean ?? false ? "*" : ""
            return mark + (isDeleted ? "deleted" : JSONRendering.brief(side["value"]))
        }
    }
}
