// A conflict as a person looks at it: what it was before, what each side made of it, and why one
// of them is seen.

import Console
import Coordinator

/// Shows one conflict of the client interface three-way.
struct ThreeWay {
    let conflict: JSONObject
    let style: Style
    /// Columns, for what is wrapped; nil where there is no bound.
    let width: Int?

    init(_ conflict: JSONValue, style: Style, width: Int? = nil) {
        self.conflict = conflict.object ?? JSONObject()
        self.style = style
        self.width = width
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
        lines += wrapped("why", text("reason", "text"))
        return lines + decision() + advice()
    }

    private func heading() -> [String] {
        let id = text("id")
        let state = text("state")
        let short = text("short")
        let isOpen = conflict["open"]?.boolean ?? false
        let colour: Colour = state == "unresolved" ? .red : state == "settled" ? .yellow : .green
        var lines = [
            style.paint(DisplayText.line(id), .bold) + "  "
                + style.paint(state, colour) + (isOpen ? "" : ", closed")
        ]
        if !short.isEmpty { lines.append("short     " + style.paint(short, .cyan)) }
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

    /// A label and a text, in as many lines as it takes.
    private func wrapped(_ label: String, _ text: String) -> [String] {
        let texts = DisplayText.wrap(text, to: max(30, (width ?? .max) - 10))
        return texts.enumerated().map { index, line in
            let begin = index == 0 ? label : ""
            return style.paint(DisplayText.pad(begin, to: 10), .bold) + line
        }
    }

    /// Who resolved it, when, to what, and why.
    private func decision() -> [String] {
        guard let decision = conflict["decision"]?.object else { return [] }
        var parts = [decision["author"]?.string ?? "somebody"]
        if let node = decision["by"]?.integer { parts.append("on node \(node)") }
        if let context = decision["context"]?.string { parts.append("(\(context))") }
        let time = JSONRendering.minute(decision["timestamp"])
        if !time.isEmpty { parts.append("at \(time) UTC") }
        if let dot = decision["dot"]?.string { parts.append("by \(JSONRendering.shortDot(dot))") }
        var lines = wrapped("decided", DisplayText.line(parts.joined(separator: " ")))
        if let value = decision["value"] {
            lines += wrapped("to", DisplayText.line(JSONRendering.quoted(value)))
        }
        if let note = decision["note"]?.string { lines += wrapped("note", DisplayText.line(note)) }
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
        let shown = JSONRendering.quoted(value)
        return ["          \(label)\(DisplayText.line(shown))"]
    }

    /// The commands that decide otherwise, with the sides that this view shows. So a person who
    /// runs one later decides over nothing that has come since.
    private func advice() -> [String] {
        let short = DisplayText.line(text("short"))
        let id = short.isEmpty ? "'\(DisplayText.line(text("id")))'" : short
        let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
        let dots = sides.compactMap { $0["dot"]?.string.map(JSONRendering.shortDot) }
        if dots.isEmpty { return [] }
        let seen = "--seen " + DisplayText.line(dots.joined(separator: ","))
        let isUnresolved = text("state") == "unresolved"
        var lines: [String] = []
        if conflict["open"]?.boolean ?? false, let way = otherWay(sides, isUnresolved) {
            lines += command(
                isUnresolved ? "resolve" : "change", "tributary conflicts resolve \(id) \(way)",
                seen)
        }
        // An unresolved one has no outcome yet, and of objects of one key none was replaced.
        if !isUnresolved, text("kind") != "uniqueness" {
            lines += command("undo", "tributary conflicts undo \(id)", seen)
        }
        return lines
    }

    /// A command to copy, in two lines where one has no room for it.
    private func command(_ label: String, _ text: String, _ flag: String) -> [String] {
        let begin = style.paint(DisplayText.pad(label, to: 10), .bold)
        guard let width, 11 + text.count + flag.count > width else {
            return [begin + text + " " + flag]
        }
        return [begin + text + " \\", "            " + flag]
    }

    /// The flags of a decision that is another than what stands; nil where no side is. Of one that is
    /// unresolved nothing stands yet.
    private func otherWay(_ sides: [JSONObject], _ isUnresolved: Bool) -> String? {
        if text("violation") == "missingMandatoryProperty" {
            return "--values '{\"\(DisplayText.line(text("property")))\": \"URI\"}'"
        }
        let other = sides.lastIndex { side in
            side["dot"]?.string != nil && !(side["visible"]?.boolean ?? false)
        }
        guard let side = other ?? (isUnresolved ? sides.indices.last : nil) else { return nil }
        return "--side \(side + 1)"
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
