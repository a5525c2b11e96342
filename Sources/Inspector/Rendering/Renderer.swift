// From the state to cells.

internal import Console
internal import Coordinator

/// Draws the inspector. A pure function of the state.
package enum Renderer {
    /// The screen that a state shows.
    package static func render(_ state: InspectorState) -> Screen {
        var screen = Screen(size: state.size, isASCII: state.isASCII)
        let smallest = Layout.smallest
        guard state.size.columns >= smallest.columns, state.size.rows >= smallest.rows else {
            screen.write(
                "Too small: \(smallest.columns) x \(smallest.rows) is needed.", row: 0, column: 0)
            return screen
        }
        let layout = Layout(state)
        title(state, &screen)
        summary(state, &screen)
        if state.view == .conflicts {
            ConflictsPanel.draw(state, layout, &screen)
        } else {
            let lines = lines(state)
            let first = max(0, min(state.scroll, lines.count - layout.bodyHeight))
            let chosen = cursorLine(state)
            for (offset, line) in lines.dropFirst(first).prefix(layout.bodyHeight).enumerated() {
                let row = layout.bodyTop + offset
                let isChosen = first + offset == chosen
                if isChosen { screen.fill(row: row, from: 0, to: state.size.columns, .reversed) }
                screen.write(
                    StyledLines.cut(line, to: state.size.columns - 2), row: row, column: 1,
                    isChosen: isChosen)
            }
            more(lines.count, first, layout, &screen)
        }
        bottom(state, layout, &screen)
        return screen
    }

    /// The lines of the view, those of a scrolled one whole.
    static func lines(_ state: InspectorState) -> [StyledLine] {
        let columns = state.size.columns - 2
        switch state.view {
        case .conflicts: return []
        case .conflict: return ConflictsPanel.whole(state, columns: columns)
        case .blame: return BlamePanel.lines(state, columns: columns)
        case .object: return ObjectPanel.lines(state, columns: columns).lines
        case .nodes: return NodesPanel.lines(state, columns: columns)
        case .log: return LogPanel.lines(state, columns: columns)
        case .help: return HelpPanel.lines(columns: columns)
        }
    }

    /// The line that is chosen in the view; nil where none is.
    static func cursorLine(_ state: InspectorState) -> Int? {
        state.view == .object
            ? ObjectPanel.lines(state, columns: state.size.columns - 2).cursor : nil
    }

    // MARK: Frame

    private static func title(_ state: InspectorState, _ screen: inout Screen) {
        screen.write(Layout.name, row: 0, column: 0, .bold)
        var column = Layout.firstTab
        let base = state.views.count > 1 ? state.views[1] : .conflicts
        let current: InspectorState.View = [.nodes, .log].contains(base) ? base : .conflicts
        for tab in Layout.tabs {
            let style: CellStyle = tab.view == current ? .reversed : .plain
            column = screen.write(" \(tab.title) ", row: 0, column: column, style)
        }
        let (sign, style): (String, CellStyle) =
            switch state.connection {
            case .connecting: ("○ asking", .yellow)
            case .live:
                state.source.isReadOnly ? ("● file, reading only", .green) : ("● live", .green)
            case .lost: ("✗ no answer", .red)
            }
        let node = state.status?["node"]?.integer.map { "node \($0), " } ?? ""
        let width = DisplayText.width(sign)
        let room = state.size.columns - column - width - 4
        let name = DisplayText.cut(
            VisibleText.of(node + state.source.name, isASCII: state.isASCII), to: max(0, room))
        let start = state.size.columns - width - DisplayText.width(name) - 2
        let end = screen.write(name, row: 0, column: max(column + 1, start), .dim)
        screen.write(sign, row: 0, column: end + 1, style)
    }

    private static func summary(_ state: InspectorState, _ screen: inout Screen) {
        var line: StyledLine = []
        switch state.view {
        case .conflicts: line = ConflictsPanel.summary(state)
        case .conflict: line = [Span("Conflict", .bold)] + heading(state)
        case .blame:
            line = [Span("Why each value is what it is: ", .bold)]
            line.append(Span(state.title(of: state.blame?.uri ?? "")))
        case .object:
            line = [Span("Object ", .bold), Span(state.title(of: state.object?.uri ?? ""))]
        case .nodes: line = [Span("Nodes", .bold)]
        case .log: line = [Span("Commands that do what was done here", .bold)]
        case .help: line = [Span("All keys", .bold)]
        }
        if case .filter(let editor)? = state.prompt {
            let label = "Filter: "
            screen.write(label, row: 1, column: 1, .bold)
            let text = String(editor.text.prefix(editor.position))
            let end = screen.write(text, row: 1, column: 1 + label.count)
            screen.write(String(editor.text.dropFirst(editor.position)), row: 1, column: end)
            screen.cursor = Screen.Place(row: 1, column: min(end, state.size.columns - 1))
            let count = "\(state.list.matches.count) of \(state.list.items.count)"
            screen.write(count, row: 1, column: state.size.columns - count.count - 1, .dim)
            return
        }
        screen.write(StyledLines.cut(line, to: state.size.columns - 2), row: 1, column: 1)
    }

    private static func heading(_ state: InspectorState) -> StyledLine {
        guard let item = state.chosen else { return [] }
        let place = state.list.cursor + 1
        return [
            Span("  \(Deciding.subject(item, state))"),
            Span("  \(place) of \(state.list.rows.count)", .dim),
        ]
    }

    /// Says where there is more than is seen.
    private static func more(
        _ count: Int, _ first: Int, _ layout: Layout, _ screen: inout Screen
    ) {
        let below = count - first - layout.bodyHeight
        guard below > 0 else { return }
        let text = " ↓ \(below) more "
        screen.write(
            text, row: layout.bodyTop + layout.bodyHeight - 1,
            column: layout.size.columns - DisplayText.width(text), .dim)
    }

    private static func bottom(
        _ state: InspectorState, _ layout: Layout, _ screen: inout Screen
    ) {
        let top = state.size.rows - 1 - layout.bottom.count
        for (index, line) in layout.bottom.enumerated() {
            screen.fill(row: top + index, from: 0, to: state.size.columns, .plain)
            screen.write(
                StyledLines.cut(line, to: state.size.columns - 1), row: top + index, column: 1)
        }
        if let cursor = layout.cursor {
            screen.cursor = Screen.Place(
                row: state.size.rows - 2, column: min(1 + cursor, state.size.columns - 1))
        }
        var column = 1
        for (key, meaning) in Bottom.keys(state) {
            let width = DisplayText.width(key) + 1 + DisplayText.width(meaning)
            guard column + width < state.size.columns else { continue }
            column = screen.write(key, row: state.size.rows - 1, column: column, .key)
            column = screen.write(" " + meaning, row: state.size.rows - 1, column: column) + 2
        }
    }
}
