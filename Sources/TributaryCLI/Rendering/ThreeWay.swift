// A conflict as a person looks at it: what it was before, what each side made of it, and why one
// of them is seen.

import Console
import Coordinator

/// Shows one conflict of the client interface three-way.
struct ThreeWay {
    let conflict: JSONObject
    let style: Style

    init(_ conflict: JSONValue, style: Style) {
        self.conflict = conflict.object ?? JSONObject()
        self.style = style
    }

    /// The whole view.
    func lines() -> [String] {
        var lines = heading()
        let base = conflict["base"]?.object
        let label = style.paint("base", .bold)
        if let base {
            lines += ["", "\(label)      \(base["dot"]?.string ?? "")"]
            lines += values(base["value"], isDeleted: false, base: nil)
        } else if text("kind") == "update" {
            // All other kinds have none: their sides are no successors of one value.
            let reason = "no write came before, or history no longer has it"
            lines += ["", "\(label)      not known: \(reason)"]
        }
        for (index, side) in (conflict["sides"]?.array ?? []).compactMap(\.object).enumerated() {
            lines.append("")
            lines += self.side(index, side, base: base?["value"])
        }
        lines.append("")
        lines.append(style.paint("why", .bold) + "       \(text("reason", "text"))")
        return lines + advice()
    }

    private func heading() -> [String] {
        let id = text("id")
        let state = text("state")
        let isOpen = conflict["open"]?.boolean ?? false
        let colour: Colour = state == "unresolved" ? .red : state == "settled" ? .yellow : .green
        var lines = [
            style.paint(DisplayText.line(id), .bold) + "  "
                + style.paint(state, colour) + (isOpen ? "" : ", closed")
        ]
        lines.append("kind      \(text("kind"))")
        lines.append("object    \(DisplayText.line(text("object")))")
        if let property = conflict["property"]?.string {
            lines.append("property  \(DisplayText.line(property))")
        }
        lines.append("policy    \(text("policy"))")
        if let violation = conflict["violation"]?.string {
            lines.append("violates  " + style.paint(DisplayText.line(violation), .red))
        }
        if let dot = conflict["closedBy"]?.string { lines.append("closed by \(dot)") }
        return lines
    }

    private func side(_ index: Int, _ side: JSONObject, base: JSONValue?) -> [String] {
        let isVisible = side["visible"]?.boolean ?? false
        var title = style.paint("side \(index + 1)", .bold) + "    " + (side["dot"]?.string ?? "-")
        if isVisible { title += style.paint("  ◀ visible", .green) }
        var origin: [String] = []
        if let node = side["node"]?.integer { origin.append("node \(node)") }
        if let author = side["author"]?.string { origin.append("author \(author)") }
        if let context = side["context"]?.string { origin.append("context \(context)") }
        let time = JSONRendering.time(side["timestamp"])
        if !time.isEmpty { origin.append(time) }
        var lines = [title]
        if !origin.isEmpty {
            let line = DisplayText.line(origin.joined(separator: ", "))
            lines.append("          " + style.paint(line, .dim))
        }
        if let object = Self.object(of: side) {
            lines.append("          " + style.paint(DisplayText.line(object), .dim))
        }
        let relationships = (side["relationships"]?.object?.members ?? []).flatMap { member in
            (member.value.object?.members ?? []).map { change in
                let objects = JSONRendering.brief(change.value)
                return "          \(DisplayText.line("\(member.key): \(change.key) \(objects)"))"
            }
        }
        return lines
            + values(side["value"], isDeleted: side["deleted"]?.boolean ?? false, base: base)
            + relationships
    }

    /// A value, a line each property where it is a row, a comparison where it is long.
    private func values(_ value: JSONValue?, isDeleted: Bool, base: JSONValue?) -> [String] {
        if isDeleted { return ["          " + style.paint("deleted", .red)] }
        if let row = value?.object {
            let members = row["object"]?.string != nil ? row["values"]?.object ?? row : row
            return members.members.flatMap { member in
                named(DisplayText.line(member.key), member.value, base?.object?[member.key])
            }
        }
        return named(nil, value ?? .null, base)
    }

    private func named(_ name: String?, _ value: JSONValue, _ base: JSONValue?) -> [String] {
        let label = name.map { "\($0): " } ?? ""
        if let text = value.string, LineDifference.isLong(text) {
            if let old = base?.string, let difference = LineDifference.lines(from: old, to: text) {
                return (name.map { ["          \($0):"] } ?? [])
                    + difference.map { mark, line in
                        let colour: Colour? = mark == "+" ? .green : mark == "-" ? .red : nil
                        return "        "
                            + style.paint("\(mark) \(DisplayText.line(line))", colour)
                    }
            }
            return (name.map { ["          \($0):"] } ?? [])
                + text.split(separator: "\n", omittingEmptySubsequences: false).map {
                    "          \(DisplayText.line(String($0)))"
                }
        }
        // Text in quotes, so that an empty one and the word nil differ from nothing.
        let shown =
            value.string.map { ObjectURI($0) == nil ? JSONWriter.text(of: value) : $0 }
            ?? JSONRendering.brief(value)
        return ["          \(label)\(DisplayText.line(shown))"]
    }

    /// The commands that decide otherwise, with the sides that this view shows. So a person who
    /// runs one later decides over nothing that has come since.
    private func advice() -> [String] {
        let id = DisplayText.line(text("id"))
        let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
        let dots = sides.compactMap { $0["dot"]?.string }
        if dots.isEmpty { return [] }
        let seen = "--seen " + DisplayText.line(dots.joined(separator: ","))
        let isUnresolved = text("state") == "unresolved"
        var lines: [String] = []
        if conflict["open"]?.boolean ?? false, let way = otherWay(sides, isUnresolved) {
            lines.append(
                style.paint(isUnresolved ? "resolve" : "change ", .bold)
                    + "   tributary conflicts resolve '\(id)' \(way) \(seen)")
        }
        // An unresolved one has no outcome yet, and of objects of one key none was replaced.
        if !isUnresolved, text("kind") != "uniqueness" {
            lines.append(
                style.paint("undo", .bold) + "      tributary conflicts undo '\(id)' \(seen)")
        }
        return lines
    }

    /// The flags of a decision that is another than what stands; nil where no side is. Of one that is
    /// unresolved nothing stands yet.
    private func otherWay(_ sides: [JSONObject], _ isUnresolved: Bool) -> String? {
        if text("violation") == "missingMandatoryProperty" {
            return "--values '{\"\(DisplayText.line(text("property")))\": \"URI\"}'"
        }
        let written = sides.filter { $0["dot"]?.string != nil }
        let other = written.last { !($0["visible"]?.boolean ?? false) }
        guard let side = other ?? (isUnresolved ? written.last : nil),
            let dot = side["dot"]?.string
        else { return nil }
        // Objects of one unique key may have got it in one transaction.
        let isAmbiguous = written.filter { $0["dot"]?.string == dot }.count > 1
        let object = isAmbiguous ? Self.object(of: side) : nil
        return "--side \(DisplayText.line(dot))"
            + (object.map { " --object '\(DisplayText.line($0))'" } ?? "")
    }

    /// Whose side it is, where the sides are of several objects.
    private static func object(of side: JSONObject) -> String? {
        side["object"]?.string ?? side["value"]?.object?["object"]?.string
    }

    private func text(_ key: String) -> String { conflict[key]?.string ?? "" }

    private func text(_ key: String, _ inner: String) -> String {
        DisplayText.line(conflict[key]?.object?[inner]?.string ?? "")
    }
}
