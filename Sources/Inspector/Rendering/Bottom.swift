// The lines above the keys: what was said, or what is asked.

internal import Console

/// Messages and prompts.
enum Bottom {
    /// Longer messages are cut: the log has them whole.
    private static let maximumLines = 3

    /// The lines, and the column of the cursor in the last one; nil where nothing is typed.
    static func lines(_ state: InspectorState) -> (lines: [StyledLine], cursor: Int?) {
        var lines: [StyledLine] = []
        var cursor: Int?
        let columns = state.size.columns - 2
        switch state.prompt {
        case nil, .filter?: break
        case .confirm(let decisions, let skipped, let editor)?:
            lines += confirmation(decisions, skipped, columns)
            cursor = type("Note (optional): ", editor, columns, &lines)
        case .value(let property, let type, let editor)?:
            let kind = type.map { " (\($0))" } ?? ""
            cursor = self.type(
                property.map { "\($0)\(kind) becomes: " } ?? "property = value: ", editor,
                columns, &lines)
        case .policy(let index)?:
            let count = state.list.markedCount
            lines.append([
                Span(
                    count > 0
                        ? "Resolve the \(count) marked conflicts by which policy?"
                        : "Resolve this conflict by which policy?", .bold)
            ])
            for (place, policy) in Policy.all.enumerated() {
                let style: CellStyle = place == index ? .reversed : .plain
                lines.append([Span("\(place + 1) \(policy.name): \(policy.text)", style)])
            }
        }
        if case .lost(let since, _, let next, let message) = state.connection {
            let seconds = max(0, (next - state.now + 999) / 1_000)
            let wait = seconds > 0 ? "Trying again in \(seconds) s." : "Trying again now."
            let age = ValueLines.age(since, now: state.now)
            lines = wrapped("No answer for \(age). \(wait) \(message)", .red, columns) + lines
        } else if let message = state.message {
            let style: CellStyle =
                switch message.kind {
                case .information: .plain
                case .success: .green
                case .failure: .red
                }
            lines = wrapped(message.text, style, columns) + lines
        }
        return (lines.isEmpty ? [[]] : lines, cursor)
    }

    private static func wrapped(
        _ text: String, _ style: CellStyle, _ columns: Int
    ) -> [StyledLine] {
        let lines = ValueLines.wrap(VisibleText.of(text, isASCII: false), to: columns)
        return lines.prefix(maximumLines).map { [Span($0, style)] }
    }

    private static func confirmation(
        _ decisions: [Decision], _ skipped: Int, _ columns: Int
    ) -> [StyledLine] {
        guard let first = decisions.first else { return [] }
        var text = first.summary
        if decisions.count > 1, case .policy(let name) = first.way {
            text = "\(decisions.count) conflicts are resolved by \(name)."
        }
        if skipped > 0 { text += " \(skipped) closed ones stay as they are." }
        return wrapped(text, .bold, columns)
    }

    private static func type(
        _ label: String, _ editor: LineEditor, _ columns: Int, _ lines: inout [StyledLine]
    ) -> Int {
        // The part around the cursor, where the whole does not fit.
        let room = max(4, columns - DisplayText.width(label) - 1)
        let before = Array(editor.text.prefix(editor.position))
        var start = before.count
        var width = 0
        while start > 0 {
            let next = DisplayText.width(VisibleText.of(String(before[start - 1]), isASCII: false))
            if width + next > room { break }
            width += next
            start -= 1
        }
        lines.append([Span(label, .bold), Span(String(editor.text.dropFirst(start)))])
        return DisplayText.width(label) + width
    }

    // MARK: Keys

    /// The keys that matter now, most important first.
    static func keys(_ state: InspectorState) -> [(key: String, meaning: String)] {
        switch state.prompt {
        case .filter?: return [("Enter", "keep"), ("Esc", "clear"), ("↑↓", "move")]
        case .confirm?: return [("Enter", "do it"), ("Esc", "cancel")]
        case .value?: return [("Enter", "go on"), ("Esc", "cancel")]
        case .policy?: return [("Enter", "go on"), ("↑↓", "choose"), ("Esc", "cancel")]
        case nil: break
        }
        if state.bulk != nil { return [("Esc", "stop")] }
        switch state.view {
        case .conflicts:
            if state.chosen == nil, !state.list.rows.isEmpty {
                return [
                    ("Enter", "open or close"), ("Space", "mark all in it"), ("g", "group"),
                    ("/", "filter"), ("?", "all keys"), ("q", "quit"),
                ]
            }
            return decisions(state) + [
                ("Enter", "whole"), ("/", "filter"), ("b", "blame"), ("?", "all keys"),
                ("q", "quit"), ("o", "object"), ("g", "group"), ("Space", "mark"),
                ("p", "policy"), ("n", "nodes"), ("l", "log"),
            ]
        case .conflict:
            return decisions(state) + [
                ("J K", "next, previous"), ("b", "blame"), ("o", "object"), ("Esc", "back"),
                ("?", "all keys"),
            ]
        case .blame: return [("↑↓", "scroll"), ("o", "object"), ("Esc", "back"), ("?", "all keys")]
        case .object:
            return [
                ("↑↓", "choose"), ("Enter", "go there"), ("c", "its conflicts"),
                ("b", "blame"), ("Esc", "back"), ("?", "all keys"),
            ]
        case .nodes:
            return [
                ("↑↓", "scroll"), ("V", "compare digests"), ("Tab", "log"),
                ("Esc", "conflicts"), ("?", "all keys"), ("q", "quit"),
            ]
        case .log:
            return [
                ("↑↓", "scroll"), ("Tab", "conflicts"), ("Esc", "back"), ("?", "all keys"),
                ("q", "quit"),
            ]
        case .help: return [("↑↓", "scroll"), ("Esc", "back")]
        }
    }

    private static func decisions(_ state: InspectorState) -> [(key: String, meaning: String)] {
        guard !state.source.isReadOnly, let item = state.chosen else { return [] }
        let sides = state.chosenConflict?.sides.count ?? item.sides.count
        var keys: [(key: String, meaning: String)] = []
        if sides > 0 { keys.append((sides == 1 ? "1" : "1-\(min(9, sides))", "take a side")) }
        if item.kind != "uniqueness", item.kind != "delete" { keys.append(("e", "another value")) }
        if item.state != .unresolved { keys.append(("u", "undo")) }
        return keys
    }
}
